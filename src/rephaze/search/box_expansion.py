"""Boxes cut, closed or split.

A box is tried by halves, one field at a time: halves that a bound closes are cut off, all at once, first by device
time, which costs next to nothing. If no half is closed, the box itself is bounded further where that may close it,
and else split in the field that moves its bounds most.

Axis letters: b = box, f = field, j = half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.grid import LIMITS, Boxes, DesignGrid
from rephaze.measure.model_bounds import ModelBounds
from rephaze.search.box_bounds import (
    ALL_RUNGS,
    BEST_LAYERS,
    BEST_UNITS,
    DEVICE_ONLY,
    LAYER_REACH,
    BoxBounding,
    Reach,
)
from rephaze.search.corner_plans import CornerPlans, Rung
from rephaze.search.evaluator import Preparation
from rephaze.types.boxes import ClosedBox, Expansion, Goal, OpenBox, Position, UnitTimes
from rephaze.types.stopping import StopSignal

Ints = NDArray[np.int64]

TIES = "a tie at most, of a larger chip"
PLACE_REACH = 1.25
"""Plans on mapped products are looked at for a box, not only for a design alone, where bounds are this near."""
HURRY_REACH = 1.08
"""Schedules likewise."""
MANY_PLACE_REACH, MANY_HURRY_REACH = 1.08, 1.05
"""Both for several models, of each of which it takes as long."""
MIXTURE_REACH = 1.025
"""Both for a mixture: packing leaves little for schedules to say, and there are many of them."""
MAX_ROUNDS = 16
"""Of cutting by device time."""
TIE = 1e-12


@dataclass(frozen=True, eq=False, slots=True)
class _Half:
    """One half of a box, along one field."""

    field: int
    first: Position
    last: Position
    upper: float
    by: str
    times: tuple[UnitTimes, ...]


class BoxExpansion:
    """Some boxes expanded, side by side.

    Args:
        models: Of the search.
        grid: Of its space.
        boxes: The boxes.
        goal: What designs must reach.
        stop: Ends the work with ``StoppedError``.
    """

    def __init__(
        self, models: Preparation, grid: DesignGrid, boxes: Sequence[OpenBox], goal: Goal, stop: StopSignal
    ) -> None:
        self._models, self._grid, self._goal, self._stop = models, grid, goal, stop
        # With other models to make good what one lacks, few units are out for sure, and mixtures have hundreds:
        # only the best are looked at.
        self._is_much = models.is_much
        reaches = (MANY_PLACE_REACH, MANY_HURRY_REACH) if models.is_of_many else (MIXTURE_REACH, MIXTURE_REACH)
        self._place_reach, self._hurry_reach = reaches
        self._left: dict[int, OpenBox] = dict(enumerate(boxes))
        """What of each box is neither closed nor given back."""
        self._closed: list[list[ClosedBox]] = [[] for _ in boxes]
        self._open: list[list[OpenBox]] = [[] for _ in boxes]

    def run(self) -> list[Expansion]:
        """What becomes of each box; ``StoppedError`` when cut."""
        large = self._close_by_limits()
        halves = self._cut_by_device_time(large)
        if self._goal.has_answer:
            near = [b for b in halves if any(self._is_within(half.upper, LAYER_REACH) for half in halves[b])]
            finer = self._halves(near, large, BEST_LAYERS if self._is_much else Reach())
            for b in near:
                if self._cut(b, finer[b]):
                    self._give_back(b)
            halves |= {b: finer[b] for b in near}
        self._finish(large)
        for b in list(self._left):
            self._split(b, halves[b])
        return [
            Expansion(closed=tuple(closed), open=tuple(opened))
            for closed, opened in zip(self._closed, self._open, strict=True)
        ]

    def _is_within(self, upper: float, reach: float) -> bool:
        return upper <= self._goal.threshold * reach

    def _is_closed(self, upper: float) -> bool:
        return upper <= 0 or upper < self._goal.threshold

    def _give_back(self, b: int) -> None:
        """Leave what is left of a box open, to be expanded again in its turn."""
        if b in self._left:
            self._open[b].append(self._left.pop(b))

    # Corners

    def _close_by_limits(self) -> dict[int, Position]:
        """The large corners of the boxes in which something keeps to the limits."""
        return self._corners(list(self._left))

    def _corners(self, asked: Sequence[int]) -> dict[int, Position]:
        if not asked:
            return {}
        corners = self._grid.corners(_ranges([self._left[b] for b in asked]))
        for b, by in zip(asked, corners.closed_by_b.tolist(), strict=True):
            if by >= 0:
                self._close(b, 0.0, LIMITS[by])
        return {
            b: as_position(large_f) for b, large_f in zip(asked, corners.large_bf, strict=True) if b in self._left
        }

    def _close(self, b: int, bound: float, by: str) -> None:
        box = self._left.pop(b)
        self._closed[b].append(ClosedBox(first=box.first, last=box.last, bound=max(bound, 0.0), closed_by=by))

    # Halves

    def _cut_by_device_time(self, large: dict[int, Position]) -> dict[int, list[_Half]]:
        """Cut until nothing more falls; the halves of what is left. Corners follow."""
        halves: dict[int, list[_Half]] = {}
        asked = list(self._left)
        for _ in range(MAX_ROUNDS):
            found = self._halves(asked, large, DEVICE_ONLY)
            asked = [b for b in asked if self._cut(b, found[b])]
            halves |= found
            asked = [b for b in asked if b in self._left]
            if not asked:
                break
            large |= self._corners(asked)
            asked = [b for b in asked if b in self._left]
        else:
            halves |= self._halves(asked, large, DEVICE_ONLY)
        return {b: halves[b] for b in self._left}

    def _halves(self, asked: Sequence[int], large: dict[int, Position], reach: Reach) -> dict[int, list[_Half]]:
        """Both halves of each box along every field in which it has two."""
        parts: list[tuple[int, int, Position, Position]] = []
        for b in asked:
            box = self._left[b]
            for f, (low, high) in enumerate(zip(box.first, large[b], strict=True)):
                if low < high:
                    middle = (low + high) // 2
                    parts.append((b, f, box.first, _with(box.last, f, middle)))
                    parts.append((b, f, _with(box.first, f, middle + 1), box.last))
        found: dict[int, list[_Half]] = {b: [] for b in asked}
        if not parts:
            return found
        ends = np.array([(first, last) for _, _, first, last in parts], dtype=np.int64)
        times = [self._left[b].times for b, _, _, _ in parts]
        bounding = BoxBounding(
            self._models, self._grid, Boxes(ends[:, 0], ends[:, 1]), times, self._goal, self._stop
        )
        bounds = bounding.run(reach)
        for j, (b, f, first, last) in enumerate(parts):
            upper, by = float(bounds.upper_b[j]), bounds.by_b[j]
            if upper >= self._left[b].upper:
                upper, by = self._left[b].upper, self._left[b].bounded_by
            found[b].append(_Half(f, first, last, upper, by, bounds.times[j]))
        return found

    def _cut(self, b: int, halves: Sequence[_Half]) -> bool:
        """Cut off every half that its bound closes; whether there was one."""
        box = self._left[b]
        first, last = list(box.first), list(box.last)
        for half in halves:
            if not self._is_closed(half.upper):
                continue
            f = half.field
            low, high = max(first[f], half.first[f]), min(last[f], half.last[f])
            if low > high:
                continue
            self._closed[b].append(
                ClosedBox(
                    first=_with(tuple(first), f, low),
                    last=_with(tuple(last), f, high),
                    bound=max(half.upper, 0.0),
                    closed_by=half.by,
                )
            )
            if low == first[f]:
                first[f] = high + 1
            else:
                last[f] = low - 1
            if first[f] > last[f]:
                del self._left[b]
                return True
        if (tuple(first), tuple(last)) == (box.first, box.last):
            return False
        rest = replace(box, first=tuple(first), last=tuple(last))
        for half in halves:
            if _is_inside(rest, half):
                rest = _narrowed(rest, half)
        self._left[b] = rest
        return True

    def _split(self, b: int, halves: Sequence[_Half]) -> None:
        """Leave both halves along one field open."""
        box = self._left.pop(b)

        def fall(f: int) -> float:
            """How much longer the best batches of both halves may be."""
            return sum(1.0 / half.upper for half in halves if half.field == f)

        f = max(sorted({half.field for half in halves}), key=fall)
        for half in halves:
            if half.field == f:
                self._open[b].append(_narrowed(replace(box, first=half.first, last=half.last), half))

    # The box itself

    def _finish(self, large: dict[int, Position]) -> None:
        """Bound boxes as far as may close them; single designs that stay are to be solved."""
        single = {b for b in self._left if self._left[b].first == large[b]}
        near = [b for b in self._left if b in single or self._is_within(self._left[b].upper, PLACE_REACH)]
        if not near:
            return
        times = [self._left[b].times for b in near]
        ranges = _ranges([self._left[b] for b in near])
        bounding = BoxBounding(self._models, self._grid, ranges, times, self._goal, self._stop)
        bounds = bounding.run(BEST_UNITS if self._is_much else ALL_RUNGS)
        for at, b in enumerate(near):
            upper, by = float(bounds.upper_b[at]), bounds.by_b[at]
            box = self._left[b]
            if upper < box.upper:
                box = replace(box, upper=upper, bounded_by=by)
            self._left[b] = box = replace(box, times=bounds.times[at])
            if self._is_closed(upper):
                if 0 < box.upper >= self._goal.matters_later:
                    # It only fell below a margin: what was found of it is not to be found again.
                    self._give_back(b)
                else:
                    self._close(b, box.upper, box.bounded_by)
                continue
            if b in single or not self._is_much or self._is_within(box.upper, self._place_reach):
                self._plan(b, large[b], bounding.layers(at))
            if b in self._left and b in single:
                self._make_ready(b)

    def _plan(self, b: int, large: Position, layers: list[ModelBounds]) -> None:
        """Plans on mapped products, then on what little work proves of schedules."""
        box = self._left[b]
        if self._goal.has_answer:
            plans = CornerPlans(self._models, self._grid, box.first, large, layers, self._stop)
            reach = self._hurry_reach if self._is_much else HURRY_REACH
            for rung in plans.rungs:
                if rung is Rung.HURRIED and box.first != large and not self._is_within(box.upper, reach):
                    break
                found = plans.bounded(box, rung, self._goal)
                if found.box is None:
                    self._close(b, min(box.upper, self._goal.threshold), rung.says)
                    return
                self._left[b] = box = found.box
                if found.is_closed:
                    self._give_back(b)
                    return
        if box.upper <= self._goal.objective * (1 + TIE):
            area_um2 = float(self._grid.area_um2(np.array([box.first], dtype=np.int64))[0])
            if area_um2 > self._goal.area_um2 * (1 + TIE):
                self._close(b, box.upper, TIES)

    def _make_ready(self, b: int) -> None:
        """Give a design back to be solved, and close what of its box does not fit beside it."""
        box = self._left.pop(b)
        self._open[b].append(replace(box, last=box.first, is_ready=True))
        pieces, high = [], box.last
        for f, at in enumerate(box.first):
            if high[f] > at:
                pieces.append((_with(box.first, f, at + 1), high))
                high = _with(high, f, at)
        if not pieces:
            return
        ends = np.array(pieces, dtype=np.int64)
        closed_by = self._grid.corners(Boxes(ends[:, 0], ends[:, 1])).closed_by_b.tolist()
        assert min(closed_by) >= 0, "a large corner that is the small one leaves no other design"
        self._closed[b].extend(
            ClosedBox(first=first, last=last, bound=0.0, closed_by=LIMITS[by])
            for (first, last), by in zip(pieces, closed_by, strict=True)
        )


def as_position(at_f: Ints) -> Position:
    """A row of positions as plain numbers."""
    return tuple(int(at) for at in at_f)


def _with(position: Position, f: int, at: int) -> Position:
    return (*position[:f], at, *position[f + 1 :])


def _ranges(boxes: Sequence[OpenBox]) -> Boxes:
    ends = np.array([(box.first, box.last) for box in boxes], dtype=np.int64)
    return Boxes(ends[:, 0], ends[:, 1])


def _is_inside(box: OpenBox, half: _Half) -> bool:
    return half.first[half.field] <= box.first[half.field] and box.last[half.field] <= half.last[half.field]


def _narrowed(box: OpenBox, half: _Half) -> OpenBox:
    """A box inside a half, with what is known of that."""
    if half.upper < box.upper:
        box = replace(box, upper=half.upper, bounded_by=half.by)
    return replace(box, times=_slower(box.times, half.times))


def _slower(known: tuple[UnitTimes, ...], found: tuple[UnitTimes, ...]) -> tuple[UnitTimes, ...]:
    """Units that are open in both of two boxes around one, each with the longer of its times."""
    if not known or not found:
        return found or known
    joined = []
    for one, other in zip(known, found, strict=True):
        first, second = (dict(zip(own.unit_u, own.batch_s_u, strict=True)) for own in (one, other))
        both = {u: max(batch_s, second[u]) for u, batch_s in first.items() if u in second}
        left_out = [max(batch_s, other.others_s) for u, batch_s in first.items() if u not in second]
        left_out += [max(batch_s, one.others_s) for u, batch_s in second.items() if u not in first]
        others_s = min((*left_out, max(one.others_s, other.others_s)))
        joined.append(UnitTimes(unit_u=tuple(both), batch_s_u=tuple(both.values()), others_s=others_s))
    return tuple(joined)
