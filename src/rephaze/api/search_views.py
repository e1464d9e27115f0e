"""What searches, studies and runs show: the answer in a sentence, plans, certificate, tables of chips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from rephaze.api.plan_rates import OBJECTIVE_UNITS, objective_figure, plan_rates
from rephaze.api.present import Block, TextTable
from rephaze.types.pareto import AreaBudget, ParetoPoint
from rephaze.types.readable import fields_in_words
from rephaze.units import GB, GIB, MIB, S_PER_MS, UM2_PER_MM2, gap_text

if TYPE_CHECKING:
    from rephaze.api.runs import Run
    from rephaze.api.search_results import BestDesign, Exploration, Verification
    from rephaze.types.chip import Chip
    from rephaze.types.pareto import ParetoFront
    from rephaze.types.search import Certificate, ModelPlan, Objective, SearchResult
    from rephaze.types.sensitivity import Sensitivity

POINT_HEADINGS = ("samples/s", "mm²", "J/sample", "US$", "full power W", "chip")
POINT_WORDS = frozenset({"chip", "proven for its area", "best of its budget"})
CHANGE_HEADINGS = (
    "changed", "objective", "over unchanged", "mm²", "chip", "tp", "pp", "dp", "microbatch", "status", "gap",
)  # fmt: skip


def exploration_blocks(found: Exploration) -> list[Block]:
    """An answer: what is proven, the chip, the plans, the certificate and what it ranges over."""
    if found.chip is None:
        blocks: list[Block] = [f"{found.status}: {found.reason}"]
        blocks += [unknown_sentence(found)] if found.status == "unknown" else []
    else:
        blocks = [f"{found.status} {answer_sentence(found)}"]
        blocks += [f"not proven: {found.reason}"] if found.reason else []
        blocks += [f"chip  {chip_sentence(found.chip, found.area_um2)}"]
        blocks += [f"rates  {physics_sentence(found)}"] if physics_sentence(found) else []
        if found.system is not None:
            blocks += [f"system  {found.system.in_words}", f"takes  {found.system.bill_in_words}"]
        blocks += [plan_table(found.plans)]
        blocks += rates_sentences(found)
        blocks += [f"certificate  {certificate_sentence(found.certificate)}"]
    blocks += [f"{heading}  {text}" for heading, text in scope_sentences(found)]
    return blocks + (
        [f"held back by  {fields_in_words(found.certificate.binding)}"] if found.chip is not None else []
    )


def answer_sentence(found: Exploration) -> str:
    """Objective, bound and gap of an answer."""
    bound = f"bound {_objective(found, found.bound)}" if isfinite(found.bound) else "not bounded yet"
    return (
        f"in {found.search_s:.1f} s: {found.settings.objective} {_objective(found, found.objective)} "
        f"({bound}, gap {gap_text(found.gap, 3)}); scenario {found.settings.scenario.name}"
    )


def unknown_sentence(found: Exploration) -> str:
    """What may still be there when a search was stopped before it found anything."""
    _, most = next(iter(found.certificate.num_within.values()))
    bounded = f"at most {_objective(found, found.bound)}" if isfinite(found.bound) else "not bounded yet"
    counted = "designs" if found.certificate.num_boxes is None else "grid points"
    return f"any of {most:,} {counted} may have a plan, of {found.settings.objective} {bounded}"


def physics_sentence(found: Exploration) -> str:
    """At which rates chips and links run, if not at those of their figures."""
    from rephaze.hardware.derating import losses_at

    losses = losses_at("searched", found.settings.scenario)
    return "" if losses is None else losses.sentence()


def rates_sentences(found: Exploration) -> list[str]:
    """Tokens a second and the use of the chips, of each model's plan."""
    if found.chip is None:
        return []
    scenario = found.settings.scenario
    return [f"{plan.model}: {plan_rates(plan, found.chip, scenario).sentence}" for plan in found.plans]


def _objective(found: Exploration, value: float) -> str:
    return objective_figure(value, found.settings.objective)


def chip_sentence(chip: Chip, area_um2: float) -> str:
    """Cores, buffer, memory and area of a chip."""
    return (
        f"{chip.num_tensor_cores} tensor cores of {chip.tensor_width}x{chip.tensor_depth}, "
        f"{chip.num_vector_cores} vector cores of {chip.vector_lanes} lanes, "
        f"{chip.global_buffer_bytes / MIB:g} MiB buffer, {chip.num_hbm_stacks} HBM stacks "
        f"({chip.hbm_bytes / GIB:g} GiB, {chip.hbm_bytes_per_s / GB:,.0f} GB/s), "
        f"{area_um2 / UM2_PER_MM2:,.1f} mm²"
    )


def plan_table(plans: Sequence[ModelPlan]) -> TextTable:
    """The plan of each model."""
    rows = tuple(
        (
            plan.model,
            f"{plan.samples_per_s:,.1f}",
            f"{plan.batch_s / S_PER_MS:,.1f}",
            *(str(degree) for degree in (plan.tp, plan.dp, plan.pp, plan.microbatch)),
            plan.recompute,
            f"{max(stage.memory_bytes for stage in plan.stages) / GIB:.1f} / {plan.hbm_bytes / GIB:g}",
            f"{plan.energy_per_sample_j:,.3g}",
        )
        for plan in plans
    )
    headings = (
        "model", "samples/s", "batch ms", "tp", "dp", "pp", "micro batch", "replay", "GiB used", "J a sample",
    )  # fmt: skip
    return TextTable(headings=headings, rows=rows, left=frozenset({"model"}))


def certificate_sentence(certificate: Certificate) -> str:
    """Where every design of the space went."""
    removed = ", ".join(
        f"{count:,} by {name}" for name, count in certificate.num_dropped_by_bound.items() if count
    )
    left_open = f", {certificate.num_open:,} left open" if certificate.num_open else ""
    within = ", ".join(
        f"{name}: {least:,}" + ("" if least == most else f" to {most:,}")
        for name, (least, most) in certificate.num_within.items()
    )
    counted = "designs"
    if certificate.num_boxes is not None:
        counted = f"grid points in {sum(certificate.num_boxes.values()):,} boxes"
    return (
        f"{certificate.num_designs:,} {counted}: {certificate.num_solved_exactly:,} solved exactly, "
        f"{certificate.num_infeasible:,} infeasible, dropped {removed or 'none'}{left_open}; within {within}"
    )


def scope_sentences(result: SearchResult) -> list[tuple[str, str]]:
    """Over what the proof ranges, each under its heading."""
    certificate = result.certificate
    plans = certificate.plans_scope
    if certificate.num_unproven:
        plans += f"; schedules not proven on {certificate.num_unproven:,} designs that might do better"
    elif result.chip is not None:
        plans += "; every schedule that matters " + ("proven" if result.status == "optimal" else "so far proven")
    counted = "designs" if certificate.num_boxes is None else "grid points"
    over = f"{certificate.num_designs:,} {counted}: {certificate.designs_scope}"
    return [("over", over), ("and plans", plans)]


def sensitivity_blocks(found: Sensitivity) -> list[Block]:
    """The unchanged answer and those of every change."""
    headline = f"{', '.join(found.settings.models)}, scenario {found.settings.scenario.name}"
    return [headline, change_table(found), *change_notes(found)]


def change_table(found: Sensitivity) -> TextTable:
    """The unchanged answer, then one row for each change."""
    objective = found.settings.objective
    rows = [("nothing", *_answer_cells(found.base, "1.000x", objective))]
    for one in found.changes:
        gain = f"{one.gain_factor:.3f}x{'' if one.is_proven else '~'}" if one.gain_factor > 0 else "-"
        rows.append((f"{one.knob} x {one.scale_factor:g}", *_answer_cells(one.result, gain, objective)))
    words = frozenset({"changed", "chip", "status"})
    headings = tuple(OBJECTIVE_UNITS[objective] if name == "objective" else name for name in CHANGE_HEADINGS)
    return TextTable(headings=headings, rows=tuple(rows), left=words)


def change_notes(found: Sensitivity) -> list[str]:
    """What the marks in the table mean, if there are any."""
    if all(one.is_proven for one in found.changes):
        return []
    return ["~ not proven: one of the two searches has a gap, or found nothing"]


def _answer_cells(result: SearchResult, gain: str, objective: Objective) -> tuple[str, ...]:
    chip = result.chip
    if chip is None:
        return ("none", "", "", "", "", "", "", "", result.status, "")
    return (
        objective_figure(result.objective, objective).split(" ")[0],
        gain,
        f"{result.area_um2 / UM2_PER_MM2:,.1f}",
        chip.in_words if result.system is None else f"{result.system.num_chips:,} of {chip.in_words}",
        *(
            ",".join(str(getattr(plan, name)) for plan in result.plans)
            for name in ("tp", "pp", "dp", "microbatch")
        ),
        result.status,
        gap_text(result.gap),
    )


NO_POINTS = "no design of this run was solved and has a plan"


def pareto_blocks(front: ParetoFront) -> list[Block]:
    """The non-dominated designs, and the best chip per area budget."""
    if not front.points:
        return [NO_POINTS, *proof_offers(front)]
    return [front_sentence(front), point_table(front), budget_table(front), *proof_offers(front)]


def front_sentence(front: ParetoFront) -> str:
    """How many designs the front has, and of how many."""
    solved_now = front.num_solved_exactly - front.num_recorded
    return (
        f"{len(front.points):,} non-dominated of {front.num_solved_exactly:,} designs solved exactly"
        + (f", {solved_now:,} of them now" if solved_now else "")
        + f"; {front.num_designs - front.num_solved_exactly:,} of {front.num_designs:,} "
        + ("grid points were not" if front.counts_grid_points else "were not solved")
    )


def point_table(front: ParetoFront) -> TextTable:
    """The non-dominated designs, fastest first."""
    rows = tuple((*_point_cells(point), "yes" if point.is_proven else "no") for point in front.points)
    return TextTable(headings=(*POINT_HEADINGS, "proven for its area"), rows=rows, left=POINT_WORDS)


def budget_table(front: ParetoFront) -> TextTable:
    """The best chip of each area budget."""
    nothing = ("none", *[""] * (len(POINT_HEADINGS) - 1))
    rows = tuple(
        (
            f"{budget.area_um2 / UM2_PER_MM2:,.1f}",
            *(_point_cells(budget.best) if budget.best else nothing),
            _budget_proof(budget),
        )
        for budget in front.budgets
    )
    headings = ("budget mm²", *POINT_HEADINGS, "best of its budget")
    return TextTable(headings=headings, rows=rows, left=POINT_WORDS, title="Best chip per area budget")


def proof_offers(front: ParetoFront, how: str = "pareto(solve=True)") -> list[str]:
    """How to have every budget proven, if one is not."""
    if all(budget.is_proven for budget in front.budgets):
        return []
    return [f"{how} finds and proves the best chip of every area budget, unless a schedule cannot be proven"]


def _point_cells(point: ParetoPoint) -> tuple[str, ...]:
    return (
        f"{point.samples_per_s:,.1f}",
        f"{point.area_um2 / UM2_PER_MM2:,.1f}",
        f"{point.energy_per_sample_j:,.3g}",
        f"{point.chip_usd:,.0f}" if math.isfinite(point.chip_usd) else "—",
        f"{point.full_power_w:,.0f}",
        point.chip.in_words,
    )


def _budget_proof(budget: AreaBudget) -> str:
    if budget.is_proven:
        return "proven" if budget.best else "proven: nothing fits"
    at_most = f"at most {budget.bound_samples_per_s:,.1f}"
    return f"{at_most} (gap {budget.gap:.1%})" if budget.best else f"not solved; {at_most}"


def verification_blocks(found: Verification) -> list[Block]:
    """Whether all holds, and each check."""
    return [verdict(found), check_table(found)]


def verdict(found: Verification) -> str:
    """Whether all checks hold."""
    total = len(found.checks)
    return f"all {total} checks hold" if found.holds else f"{found.num_failed} of {total} fail"


def check_table(found: Verification) -> TextTable:
    """Each claim of a run and what was found."""
    rows = tuple(
        (check.name, "pass" if check.passed else "FAIL", f"{check.num_checked:,}", check.detail)
        for check in found.checks
    )
    return TextTable(
        headings=("check", "", "looked at", "found"), rows=rows, left=frozenset({"check", "", "found"})
    )


def best_blocks(best: BestDesign) -> list[Block]:
    """The winning chip and its plans."""
    headline = f"design {best.design:,}: {chip_sentence(best.chip, best.area_um2)}"
    return [headline, plan_table(best.plans)]


def run_blocks(run: Run) -> list[Block]:
    """Where a run is, what it searches, and its answer if there is one."""
    info, found = run.info, run.result
    headline = (
        f"run {run.folder}: {info.settings.objective} of {', '.join(info.settings.models)}, "
        f"scenario {info.settings.scenario.name}, last written {info.updated_at}"
    )
    return [headline, *(["no answer yet"] if found is None else exploration_blocks(found))]
