"""What placing a model and pricing a plan give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rephaze.api.placed_from import PlacedFrom
from rephaze.api.plan_rates import PlanRates, batch_rates, rates_record
from rephaze.api.present import Block, Shown
from rephaze.types.placement import Placement, PlacementProblem, Plan, PricedPlan

if TYPE_CHECKING:
    from rephaze.measure.model_on_chip import UnprovenPass
    from rephaze.place.simulate import Event as Event
    from rephaze.place.why_not import Alternative as Alternative


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class PlacedModel(Shown):
    """The fastest plan of a problem with its proof, or why there is none; the problem comes along."""

    label: str
    problem: PlacementProblem
    placement: Placement
    solve_s: float | None
    """None if there was nothing to solve: no layer can run on the chip."""
    replay_s: float | None = None
    """The batch replayed microbatch by microbatch; None without a plan, for the paper's model and long batches."""
    alternative: Alternative | None = None
    """The best plan under the choices asked about, set beside the best of all."""
    num_layer_passes: int | None = None
    """Passes of layers scheduled for it; None if the problem came with its times."""
    unproven_passes: tuple[UnprovenPass, ...] = ()
    """Those whose schedules are not proven shortest."""
    source: PlacedFrom | None = None
    """Which model on which chip, if the problem was made from them."""

    @property
    def rates(self) -> PlanRates | None:
        """Samples and tokens a second, and the use of the chips; None without a plan."""
        best = self.placement.best
        if best is None:
            return None
        return batch_rates(self.source, self.problem.global_batch, best.batch_s, best.num_devices)

    @property
    def status(self) -> str:
        """``optimal``, ``feasible``, ``infeasible`` or ``cutoff``."""
        return str(self.placement.status)

    @property
    def plan(self) -> Plan | None:
        """The plan, if there is one."""
        return None if self.placement.best is None else self.placement.best.plan

    @property
    def batch_s(self) -> float:
        """The time of a batch; infinite without a plan."""
        return math.inf if self.placement.best is None else self.placement.best.batch_s

    def record(self) -> dict[str, Any]:
        """As plain data."""
        from rephaze.place.records import placement_record

        if self.solve_s is None:
            return {"status": self.status, "reason": self.placement.reason}
        answer = placement_record(self.problem, self.placement) | {"solve_s": self.solve_s}
        if self.placement.best is not None:
            answer["replay_s"] = self.replay_s
            answer |= rates_record(self.rates)
        if self.source is not None and self.source.rates_sentence:
            answer |= {"physics": str(self.source.scenario.physics), "rates": self.source.rates_sentence}
        if self.alternative is not None:
            answer["why"] = self.alternative.record()
        if self.num_layer_passes is not None:
            answer["num_layer_passes"] = self.num_layer_passes
            answer["unproven_passes"] = [asdict(one) for one in self.unproven_passes]
        return answer

    def blocks(self) -> Sequence[Block]:
        """Headline, stages, where the time goes, and the alternative asked about."""
        from rephaze.api.plan_views import placement_blocks

        return placement_blocks(self)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class EvaluatedPlan(Shown):
    """A given plan with its time and memory; it need not fit."""

    problem: PlacementProblem
    priced: PricedPlan
    replay_s: float | None
    """The batch replayed microbatch by microbatch; None for the paper's model and for long batches."""
    remedies: tuple[str, ...]
    """What to change if it does not fit, the nearest to the plan first."""
    timeline: tuple[Event, ...] | None
    """What every stage does when, if asked for and replayed."""

    @property
    def status(self) -> str:
        """``feasible``, or ``infeasible`` if it does not fit."""
        return "feasible" if self.priced.fits else "infeasible"

    @property
    def rates(self) -> PlanRates | None:
        """Samples a second; None where a batch is told in microbatches."""
        return batch_rates(None, self.problem.global_batch, self.priced.batch_s, self.priced.num_devices)

    @property
    def plan(self) -> Plan:
        """The plan that was given."""
        return self.priced.plan

    @property
    def batch_s(self) -> float:
        """The time of a batch."""
        return self.priced.batch_s

    def record(self) -> dict[str, Any]:
        """As plain data."""
        from rephaze.place.records import priced_record

        answer = {
            "status": self.status,
            "batch_s": self.priced.batch_s,
            **priced_record(self.problem, self.priced),
            "replay_s": self.replay_s,
            **rates_record(self.rates),
        }
        if self.remedies:
            answer["remedies"] = list(self.remedies)
            answer["reason"] = self.remedies[0]
        if self.timeline is not None:
            answer["timeline"] = [asdict(event) for event in self.timeline]
        return answer

    def blocks(self) -> Sequence[Block]:
        """Headline, stages, where the time goes, and what would help."""
        from rephaze.api.plan_views import evaluated_blocks

        return evaluated_blocks(self)
