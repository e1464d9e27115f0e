"""Boxes as a cover of a grid: inside it, no two with a point in common, together every point. Whole numbers only.

Boxes without a common point whose points add up to those of the grid cover it: neither alone is enough, since a
point covered twice makes up for one left out.

Axis letters: b = box, f = field.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rephaze.types.boxes import ClosedBox, OpenBox
from rephaze.verify.findings import Wrong

Ints = NDArray[np.int64]
Box = ClosedBox | OpenBox

FEW = 48
"""Boxes compared each with each."""


def wrong_cover(shape: Sequence[int], boxes: Sequence[Box]) -> Wrong:
    """What keeps boxes from covering a grid once.

    Args:
        shape: Positions of each field.
        boxes: All of them.
    """
    outside = [box for box in boxes if not _is_inside(shape, box)]
    yield from (f"{said(box)} is no box of a grid of {list(shape)}" for box in outside)
    if outside or not boxes:
        if not boxes:
            yield "no box is recorded"
        return
    first_bf = np.array([box.first for box in boxes], dtype=np.int64)
    last_bf = np.array([box.last for box in boxes], dtype=np.int64)
    for one, other in overlaps(first_bf, last_bf):
        yield f"{said(boxes[one])} and {said(boxes[other])} have designs in common"
        return
    num_covered, num_points = sum(box.num_points for box in boxes), math.prod(shape)
    if num_covered != num_points:
        yield f"{num_points - num_covered:,} of {num_points:,} grid points are in no box"


def said(box: Box) -> str:
    """A box in a few words."""
    return " ".join(f"{low}-{high}" for low, high in zip(box.first, box.last, strict=True))


def overlaps(first_bf: Ints, last_bf: Ints) -> Iterator[tuple[int, int]]:
    """Pairs of boxes with a common point; if there are any, at least one of them.

    Boxes with a common point are on the same side of any cut of a field on which that point is. So sets are cut,
    a box across the cut going to both sides, until they are small.
    """
    todo = [np.arange(len(first_bf))]
    while todo:
        members = todo.pop()
        sides = _cut(first_bf, last_bf, members) if len(members) > FEW else None
        if sides is not None:
            todo.extend(sides)
            continue
        low_bf, high_bf = first_bf[members], last_bf[members]
        for at in range(len(members) - 1):
            meets_b = ((low_bf[at + 1 :] <= high_bf[at]) & (low_bf[at] <= high_bf[at + 1 :])).all(axis=1)
            for other in (np.flatnonzero(meets_b) + at + 1).tolist():
                yield int(members[at]), int(members[other])


def _cut(first_bf: Ints, last_bf: Ints, members: NDArray[np.intp]) -> tuple[NDArray[np.intp], ...] | None:
    """Both sides of the cut that leaves least on the larger one; None if no cut leaves less than all."""
    best: tuple[int, int, int] | None = None
    for f in range(first_bf.shape[1]):
        starts = first_bf[members, f]
        ends = last_bf[members, f]
        for at in {int(np.quantile(starts, part, method="nearest")) for part in (0.25, 0.5, 0.75, 1.0)}:
            larger = max(int((starts < at).sum()), int((ends >= at).sum()))
            if best is None or larger < best[0]:
                best = larger, f, at
    if best is None or best[0] >= len(members):
        return None
    _, f, at = best
    return members[first_bf[members, f] < at], members[last_bf[members, f] >= at]


def _is_inside(shape: Sequence[int], box: Box) -> bool:
    if len(box.first) != len(shape) or len(box.last) != len(shape):
        return False
    return all(0 <= low <= high < size for low, high, size in zip(box.first, box.last, shape, strict=True))
