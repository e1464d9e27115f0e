"""A search as one self-contained page: the answer, why it is the answer, its proof, and what it rests on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rephaze.report.answer_section import answer_body, chip_cards, num_chips, objective_unit
from rephaze.report.baseline_sections import baselines_body, times_body
from rephaze.report.chip_drawing import ItemsNamed, chips_figure
from rephaze.report.compare_plot import gain_sections
from rephaze.report.cover_sections import cover_body, reach_body
from rephaze.report.explored import MAX_DROPPED, ExploredDesigns, MarkedChip, dropped_designs, open_designs
from rephaze.report.figure import figure_html
from rephaze.report.gantt import gantt_figure
from rephaze.report.known_chips import known_chips_body
from rephaze.report.page import Section, details, heading, paragraph, preformatted, table, tabs, write_page
from rephaze.report.plan_sections import plans_body
from rephaze.report.progress import progress_figure
from rephaze.report.roofline import operators_table, roofline_figure
from rephaze.report.runners_up import runners_up_body
from rephaze.report.sensitivity_plot import sensitivity_figure, sensitivity_table
from rephaze.report.tradeoffs import AGAINST, DROPPED, OPEN, Unsolved, tradeoff_figure
from rephaze.report.trust_sections import assumptions_body, expected_body
from rephaze.store.record_json import to_json
from rephaze.types.assumption import Assumption
from rephaze.types.boxes import FieldReach
from rephaze.types.chip_items import ChipItems
from rephaze.types.comparison import Baseline, Comparison
from rephaze.types.pareto import ChipPoints
from rephaze.types.placement import PlacementModel
from rephaze.types.plan_account import BaselineAccounts, PlanDetail
from rephaze.types.readable import fields_in_words
from rephaze.types.run_record import Incumbent, RunInfo, minute_of
from rephaze.types.search import Certificate, Objective, SearchResult
from rephaze.types.sensitivity import Sensitivity
from rephaze.types.truth import ExpectedError, Stability
from rephaze.units import S_PER_US, UM2_PER_MM2


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class SearchRecords:
    """All a page is made of."""

    info: RunInfo
    result: SearchResult
    explored: ExploredDesigns | None
    """None: the designs were not recorded."""
    incumbents: Sequence[Incumbent]
    plans: Sequence[PlanDetail] = ()
    """What was found out of the winner's plans, one for each model."""
    plans_missing: str = ""
    """Why there is nothing, if there should be."""
    marked: Sequence[MarkedChip] = ()
    """Known chips."""
    reaches: Sequence[FieldReach] = ()
    """Of a search by boxes: how near each value of a field came."""
    baselines: Sequence[Baseline] = ()
    accounts: Sequence[BaselineAccounts] = ()
    """Where the time of the baselines goes, as far as it was worked out."""
    points: ChipPoints | None = None
    """Every chip that was measured."""
    comparison: Comparison | None = None
    sensitivity: Sensitivity | None = None
    expected: Mapping[str, ExpectedError | None] = field(default_factory=dict)
    stability: Stability | None = None
    losses: str = ""
    """At which rates times are, if not those of the figures of chips and links."""
    """By model, what measured runs near its plan say; None: none is near."""
    items: Sequence[ChipItems] = ()
    """The silicon of the winner, and of TPUv4."""
    assumptions: Sequence[Assumption] = ()


def write_search_report(path: Path, records: SearchRecords) -> Path:
    """Write the page of a search and return its path."""
    settings, result = records.info.settings, records.result
    lead = (
        f"Scenario {settings.scenario.name}: {settings.scenario.title}. "
        f"{num_chips(settings, result):,} chips, global batch "
        f"{settings.scenario.training.global_batch:,}, searched in {result.search_s:,.1f} s."
    )
    title = f"The best chip for {', '.join(settings.models)}"
    return write_page(path, title=title, lead=lead, sections=search_sections(records))


def search_sections(records: SearchRecords) -> list[Section]:
    """The page's sections, in order."""
    settings, result = records.info.settings, records.result
    unit = objective_unit(settings)
    answer = answer_body(settings, result, records.baselines, records.plans, records.accounts)
    missing = records.plans_missing
    found = [
        Section(title="The answer", body=answer, short="Answer"),
        Section(title="The chip", body=_chip(records), short="Chip"),
        Section(
            title="Where the time goes",
            body=times_body(result, records.plans, records.accounts, missing),
            short="Time",
        ),
        Section(title="Plans", body=_plans(records)),
        Section(title="Layers on the chip", body=_layers(records), short="Layers"),
        Section(title="Trade-offs", body=_tradeoffs(records)),
    ]
    if records.reaches:
        found.append(
            Section(title="Which fields matter", body=reach_body(records.reaches, result), short="Fields")
        )
    if records.sensitivity is not None:
        drawn = figure_html(sensitivity_figure(records.sensitivity))
        body = drawn + sensitivity_table(records.sensitivity, unit)
        found.append(Section(title="Sensitivity", body=body))
    found.append(Section(title="Baselines", body=baselines_body(settings, result, records.baselines)))
    if records.comparison is not None:
        found += gain_sections(records.comparison)
    found += [
        Section(title="Known chips", body=known_chips_body(records.marked, result, unit)),
        Section(title="The certificate", body=_certificate(records, unit), short="Certificate"),
    ]
    if records.expected:
        found.append(
            Section(
                title="Expected error", body=expected_body(records.expected, records.stability, records.losses)
            )
        )
    if records.assumptions:
        found.append(Section(title="Assumptions", body=assumptions_body(records.assumptions)))
    return [*found, Section(title="Settings and versions", body=_settings(records.info), short="Settings")]


def _chip(records: SearchRecords) -> str:
    result = records.result
    body = chip_cards(result)
    if result.chip is None or not records.items:
        return body
    own, *others = records.items
    other = ItemsNamed(name="TPUv4", items=others[0]) if others else None
    body += figure_html(chips_figure(ItemsNamed(name="this chip", items=own), other))
    rows = [
        [words, *(_area_cell(getattr(one, name), one.total_um2) for one in records.items)]
        for name, words in (
            ("arrays_um2", "arrays"),
            ("tensor_scratchpads_um2", "scratchpads of tensor cores"),
            ("lanes_um2", "vector lanes"),
            ("vector_scratchpads_um2", "scratchpads of vector cores"),
            ("buffer_um2", "global buffer"),
            ("hbm_um2", "HBM interfaces"),
            ("links_um2", "links to other chips"),
            ("total_um2", "all"),
        )
    ]
    header = ["item", "this chip (mm²)", *["TPUv4 (mm²)"] * len(others)]
    return body + details("Areas as a table", table(header, rows))


def _area_cell(area_um2: float, total_um2: float) -> str:
    return f"{area_um2 / UM2_PER_MM2:,.2f} ({area_um2 / total_um2:.1%})"


def _plans(records: SearchRecords) -> str:
    is_full = records.info.settings.scenario.placement_model is PlacementModel.FULL
    return plans_body(records.result.plans, records.plans, records.plans_missing, is_full)


def _layers(records: SearchRecords) -> str:
    """Roofline and schedules of each model."""
    chip = records.result.chip
    if chip is None or not records.plans:
        return paragraph(records.plans_missing or "There is no chip to schedule a layer on.")
    panels = []
    for detail in records.plans:
        body = paragraph(detail.missing, "note") if detail.missing else ""
        if detail.operators:
            body += figure_html(roofline_figure(chip, detail.operators, detail.model))
            body += details("Longest operators", operators_table(detail.operators))
        drawn = []
        for one in detail.passes:
            name = f"{one.layer}, {one.direction}"
            if not one.schedule.starts:
                drawn.append((name, paragraph(f"{name}: no schedule: {one.schedule.reason}.")))
                continue
            time_us = one.schedule.makespan_cycles / one.clock_hz / S_PER_US
            said = f"{time_us:,.1f} µs; microbatch {one.microbatch}, tp {one.tp}, {one.num_layers} such layers"
            title = f"{detail.model}: {name}"
            plot = gantt_figure(title, one.problem, one.schedule, one.clock_hz)
            drawn.append((name, paragraph(said, "note") + figure_html(plot)))
        if drawn:
            body += heading("Layers as the chip runs them") + tabs(f"Layers of {detail.model}", drawn)
        panels.append((detail.model, body))
    return tabs("Layers by model", panels)


def _tradeoffs(records: SearchRecords) -> str:
    explored, settings = records.explored, records.info.settings
    points = records.points
    if points is None or not points.points:
        return paragraph("No chip was measured, so that there is nothing to draw.")
    unsolved: tuple[Unsolved, ...] = ()
    if explored is not None and settings.objective is Objective.THROUGHPUT:
        unsolved = tuple(
            Unsolved(kind=kind, places=_places(explored, listed))
            for kind, listed in ((DROPPED, dropped_designs(explored)), (OPEN, open_designs(explored)))
        )
    speed = objective_unit(replace(settings, objective=Objective.THROUGHPUT))
    panels = [
        (
            against.tab,
            figure_html(tradeoff_figure(points, against, speed, unsolved if against.column == "area_mm2" else ())),
        )
        for against in AGAINST
    ]
    body = tabs("Throughput against", panels) + paragraph(_not_drawn(records, unsolved), "note")
    if explored is not None:
        body += runners_up_body(explored, records.result, objective_unit(settings))
    return body


def _places(explored: ExploredDesigns, listed: Sequence[tuple[int, float]]) -> tuple[tuple[float, float], ...]:
    """Area in mm², and bound."""
    return tuple(
        (float(explored.area_um2_c[design]) / UM2_PER_MM2, bound) for design, bound in listed[:MAX_DROPPED]
    )


def _not_drawn(records: SearchRecords, unsolved: Sequence[Unsolved]) -> str:
    """What of the space is not in the picture of its designs."""
    if records.result.certificate.num_boxes is not None:
        return "All other grid points were settled in boxes: no design of them was looked at on its own."
    counted = {one.kind: len(one.places) for one in unsolved}
    num_open = counted.get(OPEN, 0)
    return (
        f"Of {records.result.certificate.num_designs:,} designs those solved exactly are drawn, and, at their "
        f"upper bound against area, {counted.get(DROPPED, 0):,} that were dropped"
        + (f" and {num_open:,} that were left open" if num_open else "")
        + f". The others no plan fits, a cheaper bound settled, or they are past the {MAX_DROPPED:,} best bounds."
    )


def _certificate(records: SearchRecords, unit: str) -> str:
    result, proof = records.result, records.result.certificate
    body = _designs_account(proof) if proof.num_boxes is None else cover_body(proof)
    if proof.designs_scope:
        body += heading("Over what") + paragraph(f"Designs: {proof.designs_scope}. Plans: {proof.plans_scope}.")
    if proof.num_unproven:
        body += paragraph(f"Schedules not proven on {proof.num_unproven:,} designs that might do better.", "note")
    body += _progress(records, unit)
    if result.chip is None:
        return body
    body += heading("Near the best")
    body += table(
        ["within", "at least", "at most"],
        [[name, f"{least:,}", f"{most:,}"] for name, (least, most) in proof.num_within.items()],
    )
    others = "designs that were not solved" if proof.num_boxes is None else "all grid points of a box"
    body += paragraph(f"At most: {others} count by their bound.", "note")
    return body + heading("What holds the winner back") + paragraph(f"{fields_in_words(proof.binding)}.")


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


def _progress(records: SearchRecords, unit: str) -> str:
    if not records.incumbents or not math.isfinite(records.result.bound):
        return paragraph("No answer was recorded on the way.")
    body = figure_html(progress_figure(records.incumbents, records.result, unit))
    if records.info.num_sessions > 1:
        body += paragraph(f"{records.info.num_sessions} sessions, end to end.", "note")
    return body


def _settings(info: RunInfo) -> str:
    sessions = "1 session" if info.num_sessions == 1 else f"{info.num_sessions} sessions"
    seen = f"Made {minute_of(info.created_at)}, last written {minute_of(info.updated_at)}, {sessions}."
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
