"""A sensitivity study as one page: a bar for each change, and the chips behind them."""

from __future__ import annotations

from pathlib import Path

from rephaze.report.answer_section import objective_unit
from rephaze.report.figure import Figure, figure_html
from rephaze.report.page import Section, table, together, write_page
from rephaze.report.ratio_bars import RatioBar, ratio_figure
from rephaze.types.readable import KNOB_WORDS, amount
from rephaze.types.search import SearchResult
from rephaze.types.sensitivity import ChangedSearch, Sensitivity
from rephaze.units import UM2_PER_MM2, gap_text

_HEADER = ("over unchanged", "area (mm²)", "chip", "tp x dp x pp, microbatch", "status")
_NOTE = "Each is a whole search of its own: the chip and the plans may follow the change."


def sensitivity_figure(found: Sensitivity) -> Figure:
    """A bar a change, from the unchanged objective to the changed one."""
    bars = [
        RatioBar(
            name=_named(one),
            ratio=one.gain_factor,
            objective=one.result.objective,
            colour="2" if one.scale_factor > 1 else "5",
        )
        for one in found.changes
        if one.gain_factor > 0
    ]
    axis = f"{found.settings.objective} over the unchanged search"
    return ratio_figure("sensitivity", "The best chip again, with one assumption changed", bars, axis, 1.0, _NOTE)


def sensitivity_table(found: Sensitivity, unit: str) -> str:
    """The best chip under each change.

    Args:
        found: The study.
        unit: Of the objective.
    """
    rows = [("nothing", *_row(found.base, "1.000x"))]
    for one in found.changes:
        gain = f"{one.gain_factor:.3f}x" + ("" if one.is_proven else " (not proven)")
        rows.append((_named(one), *_row(one.result, gain)))
    return table(("changed", unit, *_HEADER), rows, texts=(4, 5, 6))


def write_sensitivity_html(path: Path, found: Sensitivity) -> Path:
    """Write the study as one self-contained page and return its path."""
    sections = [
        Section(title="What each assumption is worth", body=figure_html(sensitivity_figure(found))),
        Section(title="The best chip under each", body=sensitivity_table(found, objective_unit(found.settings))),
    ]
    settings = found.settings
    lead = f"{', '.join(settings.models)}; scenario {settings.scenario.name}; unchanged: {found.base.status}"
    return write_page(path, title="rephaze sensitivity", lead=lead, sections=sections)


def _named(one: ChangedSearch) -> str:
    return f"{KNOB_WORDS[one.knob]} x {one.scale_factor:g}"


def _row(result: SearchResult, gain: str) -> tuple[str, ...]:
    chip = result.chip
    if chip is None:
        return ("none", "", "", "", "", str(result.status))
    return (
        amount(result.objective, 5),
        gain,
        f"{result.area_um2 / UM2_PER_MM2:,.1f}",
        chip.in_words,
        "; ".join(together(f"{plan.tp} x {plan.dp} x {plan.pp}, {plan.microbatch}") for plan in result.plans),
        str(result.status) if result.gap == 0 else f"{result.status}, gap {gap_text(result.gap)}",
    )
