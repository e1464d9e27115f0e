"""A search as one self-contained page: the answer, its proof, the designs, the plans, a block's schedule."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rephaze.report.cover_sections import cover_body, reach_body
from rephaze.report.gantt import gantt_figure
from rephaze.report.known_chips import known_chips_body
from rephaze.report.page import (
    Section,
    cards,
    details,
    figure,
    heading,
    paragraph,
    preformatted,
    status_line,
    table,
    write_page,
)
from rephaze.report.plan_sections import plans_body
from rephaze.report.runners_up import runners_up_body
from rephaze.report.search_plots import (
    MAX_DROPPED,
    ExploredDesigns,
    MarkedChip,
    designs_figure,
    dropped_designs,
    fits_picture,
    open_designs,
    progress_figure,
)
from rephaze.store.record_json import to_json
from rephaze.types.boxes import FieldReach
from rephaze.types.placement import PlacementModel
from rephaze.types.plan_account import PlanAccount
from rephaze.types.run_record import Incumbent, RunInfo
from rephaze.types.schedule import PassSchedule
from rephaze.types.search import Aggregate, Certificate, Objective, SearchResult, SearchSettings, SearchStatus
from rephaze.types.system import ChosenSystem
from rephaze.units import (
    FLOPS_PER_TFLOPS,
    GB,
    GHZ,
    GIB,
    MIB,
    MM2_PER_M2,
    S_PER_US,
    UM2_PER_MM2,
    USD_PER_MUSD,
    W_PER_MW,
)

_UNITS = {
    Objective.THROUGHPUT: "samples/s",
    Objective.PER_AREA: "samples/s per mm²",
    Objective.PER_WATT: "samples/J",
    Objective.PER_USD: "samples/s per USD",
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


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class SearchRecords:
    """All a page is made of."""

    info: RunInfo
    result: SearchResult
    explored: ExploredDesigns | None
    """None: the designs were not recorded."""
    incumbents: Sequence[Incumbent]
    blocks: Sequence[PassSchedule] = ()
    """Schedules to draw."""
    blocks_missing: str = ""
    """Why there are none, if there should be."""
    marked: Sequence[MarkedChip] = ()
    """Known chips to mark among the designs."""
    accounts: Sequence[PlanAccount] = ()
    """Where time and memory of the plans go, under cost model ``full``."""
    accounts_missing: str = ""
    """Why there are none, if there should be."""
    reaches: Sequence[FieldReach] = ()
    """Of a search by boxes: how near each value of a field came."""


def write_search_report(path: Path, records: SearchRecords) -> Path:
    """Write the page of a search and return its path."""
    settings, result = records.info.settings, records.result
    lead = (
        f"Scenario {settings.scenario.name}: {settings.scenario.title}. "
        f"{_num_chips(records):,} chips, global batch "
        f"{settings.scenario.training.global_batch:,}, searched in {result.search_s:,.1f} s."
    )
    title = f"The best chip for {', '.join(settings.models)}"
    return write_page(path, title=title, lead=lead, sections=search_sections(records))


def _num_chips(records: SearchRecords) -> int:
    """Of the cluster: the answer's where the system was searched."""
    system = records.result.system
    return records.info.settings.scenario.cluster.num_devices if system is None else system.num_chips


def search_sections(records: SearchRecords) -> list[Section]:
    """The page's sections, in order."""
    settings, result = records.info.settings, records.result
    return [
        Section(title="The answer", body=_answer(settings, result)),
        Section(title="The certificate", body=_certificate(result)),
        *_fields(records),
        Section(title="Designs", body=_designs(records)),
        Section(title="Known chips", body=known_chips_body(records.marked, result, objective_unit(settings))),
        Section(title="Plans", body=_plans(records)),
        Section(title="A block on the chip", body=_blocks(records)),
        Section(title="Best and bound over time", body=_progress(records)),
        Section(title="Settings and versions", body=_settings(records.info)),
    ]


def _fields(records: SearchRecords) -> list[Section]:
    if not records.reaches:
        return []
    return [Section(title="Which fields matter", body=reach_body(records.reaches, records.result))]


def objective_unit(settings: SearchSettings) -> str:
    """What the objective counts, as an axis is titled."""
    unit = _UNITS[settings.objective]
    return unit if len(settings.models) == 1 else f"{unit} ({_AGGREGATES[settings.aggregate]})"


def _system(settings: SearchSettings, system: ChosenSystem) -> str:
    """The cluster of the answer, and what it takes of the budget."""
    budget = settings.budget

    def taken(amount: float, limit: float, what: str) -> str:
        return what if math.isinf(limit) else f"{what}, {amount / limit:.1%} of the budget"

    return cards(
        [
            (f"{system.num_chips:,}", f"chips in nodes of {system.node_size:,}"),
            (f"{system.clock_hz / GHZ:,.4g} GHz", f"clock, with {system.hbm}"),
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


def _answer(settings: SearchSettings, result: SearchResult) -> str:
    text = _STATUS_TEXT[result.status]
    if result.reason:
        text += f" Reason: {result.reason}."
    body = status_line(result.status, text)
    if result.chip is None:
        return body
    chip, limit_um2 = result.chip, settings.scenario.space.area_limit_um2
    unit = objective_unit(settings)
    gap = "none" if result.gap == 0 else f"{result.gap:.3%}"
    body += cards(
        [
            (f"{result.objective:,.5g}", unit),
            (f"{result.bound:,.5g}", "bound: nothing does better"),
            (gap, "gap between them"),
            (f"{result.area_um2 / UM2_PER_MM2:,.1f} mm²", f"area, {result.area_um2 / limit_um2:.1%} of the limit"),
        ]
    )
    if result.system is not None:
        body += heading("The system") + _system(settings, result.system)
    body += heading("The chip")
    return body + cards(
        [
            (
                f"{chip.num_tensor_cores:,} of {chip.tensor_width}x{chip.tensor_depth}",
                f"tensor cores, {chip.peak_flops_per_s / FLOPS_PER_TFLOPS:,.4g} TFLOP/s",
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


def _certificate(result: SearchResult) -> str:
    proof = result.certificate
    body = _designs_account(proof) if proof.num_boxes is None else cover_body(proof)
    if proof.designs_scope:
        body += heading("Over what") + paragraph(f"Designs: {proof.designs_scope}. Plans: {proof.plans_scope}.")
    if proof.num_unproven:
        body += paragraph(f"Schedules not proven on {proof.num_unproven:,} designs that might do better.", "note")
    if result.chip is None:
        return body
    body += heading("Near the best")
    body += table(
        ["within", "at least", "at most"],
        [[name, f"{least:,}", f"{most:,}"] for name, (least, most) in proof.num_within.items()],
    )
    others = "designs that were not solved" if proof.num_boxes is None else "all grid points of a box"
    body += paragraph(f"At most: {others} count by their bound.", "note")
    return body + heading("What holds the winner back") + paragraph(f"{proof.binding}.")


def _designs_account(proof: Certificate) -> str:
    rows = [("solved exactly", proof.num_solved_exactly), ("no plan fits", proof.num_infeasible)]
    rows += [(f"dropped by bound: {name}", count) for name, count in proof.num_dropped_by_bound.items()]
    num_left = proof.num_designs - sum(count for _, count in rows)
    if num_left:
        rows.append(("left when the search stopped", num_left))
    rows.append(("designs of the space", proof.num_designs))
    total = max(proof.num_designs, 1)
    body = paragraph("Where every design of the space went; each is counted once.")
    return body + table(
        ["designs", "number", "share"], [[name, f"{count:,}", f"{count / total:.2%}"] for name, count in rows]
    )


def _designs(records: SearchRecords) -> str:
    explored, settings = records.explored, records.info.settings
    if explored is None or not len(explored.chips):
        return paragraph("The run holds no designs.")
    dropped, left_open = dropped_designs(explored), open_designs(explored)
    solved = sum(item.is_exact and item.objective > 0 for item in explored.evaluations)
    num_dropped, num_open = (min(len(some), MAX_DROPPED) for some in (dropped, left_open))
    note = f"{solved:,} designs solved exactly and {num_dropped:,} dropped ones at their upper bound"
    note += f", {num_open:,} left open at theirs. " if num_open else ". "
    note += _not_drawn(records, len(explored.chips) - solved - num_dropped - num_open)
    left_out = [chip.name for chip in records.marked if not fits_picture(chip, explored.area_limit_um2)]
    if left_out:
        note += f" Known chips outside the picture: {', '.join(left_out)}."
    if not solved and not dropped and not left_open and not records.marked:
        return paragraph(f"None of the {len(explored.chips):,} designs has a plan to show.")
    unit = objective_unit(settings)
    plot = designs_figure(explored, records.result, unit, records.marked)
    return figure(plot) + paragraph(note, "note") + runners_up_body(explored, records.result, unit)


def _not_drawn(records: SearchRecords, num_unseen: int) -> str:
    """What of the space is not in the picture of its designs."""
    if records.result.certificate.num_boxes is not None:
        return "All other grid points were settled in boxes: no design of them was looked at on its own."
    is_open = records.result.status in (SearchStatus.FEASIBLE, SearchStatus.UNKNOWN)
    return (
        f"Not drawn: {num_unseen:,} designs that no plan fits, that a cheaper bound settled, or that are past the "
        f"{MAX_DROPPED:,} best bounds" + (" or were left open." if is_open else ".")
    )


def _plans(records: SearchRecords) -> str:
    is_full = records.info.settings.scenario.placement_model is PlacementModel.FULL
    return plans_body(records.result.plans, records.accounts, records.accounts_missing, is_full)


def _blocks(records: SearchRecords) -> str:
    if not records.blocks:
        return paragraph(records.blocks_missing or "There is no chip to schedule a block on.")
    body = paragraph(
        "The most repeated layer of each model as the chip runs it: a bar per operator, hatched where it takes "
        "all cores of its engine."
    )
    for one in records.blocks:
        name = f"{one.model}: {one.layer}, {one.direction}"
        if not one.schedule.starts:
            body += heading(name) + paragraph(f"No schedule: {one.schedule.reason}.")
            continue
        time_us = one.schedule.makespan_cycles / one.clock_hz / S_PER_US
        text = f"{time_us:,.1f} µs; microbatch {one.microbatch}, tp {one.tp}, {one.num_layers} such layers"
        body += heading(name) + paragraph(text, "note")
        body += figure(gantt_figure(one.direction, one.problem, one.schedule))
    return body


def _progress(records: SearchRecords) -> str:
    if not records.incumbents or not math.isfinite(records.result.bound):
        return paragraph("No answer was recorded on the way.")
    unit = objective_unit(records.info.settings)
    body = figure(progress_figure(records.incumbents, records.result, unit))
    if records.info.num_sessions > 1:
        body += paragraph(f"{records.info.num_sessions} sessions, end to end.", "note")
    return body


def _settings(info: RunInfo) -> str:
    seen = f"Made {info.created_at}, last written {info.updated_at}, {info.num_sessions} session(s)."
    versions = info.versions
    rows = [["rephaze", versions.rephaze], ["estimator", versions.estimator], ["Python", versions.python]]
    rows += [[name, version] for name, version in sorted(versions.packages.items())]
    rows += [[f"digest of {name}", digest] for name, digest in sorted(versions.input_digests.items())]
    settings = json.dumps(to_json(info.settings), indent=2, ensure_ascii=False)
    return (
        paragraph(seen)
        + details("All settings, fully resolved", preformatted(settings))
        + details("Versions", table(["what", "version"], rows))
    )
