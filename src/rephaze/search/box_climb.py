"""A good design before any box is split: every bound is cheaper to ask for with an answer to hold it against.

Designs are tried: plans are looked for with little work, and nothing is proven. So a climb from design to
neighbouring design costs a fraction of solving each; only what it ends with is solved. Trials decide which designs
are looked at first, never what is said of one.
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
LEAST_GAIN = 0.01
"""An answer that is better by less than this part is no reason to look around again."""


class Climb:
    """Trials in one grid.

    Args:
        grid: Of the search.
        try_designs: Tries some designs.
    """

    def __init__(self, grid: AnyGrid, try_designs: TryDesigns) -> None:
        self._grid, self._try = grid, try_designs
        self._highest = 0.0
        """What the climbs came to."""

    def from_drawn(self, seed: int, bound: Callable[[NDArray[np.int64]], BoxBounds]) -> OpenBox | None:
        """The best design that a climb from some drawn ones comes to; None if none of them has a plan.

        Args:
            seed: Of the draw.
            bound: What is known of designs at some positions.
        """
        at_cf = drawn_designs(self._grid, seed)
        if not len(at_cf):
            return None
        found = bound(at_cf)
        order = np.argsort(-found.upper_b, kind="stable").tolist()
        drawn = [
            replace(box, upper=float(found.upper_b[c]), times=found.times[c], is_ready=True)
            for box, c in zip(single_boxes(at_cf[order]), order, strict=True)
            if found.upper_b[c] > 0
        ][:NUM_FIRST]
        for first in range(0, len(drawn), NUM_ABREAST):
            trials = self._try(drawn[first : first + NUM_ABREAST], NO_GOAL)
            if trials:
                return self._climbed(_best(trials)).box
        return None

    def from_answer(self, position: Position, objective: float) -> OpenBox | None:
        """The design that a climb from a solved one comes to; None if none better is, or is likely."""
        if objective <= self._highest * (1 + LEAST_GAIN):
            return None
        (box,) = single_boxes(np.array([position], dtype=np.int64))
        found = self._climbed(Trial(box=box, objective=objective))
        return found.box if found.objective > objective else None

    def _climbed(self, trial: Trial) -> Trial:
        """From design to neighbouring design as long as one is better; none is looked at twice."""
        seen = {trial.box.first}
        while True:
            near = [box for box in single_boxes(neighbours(self._grid, trial.box.first)) if box.first not in seen]
            seen.update(box.first for box in near)
            worth = trial.objective
            goal = Goal(threshold=worth, objective=worth, area_um2=np.inf, cutoff=worth)
            trials = self._try(near, goal) if near else []
            if not trials or _best(trials).objective <= worth:
                self._highest = max(self._highest, worth)
                return trial
            trial = _best(trials)


def _best(trials: Sequence[Trial]) -> Trial:
    return max(trials, key=lambda trial: trial.objective)
