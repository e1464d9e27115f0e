"""Boxes of chips under many systems expanded, and designs of them solved: each by the evaluator of its system.

Axis letters: f = field, the system the first; b = box, c = chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.grid import Boxes, DesignGrid
from rephaze.hardware.system_grid import SystemGrid, by_system
from rephaze.search.box_bounds import BoxBounds
from rephaze.search.box_evaluator import BoxEvaluator
from rephaze.search.systems import system_settings
from rephaze.types.boxes import ClosedBox, Expansion, Goal, OpenBox, Trial, UnitTimes
from rephaze.types.search import Evaluation, SearchSettings, Unsettled
from rephaze.types.stopping import UNSTOPPED, StopSignal

Ints = NDArray[np.int64]


class SystemEvaluator:
    """As ``BoxEvaluator``, for a search with systems.

    Args:
        settings: The search.
        stop: Ends the preparation of the models with ``StoppedError``.
    """

    def __init__(self, settings: SearchSettings, stop: StopSignal = UNSTOPPED) -> None:
        self.settings, self._own = settings, system_settings(settings)
        self.grid = SystemGrid(tuple(DesignGrid(one.scenario.space) for one in self._own))
        # The largest cluster has every cut that another has; the others are prepared as boxes of theirs come up.
        largest = max(range(len(self._own)), key=lambda s: self._own[s].scenario.cluster.num_devices)
        self._first = BoxEvaluator(self._own[largest], stop)
        self._evaluators: dict[int, BoxEvaluator] = {largest: self._first}

    @property
    def first(self) -> BoxEvaluator:
        """The evaluator of one of the systems: for what all have in common."""
        return self._first

    @property
    def is_much(self) -> bool:
        """As of each system's evaluator."""
        return self._first.is_much

    def of(self, system: int) -> BoxEvaluator:
        """The evaluator of a system, made when it is first asked for."""
        if system not in self._evaluators:
            self._evaluators[system] = BoxEvaluator(self._own[system], alike=self._first)
        return self._evaluators[system]

    def of_design(self, design: int) -> BoxEvaluator:
        """The evaluator of a design's system."""
        return self.of(self.grid.system_of(design))

    def bound(self, at_cf: Ints, goal: Goal, stop: StopSignal = UNSTOPPED) -> BoxBounds:
        """What is known of some designs from their best units; ``StoppedError`` when cut."""
        upper_b, by_b = np.zeros(len(at_cf)), [""] * len(at_cf)
        times: list[tuple[UnitTimes, ...]] = [()] * len(at_cf)
        for s, index in by_system(at_cf[:, 0]):
            stop.check()
            found = self.of(s).bound(at_cf[index, 1:], goal, stop)
            upper_b[index] = found.upper_b
            for at, b in enumerate(index.tolist()):
                by_b[b], times[b] = found.by_b[at], found.times[at]
        return BoxBounds(Boxes(at_cf, at_cf), at_cf, upper_b, by_b, times)

    def expand(self, boxes: Sequence[OpenBox], goal: Goal, stop: StopSignal = UNSTOPPED) -> list[Expansion]:
        """What becomes of each box; ``StoppedError`` when cut."""
        found: dict[int, Expansion] = {}
        for s, index in by_system([box.first[0] for box in boxes]):
            stop.check()
            own = self.of(s).expand([_inside(boxes[b]) for b in index.tolist()], goal, stop)
            found |= {b: _outside(s, one) for b, one in zip(index.tolist(), own, strict=True)}
        return [found[b] for b in range(len(boxes))]

    def try_designs(self, boxes: Sequence[OpenBox], goal: Goal, stop: StopSignal = UNSTOPPED) -> list[Trial]:
        """As ``BoxEvaluator.try_designs``, of each system that some of them have."""
        trials: list[Trial] = []
        for s, index in by_system([box.first[0] for box in boxes]):
            stop.check()
            found = self.of(s).try_designs([_inside(boxes[b]) for b in index.tolist()], goal, stop)
            trials += [replace(trial, box=_of_open_system(s, trial.box)) for trial in found]
        return trials

    def solve(self, box: OpenBox, goal: Goal, stop: StopSignal = UNSTOPPED) -> Evaluation | Unsettled:
        """The one design of a box solved exactly, or dropped as soon as a bound falls below the goal."""
        found = self.of(box.first[0]).solve(_inside(box), goal, stop)
        return replace(found, design=self.grid.design_at(box.first))


AnyBoxEvaluator = BoxEvaluator | SystemEvaluator
"""Of a search by boxes."""


def box_evaluator(settings: SearchSettings, stop: StopSignal = UNSTOPPED) -> AnyBoxEvaluator:
    """The evaluator of a search by boxes."""
    return SystemEvaluator(settings, stop) if settings.has_systems else BoxEvaluator(settings, stop)


def _inside(box: OpenBox) -> OpenBox:
    """A box as its system's evaluator knows it."""
    return replace(box, first=box.first[1:], last=box.last[1:])


def _outside(system: int, found: Expansion) -> Expansion:
    return Expansion(
        closed=tuple(_of_system(system, box) for box in found.closed),
        open=tuple(_of_open_system(system, box) for box in found.open),
    )


def _of_system(system: int, box: ClosedBox) -> ClosedBox:
    return replace(box, first=(system, *box.first), last=(system, *box.last))


def _of_open_system(system: int, box: OpenBox) -> OpenBox:
    return replace(box, first=(system, *box.first), last=(system, *box.last))
