"""A chip drawn to scale by area, beside another at the same scale: where the silicon goes, not where it lies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rephaze.report.figure import Figure, Series
from rephaze.report.svg import CHAR_WIDTH, WIDTH, drawing, label, number, rows_of, tag
from rephaze.types.chip_items import ChipItems
from rephaze.units import GB, GIB, MIB, UM2_PER_MM2

GAP, TOP, MOST_SIDE = 40.0, 46.0, 350.0

ITEMS = (
    ("arrays_um2", "arrays", "1"),
    ("tensor_scratchpads_um2", "scratchpads of tensor cores", "6"),
    ("lanes_um2", "vector lanes", "4"),
    ("vector_scratchpads_um2", "scratchpads of vector cores", "9"),
    ("buffer_um2", "global buffer", "2"),
    ("hbm_um2", "HBM interfaces", "3"),
    ("links_um2", "links to other chips", "7"),
)
COLOUR = {name: colour for name, _, colour in ITEMS}
WORDS = {name: words for name, words, _ in ITEMS}


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of a drawing, in millimetres."""

    x: float
    y: float
    wide: float
    high: float


@dataclass(frozen=True, slots=True)
class Block:
    """A rectangle with what it is."""

    item: str
    box: Box
    said: str


def blocks_of(items: ChipItems) -> Iterator[Block]:
    """The chip as a square of rectangles as large as their items: interfaces outside, cores around the buffer."""
    chip, side = items.chip, math.sqrt(items.total_um2 / UM2_PER_MM2)
    mm2 = {name: getattr(items, name) / UM2_PER_MM2 for name, _, _ in ITEMS}
    left = right = 0.0
    if mm2["hbm_um2"] > 0:
        num_left = -(-chip.num_hbm_stacks // 2)
        left = mm2["hbm_um2"] * num_left / chip.num_hbm_stacks / side
        right = mm2["hbm_um2"] / side - left
        said = f"{chip.hbm_bytes_per_s / chip.num_hbm_stacks / GB:,.0f} GB/s"
        yield from _column("hbm_um2", Box(0.0, 0.0, left, side), num_left, f"interface of an HBM stack, {said}")
        num_right = chip.num_hbm_stacks - num_left
        yield from _column("hbm_um2", Box(side - right, 0.0, right, side), num_right, f"HBM stack, {said}")
    wide = side - left - right
    heights = [
        (mm2["arrays_um2"] + mm2["tensor_scratchpads_um2"]) / wide,
        mm2["buffer_um2"] / wide,
        (mm2["lanes_um2"] + mm2["vector_scratchpads_um2"]) / wide,
        mm2["links_um2"] / wide,
    ]
    y = 0.0
    tops = [y := y + high for high in (0.0, *heights)]
    boxes = [Box(left, top, wide, bottom - top) for top, bottom in pairwise(tops)]
    array = f"{chip.tensor_width} x {chip.tensor_depth} array"
    yield from _cores(boxes[0], chip.num_tensor_cores, mm2, ("arrays_um2", "tensor_scratchpads_um2"), array)
    yield Block("buffer_um2", boxes[1], f"global buffer, {chip.global_buffer_bytes / MIB:,.4g} MiB")
    lanes = f"{chip.vector_lanes:,} lanes"
    yield from _cores(boxes[2], chip.num_vector_cores, mm2, ("lanes_um2", "vector_scratchpads_um2"), lanes)
    if mm2["links_um2"] > 0:
        yield Block("links_um2", boxes[3], "links to other chips")


def _column(item: str, box: Box, count: int, said: str) -> Iterator[Block]:
    for at in range(count):
        high = box.high / count
        yield Block(item, Box(box.x, box.y + at * high, box.wide, high), said)


def _cores(box: Box, count: int, mm2: dict[str, float], items: tuple[str, str], said: str) -> Iterator[Block]:
    """Cores in rows, each with its scratchpad below; a row is as high as its share of the cores."""
    unit, memory = items
    part = mm2[unit] / ((mm2[unit] + mm2[memory]) or 1.0)
    y = box.y
    for row in rows_of(count, box.wide, box.high):
        high = box.high * row / count
        for at in range(row):
            cell = Box(box.x + at * box.wide / row, y, box.wide / row, high)
            yield Block(unit, Box(cell.x, cell.y, cell.wide, cell.high * part), f"{said} of a core")
            below = Box(cell.x, cell.y + cell.high * part, cell.wide, cell.high * (1 - part))
            yield Block(memory, below, WORDS[memory])
        y += high


def chips_figure(own: ItemsNamed, other: ItemsNamed | None) -> Figure:
    """Both chips as squares at one scale, with a bar of ten millimetres."""
    chips = [own] if other is None else [own, other]
    sides = [math.sqrt(one.items.total_um2 / UM2_PER_MM2) for one in chips]
    scale = MOST_SIDE / max(sides)
    used = scale * sum(sides) + GAP * (len(chips) - 1)
    x, parts = (WIDTH - used) / 2, []
    for one, side in zip(chips, sides, strict=True):
        parts.append(_drawn(one, x, TOP + scale * (max(sides) - side), scale, side))
        x += scale * side + GAP
    bottom = TOP + scale * max(sides)
    ten = 10 * scale
    parts.append(tag("line", class_="s10", x1=WIDTH - 20 - ten, x2=WIDTH - 20, y1=bottom + 22, y2=bottom + 22))
    parts.append(label(WIDTH - 28 - ten, bottom + 26, "10 mm", "end", class_="tick"))
    rows = [
        [one.name, words, getattr(one.items, name) / UM2_PER_MM2, getattr(one.items, name) / one.items.total_um2]
        for one in chips
        for name, words, _ in ITEMS
    ]
    return Figure(
        name="chip",
        title="The silicon, to scale by area" + (f": {own.name} beside {other.name}" if other else ""),
        svg=drawing(bottom + 36, "".join(parts), "Chips drawn to scale by area"),
        header=("chip", "item", "area_mm2", "share"),
        rows=rows,
        legend=[
            Series(key=name, name=words, colour=colour)
            for name, words, colour in ITEMS
            if any(getattr(one.items, name) > 0 for one in chips)
        ],
        note=(
            "Every rectangle is as large as what it stands for; where things lie on a die is not decided here. "
            "Both by the area model of the search, so that they compare; control logic and host interface are not "
            "in it."
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemsNamed:
    """A chip's items with the name it is shown by."""

    name: str
    items: ChipItems


def _drawn(one: ItemsNamed, x: float, y: float, scale: float, side: float) -> str:
    items, chip = one.items, one.items.chip
    body = []
    for block in blocks_of(items):
        box = block.box
        share = box.wide * box.high / (side * side)
        said = f"{block.said}\n{box.wide * box.high:,.2f} mm², {share:.2%} of the chip"
        body.append(
            tag(
                "rect",
                class_=f"f{COLOUR[block.item]} edge",
                data_s=block.item,
                data_t=said,
                x=x + scale * box.x,
                y=y + scale * box.y,
                width=scale * box.wide,
                height=scale * box.high,
            )
        )
        text = block.said if block.item == "buffer_um2" else ""
        if text and scale * box.high > 16 and scale * box.wide > CHAR_WIDTH * len(text):
            middle = x + scale * (box.x + box.wide / 2)
            height = y + scale * (box.y + box.high / 2) + 4
            body.append(label(middle, height, text, "middle", class_="on strong", data_s=block.item))
    frame = tag("rect", class_="frame", x=x, y=y, width=scale * side, height=scale * side)
    cores = (
        f"{chip.num_tensor_cores} x {chip.tensor_width}x{chip.tensor_depth} · {chip.num_vector_cores} x "
        f"{chip.vector_lanes} lanes · {chip.hbm_bytes / GIB:,.4g} GiB"
    )
    title = label(x, y - 24, f"{one.name}, {number(items.total_um2 / UM2_PER_MM2)} mm²", class_="strong")
    return title + label(x, y - 8, cores, class_="tick") + "".join(body) + frame
