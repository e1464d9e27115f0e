"""Any chip measured as the search measures its designs: the best plan of every model, or the expert's plan.

Every baseline goes through here, so that all share one cost model and one objective.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rephaze.hardware.area import chip_area
from rephaze.hardware.cost import chip_cost
from rephaze.measure.chip_solver import ChipSolver, UnitAnswer
from rephaze.measure.expert_plans import ExpertPlanner
from rephaze.measure.least_energy import least_energy_per_sample_j
from rephaze.measure.model_work import Memory, ModelWork
from rephaze.measure.objective import combine
from rephaze.measure.promising_units import promising_units
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.types.chip import Chip, chip_table
from rephaze.types.comparison import ChipAnswer
from rephaze.types.search import Evaluation, ModelPlan, Objective
from rephaze.types.space import AreaModel
from rephaze.units import UM2_PER_MM2


@dataclass(frozen=True, kw_only=True, slots=True)
class _Measured:
    """One model on a chip."""

    plan: ModelPlan | None
    reachable: float
    """What plans might reach whose schedules are not proven; zero if all that matter are."""
    reason: str


class Yardstick:
    """Measures chips, of the space or not, under the settings of a search.

    Args:
        evaluator: Of the search; its mapped operators and proven schedules are shared by all chips.
    """

    def __init__(self, evaluator: SpaceEvaluator) -> None:
        self.evaluator = evaluator
        self.settings = evaluator.settings
        self._expert = ExpertPlanner(evaluator.settings.scenario)
        self._solvers: dict[Chip, ChipSolver] = {}

    def with_searched_plans(self, chip: Chip) -> ChipAnswer:
        """The chip with the best plan of every model."""
        memories = self.memories(chip)
        if self.settings.objective is not Objective.PER_USD:
            return self._with_searched_plans(chip, memories)
        # Memory is paid for: all models run on one size of it, and the smallest good one wins.
        answers = [self._with_searched_plans(chip, [memory]) for memory in memories]
        best = max(answers, key=lambda answer: answer.objective)
        # Any of the sizes might do better, had its schedules been proven.
        return replace(best if best.objective > 0 else answers[-1], bound=max(one.bound for one in answers))

    def _with_searched_plans(self, chip: Chip, memories: list[Memory]) -> ChipAnswer:
        def best(solver: ChipSolver, work: ModelWork) -> _Measured:
            return self._best_plan(solver, work, memories)

        return self._measured(chip, best)

    def with_expert_plans(self, chip: Chip) -> ChipAnswer:
        """The chip with the published expert plan of every model."""

        def expert(solver: ChipSolver, work: ModelWork) -> _Measured:
            found = self._expert.best_plan(solver, work.name, self.memories(chip))
            reachable = 0.0
            if found.plan is not None and found.bound_s < found.plan.batch_s:
                reachable = self._reachable(solver, work, found.bound_s, found.plan.hbm_bytes)
            return _Measured(plan=found.plan, reachable=reachable, reason=found.reason)

        return self._measured(chip, expert)

    def of_evaluation(self, found: Evaluation) -> ChipAnswer:
        """A design the search solved exactly, as an answer."""
        chip = self.evaluator.census.chips.chip(found.design)
        return self.answer(chip, found.plans, bound=found.bound, reason=found.reason)

    def answer(
        self, chip: Chip, plans: Sequence[ModelPlan | None], *, bound: float, reason: str = ""
    ) -> ChipAnswer:
        """The chip with these plans, valued by the objective of the search.

        Args:
            chip: The chip.
            plans: One a model; None where it has none.
            bound: What the chip could reach if schedules not proven were as short as their bounds.
            reason: Why a model has no plan.
        """
        objective = self._combined([self.value(chip, plan) if plan else 0.0 for plan in plans])
        return ChipAnswer(
            chip=chip,
            area_um2=self.area_um2(chip),
            objective=objective,
            bound=max(bound, objective),
            plans=tuple(plans),
            reason=reason,
        )

    def _combined(self, values: Sequence[float]) -> float:
        if not values:
            return 0.0
        column = np.array(values)[:, None]
        return float(combine(column, self.settings.weights, self.settings.aggregate)[0])

    def value(self, chip: Chip, plan: ModelPlan) -> float:
        """One model's objective on a chip."""
        if self.settings.objective is Objective.PER_WATT:
            return 1.0 / plan.energy_per_sample_j
        return plan.samples_per_s * self._factor(chip, plan.hbm_bytes)

    def _factor(self, chip: Chip, hbm_bytes: int) -> float:
        """What turns the throughput of a cluster of the chip into its objective."""
        num_devices = self.settings.scenario.cluster.num_devices
        objective = self.settings.objective
        if objective is Objective.PER_AREA:
            return UM2_PER_MM2 / (self.area_um2(chip) * num_devices)
        if objective is Objective.PER_USD:
            area_um2_c = chip_area(chip_table([chip]), AreaModel.CORRECTED).total_um2_c
            cost = chip_cost(area_um2_c, np.array([hbm_bytes], dtype=np.int64))
            return 1.0 / (float(cost.total_usd_c[0]) * num_devices)
        return 1.0

    def _reachable(self, solver: ChipSolver, work: ModelWork, bound_s: float, hbm_bytes: int) -> float:
        """A model's objective on a chip at best, if no plan is faster than ``bound_s``."""
        scenario = self.settings.scenario
        global_batch = scenario.training.global_batch
        if self.settings.objective is not Objective.PER_WATT:
            return global_batch / bound_s * self._factor(solver.chip, hbm_bytes)
        least_j = float(least_energy_per_sample_j(work, solver.table, solver.energy, solver.model)[0])
        idle_w = float(solver.energy.idle_w_c[0]) * scenario.cluster.num_devices
        return 1.0 / (least_j + idle_w * bound_s / global_batch)

    def area_um2(self, chip: Chip) -> float:
        """Area under the space's model."""
        return float(chip_area(chip_table([chip]), self.settings.scenario.space.area_model).total_um2_c[0])

    def memories(self, chip: Chip) -> list[Memory]:
        """Memories the chip may have, smallest first: the space's options up to the chip's own, or its own."""
        options = self.settings.scenario.space.hbm_bytes_options
        sizes = sorted({size for size in options if size < chip.hbm_bytes} | {chip.hbm_bytes})
        return [Memory(size, chip.hbm_bytes_per_s) for size in sizes]

    def solver(self, chip: Chip) -> ChipSolver:
        """The exact solver of a chip, made once."""
        unnamed = replace(chip, name="")
        if unnamed not in self._solvers:
            self._solvers[unnamed] = self.evaluator.chip_solver(chip)
        return self._solvers[unnamed]

    def _measured(self, chip: Chip, choose: Callable[[ChipSolver, ModelWork], _Measured]) -> ChipAnswer:
        solver = self.solver(chip)
        found = [choose(solver, work) for work in self.evaluator.works]
        reasons = "; ".join(one.reason for one in found if one.reason)
        bound = self._combined(
            [max(one.reachable, self.value(chip, one.plan) if one.plan else 0.0) for one in found]
        )
        return self.answer(chip, [one.plan for one in found], bound=bound, reason=reasons)

    def _best_plan(self, solver: ChipSolver, work: ModelWork, memories: list[Memory]) -> _Measured:
        """Best first over units: each is bounded, then mapped, then solved, while it may still win."""
        largest = memories[-1]
        # The plan of least energy need not be the fastest: nothing is dropped by time then.
        is_timed = self.settings.objective is not Objective.PER_WATT
        best: tuple[float, int, UnitAnswer] | None = None
        reachable = 0.0

        def to_beat_s() -> float:
            return best[0] if best and is_timed else math.inf

        for u in promising_units(solver, work, largest, to_beat_s):
            unit, cutoff_s = work.units[u], to_beat_s()
            answer = solver.solve(work, unit, largest, cutoff_s)
            if answer.bound_s < min(answer.batch_s, cutoff_s):
                reachable = max(reachable, self._reachable(solver, work, answer.bound_s, largest.hbm_bytes))
            if answer.plan is None:
                continue
            rank = answer.batch_s if is_timed else answer.energy_per_sample_j
            if best is None or rank < best[0]:
                best = (rank, u, answer)
        if best is None:
            reason = f"no plan of {work.name} was found" if reachable else f"no plan of {work.name} fits"
            return _Measured(plan=None, reachable=reachable, reason=reason)
        plan = _on_smallest_memory(solver, work, best[1], best[2], memories)
        return _Measured(plan=plan, reachable=reachable, reason="")


def _on_smallest_memory(
    solver: ChipSolver, work: ModelWork, u: int, answer: UnitAnswer, memories: list[Memory]
) -> ModelPlan:
    """The plan on the smallest memory it does not lose by."""
    unit = work.units[u]
    for memory in memories[:-1]:
        smaller = solver.solve(work, unit, memory, math.inf)
        if smaller.plan is not None and smaller.batch_s <= answer.batch_s:
            return solver.model_plan(work, unit, memory, smaller)
    return solver.model_plan(work, unit, memories[-1], answer)
