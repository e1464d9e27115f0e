"""Throughput against area, energy and cost: every chip that was measured, the fronts, the limit, known chips."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rephaze.report.figure import Cell, Figure, Series
from rephaze.report.svg import CHAR_WIDTH, WIDTH, Scale, drawing, label, number, tag, x_axis, y_axis
from rephaze.types.pareto import ChipPoint, ChipPoints, PointKind
from rephaze.types.readable import amount
from rephaze.units import UM2_PER_MM2

LEFT, RIGHT, TOP, HEIGHT = 76.0, 22.0, 30.0, 360.0

KINDS = {
    PointKind.SOLVED: ("designs solved exactly", "1"),
    PointKind.CHANGED: ("the winner with one field changed", "6"),
    PointKind.KNOWN: ("known chips", "3"),
    PointKind.WINNER: ("the winner", "2"),
}
DROPPED, OPEN, FRONT, LIMIT = "dropped", "open", "front", "limit"
UNSOLVED = {DROPPED: ("designs dropped, at their bound", "8"), OPEN: ("designs left open, at their bound", "4")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsolved:
    """Designs that were not solved."""

    kind: str
    """A key of ``UNSOLVED``."""
    places: tuple[tuple[float, float], ...]
    """Of each, what is along x, and the bound of its throughput."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """What throughput is drawn against; less of it is better."""

    key: str
    tab: str
    axis: str
    column: str
    of: Callable[[ChipPoint], float]
    near: tuple[float, float] | None = None
    """Shows only what is between these parts of the area limit, and as much of throughput as that needs."""


def _area_mm2(point: ChipPoint) -> float:
    return point.area_um2 / UM2_PER_MM2


_AREA_AXIS, _AREA_COLUMN = "area of a chip (mm²)", "area_mm2"
AGAINST = (
    Against(key="area", tab="Area", axis=_AREA_AXIS, column=_AREA_COLUMN, of=_area_mm2),
    Against(
        key="area near the limit",
        tab="Area near the limit",
        axis=_AREA_AXIS,
        column=_AREA_COLUMN,
        of=_area_mm2,
        near=(0.85, 1.1),
    ),
    Against(
        key="energy",
        tab="Energy",
        axis="energy of a sample (J)",
        column="energy_per_sample_j",
        of=lambda point: point.energy_per_sample_j,
    ),
    Against(
        key="cost",
        tab="Cost",
        axis="die and memory of a chip (USD)",
        column="chip_usd",
        of=lambda point: point.chip_usd,
    ),
)


def front_of(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other beats, which have less at no lower throughput: by rising x and y."""
    found: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (point[0], -point[1])):
        if not found or y > found[-1][1]:
            found.append((x, y))
    return found


def tradeoff_figure(points: ChipPoints, against: Against, unit: str, unsolved: Sequence[Unsolved] = ()) -> Figure:
    """Points with the front of designs within the limits, and that of all chips.

    Args:
        points: Every measured chip.
        against: What is along x.
        unit: Of throughput.
        unsolved: Designs that were not solved.
    """
    limit_mm2 = points.area_limit_um2 / UM2_PER_MM2
    shown = [(against.of(one), one.samples_per_s, one) for one in points.points]
    first, last = (0.0, math.inf) if against.near is None else (part * limit_mm2 for part in against.near)
    # A die that no wafer holds has no cost, and no place beside those that have one.
    shown = [point for point in shown if first <= point[0] <= last and math.isfinite(point[0])]
    clouds = {one.kind: [place for place in one.places if first <= place[0] <= last] for one in unsolved}
    clouds = {kind: places for kind, places in clouds.items() if places}
    bounds = [place for places in clouds.values() for place in places]
    xs = [x for x, _, _ in shown] + [x for x, _ in bounds]
    ys = [y for _, y, _ in shown] + [y for _, y in bounds]
    is_area = against.column == _AREA_COLUMN
    most_x = 1.06 * max([*xs, limit_mm2] if is_area else xs, default=1.0)
    most_y = 1.08 * max(ys, default=1.0)
    least_y = 0.0 if against.near is None else 0.95 * min(ys, default=0.0)
    bottom = TOP + HEIGHT
    across = Scale(low=first, high=most_x if against.near is None else last, begin=LEFT, end=WIDTH - RIGHT)
    up = Scale(low=least_y, high=most_y, begin=bottom, end=TOP)
    body = [x_axis(across, TOP, bottom, against.axis), y_axis(up, LEFT, WIDTH - RIGHT, unit)]
    for kind, places in clouds.items():
        path = "".join(f"M{number(across(x))} {number(up(y))}h0" for x, y in places)
        body.append(f'<path class="cloud s{UNSOLVED[kind][1]}" data-s="{kind}" d="{path}"/>')
    fits = [(x, y) for x, y, one in shown if one.fits_limits and one.kind is not PointKind.KNOWN]
    everything = [(x, y) for x, y, _ in shown]
    body.append(_front(front_of(everything), across, up, across.high, "thin s8 dash"))
    body.append(_front(front_of(fits), across, up, across.high, "line s2"))
    if is_area:
        x = across(limit_mm2)
        body.append(tag("line", class_="limit", data_s=LIMIT, x1=x, x2=x, y1=TOP, y2=bottom))
        body.append(label(x + 5, bottom - 8, "area limit", class_="bad small", data_s=LIMIT))
    for kind, (words, colour) in KINDS.items():
        own = [(x, y, one) for x, y, one in shown if one.kind is kind]
        body.append(
            tag(
                "g",
                "".join(_mark(kind, colour, words, across, up, *point) for point in own) or " ",
                data_s=kind.value,
            )
        )
    body.append(tag("g", _names(shown, across, up) or " ", data_s=PointKind.KNOWN.value))
    rows: list[list[Cell]] = [
        [one.kind.value, one.name, one.samples_per_s, x, one.fits_limits] for x, _, one in shown
    ]
    rows += [[kind, None, bound, x, None] for kind, places in clouds.items() for x, bound in places]
    kinds = {one.kind for one in points.points}
    legend = [
        Series(key=kind.value, name=KINDS[kind][0], colour=KINDS[kind][1]) for kind in KINDS if kind in kinds
    ]
    legend += [Series(key=kind, name=UNSOLVED[kind][0], colour=UNSOLVED[kind][1]) for kind in clouds]
    legend += [Series(key=FRONT, name="fronts: within the limits (line), of all (dashes)", colour="2")]
    return Figure(
        name=f"throughput-{against.key}",
        title=f"Throughput against {against.key}",
        svg=drawing(bottom + 42, "".join(body), f"Throughput against {against.key}"),
        header=("kind", "chip", "samples_per_s", against.column, "fits_limits"),
        rows=rows,
        legend=legend,
        note="Up and to the left is better. Hollow: over a limit of the space. Every chip has its best plans.",
    )


def _front(points: Sequence[tuple[float, float]], across: Scale, up: Scale, most_x: float, style: str) -> str:
    if not points:
        return ""
    parts = [f"M{number(across(points[0][0]))} {number(up(points[0][1]))}"]
    parts += [f"H{number(across(x))}V{number(up(y))}" for x, y in points[1:]]
    parts.append(f"H{number(across(most_x))}")
    return f'<path class="{style}" data-s="{FRONT}" d="{"".join(parts)}"/>'


def _mark(
    kind: PointKind, colour: str, words: str, across: Scale, up: Scale, x: float, y: float, one: ChipPoint
) -> str:
    cost = f"{one.chip_usd:,.0f} USD" if math.isfinite(one.chip_usd) else "no cost: no such die fits a wafer"
    said = (
        f"{one.name}\n{words}\n{amount(one.samples_per_s, 5)} samples/s, {one.area_um2 / UM2_PER_MM2:,.1f} mm², "
        f"{amount(one.energy_per_sample_j)} J a sample, {cost}"
    )
    at = (across(x), up(y))
    style = f"f{colour} see" if one.fits_limits or kind is PointKind.KNOWN else f"hollow s{colour}"
    if kind is PointKind.WINNER:
        return tag("path", class_=f"f{colour} edge", data_t=said, d=_star(*at, 10.0))
    if kind is PointKind.KNOWN:
        return tag(
            "path",
            class_=f"f{colour} edge",
            data_t=said,
            d=f"M{number(at[0])} {number(at[1] - 6)}l6 6l-6 6l-6 -6z",
        )
    return tag("circle", class_=style, data_t=said, cx=at[0], cy=at[1], r=4.5)


def _star(x: float, y: float, size: float) -> str:
    corners = []
    for at in range(10):
        far = size if at % 2 == 0 else 0.45 * size
        angle = math.pi * (at / 5 - 0.5)
        corners.append(f"{number(x + far * math.cos(angle))} {number(y + far * math.sin(angle))}")
    return "M" + "L".join(corners) + "z"


def _names(shown: Sequence[tuple[float, float, ChipPoint]], across: Scale, up: Scale) -> str:
    """Names of known chips beside their marks, where they cover no mark and no other name if that can be."""
    taken = [(across(x) - 7, up(y) - 7, across(x) + 7, up(y) + 7) for x, y, _ in shown]
    parts = []
    known = [(across(x), up(y), one.name) for x, y, one in shown if one.kind is PointKind.KNOWN]
    for x, y, name in sorted(known, key=lambda item: item[1]):
        wide = 0.9 * CHAR_WIDTH * len(name)
        places = [(x + 9, y + 4), (x - 9 - wide, y + 4), (x - wide / 2, y - 11), (x - wide / 2, y + 18)]
        for step in (1, -1, 2, -2, 3):
            places += [(x - 9 - wide, y + 4 + 12 * step), (x + 9, y + 4 + 12 * step)]
        boxes = [(left, base - 10, left + wide, base + 2) for left, base in places]
        inside = [box for box in boxes if box[0] >= LEFT and box[2] <= WIDTH - RIGHT]
        free = [box for box in inside if not any(_overlap(box, other) for other in taken)]
        left, top, _, _ = chosen = (free or inside or boxes)[0]
        taken.append(chosen)
        parts.append(label(left, top + 10, name, class_="small soft halo"))
    return "".join(parts)


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
