"""The winner beside everything it was measured against: each model's table, and where the time of each goes."""

from __future__ import annotations

from collections.abc import Sequence

from rephaze.report.figure import figure_html
from rephaze.report.page import paragraph, table, tabs, together
from rephaze.report.time_bars import TimeRow, time_figure
from rephaze.types.comparison import Baseline
from rephaze.types.plan_account import BaselineAccounts, PlanDetail
from rephaze.types.readable import amount
from rephaze.types.search import ModelPlan, SearchResult, SearchSettings
from rephaze.units import S_PER_MS, UM2_PER_MM2

WINNER = "this chip, searched plan"
NO_BASELINES = (
    "This run holds nothing to set it beside: rephaze report RUN --known-chips SECONDS measures known chips, "
    "rephaze compare --run RUN every baseline."
)
_HEADER = (
    *("what", "samples/s", "this chip over it", "batch (ms)", "tp x dp x pp, microbatch", "further choices"),
    *("J a sample", "area (mm²)", "note"),
)


def times_body(
    result: SearchResult, plans: Sequence[PlanDetail], accounts: Sequence[BaselineAccounts], missing: str
) -> str:
    """Bars for each model: milliseconds, and shares."""
    if result.chip is None:
        return paragraph("There is no plan.")
    panels = []
    for at, detail in enumerate(plans):
        if detail.account is None:
            panels.append((detail.model, paragraph(f"{detail.model}: {detail.missing or missing}")))
            continue
        others = [
            TimeRow(name=one.name, account=account)
            for one in accounts
            if at < len(one.plans) and (account := one.plans[at]) is not None
        ]
        rows = [TimeRow(name=WINNER, account=detail.account, is_own=True)]
        rows += sorted(others, key=lambda row: row.account.causes.total_s)
        shown = [
            (title, figure_html(time_figure(detail.model, rows, as_share=as_share)))
            for title, as_share in (("Milliseconds", False), ("Shares", True))
        ]
        panels.append((detail.model, tabs(f"Unit of time for {detail.model}", shown)))
    if not panels:
        return paragraph(missing or "Where the time goes was not worked out.")
    return tabs("Time by model", panels)


def baselines_body(settings: SearchSettings, result: SearchResult, baselines: Sequence[Baseline]) -> str:
    """A table for each model: the winner, then every baseline, the best first."""
    if result.chip is None:
        return paragraph("There is no design to set chips beside.")
    if not baselines:
        return paragraph(NO_BASELINES)
    panels = []
    for at, model in enumerate(settings.models):
        own = result.plans[at]
        listed = [(one, _plan(one, at)) for one in baselines]
        listed.sort(key=lambda item: -item[1].samples_per_s if item[1] else 0.0)
        rows = [_row(WINNER, own, own, result.area_um2, "")]
        rows += [
            _row(one.name, plan, own, one.answer.area_um2 if one.answer else 0.0, one.note) for one, plan in listed
        ]
        panels.append((model, table(_HEADER, rows, own=0, texts=(4, 5, 8), hide_empty=True)))
    said = (
        "All on one cost model. Known chips have the best plans it finds for them, and need not be designs of the "
        "space: some are larger than its limit."
    )
    return paragraph(said) + tabs("Baselines by model", panels)


def _plan(one: Baseline, at: int) -> ModelPlan | None:
    return one.answer.plans[at] if one.answer and at < len(one.answer.plans) else None


def _row(name: str, plan: ModelPlan | None, own: ModelPlan, area_um2: float, note: str) -> list[str]:
    area = f"{area_um2 / UM2_PER_MM2:,.1f}" if area_um2 else ""
    if plan is None:
        return [name, "none", "", "", "", "", "", area, note]
    return [
        name,
        amount(plan.samples_per_s),
        f"{own.samples_per_s / plan.samples_per_s:.2f}x",
        amount(plan.batch_s / S_PER_MS),
        together(f"{plan.tp} x {plan.dp} x {plan.pp}, {plan.microbatch}"),
        plan.choices,
        amount(plan.energy_per_sample_j),
        area,
        note,
    ]
