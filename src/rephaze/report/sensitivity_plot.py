"""A sensitivity study as one page: a bar for each change, and the chips behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rephaze.report.page import Section, figure, table, write_page
from rephaze.types.search import SearchResult
from rephaze.types.sensitivity import Sensitivity
from rephaze.units import UM2_PER_MM2

_MORE, _LESS = "#2a9d6f", "#c8553d"
_HEADER = ("changed", "objective", "over unchanged", "mm²", "chip", "plans (tp x pp x dp, microbatch)", "status")


def sensitivity_figure(found: Sensitivity) -> Any:
    """A Plotly bar a change, from the unchanged objective to the changed one."""
    import plotly.graph_objects as go

    shown = [one for one in found.changes if one.gain_factor > 0]
    plot = go.Figure()
    plot.add_bar(
        orientation="h",
        y=[f"{one.knob} x {one.scale_factor:g}" for one in shown],
        x=[one.gain_factor - 1.0 for one in shown],
        base=1.0,
        marker={"color": [_MORE if one.scale_factor > 1 else _LESS for one in shown]},
        text=[f"{one.gain_factor:.3f}x" for one in shown],
        customdata=[one.result.objective for one in shown],
        hovertemplate="%{y}: %{customdata:,.4g} (%{text})<extra></extra>",
    )
    plot.update_layout(
        height=140 + 34 * len(shown),
        xaxis={"title": {"text": f"{found.settings.objective} over the unchanged search"}},
        yaxis={"autorange": "reversed", "automargin": True},
        template="plotly_white",
        margin={"t": 20},
    )
    return plot


def write_sensitivity_html(path: Path, found: Sensitivity) -> Path:
    """Write the study as one self-contained page and return its path."""
    rows = [("nothing", *_row(found.base, "1.000x"))]
    for one in found.changes:
        gain = f"{one.gain_factor:.3f}x" + ("" if one.is_proven else " (not proven)")
        rows.append((f"{one.knob} x {one.scale_factor:g}", *_row(one.result, gain)))
    sections = [
        Section(title="What each assumption is worth", body=figure(sensitivity_figure(found))),
        Section(title="The best chip under each", body=table(_HEADER, rows)),
    ]
    settings = found.settings
    lead = f"{', '.join(settings.models)}; scenario {settings.scenario.name}; unchanged: {found.base.status}"
    return write_page(path, title="rephaze sensitivity", lead=lead, sections=sections)


def _row(result: SearchResult, gain: str) -> tuple[str, ...]:
    chip = result.chip
    if chip is None:
        return ("none", "", "", "", "", str(result.status))
    return (
        f"{result.objective:,.5g}",
        gain,
        f"{result.area_um2 / UM2_PER_MM2:,.1f}",
        chip.in_words,
        "; ".join(f"{plan.tp} x {plan.pp} x {plan.dp}, {plan.microbatch}" for plan in result.plans),
        str(result.status) if result.gap == 0 else f"{result.status}, gap {result.gap:.2%}",
    )
