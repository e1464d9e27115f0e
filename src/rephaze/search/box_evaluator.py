"""Boxes of designs expanded, and designs of them solved, for all models of a search: what worker processes run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.grid import Boxes, DesignGrid
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.layer_bounds import is_for_later
from rephaze.measure.model_bounds import ModelBounds, no_bounds
from rephaze.measure.unit_work import least_batches_s
from rephaze.measure.units import memory_options
from rephaze.search.box_bounds import (
    BEST_LAYERS,
    BEST_UNITS,
    DEVICE_ONLY,
    BoxBounding,
    BoxBounds,
    corner_memories,
    corner_valuation,
)
from rephaze.search.box_expansion import BoxExpansion
from rephaze.search.design_search import DesignSearch
from rephaze.search.evaluator import Preparation, of_best_memory
from rephaze.types.boxes import Expansion, Goal, OpenBox, Trial, UnitTimes
from rephaze.types.chip import ChipTable
from rephaze.types.search import Evaluation, SearchSettings, Unsettled
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal

Ints = NDArray[np.int64]

ANY_PLAN = Goal(threshold=1e-300, objective=0.0, area_um2=np.inf, cutoff=0.0)
"""Whatever a design is worth, it is of use."""


class BoxEvaluator(Preparation):
    """Bounds of boxes, answers of designs.

    Args:
        settings: The search, of one system.
        stop: Ends the preparation of the models with ``StoppedError``.
        alike: Of the same search with another system.
    """

    def __init__(
        self, settings: SearchSettings, stop: StopSignal = UNSTOPPED, alike: Preparation | None = None
    ) -> None:
        self.grid = DesignGrid(settings.scenario.space)
        super().__init__(settings, stop, alike=alike)

    def make_ready(self) -> None:
        """Find what every look at a mixture needs before it is asked for one: it takes a quarter of a minute."""
        for work in self.works:
            if is_for_later(work):
                assert self.unit_works
                assert work.pass_items

    def bound(self, at_cf: Ints, goal: Goal, stop: StopSignal = UNSTOPPED) -> BoxBounds:
        """What is known of some designs from their best units; ``StoppedError`` when cut."""
        none: list[tuple[UnitTimes, ...]] = [()] * len(at_cf)
        has_mixture = any(is_for_later(work) for work in self.works)
        # With nothing to hold them against, designs are only to be told apart: that takes no look at layers.
        at_first = BEST_LAYERS if self.is_of_many and not has_mixture else DEVICE_ONLY
        reach = BEST_UNITS if goal.has_answer else at_first
        return BoxBounding(self, self.grid, Boxes(at_cf, at_cf), none, goal, stop).run(reach)

    def expand(self, boxes: Sequence[OpenBox], goal: Goal, stop: StopSignal = UNSTOPPED) -> list[Expansion]:
        """What becomes of each box; ``StoppedError`` when cut."""
        return BoxExpansion(self, self.grid, boxes, goal, stop).run()

    def try_designs(self, boxes: Sequence[OpenBox], goal: Goal, stop: StopSignal = UNSTOPPED) -> list[Trial]:
        """Of some designs the most promising, if it has plans that reach the goal; ``StoppedError`` when cut.

        Of several models, and of mixtures, the first plans found say less of a design than its bounds do: each
        falls short of the best by something else, while bounds are all off by about as much.

        Args:
            boxes: One design each.
            goal: What is worth looking for.
            stop: Ends the work.
        """
        if self.is_much and not goal.has_answer:
            goal = ANY_PLAN
        found = self.bound(np.array([box.first for box in boxes], dtype=np.int64), goal, stop)
        b = int(np.argmax(found.upper_b))
        upper = float(found.upper_b[b])
        if upper <= 0 or upper < goal.cutoff:
            return []
        box = replace(boxes[b], upper=upper, times=found.times[b], is_ready=True)
        if self.is_much:
            return [Trial(box=box, objective=upper)]
        objective = max(one.tried(goal.cutoff) for one in self._searches(box, stop, is_trial=True))
        return [Trial(box=box, objective=objective)] if objective > 0 else []

    def solve(self, box: OpenBox, goal: Goal, stop: StopSignal = UNSTOPPED) -> Evaluation | Unsettled:
        """The one design of a box solved exactly, or dropped as soon as a bound falls below the goal."""
        design = self.grid.design_at(box.first)
        searches = self._searches(box, stop)
        found: list[Evaluation] = []
        try:
            for one in searches:
                stop.check()
                found.append(one.run(max([goal.cutoff, *(item.objective for item in found)])))
        except StoppedError:
            return Unsettled(design=design, bound=max(one.bound() for one in searches))
        return of_best_memory(found)

    def _searches(self, box: OpenBox, stop: StopSignal, *, is_trial: bool = False) -> list[DesignSearch]:
        """For the plans of the one design of a box, with each memory that it may have."""
        chips, design = self.grid.chips(np.array([box.first], dtype=np.int64)), self.grid.design_at(box.first)
        chip = chips.chip(0, name=f"design-{design}")
        valuation = corner_valuation(self, chips)
        options = memory_options(self.settings.scenario.space, chip.hbm_bytes, chip.hbm_bytes_per_s)
        priced = options if valuation.is_memory_priced else options[-1:]
        solver = self.trial_solver(chip, stop) if is_trial else self.chip_solver(chip, stop=stop)
        bounds = [self._unit_bounds(box, m, chips, solver) for m in range(len(self.works))]
        smaller = [] if len(priced) > 1 else options[:-1]
        return [
            DesignSearch(design, solver, self.works, bounds, memory, valuation, at=0, smaller=smaller)
            for memory in priced
        ]

    def _unit_bounds(self, box: OpenBox, m: int, chips: ChipTable, solver: ChipSolver) -> ModelBounds:
        """What is known of a model's units on the design of a box."""
        found = no_bounds(self.works[m], 1)
        if self.model.has_memory_terms:
            found.batch_s_uc[:] = least_batches_s(self.unit_works[m], chips)
        if box.times:
            known_s_u = np.full(len(found.batch_s_uc), box.times[m].others_s)
            known_s_u[list(box.times[m].unit_u)] = box.times[m].batch_s_u
            found.batch_s_uc[:, 0] = np.maximum(found.batch_s_uc[:, 0], known_s_u)
        if is_for_later(self.works[m]):
            # Looking at layers of each class in turn takes longer than telling the good ones apart first.
            finer = solver.finer_bounds(self.works[m], corner_memories(chips)[0], found)
            finer.map_best_times()
            return finer.bounds
        return found
