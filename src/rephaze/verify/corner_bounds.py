"""The bound of a box derived again at its corners, by the means of a search through a list.

All units in closed form first; then the most promising unit of the most promising model a stage further, until no
plan on the large corner, valued as on the small one, is worth more than the bound asked about. The exact answer of
a corner is never asked for: forms of a layer are chosen by what is fastest there, which bounds no other chip.
"""

from __future__ import annotations

import math

import numpy as np

from rephaze.estimate.estimator import Estimator
from rephaze.hardware.grid import DesignGrid
from rephaze.hardware.space_terms import space_area, space_energy
from rephaze.measure.best_plan import Stage, UnitSearch
from rephaze.measure.layer_bounds import layer_bounds
from rephaze.measure.objective import Valuation
from rephaze.measure.unit_work import least_batches_s
from rephaze.measure.units import Memory
from rephaze.search.device_time import device_time_batch_s
from rephaze.search.evaluator import Preparation
from rephaze.types.boxes import Position
from rephaze.verify.findings import TOLERANCE


class CornerBounds:
    """Boxes of one space under the models of one search."""

    def __init__(self, models: Preparation, grid: DesignGrid) -> None:
        self.models, self.grid = models, grid

    def by_device_time(self, small: Position, large: Position) -> float:
        """What no design is worth more than, by device time alone: of a sample, and of what units must do."""
        models = self.models
        chips = self.grid.chips(np.array([large], dtype=np.int64))
        batch_s_mc = np.stack(
            [device_time_batch_s(work, chips, models.model, models.exclusion) for work in models.works]
        )
        if models.model.has_memory_terms:
            least_s_mc = [least_batches_s(own, chips).min(axis=0) for own in models.unit_works]
            batch_s_mc = np.maximum(batch_s_mc, np.stack(least_s_mc))
        return float(self._valuation(small).upper_bounds(models.works, batch_s_mc, np.arange(1))[0])

    def bound(self, small: Position, large: Position, asked: float) -> float:
        """What no design is worth more than, refined until it is no more than ``asked`` or can be no finer.

        Args:
            small: The corner that is valued.
            large: The corner that runs the plans.
            asked: The bound on record.
        """
        models, valuation = self.models, self._valuation(small)
        best = self.by_device_time(small, large)
        target = asked * (1 + TOLERANCE)
        if best <= target:
            return best
        chips = self.grid.chips(np.array([large], dtype=np.int64))
        chip, energy = chips.chip(0), space_energy(chips, models.settings.scenario.space)
        estimator = Estimator(chips, energy, models.settings.scenario.cluster, models.model, models.memos.gemms)
        memory = Memory(chip.hbm_bytes, chip.hbm_bytes_per_s)
        solver = models.chip_solver(chip)
        options = models.settings.scenario.space.hbm_bytes_options
        worth = valuation.worth(0, min(options) if options else int(valuation.chips.hbm_bytes[0]))
        searches = []
        for work in models.works:
            own = layer_bounds(work, estimator, chips, [memory], models.exclusion)
            least_j, is_one_of_many = valuation.least_j(work, 0), len(models.works) > 1
            searches.append(UnitSearch(solver, work, memory, own, worth, least_j, is_one_of_many=is_one_of_many))
        while True:
            uppers = [one.upper for one in searches]
            best = min(best, valuation.combined(uppers))
            open_ = [m for m, one in enumerate(searches) if _next_stage(one) <= Stage.HURRIED]
            if best <= target or not open_:
                return best
            m = max(open_, key=lambda at: uppers[at])
            needed = valuation.needed(uppers, m, asked) if asked > 0 else math.inf
            searches[m].refine(
                worth.longest_s(needed, searches[m].least_j) * (1 + TOLERANCE) if asked > 0 else math.inf
            )

    def _valuation(self, small: Position) -> Valuation:
        models = self.models
        chips = self.grid.chips(np.array([small], dtype=np.int64))
        space = models.settings.scenario.space
        area_um2_c = space_area(chips, space).total_um2_c
        return Valuation(models.settings, chips, area_um2_c, space_energy(chips, space), models.model)


def _next_stage(one: UnitSearch) -> Stage:
    """Of the most promising unit, the stage it would be taken to."""
    if one.upper <= 0:
        return Stage.SOLVED
    u = int(np.argmax(one.upper_u))
    return Stage(min(int(one.stage_u[u]) + 1, Stage.SOLVED))
