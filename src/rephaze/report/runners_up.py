"""Designs beside the winner: those solved that come within a percent of it."""

from __future__ import annotations

from rephaze.report.explored import ExploredDesigns
from rephaze.report.page import heading, paragraph, table, together
from rephaze.types.readable import amount
from rephaze.types.search import Evaluation, SearchResult
from rephaze.units import UM2_PER_MM2

NEAR = 0.01
MOST_ROWS = 20


def runners_up_body(explored: ExploredDesigns, result: SearchResult, unit: str) -> str:
    """A table of the runners-up, the best first; in words if there is none."""
    if result.design is None:
        return ""
    others = [one for one in explored.evaluations if one.is_exact and one.objective > 0]
    others = sorted(
        (one for one in others if one.design != result.design), key=lambda one: (-one.objective, one.design)
    )
    near = [one for one in others if one.objective >= result.objective * (1 - NEAR)]
    title = heading("Runners-up")
    if not near:
        said = "No other design that was solved lies within 1 % of the winner"
        if others:
            loss = 1 - others[0].objective / result.objective
            said += f"; the next best, {_in_words(explored, others[0])}, is {loss:.1%} worse"
        return title + paragraph(f"{said}.")
    rows = [_cells(explored, one, result) for one in near[:MOST_ROWS]]
    body = title + table(["chip", unit, "below the winner", "area (mm²)", "tp x dp x pp"], rows, texts=(4,))
    num_more = len(near) - len(rows)
    more = f" {num_more:,} more are not shown." if num_more else ""
    return body + paragraph(f"Designs that were solved and lie within 1 % of the winner.{more}", "note")


def _cells(explored: ExploredDesigns, one: Evaluation, result: SearchResult) -> list[str]:
    return [
        _in_words(explored, one),
        amount(one.objective, 5),
        f"{1 - one.objective / result.objective:.3%}",
        f"{explored.area_um2_c[one.design] / UM2_PER_MM2:,.1f}",
        ", ".join(together(f"{plan.tp} x {plan.dp} x {plan.pp}") for plan in one.plans),
    ]


def _in_words(explored: ExploredDesigns, one: Evaluation) -> str:
    return explored.chips.chip(one.design).in_words
