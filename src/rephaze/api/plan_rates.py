"""What a plan amounts to: samples and tokens a second, and how much of the chips' peak is the model's work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rephaze.api.amounts import amount
from rephaze.api.placed_from import PlacedFrom
from rephaze.errors import RephazeError
from rephaze.types.chip import Chip
from rephaze.types.scenario import Scenario
from rephaze.types.search import ModelPlan, Objective

OBJECTIVE_UNITS = {
    Objective.THROUGHPUT: "samples/s",
    Objective.PER_AREA: "samples/s per mm²",
    Objective.PER_WATT: "samples/J",
    Objective.PER_USD: "samples/s per US$",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRates:
    """How fast a plan trains; what a model's file no longer tells is None."""

    samples_per_s: float
    num_devices: int
    """Chips in use."""
    tokens_per_s: float | None = None
    model_flop_utilization: float | None = None
    """Model FLOPs a second, forward and backward without replay, over the peak of the chips in use."""

    @property
    def sentence(self) -> str:
        """All of it, with units."""
        said = [figure(self.samples_per_s, "samples/s")]
        if self.tokens_per_s is not None:
            said.append(f"{amount(self.tokens_per_s)} tokens/s")
        if self.model_flop_utilization is not None:
            used = f"{self.model_flop_utilization:.1%} model FLOP utilisation"
            said.append(f"{used} of {self.num_devices:,} chips")
        return ", ".join(said)


def figure(value: float, unit: str) -> str:
    """A number with five digits or all before the point, without an exponent where it can be read, and a unit."""
    return f"{value:,.0f} {unit}" if 1e4 <= abs(value) < 1e15 else f"{value:,.5g} {unit}"


def objective_figure(value: float, objective: Objective) -> str:
    """An objective with its unit."""
    return figure(value, OBJECTIVE_UNITS[objective])


def rates_of(model: str, attention: str, chip: Chip | None, samples_per_s: float, num_devices: int) -> PlanRates:
    """The rates of a plan for a model on chips.

    Args:
        model: A name of ``list_models``, or a graph file.
        attention: Of models that ship.
        chip: None leaves out what needs its peak.
        samples_per_s: Of the plan.
        num_devices: Chips in use.
    """
    facts = _facts(model, attention)
    if facts is None:
        return PlanRates(samples_per_s=samples_per_s, num_devices=num_devices)
    seq_len, num_flops = facts
    peak = None if chip is None else num_devices * chip.peak_flops_per_s
    return PlanRates(
        samples_per_s=samples_per_s,
        num_devices=num_devices,
        tokens_per_s=samples_per_s * seq_len,
        model_flop_utilization=None if peak is None else samples_per_s * num_flops / peak,
    )


def batch_rates(
    source: PlacedFrom | None, global_batch: int | None, batch_s: float, num_devices: int
) -> PlanRates | None:
    """The rates of a plan by the time of its batch; None where a batch is not told in samples."""
    if global_batch is None or not batch_s > 0:
        return None
    if source is None:
        return PlanRates(samples_per_s=global_batch / batch_s, num_devices=num_devices)
    return rates_of(source.model, source.scenario.attention, source.chip, global_batch / batch_s, num_devices)


def rates_record(rates: PlanRates | None) -> dict[str, float]:
    """As plain data; what is not known is left out."""
    if rates is None:
        return {}
    names = ("samples_per_s", "tokens_per_s", "model_flop_utilization")
    return {name: getattr(rates, name) for name in names if getattr(rates, name) is not None}


def plan_rates(plan: ModelPlan, chip: Chip, scenario: Scenario) -> PlanRates:
    """The rates of a plan that a search under the scenario found; the peak is that before any calibration."""
    from rephaze.hardware.derating import searched_chip_of

    chip = searched_chip_of(chip, scenario)
    return rates_of(
        plan.model, scenario.attention, chip, plan.samples_per_s, plan.tp * plan.cp * plan.dp * plan.pp
    )


@cache
def _facts(model: str, attention: str) -> tuple[int, int] | None:
    """Tokens and model FLOPs a sample; None if the graph cannot be read any more."""
    from rephaze.workload import load_model
    from rephaze.workload.summary import summarize

    try:
        found = summarize(load_model(model, attention))
    except RephazeError:
        return None
    return found.seq_len, found.forward_flops_per_sample + found.backward_flops_per_sample
