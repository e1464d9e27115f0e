"""What a page tells of a search by boxes: what closed the grid, and how near each value of a field came."""

from __future__ import annotations

from collections.abc import Sequence

from rephaze.report.figure import Figure, Series, figure_html
from rephaze.report.page import paragraph, table
from rephaze.report.svg import WIDTH, Scale, drawing, label, number, round_ticks, tag
from rephaze.types.boxes import FieldReach
from rephaze.types.readable import FIELD_WORDS
from rephaze.types.search import Certificate, SearchResult
from rephaze.units import GHZ, MIB

STRIP_LEFT, STRIP_GAP, STRIP_TOP, STRIP_HIGH, STRIP_PITCH = 44.0, 8.0, 30.0, 110.0, 168.0
TITLES = FIELD_WORDS | {"global_buffer_bytes": "global buffer (MiB)", "clock_hz": "clock (GHz)"}
MOST_LABELS = 12
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
    return (
        paragraph(lead)
        + table(["field", "a step less", "the answer", "a step more"], rows)
        + figure_html(reach_figure(reaches, result))
    )


def reach_figure(reaches: Sequence[FieldReach], result: SearchResult) -> Figure:
    """For each field a strip of its values: how near to the answer chips and boxes with it come."""
    shown = [part for one in reaches for part in (*_parts(one.bound, result), *_known(one, result)) if part]
    low, top = min(shown, default=0.0), max(shown, default=100.0)
    least, most = max(0.0, low - 0.1 * (top - low)), top + 0.08 * ((top - low) or 1.0)
    body, rows = [], []
    for at, one in enumerate(reaches):
        left = (WIDTH - STRIP_GAP) / 2 * (at % 2) + STRIP_GAP * (at % 2) + STRIP_LEFT
        begin = STRIP_TOP + STRIP_PITCH * (at // 2)
        up = Scale(low=least, high=most, begin=begin + STRIP_HIGH, end=begin)
        body.append(_strip(one, result, left, (WIDTH - STRIP_GAP) / 2 - STRIP_LEFT, up))
        known = _known(one, result)
        rows += [
            [one.field, value, bound, part or None, fits]
            for value, bound, part, fits in zip(
                one.values, _parts(one.bound, result), known, one.fits, strict=True
            )
        ]
    height = STRIP_TOP + STRIP_PITCH * -(-len(reaches) // 2) - 18
    return Figure(
        name="fields",
        title="How near to the answer each value of a field comes",
        svg=drawing(height, "".join(body), "How near to the answer each value of a field comes"),
        header=("field", "value", "bound_percent_of_answer", "measured_percent_of_answer", "fits_limits"),
        rows=rows,
        legend=(
            Series(key="bound", name="best bound of a box with this value", colour="11"),
            Series(key="answer", name="the answer's value", colour="2"),
            Series(key="known", name="best chip measured with it", colour="1"),
        ),
        note=(
            "In percent of the answer. Hollow: the winner with this one field changed breaks a limit. A bound is "
            "of the moment its box was closed, or the search stopped: nothing in the box wins; plans that cannot "
            "reach the answer are left out. No bar: limits leave no design with this value, or none has a plan."
        ),
    )


def _strip(one: FieldReach, result: SearchResult, left: float, wide: float, up: Scale) -> str:
    """The values of one field side by side."""
    count = len(one.values)
    pitch, bottom = wide / count, up.begin
    parts = [label(left, up.end - 8, TITLES[one.field], class_="strong")]
    for value in round_ticks(up.low, up.high, 4):
        parts.append(tag("line", class_="grid", x1=left, x2=left + wide, y1=up(value), y2=up(value)))
        parts.append(label(left - 5, up(value) + 4, f"{value:g}%", "end", class_="tick"))
    every = -(-count // MOST_LABELS)
    dots = []
    columns = zip(one.values, _parts(one.bound, result), _known(one, result), strict=True)
    for k, (value, bound, part) in enumerate(columns):
        middle, name = left + pitch * (k + 0.5), _value(one.field, value)
        if bound:
            is_answer = k == one.position
            parts.append(
                tag(
                    "rect",
                    class_=("f2" if is_answer else "f11") + " see",
                    data_s="answer" if is_answer else "bound",
                    data_t=f"{TITLES[one.field]} {name}: closed at {bound:.2f} % of the answer",
                    x=middle - 0.42 * pitch,
                    y=up(bound),
                    width=0.84 * pitch,
                    height=max(bottom - up(bound), 0.0),
                )
            )
        if part:
            fits = one.fits[k] or one.solved[k] > 0
            dots.append(
                (middle, up(part), fits, f"{TITLES[one.field]} {name}: {part:.2f} % of the answer, measured")
            )
        if k % every == 0:
            parts.append(label(middle, bottom + 13, name, "middle", class_="tick small"))
    line = "M" + "L".join(f"{number(x)} {number(y)}" for x, y, _, _ in dots) if dots else ""
    marks = tag("path", class_="thin s1", d=line) if line else ""
    marks += "".join(
        tag("circle", class_="f1" if fits else "hollow s1", cx=x, cy=y, r=3.2, data_t=said)
        for x, y, fits, said in dots
    )
    return "".join(parts) + tag("g", marks or " ", data_s="known")


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
