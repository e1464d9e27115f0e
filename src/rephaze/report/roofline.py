"""The roofline of a chip with a model's operators on it, as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rephaze.report.page import Section, figure, paragraph, table, write_page
from rephaze.types.chip import Chip
from rephaze.types.operator_estimate import OperatorEstimate
from rephaze.units import FLOPS_PER_TFLOPS, S_PER_US

COLOURS = {"array": "#2563eb", "lanes": "#9333ea", "buffer": "#d97706", "hbm": "#dc2626", "link": "#059669"}


def roofline_figure(chip: Chip, operators: Sequence[OperatorEstimate]) -> Any:
    """Operations a second against operations a byte of HBM; circles as large as the time they take."""
    import plotly.graph_objects as go

    shown = [op for op in operators if op.num_flops and op.hbm_bytes and op.time_s]
    plot = go.Figure()
    peak = chip.peak_flops_per_s
    ridge = peak / chip.hbm_bytes_per_s
    span = [0.1, ridge, max([100 * ridge, *(2 * op.num_flops / op.hbm_bytes for op in shown)])]
    plot.add_trace(
        go.Scatter(
            x=span,
            y=[min(peak, x * chip.hbm_bytes_per_s) / FLOPS_PER_TFLOPS for x in span],
            mode="lines",
            name="roof",
            line={"color": "#334155"},
        )
    )
    for resource, colour in COLOURS.items():
        bound = [op for op in shown if op.bound_by == resource]
        if not bound:
            continue
        plot.add_trace(
            go.Scatter(
                x=[op.num_flops / op.hbm_bytes for op in bound],
                y=[op.num_flops / op.time_s / FLOPS_PER_TFLOPS for op in bound],
                mode="markers",
                name=f"bound by {resource}",
                marker={"color": colour, "size": [8 + 60 * op.time_share**0.5 for op in bound], "opacity": 0.6},
                text=[f"{op.layer} {op.direction} {op.name}" for op in bound],
                hovertemplate="%{text}<br>%{x:.3g} flop/B<br>%{y:.3g} TFLOP/s<extra></extra>",
            )
        )
    plot.update_xaxes(type="log", title="operations a byte of HBM traffic")
    plot.update_yaxes(type="log", title="TFLOP/s")
    plot.update_layout(template="plotly_white", height=620, margin={"l": 60, "r": 20, "t": 30, "b": 50})
    return plot


def write_roofline(path: Path, title: str, chip: Chip, operators: Sequence[OperatorEstimate]) -> Path:
    """Write the page and return its path."""
    by_time = sorted(operators, key=lambda op: -op.time_share)[:40]
    rows = [
        [
            f"{op.layer} {op.direction} {op.name}",
            op.engine.value,
            f"{op.time_s / S_PER_US:,.1f}",
            f"{op.time_share:.1%}",
            op.bound_by,
            f"{op.tensor_utilization:.1%}" if op.num_flops else "",
        ]
        for op in by_time
    ]
    lead = (
        f"{chip.name}: {chip.peak_flops_per_s / FLOPS_PER_TFLOPS:,.1f} TFLOP/s, "
        f"HBM {chip.hbm_bytes_per_s / 1e9:,.0f} GB/s. Operators of one layer type each, on all cores; "
        "of causal attention the operations that are done, about half of its square."
    )
    sections = [
        Section(title="Roofline", body=figure(roofline_figure(chip, operators))),
        Section(
            title="Longest operators",
            body=paragraph("Share: of all operators of the model, one after the other.")
            + table(["operator", "engine", "time (us)", "share", "bound by", "of array peak"], rows),
        ),
    ]
    return write_page(path, title=title, lead=lead, sections=sections)
