"""A page about a validation: the scatter, errors by cause, the worst rows."""

from __future__ import annotations

from html import escape

from rephaze.types.truth import ValidatedRow, Validation

NUM_WORST = 40


def validation_page(found: Validation) -> str:
    """Whole HTML, with its drawings inside."""
    rows = [row for row in found.rows if row.is_scored and row.error is not None]
    parts = [_scatter(rows), _residuals(rows)] if rows else ["<p>No row has both times.</p>"]
    overall = found.overall.mean_absolute_error
    head = (
        "no scored rows" if overall is None else f"{100 * overall:.1f} % mean absolute error over {len(rows)} rows"
    )
    return "\n".join(
        [
            "<!doctype html><html><head><meta charset='utf-8'><title>Predicted and measured</title>",
            "<style>body{font-family:sans-serif;margin:2em;max-width:75em}td,th{padding:2px 8px;text-align:left}"
            "td.n{text-align:right}</style></head><body>",
            f"<h1>Predicted and measured step times</h1><p>Physics: {escape(found.constants)}; {head}.</p>",
            *parts,
            _worst(rows),
            _unmodelled(found),
            "</body></html>",
        ]
    )


def _scatter(rows: list[ValidatedRow]) -> str:
    import plotly.graph_objects as go

    figure = go.Figure()
    for source in sorted({row.source for row in rows}):
        mine = [row for row in rows if row.source == source]
        figure.add_scatter(
            x=[row.measured_s for row in mine],
            y=[row.predicted_s for row in mine],
            mode="markers",
            name=source,
            text=[f"{row.model} on {row.chip}: {row.plan}" for row in mine],
        )
    ends = [min(row.measured_s or 1 for row in rows), max(row.measured_s or 1 for row in rows)]
    figure.add_scatter(x=ends, y=ends, mode="lines", name="equal", line={"color": "black", "width": 1})
    figure.update_layout(
        xaxis={"type": "log", "title": "measured, s"}, yaxis={"type": "log", "title": "predicted, s"}, height=700
    )
    return str(figure.to_html(full_html=False, include_plotlyjs="inline"))


def _residuals(rows: list[ValidatedRow]) -> str:
    """Errors against the share of each cause: a cause that is priced wrong shows as a slope."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for cause in sorted({name for row in rows for name in row.causes}):
        shares = [row.causes.get(cause, 0.0) / sum(row.causes.values()) for row in rows]
        if max(shares) < 0.02:
            continue
        figure.add_scatter(
            x=shares,
            y=[100 * (row.error or 0.0) for row in rows],
            mode="markers",
            name=cause.removesuffix("_s"),
            text=[f"{row.source}: {row.model}" for row in rows],
            visible=True if cause == "compute_s" else "legendonly",
        )
    figure.update_layout(
        title="Error by the share of a cause",
        xaxis={"title": "share of the predicted time"},
        yaxis={"title": "error, %"},
        height=500,
    )
    return str(figure.to_html(full_html=False, include_plotlyjs=False))


def _worst(rows: list[ValidatedRow]) -> str:
    worst = sorted(rows, key=lambda row: -abs(row.error or 0.0))[:NUM_WORST]
    lines = "".join(
        f"<tr><td class='n'>{100 * (row.error or 0.0):+.0f} %</td><td class='n'>{row.measured_s:.3g}</td>"
        f"<td class='n'>{row.predicted_s:.3g}</td><td>{escape(row.source)}</td><td>{escape(row.model)}</td>"
        f"<td>{escape(row.chip)}</td><td>{escape(row.plan)}</td></tr>"
        for row in worst
    )
    heads = "".join(
        f"<th>{name}</th>" for name in ("error", "measured s", "predicted s", "source", "model", "chip", "plan")
    )
    return f"<h2>Worst rows</h2><table><tr>{heads}</tr>{lines}</table>"


def _unmodelled(found: Validation) -> str:
    lines = "".join(
        f"<tr><td>{escape(row.source)}</td><td>{escape(row.model)}</td><td>{escape(row.reason)}</td></tr>"
        for row in found.rows
        if row.reason
    )
    return f"<h2>Rows that are not modelled</h2><table>{lines}</table>" if lines else ""
