"""Figures of a search: designs by area, stages of a plan, how the answer grew.

Axis letters: c = chip (design).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rephaze.report.page import plot_text
from rephaze.types.chip import ChipTable, FloatColumn
from rephaze.types.run_record import NOT_REMOVED, BoundTable, Incumbent
from rephaze.types.search import Evaluation, ModelPlan, SearchResult
from rephaze.units import GIB, MIB, S_PER_MS, UM2_PER_MM2

SOLVED, DROPPED, WINNER, MARKED, LIMIT = "#2456a6", "#aab4c4", "#1c7c43", "#b26a00", "#a62424"
LEFT_OPEN = "#7a5fa8"
MAX_DROPPED = 4000
"""Dropped designs drawn, best bounds first: more would be one grey cloud and a slow page."""
MAX_AREA_FACTOR = 1.25
"""Marked chips larger than this many area limits are left out: they would squeeze the space to one side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkedChip:
    """A chip from outside the space, priced as its designs are, to be marked by name."""

    name: str
    area_um2: float
    objective: float
    """Zero if some model has no plan on it."""
    bound: float
    """What its own plans might reach, had every schedule been proven."""
    reason: str = ""
    """Why a model has no plan."""


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class ExploredDesigns:
    """The space and what is known of its designs."""

    chips: ChipTable
    area_um2_c: FloatColumn
    area_limit_um2: float
    evaluations: Sequence[Evaluation]
    bounds: BoundTable | None = None
    """Of the objective over all models, if they were recorded."""


def fits_picture(chip: MarkedChip, area_limit_um2: float) -> bool:
    """Whether a chip is marked among the designs of a space with this limit."""
    return 0.0 < chip.objective < math.inf and chip.area_um2 <= MAX_AREA_FACTOR * area_limit_um2


def dropped_designs(explored: ExploredDesigns) -> list[tuple[int, float]]:
    """Designs that a bound dropped, at that bound, best bound first."""
    found = [(item.design, item.bound) for item in explored.evaluations if not item.is_exact]
    return _by_bound(found + _unsolved(explored, is_open=False))


def open_designs(explored: ExploredDesigns) -> list[tuple[int, float]]:
    """Designs that a search which was stopped left open, at their bound, best bound first."""
    return _by_bound(_unsolved(explored, is_open=True))


def _unsolved(explored: ExploredDesigns, *, is_open: bool) -> list[tuple[int, float]]:
    """Designs with a recorded bound that were never taken up: those no bound removed, or the others."""
    evaluated = {item.design for item in explored.evaluations}
    if explored.bounds is None:
        return []
    table = explored.bounds
    rows = zip(table.design_c.tolist(), table.bound_c.tolist(), table.removed_by_c.tolist(), strict=True)
    return [
        (design, bound)
        for design, bound, removed_by in rows
        if design not in evaluated and (removed_by == NOT_REMOVED) is is_open
    ]


def _by_bound(found: list[tuple[int, float]]) -> list[tuple[int, float]]:
    shown = [(design, bound) for design, bound in found if 0.0 < bound < math.inf]
    return sorted(shown, key=lambda item: (-item[1], item[0]))


def designs_figure(
    explored: ExploredDesigns, result: SearchResult, unit: str, marked: Sequence[MarkedChip] = ()
) -> Any:
    """Objective against area: solved designs, dropped ones at their bound, the winner, known chips."""
    import plotly.graph_objects as go

    plot = go.Figure()

    def add(name: str, points: Sequence[tuple[int, float]], marker: dict[str, Any]) -> None:
        if not points:
            return
        plot.add_scatter(
            name=name,
            mode="markers",
            x=[float(explored.area_um2_c[design]) / UM2_PER_MM2 for design, _ in points],
            y=[value for _, value in points],
            text=[_design_text(explored.chips, design) for design, _ in points],
            hovertemplate="%{text}<br>%{x:,.1f} mm²<br>%{y:,.5g} " + unit + "<extra></extra>",
            marker=marker,
        )

    solved = [(item.design, item.objective) for item in explored.evaluations if item.is_exact]
    others = [(design, value) for design, value in solved if value > 0 and design != result.design]
    add(
        "dropped, at its bound",
        dropped_designs(explored)[:MAX_DROPPED],
        {"color": DROPPED, "size": 5, "opacity": 0.45},
    )
    add(
        "left open, at its bound",
        open_designs(explored)[:MAX_DROPPED],
        {"color": LEFT_OPEN, "size": 5, "opacity": 0.45, "symbol": "circle-open"},
    )
    add("solved exactly", others, {"color": SOLVED, "size": 7, "opacity": 0.8})
    if result.design is not None:
        style = {"color": WINNER, "size": 16, "symbol": "star", "line": {"color": "#fff", "width": 1}}
        add("winner", [(result.design, result.objective)], style)
    known = [chip for chip in marked if fits_picture(chip, explored.area_limit_um2)]
    if known:
        plot.add_scatter(
            name="known chips",
            mode="markers+text",
            x=[chip.area_um2 / UM2_PER_MM2 for chip in known],
            y=[chip.objective for chip in known],
            text=[plot_text(chip.name) for chip in known],
            # Clear of the line that marks the limit.
            textposition=[
                "middle left" if 0.9 < chip.area_um2 / explored.area_limit_um2 <= 1.0 else "top center"
                for chip in known
            ],
            textfont={"color": MARKED, "weight": "bold"},
            hovertemplate="%{text}<br>%{x:,.1f} mm²<br>%{y:,.5g} " + unit + "<extra></extra>",
            marker={"color": MARKED, "size": 10, "symbol": "diamond"},
        )
    plot.add_vline(
        x=explored.area_limit_um2 / UM2_PER_MM2,
        line={"color": LIMIT, "dash": "dot"},
        annotation={"text": "area limit", "font": {"color": LIMIT}},
        annotation_position="bottom left",
    )
    plot.update_xaxes(title="area of a chip (mm²)")
    plot.update_yaxes(title=unit, tickformat=",")
    return _styled(plot, height=520)


def stages_figure(plan: ModelPlan) -> Any:
    """Time and memory of each stage of a plan, memory against what a chip has."""
    from plotly.subplots import make_subplots

    plot = make_subplots(cols=2, subplot_titles=("load of a microbatch (ms)", "memory of a chip (GiB)"))
    numbers = list(range(1, len(plan.stages) + 1))
    layers = [plot_text(f"{stage.first_layer} to {stage.last_layer}") for stage in plan.stages]
    columns = (
        (SOLVED, [stage.load_s / S_PER_MS for stage in plan.stages], "ms"),
        (MARKED, [stage.memory_bytes / GIB for stage in plan.stages], "GiB"),
    )
    for col, (color, values, unit) in enumerate(columns, start=1):
        plot.add_bar(
            x=numbers,
            y=values,
            # A lone stage would fill its panel from side to side.
            width=0.35 if len(numbers) == 1 else 0.7,
            customdata=layers,
            hovertemplate="stage %{x}: %{y:,.4g} " + unit + "<br>%{customdata}<extra></extra>",
            marker={"color": color},
            showlegend=False,
            row=1,
            col=col,
        )
    plot.add_hline(y=plan.hbm_bytes / GIB, line={"color": LIMIT, "dash": "dot"}, row=1, col=2)
    plot.add_annotation(
        text=f"HBM {plan.hbm_bytes / GIB:,.4g}",
        x=1,
        xref="x2 domain",
        y=plan.hbm_bytes / GIB,
        yref="y2",
        yanchor="bottom",
        xanchor="right",
        showarrow=False,
        font={"color": LIMIT},
    )
    plot.update_xaxes(title="stage", range=[0.25, len(numbers) + 0.75], tickformat="d")
    if len(numbers) <= 16:
        plot.update_xaxes(dtick=1)
    plot.update_yaxes(rangemode="tozero")
    most = max(plan.hbm_bytes, *(stage.memory_bytes for stage in plan.stages)) / GIB
    plot.update_yaxes(range=[0, 1.15 * most], row=1, col=2)
    return _styled(plot, height=320)


def progress_figure(incumbents: Sequence[Incumbent], result: SearchResult, unit: str) -> Any:
    """The best answer and the best bound as time went by, sessions end to end."""
    import plotly.graph_objects as go

    plot = go.Figure()
    end = Incumbent(
        elapsed_s=result.search_s, objective=result.objective, bound=result.bound, design=result.design
    )
    steps = _end_to_end([*incumbents, end])
    for name, column, color in (("bound", 2, LIMIT), ("best found", 1, WINNER)):
        shown = [step for step in steps if math.isfinite(step[column])]
        plot.add_scatter(
            name=name,
            mode="lines+markers",
            x=[step[0] for step in shown],
            y=[step[column] for step in shown],
            line={"color": color, "shape": "hv"},
            hovertemplate="%{x:,.1f} s: %{y:,.6g} " + unit,
        )
    plot.update_xaxes(title="seconds of search", rangemode="tozero")
    plot.update_yaxes(title=unit, tickformat=",")
    return _styled(plot, height=360)


def _end_to_end(incumbents: Sequence[Incumbent]) -> list[tuple[float, float, float]]:
    """Steps on one clock: each session of a resumed run counts its seconds from zero."""
    offset_s = 0.0
    steps = [(step.elapsed_s, step.objective, step.bound) for step in incumbents[:1]]
    for before, step in pairwise(incumbents):
        if step.elapsed_s < before.elapsed_s:
            offset_s += before.elapsed_s
        steps.append((offset_s + step.elapsed_s, step.objective, step.bound))
    return steps


def _design_text(chips: ChipTable, design: int) -> str:
    return (
        f"design {design}: {chips.num_tensor_cores[design]} of "
        f"{chips.tensor_width[design]}x{chips.tensor_depth[design]} tensor, "
        f"{chips.num_vector_cores[design]} of {chips.vector_lanes[design]} lanes, "
        f"{chips.global_buffer_bytes[design] / MIB:g} MiB, {chips.num_hbm_stacks[design]} HBM stacks"
    )


def _styled(plot: Any, height: int) -> Any:
    plot.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 70, "r": 20, "t": 60, "b": 50},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
        font={"family": "system-ui, sans-serif", "size": 13},
    )
    return plot
