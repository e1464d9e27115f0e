"""A layer's schedule as a Gantt chart: a bar per operator on the engine it runs on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rephaze.report.figure import Figure, Series, figure_html
from rephaze.report.page import Section, write_page
from rephaze.report.svg import WIDTH, Scale, drawing, label, shortened, tag, x_axis
from rephaze.types.latency import Engine
from rephaze.types.schedule import Mode, Schedule, ScheduleProblem

LEFT, RIGHT, TOP, ROW, THICK = 190.0, 18.0, 8.0, 16.0, 11.0
UNITS = 1000.0
"""Of the inner drawing along the schedule; the page's script knows it."""

ENGINES = {
    Engine.TENSOR: ("tensor cores", "1"),
    Engine.VECTOR: ("vector cores", "2"),
    Engine.FUSED: ("both, fused", "4"),
    Engine.LINK: ("link", "3"),
}


def gantt_figure(
    title: str, problem: ScheduleProblem, schedule: Schedule, clock_hz: float | None = None
) -> Figure:
    """A bar for each operator that takes time, in the order they start; paler on one core alone.

    Args:
        title: Of the figure.
        problem: What was scheduled.
        schedule: Its answer; it must hold a schedule.
        clock_hz: Shows microseconds; None: cycles.
    """
    ops = {op.name: op for op in problem.ops}
    per_unit = 1.0 if clock_hz is None else 1e6 / clock_hz
    unit = "cycles" if clock_hz is None else "us"
    rows = [
        (start, ops[start.op], start.way_of(ops[start.op]).cycles)
        for start in sorted(schedule.starts, key=lambda start: (start.start_cycles, start.op))
    ]
    rows = [row for row in rows if row[2] > 0]
    last = max(schedule.makespan_cycles * per_unit, 1e-12)
    high = ROW * max(len(rows), 1)
    scale = Scale(low=0.0, high=last, begin=LEFT, end=WIDTH - RIGHT)
    inner, names, data = [], [], []
    for at, (start, op, cycles) in enumerate(rows):
        words, colour = ENGINES[op.engine]
        cores = "all cores" if start.mode is Mode.ALL_CORES else "one core"
        begin, lasts = start.start_cycles * per_unit, cycles * per_unit
        said = f"{op.name}\n{words}, {cores}\n{begin:,.6g} to {begin + lasts:,.6g} {unit} ({lasts:,.5g})"
        inner.append(
            tag(
                "rect",
                class_=f"f{colour}" + ("" if start.mode is Mode.ALL_CORES else " see"),
                data_s=op.engine.value,
                data_t=said,
                x=UNITS * begin / last,
                y=ROW * at + (ROW - THICK) / 2,
                width=max(UNITS * lasts / last, 0.02),
                height=THICK,
            )
        )
        names.append(label(LEFT - 8, TOP + ROW * at + 12, shortened(op.name, LEFT - 8), "end", class_="tick"))
        data.append([op.name, op.engine.value, cores, start.start_cycles, cycles])
    part = tag(
        "svg",
        "".join(inner),
        class_="zoom",
        x=LEFT,
        y=TOP,
        width=WIDTH - LEFT - RIGHT,
        height=high,
        viewBox=f"0 0 {UNITS:g} {high:g}",
        preserveAspectRatio="none",
        data_last=repr(last),
    )
    axis = x_axis(scale, TOP, TOP + high, "cycles" if clock_hz is None else "µs", "xticks")
    used = {op.engine for _, op, _ in rows}
    is_mixed = any(start.mode is not Mode.ALL_CORES for start, _, _ in rows)
    return Figure(
        name=f"gantt-{title}",
        title=f"{title}: {schedule.makespan_cycles:,} cycles ({schedule.status}, bound {schedule.bound_cycles:,})",
        svg=drawing(TOP + high + 42, axis + "".join(names) + part, title),
        header=("operator", "engine", "cores", "start_cycles", "cycles"),
        rows=data,
        legend=[
            Series(key=engine.value, name=words, colour=colour)
            for engine, (words, colour) in ENGINES.items()
            if engine in used
        ],
        note="Paler bars run on one core, the others on all of their engine." if is_mixed else "",
        is_zoomable=True,
    )


def write_gantt_html(path: Path, charts: Sequence[tuple[str, ScheduleProblem, Schedule]]) -> None:
    """Write one HTML page with a chart per schedule; everything it needs is inside.

    Args:
        path: File to write.
        charts: Title, problem and schedule of each.
    """
    sections = [
        Section(title=title, body=figure_html(gantt_figure(title, problem, schedule)))
        for title, problem, schedule in charts
    ]
    lead = "Operators on the cores of one chip." if charts else "No schedule to show."
    write_page(path, title="Layer schedules", lead=lead, sections=sections)
