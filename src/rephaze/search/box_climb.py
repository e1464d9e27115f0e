"""A good design before any box is split: every bound is cheaper to ask for with an answer to hold it against.

Designs are tried: plans are looked for with little work, and nothing is proven; of several models, whose first
plans are poor by different parts, bounds are gone by instead. So a climb from design to neighbouring design costs
a fraction of solving each; only what it ends with is solved. Trials decide which designs are looked at first,
never what is said of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.system_grid import AnyGrid
from rephaze.search.box_bounds import BoxBounds
from rephaze.search.box_seeds import drawn_designs, neighbours, single_boxes
from rephaze.types.boxes import NO_GOAL, Goal, OpenBox, Position, Trial

TryDesigns = Callable[[Sequence[OpenBox], Goal], list[Trial]]
"""Designs, and what is worth looking for, to those of them that are."""

NUM_FIRST = 16
"""Most drawn designs that are tried."""
NUM_ABREAST = 2
"""Of them at a time, until one has a plan: told apart by rates, the fastest may lack memory."""
NUM_STARTS = 4
"""Where a climb goes by bounds, drawn designs it may begin with."""
BOUNDS_IN_VAIN, BOUNDS_NEAR = 2, 0.005
"""There too: designs looked around in vain, and the part that bounds may leave less of them than of the best."""
ALIKE, NEXT_BEST = 0.001, 0.01
"""There too: what bounds tell apart by less may be the same design; what is this near may be the better one."""
LEAST_GAIN = 0.01
"""An answer that is better by less than this part is no reason to look around again."""


class Climb:
    """Trials in one grid.

    Args:
        grid: Of the search.
        try_designs: Tries some designs.
        by_bounds: Trials tell what bounds leave of a design, not what plans it has.
        has_next_best: The next best design that is not alike is of use too.
    """

    def __init__(
        self, grid: AnyGrid, try_designs: TryDesigns, *, by_bounds: bool = False, has_next_best: bool = False
    ) -> None:
        self._grid, self._try, self._by_bounds = grid, try_designs, by_bounds
        self._has_next_best = has_next_best
        self._highest = 0.0
        """What the climbs came to."""
        self._ends: set[Position] = set()
        """Where they did."""
        self._seen: list[Trial] = []
        """On the way."""

    def from_drawn(self, seed: int, bound: Callable[[NDArray[np.int64]], BoxBounds]) -> list[OpenBox]:
        """The best design, or two, that a climb from some drawn ones comes to; none if none of them has a plan.

        Args:
            seed: Of the draw.
            bound: What is known of designs at some positions.
        """
        at_cf = drawn_designs(self._grid, seed)
        if not len(at_cf):
            return []
        found = bound(at_cf)
        order = np.argsort(-found.upper_b, kind="stable").tolist()
        drawn = [
            replace(box, upper=float(found.upper_b[c]), times=found.times[c], is_ready=True)
            for box, c in zip(single_boxes(at_cf[order]), order, strict=True)
            if found.upper_b[c] > 0
        ][:NUM_FIRST]
        num_abreast = NUM_STARTS if self._by_bounds else NUM_ABREAST
        for first in range(0, len(drawn), num_abreast):
            trials = self._try(drawn[first : first + num_abreast], NO_GOAL)
            if trials:
                best = self._climbed(_best(trials))
                return [best.box, *self._next_best(best)]
        return []

    def _next_best(self, best: Trial) -> list[OpenBox]:
        low, high = ((1 - part) * best.objective for part in (NEXT_BEST, ALIKE))
        near = [trial for trial in self._seen if low <= trial.objective <= high] if self._has_next_best else []
        found = [_best(near).box] if near else []
        self._ends.update(box.first for box in found)  # the climb came by there
        return found

    def from_answer(self, position: Position, objective: float) -> OpenBox | None:
        """The design that a climb from a solved one comes to; None if none better is, or is likely."""
        boxes = single_boxes(np.array([position], dtype=np.int64))
        if self._by_bounds:
            # What it is worth is known, but its neighbours will be held against what bounds leave of it.
            trials = self._try(boxes, NO_GOAL) if position not in self._ends else []
            known_ends = {*self._ends}
            found = self._climbed(trials[0]) if trials else None
            return found.box if found and found.box.first not in {position, *known_ends} else None
        if objective <= self._highest * (1 + LEAST_GAIN):
            return None
        found = self._climbed(Trial(box=boxes[0], objective=objective))
        return found.box if found.objective > objective else None

    def _climbed(self, trial: Trial) -> Trial:
        """From design to neighbouring design as long as one is better; none is looked at twice.

        Bounds differ by a hair more or less than designs do: where a climb goes by them, it also looks around the
        next best designs before it ends.
        """
        best, seen, waiting, num_in_vain = trial, {trial.box.first}, list[Trial](), 0
        most_in_vain, part = (BOUNDS_IN_VAIN, 1 - BOUNDS_NEAR) if self._by_bounds else (0, 1.0)
        while True:
            near = [box for box in single_boxes(neighbours(self._grid, trial.box.first)) if box.first not in seen]
            seen.update(box.first for box in near)
            worth = best.objective * part
            goal = Goal(threshold=worth, objective=worth, area_um2=np.inf, cutoff=worth)
            tried = self._try(near, goal) if near else []
            self._seen += tried
            waiting += tried
            waiting.sort(key=lambda one: one.objective)
            num_in_vain += not waiting or waiting[-1].objective <= best.objective
            if not waiting or num_in_vain > most_in_vain:
                self._highest = max(self._highest, best.objective)
                self._ends.add(best.box.first)
                return best
            trial = waiting.pop()
            if trial.objective > best.objective:
                best, num_in_vain = trial, 0


def _best(trials: Sequence[Trial]) -> Trial:
    return max(trials, key=lambda trial: trial.objective)
