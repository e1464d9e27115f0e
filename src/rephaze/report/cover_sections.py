"""What a page tells of a search by boxes: what closed the grid, and how near each value of a field came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rephaze.report.page import figure, paragraph, table
from rephaze.types.boxes import FieldReach
from rephaze.types.search import Certificate, SearchResult
from rephaze.units import MIB

ANSWER, SOLVED, CLOSED = "#1c7c43", "#2456a6", "#c9d2df"
TITLES = {
    "num_tensor_cores": "tensor cores",
    "tensor_width": "rows of an array",
    "tensor_depth": "columns of an array",
    "num_vector_cores": "vector cores",
    "vector_lanes": "lanes of a vector core",
    "global_buffer_bytes": "global buffer (MiB)",
    "num_hbm_stacks": "HBM stacks",
}
MOST_LABELS = 16
"""Values named under an axis; of more every second, third ... is."""
NEAR = 0.99


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
    """The section's HTML: a figure, and which fields matter in words."""
    note = (
        "Grey: the best bound of a box with this value when it was closed, or when the search stopped. Blue: the "
        "best design with this value that was solved. Green: the answer. A field whose grey bars fall beside the "
        "answer matters; one whose bars stay level hardly does. A bound says that nothing in its box wins; plans "
        "that cannot reach the answer are left out of it."
    )
    return figure(reach_figure(reaches, result)) + paragraph(_in_words(reaches, result)) + paragraph(note, "note")


def reach_figure(reaches: Sequence[FieldReach], result: SearchResult) -> Any:
    """For each field a strip of its values: how near to the answer, in percent of it."""
    from plotly.subplots import make_subplots

    num_rows = -(-len(reaches) // 2)
    plot = make_subplots(
        rows=num_rows,
        cols=2,
        subplot_titles=[TITLES[one.field] for one in reaches],
        vertical_spacing=0.32 / max(num_rows, 1),
        horizontal_spacing=0.08,
    )
    least = min((part for one in reaches for part in _parts(one.bound, result) if part), default=0.0)
    for at, one in enumerate(reaches):
        row, col = at // 2 + 1, at % 2 + 1
        names = [_value(one.field, value) for value in one.values]
        solved = [(name, part) for name, part in zip(names, _parts(one.solved, result), strict=True) if part]
        plot.add_bar(
            name="best bound of a closed box",
            x=names,
            y=_parts(one.bound, result),
            marker={"color": [ANSWER if k == one.answer else CLOSED for k in range(len(names))]},
            hovertemplate="%{x}: at most %{y:.2f} % of the answer<extra></extra>",
            showlegend=False,
            row=row,
            col=col,
        )
        plot.add_scatter(
            name="best solved",
            mode="markers",
            x=[name for name, _ in solved],
            y=[part for _, part in solved],
            marker={"color": SOLVED, "size": 8},
            hovertemplate="%{x}: %{y:.2f} % of the answer, solved<extra></extra>",
            showlegend=False,
            row=row,
            col=col,
        )
        step = -(-len(names) // MOST_LABELS)
        shown = [name for k, name in enumerate(names) if k % step == 0 or k == one.answer]
        plot.update_xaxes(type="category", tickvals=shown, tickangle=0, row=row, col=col)
    top = max((part for one in reaches for part in _parts(one.bound, result)), default=100.0)
    low = max(0.0, least - 0.1 * (top - least) - 1.0)
    plot.update_yaxes(range=[low, top + 0.05 * (top - low)], ticksuffix=" %")
    plot.update_layout(
        template="plotly_white",
        height=60 + 190 * num_rows,
        margin={"l": 60, "r": 20, "t": 40, "b": 30},
        font={"family": "system-ui, sans-serif", "size": 12},
        bargap=0.15,
    )
    return plot


def _in_words(reaches: Sequence[FieldReach], result: SearchResult) -> str:
    """Of each field, the range of values within a percent of the answer."""
    said = []
    for one in reaches:
        near = [k for k, part in enumerate(_parts(one.bound, result)) if part >= 100 * NEAR]
        first, last = (_value(one.field, one.values[k]) for k in (near[0], near[-1])) if near else ("", "")
        values = first if first == last else f"{first} to {last}"
        said.append(f"{TITLES[one.field]} {values} ({len(near)} of {len(one.values)} values)")
    return f"Values with which a box came within 1 % of the answer: {'; '.join(said)}."


def _parts(values: Sequence[float], result: SearchResult) -> list[float]:
    """In percent of the answer."""
    return [100 * value / result.objective for value in values]


def _value(field: str, value: int) -> str:
    return f"{value / MIB:g}" if field == "global_buffer_bytes" else str(value)
