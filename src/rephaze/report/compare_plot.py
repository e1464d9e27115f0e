"""A comparison as one page: bars of every baseline, the table behind them, the gain split by cause."""

from __future__ import annotations

from pathlib import Path

from rephaze.report.figure import Figure, figure_html
from rephaze.report.page import Section, paragraph, table, write_page
from rephaze.report.ratio_bars import RatioBar, ratio_figure
from rephaze.types.comparison import Baseline, Comparison
from rephaze.types.readable import amount
from rephaze.units import gap_text


def comparison_figure(comparison: Comparison) -> Figure:
    """A bar a baseline, as long as its objective over that of the first baseline that has one.

    Args:
        comparison: Baselines in the order they are shown; the last is the co-search.
    """
    shown = [one for one in comparison.baselines if one.objective > 0]
    unit = shown[0].objective if shown else 1.0
    last = comparison.baselines[-1].name
    bars = [
        RatioBar(
            name=one.name,
            ratio=one.objective / unit,
            objective=one.objective,
            colour="2" if one.name == last else "1",
        )
        for one in shown
    ]
    axis = f"{comparison.settings.objective} over {shown[0].name if shown else 'nothing'}"
    return ratio_figure("baselines", "Every baseline, one cost model", bars, axis, 0.0)


def write_comparison_html(path: Path, comparison: Comparison) -> Path:
    """Write the comparison as one self-contained page and return its path."""
    settings = comparison.settings
    sections = [
        Section(title="Every baseline, one cost model", body=figure_html(comparison_figure(comparison))),
        Section(title="The numbers", body=table(_HEADER, [_row(one, comparison) for one in comparison.baselines])),
    ]
    sections += gain_sections(comparison)
    lead = f"{', '.join(settings.models)}; scenario {settings.scenario.name}; co-search {comparison.status}"
    return write_page(path, title="rephaze compare", lead=lead, sections=sections)


def gain_sections(comparison: Comparison) -> list[Section]:
    """The gain by cause and what sharing a chip costs, as far as they were found out."""
    settings = comparison.settings
    sections: list[Section] = []
    if comparison.gains is not None:
        gains = comparison.gains
        rows = [
            (
                step.cause,
                f"{step.gain_factor:.3f}x",
                amount(step.answer.objective),
                "; ".join(
                    said
                    for said, holds in (
                        ("over the area limit", step.exceeds_area_limit),
                        ("not proven", not step.is_proven),
                    )
                    if holds
                ),
            )
            for step in gains.steps
        ]
        proof = "" if gains.is_proven else "not proven"
        rows.append(("all together", f"{gains.total_gain_factor:.3f}x", "", proof))
        lead = f"From {gains.start} to the searched chip, one thing changed at a time in this order. {gains.note}"
        body = paragraph(lead) + table(("cause", "factor", str(settings.objective), ""), rows)
        sections.append(Section(title="The gain by cause", body=body))
    if comparison.sharing:
        rows = [
            (
                one.model,
                f"{one.common_samples_per_s:,.1f}",
                f"{one.own_samples_per_s:,.1f}",
                f"{one.lost_fraction:.1%}" + ("" if one.is_proven else " (not proven)"),
            )
            for one in comparison.sharing
        ]
        body = table(("model", "common chip, samples/s", "own best, samples/s", "lost by sharing"), rows)
        sections.append(Section(title="What sharing a chip costs", body=body))
    return sections


_HEADER = (
    "baseline",
    "objective",
    "gap",
    "over tpuv4, expert plan",
    "over tpuv4, searched plan",
    "chips looked at",
    "seconds",
    "note",
)


def _row(one: Baseline, comparison: Comparison) -> tuple[str, ...]:
    ratios = [
        f"{one.objective / base.objective:.3f}x" if base.objective > 0 and one.objective > 0 else "-"
        for base in comparison.references
    ]
    value = amount(one.objective, 5) if one.objective > 0 else "none"
    gap = (
        "" if one.answer is None or not one.objective else "proven" if one.is_proven else gap_text(one.answer.gap)
    )
    return (one.name, value, gap, *ratios, f"{one.num_evaluations:,}", f"{one.search_s:.1f}", one.note)
