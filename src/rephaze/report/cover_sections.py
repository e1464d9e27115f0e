"""What a page tells of a search by boxes: what closed the grid, and how near each value of a field came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rephaze.report.page import figure, paragraph, table
from rephaze.types.boxes import FieldReach
from rephaze.types.search import Certificate, SearchResult
from rephaze.units import GHZ, MIB

ANSWER, SOLVED, CLOSED = "#1c7c43", "#2456a6", "#c9d2df"
TITLES = {
    "num_tensor_cores": "tensor cores",
    "tensor_width": "rows of an array",
    "tensor_depth": "columns of an array",
    "num_vector_cores": "vector cores",
    "vector_lanes": "lanes of a vector core",
    "global_buffer_bytes": "global buffer (MiB)",
    "num_hbm_stacks": "HBM stacks",
    "clock_hz": "clock (GHz)",
    "num_inside_links": "links inside a node",
    "num_outside_links": "links outside a node",
    "node_size": "chips of a node",
    "num_chips": "chips",
}
MOST_LABELS = 16
"""Values named under an axis; of more every second, third ... is."""


def cover_body(proof: Certificate) -> str:
    """The grid of the space as it was closed: by what, in how many boxes."""
    boxes = proof.num_boxes or {}
    points = {"schedules and plans": proof.num_solved_exactly, "no plan fits": proof.num_infeasible}
    points |= proof.num_dropped_by_bound | ({"open": proof.num_open} if proof.num_open else {})
    words = {"schedules and plans": "solved exactly", "open": "left when the search stopped"}
    total = max(proof.num_designs, 1)
    rows = [
        [words.get(name, f"closed by: {name}"), f"{boxes.get(name, 0):,}", f"{num:,}", f"{num / total:.2%}"]
        for name, num in sorted(points.items(), key=lambda item: -item[1])
        if num
    ]
    num_boxes = sum(boxes.values())
    rows.append(["grid points of the space", f"{num_boxes:,}", f"{proof.num_designs:,}", "100.00%"])
    lead = (
        f"The grid of the space has {proof.num_designs:,} points: every combination of its values, whether it "
        f"keeps to the limits or not. They were not listed. {num_boxes:,} boxes, each a range of values in every "
        "field, cover the grid; no point lies in two. A box is closed as a whole: its best corner, a chip at "
        "least as fast as any design in it, does not reach the answer, or its smallest chip breaks a limit."
    )
    return paragraph(lead) + table(["what closed them", "boxes", "grid points", "share"], rows)


def reach_body(reaches: Sequence[FieldReach], result: SearchResult) -> str:
    """The section's HTML: a step along each field, and a figure of all its values."""
    lead = "The winner with one field changed and all others kept, with the best plans of the changed chip."
    rows = [_steps(one, result) for one in sorted(reaches, key=lambda one: -_least_loss(one, result))]
    note = (
        "Blue: the best chip with this value that was measured, in percent of the answer; hollow: the winner with "
        "this one field changed breaks a limit. Grey: the best bound of a box with this value when it was closed, "
        "or when the search stopped: nothing in the box wins; plans that cannot reach the answer are left out. "
        "Green: the answer. No bar: limits leave no design with this value, or none has a plan."
    )
    return (
        paragraph(lead)
        + table(["field", "a step less", "the answer", "a step more"], rows)
        + figure(reach_figure(reaches, result))
        + paragraph(note, "note")
    )


def reach_figure(reaches: Sequence[FieldReach], result: SearchResult) -> Any:
    """For each field a strip of its values: how near to the answer chips and boxes with it come."""
    from plotly.subplots import make_subplots

    num_rows = -(-len(reaches) // 2)
    plot = make_subplots(
        rows=num_rows,
        cols=2,
        subplot_titles=[TITLES[one.field] for one in reaches],
        vertical_spacing=0.34 / max(num_rows, 1),
        horizontal_spacing=0.08,
    )
    shown = [part for one in reaches for part in (*_parts(one.bound, result), *_known(one, result)) if part]
    for at, one in enumerate(reaches):
        place: dict[str, Any] = {"row": at // 2 + 1, "col": at % 2 + 1}
        names = [_value(one.field, value) for value in one.values]
        plot.add_bar(
            x=names,
            y=_parts(one.bound, result),
            marker={
                "color": [ANSWER if k == one.position else CLOSED for k in range(len(names))],
                "opacity": 0.55,
            },
            hovertemplate="%{x}: closed at %{y:.2f} % of the answer<extra></extra>",
            showlegend=False,
            **place,
        )
        known = [
            (name, part, k) for k, (name, part) in enumerate(zip(names, _known(one, result), strict=True)) if part
        ]
        plot.add_scatter(
            mode="lines+markers",
            x=[name for name, _, _ in known],
            y=[part for _, part, _ in known],
            line={"color": SOLVED, "width": 1},
            marker={
                "size": 7,
                "color": [SOLVED if one.fits[k] or one.solved[k] else "#fff" for _, _, k in known],
                "line": {"color": SOLVED, "width": 1.5},
            },
            hovertemplate="%{x}: %{y:.2f} % of the answer, measured<extra></extra>",
            showlegend=False,
            **place,
        )
        step = -(-len(names) // MOST_LABELS)
        plot.update_xaxes(
            type="category",
            categoryorder="array",
            categoryarray=names,
            range=[-0.5, len(names) - 0.5],
            tickvals=names[::step],
            tickangle=0,
            **place,
        )
    low, top = min(shown, default=0.0), max(shown, default=100.0)
    plot.update_yaxes(range=[max(0.0, low - 0.1 * (top - low)), top + 0.08 * (top - low)], ticksuffix=" %")
    plot.update_layout(
        template="plotly_white",
        height=80 + 190 * num_rows,
        margin={"l": 60, "r": 20, "t": 60, "b": 30},
        font={"family": "system-ui, sans-serif", "size": 12},
        bargap=0.15,
    )
    return plot


def _known(one: FieldReach, result: SearchResult) -> list[float]:
    """Of each value the best chip that was measured, in percent of the answer; 0 if none was."""
    best = []
    for solved, changed, fits in zip(one.solved, one.changed, one.fits, strict=True):
        # A chip that breaks a limit is shown only where there is no design to show.
        best.append(max(solved, changed or 0.0) if fits or not solved else solved)
    return _parts(best, result)


def _steps(one: FieldReach, result: SearchResult) -> list[str]:
    cells = [TITLES[one.field]]
    for k in (one.position - 1, one.position, one.position + 1):
        if not 0 <= k < len(one.values):
            cells.append("none in the space")
            continue
        value, changed = _value(one.field, one.values[k]), one.changed[k]
        if k == one.position:
            cells.append(value)
        elif changed is None:
            cells.append(f"{value}: not measured")
        else:
            loss = f"{changed / result.objective - 1:+.2%}" if changed > 0 else "no plan"
            cells.append(f"{value}: {loss}" + ("" if one.fits[k] else ", over a limit"))
    return cells


def _least_loss(one: FieldReach, result: SearchResult) -> float:
    """What the better of two steps that keep to the limits costs; minus one if none was measured."""
    near = [k for k in (one.position - 1, one.position + 1) if 0 <= k < len(one.values) and one.fits[k]]
    known = [changed for k in near if (changed := one.changed[k]) is not None]
    return 1 - max(known) / result.objective if known else -1.0


def _parts(values: Sequence[float], result: SearchResult) -> list[float]:
    """In percent of the answer."""
    return [100 * value / result.objective for value in values]


def _value(field: str, value: int) -> str:
    units = {"global_buffer_bytes": MIB, "clock_hz": GHZ}
    return f"{value / units[field]:g}" if field in units else str(value)
