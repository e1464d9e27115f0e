"""A page about a validation: the scatter, errors by cause, the worst rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rephaze.report.figure import Figure, Series, figure_html
from rephaze.report.page import Section, paragraph, table, tabs, write_page
from rephaze.report.svg import WIDTH, Scale, drawing, tag, x_axis, y_axis
from rephaze.types.truth import ValidatedRow, Validation

NUM_WORST = 40
NUM_COLOURS = 8
LEFT, RIGHT, TOP, HEIGHT = 70.0, 20.0, 34.0, 430.0
LEAST_SHARE = 0.02
"""Causes that never take more of a step are not drawn."""


def write_validation(path: Path, found: Validation) -> Path:
    """Write the page and return its path."""
    rows = [row for row in found.rows if row.is_scored and row.error is not None]
    overall = found.overall.mean_absolute_error
    head = (
        "no scored rows" if overall is None else f"{100 * overall:.1f} % mean absolute error over {len(rows)} rows"
    )
    sections = [Section(title="Measured and predicted", body=paragraph("No row has both times."))]
    if rows:
        panels = [(figure.name, figure_html(figure)) for figure in cause_figures(rows)]
        said = paragraph("A cause that is priced wrong shows as a slope.")
        sections = [
            Section(title="Measured and predicted", body=figure_html(scatter_figure(rows))),
            Section(title="Error by the share of a cause", body=said + tabs("Causes", panels)),
            Section(title="Worst rows", body=_worst(rows)),
        ]
    unmodelled = [[row.source, row.model, row.reason] for row in found.rows if row.reason]
    if unmodelled:
        body = table(["source", "model", "why"], unmodelled, texts=(1, 2))
        sections.append(Section(title="Rows that are not modelled", body=body))
    lead = f"Step times of training runs. Physics: {found.constants}; {head}."
    return write_page(path, title="Predicted and measured step times", lead=lead, sections=sections)


def scatter_figure(rows: Sequence[ValidatedRow]) -> Figure:
    """Predicted against measured times, both in powers of ten; on the line they are equal."""
    times = [time for row in rows for time in (row.measured_s, row.predicted_s) if time]
    low, high, bottom = min(times) / 1.3, max(times) * 1.3, TOP + HEIGHT
    across = Scale(low=low, high=high, begin=LEFT, end=WIDTH - RIGHT, is_log=True)
    up = Scale(low=low, high=high, begin=bottom, end=TOP, is_log=True)
    body = [
        x_axis(across, TOP, bottom, "measured (s)"),
        y_axis(up, LEFT, WIDTH - RIGHT, "predicted (s)"),
        tag("line", class_="frame", x1=across(low), y1=up(low), x2=across(high), y2=up(high)),
    ]
    legend = []
    for at, source in enumerate(sorted({row.source for row in rows})):
        series = Series(key=f"source-{at}", name=source, colour=str(at % NUM_COLOURS + 1))
        marks = "".join(
            _mark(across(row.measured_s), up(row.predicted_s), series.colour, row)
            for row in rows
            if row.source == source and row.measured_s and row.predicted_s
        )
        body.append(tag("g", marks or " ", data_s=series.key))
        legend.append(series)
    return Figure(
        name="measured-and-predicted",
        title="Predicted against measured",
        svg=drawing(bottom + 42, "".join(body), "Predicted against measured step times"),
        header=("source", "model", "machine", "plan", "measured_s", "predicted_s", "error"),
        rows=[
            [row.source, row.model, row.machine, row.plan, row.measured_s, row.predicted_s, row.error]
            for row in rows
        ],
        legend=legend,
        note="On the line both are equal; above it too long a time is predicted.",
    )


def cause_figures(rows: Sequence[ValidatedRow]) -> list[Figure]:
    """For each cause the errors against its share of the predicted time, the largest cause first."""
    errors = [100 * (row.error or 0.0) for row in rows]
    low, high, bottom = min(*errors, 0.0), max(*errors, 0.0), TOP + HEIGHT
    room = 0.05 * (high - low) or 1.0
    share_of = {
        cause: [row.causes.get(cause, 0.0) / (sum(row.causes.values()) or 1.0) for row in rows]
        for cause in sorted({name for row in rows for name in row.causes})
    }
    found = []
    for cause, shares in sorted(share_of.items(), key=lambda item: -sum(item[1])):
        if max(shares) < LEAST_SHARE:
            continue
        across = Scale(low=0.0, high=1.05 * max(shares), begin=LEFT, end=WIDTH - RIGHT)
        up = Scale(low=low - room, high=high + room, begin=bottom, end=TOP)
        marks = "".join(
            _mark(across(share), up(error), "1", row)
            for share, error, row in zip(shares, errors, rows, strict=True)
        )
        name = cause.removesuffix("_s").replace("_", " ")
        body = [
            x_axis(across, TOP, bottom, f"{name}: share of the predicted time"),
            y_axis(up, LEFT, WIDTH - RIGHT, "error (%)"),
            tag("line", class_="frame", x1=LEFT, x2=WIDTH - RIGHT, y1=up(0.0), y2=up(0.0)),
            marks,
        ]
        figure = Figure(
            name=name,
            title=f"Error by the share of {name}",
            svg=drawing(bottom + 42, "".join(body), f"Error by the share of {name}"),
            header=("source", "model", "share", "error_percent"),
            rows=[
                [row.source, row.model, share, error]
                for share, error, row in zip(shares, errors, rows, strict=True)
            ],
        )
        found.append(figure)
    return found


def _mark(x: float, y: float, colour: str, row: ValidatedRow) -> str:
    said = f"{row.source}\n{row.model} on {row.machine}\n{row.plan}\n{100 * (row.error or 0.0):+.1f} %"
    return tag("circle", class_=f"f{colour} see edge", data_t=said, cx=x, cy=y, r=4.0)


def _worst(rows: Sequence[ValidatedRow]) -> str:
    worst = sorted(rows, key=lambda row: -abs(row.error or 0.0))[:NUM_WORST]
    cells = [
        [
            row.source,
            f"{100 * (row.error or 0.0):+.0f} %",
            f"{row.measured_s or 0.0:.3g}",
            f"{row.predicted_s or 0.0:.3g}",
            row.model,
            row.machine,
            row.plan,
        ]
        for row in worst
    ]
    header = ["source", "error", "measured (s)", "predicted (s)", "model", "chip", "plan"]
    return table(header, cells, texts=(4, 5, 6))
