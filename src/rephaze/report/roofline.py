"""The roofline of a chip with a model's operators on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rephaze.report.figure import Figure, Series, figure_html
from rephaze.report.page import Section, paragraph, table, write_page
from rephaze.report.svg import WIDTH, Scale, drawing, label, number, tag, x_axis, y_axis
from rephaze.types.chip import Chip
from rephaze.types.operator_estimate import OperatorEstimate
from rephaze.types.readable import amount
from rephaze.units import FLOPS_PER_TFLOPS, GB, S_PER_US

LEFT, RIGHT, TOP, HEIGHT = 66.0, 22.0, 30.0, 360.0
BOUND_BY = {
    "array": ("bound by arrays", "1"),
    "lanes": ("bound by vector lanes", "6"),
    "buffer": ("bound by the global buffer", "4"),
    "hbm": ("bound by HBM", "7"),
    "link": ("bound by links", "3"),
}
MOST_LISTED = 40


def roofline_figure(chip: Chip, operators: Sequence[OperatorEstimate], name: str = "") -> Figure:
    """Operations a second against operations a byte of HBM; circles as large as the time they take.

    Args:
        chip: Whose roof.
        operators: Those without operations of the arrays are in the data, but not drawn.
        name: Of the model, if a page has several.
    """
    drawn = [op for op in operators if op.num_flops and op.hbm_bytes and op.time_s]
    peak, rate = chip.peak_flops_per_s / FLOPS_PER_TFLOPS, chip.hbm_bytes_per_s / FLOPS_PER_TFLOPS
    ridge = peak / rate
    places = {id(op): (op.num_flops / op.hbm_bytes, op.num_flops / op.time_s / FLOPS_PER_TFLOPS) for op in drawn}
    xs, ys = [x for x, _ in places.values()], [y for _, y in places.values()]
    across = Scale(
        low=min([0.05 * ridge, *(0.6 * x for x in xs)]),
        high=1.6 * max([8 * ridge, *xs]),
        begin=LEFT,
        end=WIDTH - RIGHT,
        is_log=True,
    )
    bottom = TOP + HEIGHT
    lowest = min([0.05 * peak, *(0.6 * y for y in ys)])
    up = Scale(low=lowest, high=2 * peak, begin=bottom, end=TOP, is_log=True)
    first = max(across.low, lowest / rate)
    beside = first * (ridge / first) ** 0.4
    roof = (
        f"M{number(across(first))} {number(up(first * rate))}L{number(across(ridge))} {number(up(peak))}"
        f"H{number(across(across.high))}"
    )
    body = [
        x_axis(across, TOP, bottom, "operations a byte of HBM traffic"),
        y_axis(up, LEFT, WIDTH - RIGHT, "TFLOP/s"),
        tag("path", class_="line s10", d=roof),
        label(
            across(across.high) - 4, up(peak) - 7, f"arrays: {amount(peak)} TFLOP/s", "end", class_="small soft"
        ),
        label(
            across(beside) + 10,
            up(beside * rate) + 8,
            f"HBM: {chip.hbm_bytes_per_s / GB:,.0f} GB/s",
            class_="small soft",
        ),
    ]
    for key, (_, colour) in BOUND_BY.items():
        own = sorted((op for op in drawn if op.bound_by == key), key=lambda op: -op.time_share)
        if own:
            body.append(
                tag("g", "".join(_circle(op, colour, places[id(op)], across, up) for op in own), data_s=key)
            )
    used = {op.bound_by for op in drawn}
    return Figure(
        name=f"roofline-{name}" if name else "roofline",
        title=f"Roofline of {name} on the chip" if name else f"Roofline of {chip.name}",
        svg=drawing(bottom + 42, "".join(body), "Roofline"),
        header=(
            *("layer", "direction", "operator", "engine", "bound_by", "num_times", "time_us", "time_share"),
            *("num_flops", "hbm_bytes", "tensor_utilization"),
        ),
        rows=[
            [
                *(
                    op.layer,
                    op.direction,
                    op.name,
                    op.engine.value,
                    op.bound_by,
                    op.num_times,
                    op.time_s / S_PER_US,
                ),
                *(op.time_share, op.num_flops, op.hbm_bytes, op.tensor_utilization),
            ]
            for op in operators
        ],
        legend=[
            Series(key=key, name=words, colour=colour) for key, (words, colour) in BOUND_BY.items() if key in used
        ],
        note=(
            "A circle for each operator of the arrays, as large as its part of the time, each on all cores; of "
            "causal attention the operations that are done. Operators of vector cores alone and of links have no "
            "place here."
        ),
    )


def _circle(op: OperatorEstimate, colour: str, place: tuple[float, float], across: Scale, up: Scale) -> str:
    said = (
        f"{op.layer} {op.direction}: {op.name}\n{amount(place[0])} operations a byte, {amount(place[1])} TFLOP/s\n"
        f"{amount(op.time_s / S_PER_US)} µs, {op.time_share:.1%} of the model's operators, bound by {op.bound_by}"
    )
    return tag(
        "circle",
        class_=f"f{colour} see edge",
        data_t=said,
        cx=across(place[0]),
        cy=up(place[1]),
        r=4 + 34 * op.time_share**0.5,
    )


def operators_table(operators: Sequence[OperatorEstimate]) -> str:
    """The operators that take longest."""
    by_time = sorted(operators, key=lambda op: -op.time_share)[:MOST_LISTED]
    rows = [
        [
            f"{op.layer} {op.direction} {op.name}",
            op.engine.value,
            f"{op.time_s / S_PER_US:,.1f}",
            f"{op.num_times:,}",
            f"{op.time_share:.1%}",
            op.bound_by,
            f"{op.tensor_utilization:.1%}" if op.num_flops else "",
        ]
        for op in by_time
    ]
    return table(["operator", "engine", "time (µs)", "times", "share", "bound by", "of array peak"], rows)


def write_roofline(path: Path, title: str, chip: Chip, operators: Sequence[OperatorEstimate]) -> Path:
    """Write the page and return its path."""
    lead = (
        f"{chip.name}: {chip.peak_flops_per_s / FLOPS_PER_TFLOPS:,.1f} TFLOP/s, "
        f"HBM {chip.hbm_bytes_per_s / GB:,.0f} GB/s. Operators of one layer type each, on all cores."
    )
    said = paragraph("Share: of all operators of the model, one after the other.")
    sections = [
        Section(title="Roofline", body=figure_html(roofline_figure(chip, operators))),
        Section(title="Longest operators", body=said + operators_table(operators)),
    ]
    return write_page(path, title=title, lead=lead, sections=sections)
