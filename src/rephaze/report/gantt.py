"""A layer's schedule as a Gantt chart: one self-contained HTML file, readable offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rephaze.report.page import PLOT_CONFIG, plot_text
from rephaze.types.latency import Engine
from rephaze.types.output_files import HTML_PAGE, write_whole
from rephaze.types.schedule import Mode, Schedule, ScheduleProblem

_COLORS = {
    Engine.TENSOR: "#3366aa",
    Engine.VECTOR: "#2a9d6f",
    Engine.FUSED: "#8e5ea2",
    Engine.LINK: "#d9902f",
}


def gantt_figure(title: str, problem: ScheduleProblem, schedule: Schedule) -> Any:
    """A Plotly figure with a bar per operator, colored by engine; all-cores operators are hatched.

    Args:
        title: Shown above the chart.
        problem: What was scheduled.
        schedule: Its answer; it must hold a schedule.
    """
    import plotly.graph_objects as go

    ops = {op.name: op for op in problem.ops}
    figure = go.Figure()
    rows = [
        (start, ops[start.op], getattr(ops[start.op], f"{start.mode}_cycles"))
        for start in sorted(schedule.starts, key=lambda start: (start.start_cycles, start.op))
    ]
    rows = [row for row in rows if row[2] > 0]
    for engine, color in _COLORS.items():
        for mode in Mode:
            chosen = [row for row in rows if row[1].engine is engine and row[0].mode is mode]
            if not chosen:
                continue
            figure.add_bar(
                name=f"{engine.value}, {mode.replace('_', ' ')}",
                orientation="h",
                y=[plot_text(op.name) for _, op, _ in chosen],
                x=[cycles for _, _, cycles in chosen],
                base=[start.start_cycles for start, _, _ in chosen],
                marker={"color": color, "pattern": {"shape": "/" if mode is Mode.ALL_CORES else ""}},
                customdata=[start.start_cycles + cycles for start, _, cycles in chosen],
                hovertemplate="%{y}: %{base:,} to %{customdata:,} (%{x:,} cycles)",
            )
    proof = f"{schedule.status}, bound {schedule.bound_cycles:,}"
    figure.update_layout(
        title={"text": f"{plot_text(title)}: {schedule.makespan_cycles:,} cycles ({proof})", "font": {"size": 15}},
        barmode="overlay",
        height=150 + 18 * len(rows),
        margin={"l": 20, "r": 20, "t": 90, "b": 50},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
        xaxis={"title": {"text": "cycles"}, "range": [0, schedule.makespan_cycles], "tickformat": ",d"},
        yaxis={
            "autorange": "reversed",
            "categoryorder": "array",
            "categoryarray": [plot_text(op.name) for _, op, _ in rows],
        },
        template="plotly_white",
    )
    return figure


def write_gantt_html(path: Path, charts: Sequence[tuple[str, ScheduleProblem, Schedule]]) -> None:
    """Write one HTML page with a chart per schedule; everything it needs is inside.

    Args:
        path: File to write.
        charts: Title, problem and schedule of each.
    """
    import plotly.io

    bodies = [
        plotly.io.to_html(
            gantt_figure(title, problem, schedule),
            config=PLOT_CONFIG,
            full_html=False,
            include_plotlyjs=position == 0,
        )
        for position, (title, problem, schedule) in enumerate(charts)
    ]
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<title>Layer schedules</title></head><body>"
        + ("\n".join(bodies) or "<p>No schedule to show.</p>")
        + "</body></html>"
    )
    write_whole(path, page, HTML_PAGE)
