"""Known chips beside a search: what each reaches with its best plans, and how far that is from the proven best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rephaze.report.explored import MarkedChip
from rephaze.report.page import paragraph, table
from rephaze.types.comparison import ROUNDING
from rephaze.types.readable import amount
from rephaze.types.search import SearchResult, SearchStatus
from rephaze.types.standing import Standing
from rephaze.units import UM2_PER_MM2, gap_text

NONE_HELD = (
    "This run holds no known chip: rephaze report RUN --known-chips SECONDS measures them, "
    "rephaze judge --run RUN --chip NAME one."
)
NOTE = (
    "Each chip has the best plans this cost model finds for it. Within so much of the best: no design of the "
    "space reaches more than the bound above, and the chip lacks that part of it. With clocks, cores and "
    "memories of their own known chips need not be designs of the space; some are better than any."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    chip: MarkedChip
    standing: Standing


def known_chips_body(marked: Sequence[MarkedChip], result: SearchResult, unit: str) -> str:
    """The section's HTML: one row for each chip, the best first."""
    if result.chip is None:
        return paragraph("There is no design to set chips beside.")
    if not marked:
        return paragraph(NONE_HELD)
    rows = [
        _Row(
            chip=chip,
            standing=Standing(
                label=chip.name, objective=chip.objective, bound=result.bound, reason=chip.reason or "no plan"
            ),
        )
        for chip in sorted(marked, key=lambda one: (-one.objective, one.name))
    ]
    header = ["chip", unit, "area (mm²)", "against the best found", "against the best there is", "proven"]
    return table(header, [_cells(row, result) for row in rows]) + paragraph(NOTE, "note")


def _cells(row: _Row, result: SearchResult) -> list[str]:
    chip, area = row.chip, f"{row.chip.area_um2 / UM2_PER_MM2:,.1f}"
    if not chip.objective:
        return [chip.name, "none", area, "", row.standing.distance, "yes" if _is_exact(chip) else "no"]
    ratio = f"{chip.objective / result.objective - 1:+.1%}"
    return [chip.name, amount(chip.objective, 5), area, ratio, row.standing.distance, _proof(chip, result)]


def _is_exact(chip: MarkedChip) -> bool:
    return chip.bound <= chip.objective * (1 + ROUNDING)


def _proof(chip: MarkedChip, result: SearchResult) -> str:
    """That a chip is so near, or so much better, holds; whether it is also no nearer depends on both proofs."""
    if result.status is SearchStatus.OPTIMAL and _is_exact(chip):
        return "yes, exactly"
    open_ends = []
    if result.status is not SearchStatus.OPTIMAL:
        open_ends.append(f"the search has a gap of {gap_text(result.gap)}")
    if not _is_exact(chip):
        open_ends.append(f"its own plans may be {chip.bound / chip.objective - 1:.2%} better")
    return f"yes; it may stand better: {', '.join(open_ends)}"
