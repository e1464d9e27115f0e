"""The answer of a search in one sentence that needs no knowledge of chips, and its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rephaze.report.page import cards, heading, paragraph, status_line
from rephaze.report.time_bars import parts_of
from rephaze.types.comparison import TPUV4_EXPERT, TPUV4_SEARCHED, Baseline
from rephaze.types.plan_account import BaselineAccounts, PlanAccount, PlanDetail
from rephaze.types.readable import amount
from rephaze.types.search import Aggregate, Objective, SearchResult, SearchSettings, SearchStatus
from rephaze.types.system import ChosenSystem
from rephaze.units import (
    FLOPS_PER_TFLOPS,
    GB,
    GHZ,
    GIB,
    MIB,
    MM2_PER_M2,
    S_PER_MS,
    UM2_PER_MM2,
    USD_PER_MUSD,
    W_PER_MW,
    gap_text,
)

_UNITS = {
    Objective.THROUGHPUT: "samples/s",
    Objective.PER_AREA: "samples/s per mm²",
    Objective.PER_WATT: "samples/J",
    Objective.PER_USD: "samples/s per USD",
}
_BEST_AT = {
    Objective.THROUGHPUT: "trains {models} fastest",
    Objective.PER_AREA: "trains {models} fastest for its silicon",
    Objective.PER_WATT: "trains {models} with the least energy",
    Objective.PER_USD: "trains {models} fastest for its price",
}
_AGGREGATES = {
    Aggregate.GEOMEAN: "geometric mean",
    Aggregate.MEAN: "mean",
    Aggregate.WORST: "worst model by weight",
}
_STATUS_TEXT = {
    SearchStatus.OPTIMAL: "No design of the space does better under this cost model: proven.",
    SearchStatus.FEASIBLE: "The proof is not complete: something up to the bound may do better.",
    SearchStatus.INFEASIBLE: "No design of the space can train what was asked for.",
    SearchStatus.UNKNOWN: "The search ended before it had found a plan.",
}
MOST_NAMED = 3
"""Models named in the sentence."""


def objective_unit(settings: SearchSettings) -> str:
    """What the objective counts, as an axis is titled."""
    unit = _UNITS[settings.objective]
    return unit if len(settings.models) == 1 else f"{unit} ({_AGGREGATES[settings.aggregate]})"


def num_chips(settings: SearchSettings, result: SearchResult) -> int:
    """Of the cluster: the answer's where the system was searched."""
    return settings.scenario.cluster.num_devices if result.system is None else result.system.num_chips


def answer_sentence(settings: SearchSettings, result: SearchResult, baselines: Sequence[Baseline]) -> str:
    """What was found, how much better it is than TPUv4, and whether that is proven."""
    models = _listed(settings.models)
    scenario = settings.scenario
    if result.chip is None:
        if result.status is SearchStatus.UNKNOWN:
            return f"The search for a chip to train {models} was stopped before it had found one."
        return f"No chip of the space can train {models} on {scenario.cluster.num_devices:,} chips."
    limit_mm2 = scenario.space.area_limit_um2 / UM2_PER_MM2
    speeds = _listed([f"{plan.samples_per_s:,.0f}" for plan in result.plans])
    best = _BEST_AT[settings.objective].format(models=models)
    said = (
        f"Of {result.certificate.num_designs:,} possible chips this one, within {limit_mm2:,.0f} mm² of silicon, "
        f"{best}: {speeds} samples a second on a cluster of {num_chips(settings, result):,}"
    )
    by_name = {one.name: one.objective for one in baselines if one.objective > 0}
    if TPUV4_SEARCHED in by_name:
        said += f", {result.objective / by_name[TPUV4_SEARCHED]:.2f} times what TPUv4 reaches at its best"
        if TPUV4_EXPERT in by_name:
            said += f" and {result.objective / by_name[TPUV4_EXPERT]:.1f} times TPUv4 with an expert's plan"
    if result.status is SearchStatus.OPTIMAL:
        return said + ". It is proven that none does better."
    more = f"up to {result.gap:.1%} more may be possible" if math.isfinite(result.gap) else "nothing bounds it yet"
    return said + f". It is not proven to be the best: {more}."


def why_sentences(plans: Sequence[PlanDetail], accounts: Sequence[BaselineAccounts]) -> list[str]:
    """Where the time that TPUv4 needs longer goes, for the first few models of which it is known."""
    beside = next((one.plans for one in accounts if one.name == TPUV4_SEARCHED), ())
    pairs = [
        (own.account, other)
        for own, other in zip(plans[:MOST_NAMED], beside, strict=False)
        if own.account is not None and other is not None
    ]
    return [said for own, other in pairs if (said := _why(own, other))]


def _why(own: PlanAccount, beside: PlanAccount) -> str:
    ours, theirs = ({key: (words, part_s) for key, words, _, part_s in parts_of(one)} for one in (own, beside))
    gained = sorted(
        (
            (theirs.get(key, ("", 0.0))[1] - ours.get(key, ("", 0.0))[1], (ours | theirs)[key][0])
            for key in ours | theirs
        ),
        reverse=True,
    )
    own_ms, their_ms = own.causes.total_s / S_PER_MS, beside.causes.total_s / S_PER_MS
    parts = [
        f"{words}: {_signed(-gain_s / S_PER_MS)} ms"
        for gain_s, words in gained
        if abs(gain_s) > 0.02 * beside.causes.total_s
    ]
    if not parts:
        return ""
    return (
        f"Why: a batch of {own.model} takes {amount(own_ms)} ms where TPUv4 at its best takes "
        f"{amount(their_ms)} ms. The difference by cause: {'; '.join(parts)}."
    )


def _signed(value: float) -> str:
    return f"+{amount(value, 3)}" if value > 0 else amount(value, 3)


def answer_body(
    settings: SearchSettings,
    result: SearchResult,
    baselines: Sequence[Baseline],
    plans: Sequence[PlanDetail],
    accounts: Sequence[BaselineAccounts],
) -> str:
    """The section's HTML."""
    text = _STATUS_TEXT[result.status]
    if result.reason:
        text += f" Reason: {result.reason}."
    body = paragraph(answer_sentence(settings, result, baselines), "answer") + status_line(result.status, text)
    if result.chip is None:
        return body
    gap = "none" if result.gap == 0 else gap_text(result.gap, 3)
    limit_um2 = settings.scenario.space.area_limit_um2
    numbers = [
        (amount(result.objective, 5), objective_unit(settings)),
        (amount(result.bound, 5) if math.isfinite(result.bound) else "none yet", "bound: nothing does better"),
        (gap, "gap between them"),
        (f"{result.area_um2 / UM2_PER_MM2:,.1f} mm²", f"area, {result.area_um2 / limit_um2:.1%} of the limit"),
    ]
    if len(result.plans) == 1:
        numbers.append((f"{amount(result.plans[0].energy_per_sample_j)} J", "energy of a sample"))
    body += cards(numbers)
    if result.system is not None:
        body += heading("The system") + system_cards(settings, result.system)
    return body + "".join(map(paragraph, why_sentences(plans, accounts)))


def chip_cards(result: SearchResult) -> str:
    """What the chip has."""
    chip = result.chip
    if chip is None:
        return paragraph("There is no chip to draw.")
    return cards(
        [
            (
                f"{chip.num_tensor_cores:,} of {chip.tensor_width}x{chip.tensor_depth}",
                f"tensor cores, {amount(chip.peak_flops_per_s / FLOPS_PER_TFLOPS)} TFLOP/s",
            ),
            (f"{chip.num_vector_cores:,} of {chip.vector_lanes:,}", "vector cores and their lanes"),
            (f"{chip.global_buffer_bytes / MIB:,.4g} MiB", "global buffer"),
            (
                f"{chip.hbm_bytes / GIB:,.4g} GiB",
                f"HBM in {chip.num_hbm_stacks} stacks, {chip.hbm_bytes_per_s / GB:,.0f} GB/s",
            ),
            (f"{chip.clock_hz / GHZ:,.3g} GHz", "clock"),
        ]
    )


def _listed(names: Sequence[str]) -> str:
    """Names in words, the last after an and."""
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def system_cards(settings: SearchSettings, system: ChosenSystem) -> str:
    """The cluster of the answer, and what it takes of the budget."""
    budget = settings.budget

    def taken(amount: float, limit: float, what: str) -> str:
        return what if math.isinf(limit) else f"{what}, {amount / limit:.1%} of the budget"

    return cards(
        [
            (f"{system.num_chips:,}", f"chips in nodes of {system.num_node_chips:,}"),
            (f"{amount(system.clock_hz / GHZ)} GHz", f"clock, with {system.hbm}"),
            (
                f"{system.num_inside_links:g} + {system.num_outside_links:g}",
                f"links of a chip inside and outside its node, {system.inside_bytes_per_s / GB:,.0f} and "
                f"{system.outside_bytes_per_s / GB:,.0f} GB/s",
            ),
            (
                f"{system.silicon_mm2 / MM2_PER_M2:.3g} m²",
                taken(system.silicon_mm2, budget.silicon_mm2, "silicon of all chips"),
            ),
            (f"{system.power_w / W_PER_MW:.3g} MW", taken(system.power_w, budget.power_w, "drawn at most")),
            (
                f"{system.cost_usd / USD_PER_MUSD:.3g} million dollars",
                taken(system.cost_usd, budget.cost_usd, "to make and join"),
            ),
        ]
    )
