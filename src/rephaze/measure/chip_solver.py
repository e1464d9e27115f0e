"""One chip solved exactly: the best plan of every unit of a model that may win, and bounds on the others."""

from __future__ import annotations

import math

from rephaze.measure.full_planner import FullPlanner
from rephaze.measure.layer_bounds import FinerBounds, is_for_later, layer_bounds, unit_times
from rephaze.measure.model_bounds import ModelBounds
from rephaze.measure.model_work import ModelWork
from rephaze.measure.pass_solver import PassSolver
from rephaze.measure.pass_times import LayerSeconds, Times
from rephaze.measure.stage_planner import StagePlanner
from rephaze.measure.unit_answer import UnitAnswer
from rephaze.measure.units import Memory, Unit
from rephaze.types.search import ModelPlan


class ChipSolver(PassSolver):
    """Exact times and plans of models on one chip."""

    def unit_bounds(self, work: ModelWork, memory: Memory) -> ModelBounds:
        """Layer bounds of every unit of the model; of one with very many what comes before them."""
        if is_for_later(work):
            return unit_times(work, self.estimator(work), self.table, self.exclusion, self.stop)
        return layer_bounds(work, self.estimator(work), self.table, [memory], self.exclusion, self.stop)

    def finer_bounds(self, work: ModelWork, memory: Memory, bounds: ModelBounds) -> FinerBounds:
        """Bounds of this chip alone, to be made finer with mapped products."""
        estimator = self.estimator(work)
        return FinerBounds(
            work, bounds, self.table, [memory], self.exclusion, lambda _columns: estimator, self.stop
        )

    def placed_bound_s(
        self,
        work: ModelWork,
        unit: Unit,
        memory: Memory,
        layer_s: LayerSeconds,
        cutoff_s: float = math.inf,
        *,
        is_told: bool = False,
    ) -> float:
        """A batch time no plan of the unit beats if no pass is faster than given; ``cutoff_s`` if it is no less.

        With a cutoff, where it says no more than that there may be a faster one, it may be a poor bound.

        Args:
            work: The model.
            unit: Of the model.
            memory: What plans must fit.
            layer_s: Of the passes.
            cutoff_s: Slower plans are of no use.
            is_told: By how much plans may be faster than that is of use.
        """
        planner = self.planner(work, unit, memory)
        if is_told and isinstance(planner, FullPlanner):
            return planner.told_bound_s(layer_s, cutoff_s)
        return planner.placed_bound_s(layer_s, cutoff_s)

    def hurried_bound_s(
        self,
        work: ModelWork,
        unit: Unit,
        memory: Memory,
        cutoff_s: float = math.inf,
        least_s: LayerSeconds | None = None,
    ) -> float:
        """A batch time no plan of the unit beats, from what little work proves of the schedules.

        Args:
            work: The model.
            unit: Of the model.
            memory: What plans must fit.
            cutoff_s: Slower plans are of no use.
            least_s: What passes take at least, as known before: enough for layers that occur once.
        """
        return self.planner(work, unit, memory).bound_s(Times.HURRIED, cutoff_s, least_s)

    def solve(self, work: ModelWork, unit: Unit, memory: Memory, cutoff_s: float) -> UnitAnswer:
        """The best plan of the unit, if it is below ``cutoff_s``."""
        return self.planner(work, unit, memory).solve(cutoff_s)

    def model_plan(self, work: ModelWork, unit: Unit, memory: Memory, answer: UnitAnswer) -> ModelPlan:
        """The answer as it is reported, stages priced one by one."""
        return self.planner(work, unit, memory).model_plan(answer)

    def planner(self, work: ModelWork, unit: Unit, memory: Memory) -> StagePlanner | FullPlanner:
        """Who plans under the scenario's cost model."""
        return FullPlanner(self, work, unit, memory) if work.is_full else StagePlanner(self, work, unit, memory)
