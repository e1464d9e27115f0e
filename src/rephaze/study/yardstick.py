"""Any chip measured as the search measures its designs: the best plan of every model, or the expert's plan.

Every baseline goes through here, so that all share one cost model and one objective.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rephaze.hardware.space_terms import space_area
from rephaze.measure.best_plan import UnitSearch
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.expert_plans import ExpertPlanner
from rephaze.measure.model_work import ModelWork
from rephaze.measure.objective import ChipWorth, Valuation, combine_on_chip
from rephaze.measure.rule_plans import PlanRule
from rephaze.measure.units import Memory, memory_options
from rephaze.search.evaluator import Preparation
from rephaze.types.chip import Chip
from rephaze.types.comparison import ChipAnswer
from rephaze.types.search import Evaluation, ModelPlan, Objective


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
        prepared: Of the search; its mapped operators and proven schedules are shared by all chips.
    """

    def __init__(self, prepared: Preparation) -> None:
        self.prepared = prepared
        self.settings = prepared.settings
        self._expert = ExpertPlanner(prepared.settings.scenario)
        self._solvers: dict[Chip, ChipSolver] = {}
        self._valuations: dict[Chip, Valuation] = {}

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

    def with_expert_plans(self, chip: Chip, rule: PlanRule | None = None) -> ChipAnswer:
        """The chip with the published expert plan of every model, or with what a practitioner's rule gives."""

        def expert(solver: ChipSolver, work: ModelWork) -> _Measured:
            if rule is None:
                found = self._expert.best_plan(solver, work.name, self.memories(chip))
            else:
                found = self._expert.rule_plan(solver, work, rule, self.memories(chip))
            reachable = 0.0
            if found.plan is not None and found.bound_s < found.plan.batch_s:
                memory = Memory(found.plan.hbm_bytes, chip.hbm_bytes_per_s)
                worth, least_j = self._worth(chip, work, memory)
                reachable = worth.at_best(found.bound_s, least_j)
            return _Measured(plan=found.plan, reachable=reachable, reason=found.reason)

        return self._measured(chip, expert)

    def of_evaluation(self, found: Evaluation, chip: Chip) -> ChipAnswer:
        """A design the search solved exactly, as an answer."""
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

    def value(self, chip: Chip, plan: ModelPlan) -> float:
        """One model's objective on a chip."""
        return self._valuation(chip).worth(0, plan.hbm_bytes).of_plan(plan.batch_s, plan.energy_per_sample_j)

    def _combined(self, values: list[float]) -> float:
        return combine_on_chip(values, self.settings.weights, self.settings.aggregate) if values else 0.0

    def area_um2(self, chip: Chip) -> float:
        """Area under the space's model."""
        return float(self._valuation(chip).area_um2_c[0])

    def memories(self, chip: Chip) -> list[Memory]:
        """Memories the chip may have, smallest first."""
        return memory_options(self.settings.scenario.space, chip.hbm_bytes, chip.hbm_bytes_per_s)

    def solver(self, chip: Chip) -> ChipSolver:
        """The exact solver of a chip, made once."""
        unnamed = replace(chip, name="")
        if unnamed not in self._solvers:
            self._solvers[unnamed] = self.prepared.chip_solver(chip)
        return self._solvers[unnamed]

    def _valuation(self, chip: Chip) -> Valuation:
        """What plans on the chip are worth, as those on designs of the space are."""
        unnamed = replace(chip, name="")
        if unnamed not in self._valuations:
            solver = self.solver(chip)
            area_um2_c = space_area(solver.table, self.settings.scenario.space).total_um2_c
            self._valuations[unnamed] = Valuation(
                self.settings, solver.table, area_um2_c, solver.energy, solver.model
            )
        return self._valuations[unnamed]

    def _worth(self, chip: Chip, work: ModelWork, memory: Memory) -> tuple[ChipWorth, float]:
        """What plans of a model on a chip with a memory are worth, and the least energy of any."""
        valuation = self._valuation(chip)
        return valuation.worth(0, memory.hbm_bytes), valuation.least_j(work, 0)

    def _measured(self, chip: Chip, choose: Callable[[ChipSolver, ModelWork], _Measured]) -> ChipAnswer:
        solver = self.solver(chip)
        found = [choose(solver, work) for work in self.prepared.works]
        reasons = "; ".join(one.reason for one in found if one.reason)
        bound = self._combined(
            [max(one.reachable, self.value(chip, one.plan) if one.plan else 0.0) for one in found]
        )
        return self.answer(chip, [one.plan for one in found], bound=bound, reason=reasons)

    def _best_plan(self, solver: ChipSolver, work: ModelWork, memories: list[Memory]) -> _Measured:
        """The best plan on the largest of the memories, reported on the smallest it does not lose by."""
        largest = memories[-1]
        bounds = solver.unit_bounds(work, largest)
        search = UnitSearch(solver, work, largest, bounds, *self._worth(solver.chip, work, largest))
        search.run()
        if search.best is None:
            reason = f"no plan of {work.name} was found" if search.unproven else f"no plan of {work.name} fits"
            return _Measured(plan=None, reachable=search.unproven, reason=reason)
        return _Measured(plan=search.plan(memories[:-1]), reachable=search.unproven, reason="")
