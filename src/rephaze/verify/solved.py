"""Designs on record as solved or dropped, and chips measured beside them: their plans found and valued once more.

Of a solved design the recorded cut and microbatch size of each model are solved afresh; what comes out must be the
record, stage by stage. That no other cut is better is looked at by a sample (``dropped``, ``box_check``).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from rephaze.hardware.space_terms import space_area
from rephaze.measure.best_plan import STAGE_NAMES
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.model_work import ModelWork
from rephaze.measure.objective import Valuation
from rephaze.measure.unit_answer import UnitAnswer
from rephaze.measure.units import Unit, memory_options
from rephaze.search.box_bounds import corner_valuation
from rephaze.search.engine import RELATIVE_SLACK
from rephaze.search.evaluator import Preparation, SpaceEvaluator
from rephaze.search.system_evaluator import AnyBoxEvaluator, SystemEvaluator
from rephaze.types.chip import Chip, chip_table
from rephaze.types.comparison import ChipAnswer
from rephaze.types.search import Evaluation, ModelPlan, SearchResult
from rephaze.verify.findings import Wrong, differs
from rephaze.verify.recorded_designs import RecordedDesigns

MANY = 200
"""Solved designs whose plans are found again; of more a sample, the steps towards the answer among them."""
ROUNDING = 1e-12


class SolvedDesigns:
    """The evaluations of one run.

    Args:
        evaluator: Of the run's settings.
        designs: What numbers stand for.
        result: The answer.
        evaluations: By design.
    """

    def __init__(
        self,
        evaluator: SpaceEvaluator | AnyBoxEvaluator,
        designs: RecordedDesigns,
        result: SearchResult,
        evaluations: Mapping[int, Evaluation],
    ) -> None:
        self.evaluator, self.designs, self.result, self.evaluations = evaluator, designs, result, evaluations

    def chosen(self, steps: Iterable[int | None]) -> list[Evaluation]:
        """Designs to be looked at: all, or a sample with those that were an answer once."""
        found = [item for item in self.evaluations.values() if item.is_exact]
        if len(found) <= MANY:
            return found
        chooser = random.Random(self.evaluator.settings.seed)  # noqa: S311 - a repeatable sample, no secret
        wanted = {item.design for item in chooser.sample(found, MANY)} | set(steps)
        return [item for item in found if item.design in wanted]

    def wrong_solved(self, chosen: Sequence[Evaluation]) -> Wrong:
        """Solved designs whose plans or objective do not come out again."""
        for item in chosen:
            for what in self._wrong_exact(item):
                yield f"design {item.design}: {what}"

    def wrong_dropped(self) -> Wrong:
        """Designs dropped while being solved, by what their records claim; bounds are looked at elsewhere."""
        answer = max(self.result.objective, 0.0)
        for item in self.evaluations.values():
            if item.is_exact:
                if item.dropped_by:
                    yield f"design {item.design} is solved, and dropped by {item.dropped_by!r}"
                continue
            if item.objective != -math.inf or item.plans or item.reason or item.dropped_by not in STAGE_NAMES:
                yield f"design {item.design} is dropped by {item.dropped_by!r}, and has an answer"
            if not 0 < item.bound < answer * (1 - RELATIVE_SLACK):
                yield f"design {item.design} is dropped at {item.bound:.9g}, the answer is {answer:.9g}"

    def wrong_winner(self) -> Wrong:
        """Designs as good as the answer that should have been it: smaller, or with less memory or energy."""
        own = self.evaluations.get(self.result.design) if self.result.design is not None else None
        for item in self.evaluations.values():
            if own is not None and item.is_exact and self._rank(item) < self._rank(own):
                yield f"design {item.design} comes before the answer"

    def _prepared(self, design: int) -> Preparation:
        """What a design was solved with: where systems were searched, that of its own."""
        evaluator = self.evaluator
        return evaluator.of_design(design) if isinstance(evaluator, SystemEvaluator) else evaluator

    def _rank(self, item: Evaluation) -> tuple[float, ...]:
        if item.objective != self.result.objective:
            return (-item.objective,)
        chips = chip_table([self.designs.chip(item.design)])
        area_um2 = float(space_area(chips, self._prepared(item.design).settings.scenario.space).total_um2_c[0])
        memory_bytes = float(sum(plan.hbm_bytes for plan in item.plans))
        energy_j = sum(plan.energy_per_sample_j for plan in item.plans)
        return (-item.objective, area_um2, memory_bytes, energy_j, float(item.design))

    def _wrong_exact(self, item: Evaluation) -> Wrong:
        chip = self.designs.chip(item.design)
        if not item.objective > 0:
            yield from self._wrong_infeasible(item, chip)
            return
        if item.reason:
            yield f"has plans, and a reason why not: {item.reason!r}"
        prepared = self._prepared(item.design)
        if len(item.plans) != len(prepared.works):
            yield f"{len(item.plans)} plans for {len(prepared.works)} models"
            return
        check = PlansOnChip(prepared, chip)
        for work, plan in zip(prepared.works, item.plans, strict=True):
            yield from check.wrong_plan(work, plan)
        yield from check.wrong_worth(item.plans, item.objective, item.bound)

    def _wrong_infeasible(self, item: Evaluation, chip: Chip) -> Wrong:
        if (item.objective, item.bound) != (-math.inf, -math.inf) or item.plans:
            yield f"objective {item.objective:.9g} and bound {item.bound:.9g} of a design without plans"
            return
        prepared = self._prepared(item.design)
        check = PlansOnChip(prepared, chip)
        missing = [work.name for work in prepared.works if not check.has_plan(work)]
        if not missing:
            yield "every model has a plan, none is recorded"
        elif item.reason not in {f"no plan of {', '.join(some)} fits" for some in _some_of(missing)}:
            yield f"said to fail for {item.reason!r}; without a plan: {', '.join(missing)}"


def _some_of(names: Sequence[str]) -> list[list[str]]:
    """What of the models without a plan may have been met: any in their order, at least one."""
    found: list[list[str]] = [[]]
    for name in names:
        found += [[*one, name] for one in found]
    return found[1:]


class PlansOnChip:
    """Plans of a search's models on one chip, found again.

    Args:
        prepared: Of the search.
        chip: Any chip.
    """

    def __init__(self, prepared: Preparation, chip: Chip) -> None:
        self.prepared, self.chip = prepared, chip
        self.solver: ChipSolver = prepared.chip_solver(chip)
        self.valuation: Valuation = corner_valuation(prepared, chip_table([chip]))
        space = prepared.settings.scenario.space
        self.memories = memory_options(space, chip.hbm_bytes, chip.hbm_bytes_per_s)

    def has_plan(self, work: ModelWork) -> bool:
        """Whether a model has any, with the largest memory."""
        answers = (self.solver.solve(work, unit, self.memories[-1], math.inf) for unit in work.units)
        return any(one.plan is not None for one in answers)

    def wrong_plan(self, work: ModelWork, plan: ModelPlan) -> Wrong:
        """What of a recorded plan does not come out when its cut and microbatch size are solved again."""
        units = [
            unit
            for unit in work.units
            if unit.cut == work.cut_of(plan) and unit.microbatch == plan.microbatch and plan.model == work.name
        ]
        if not units:
            yield f"{plan.model}: tp {plan.tp}, microbatch {plan.microbatch} are no choice of the settings"
            return
        nearest: list[str] | None = None
        for unit in units:
            found = self._reported(work, unit, plan)
            other = ["nothing fits"] if found is None else list(different_fields(plan, found))
            if not other:
                return
            nearest = other if nearest is None or len(other) < len(nearest) else nearest
        yield from (f"{work.name}: {what}" for what in (nearest or [])[:2])

    def _reported(self, work: ModelWork, unit: Unit, plan: ModelPlan) -> ModelPlan | None:
        """The best plan of a unit, on the memory it is reported with."""
        if self.valuation.is_memory_priced:  # then its size decides the worth, and that is looked at
            memory = next((one for one in self.memories if one.hbm_bytes == plan.hbm_bytes), None)
            found = None if memory is None else self.solver.solve(work, unit, memory, math.inf)
            if memory is None or found is None or found.plan is None:
                return None
            return self.solver.model_plan(work, unit, memory, found)
        best = self.solver.solve(work, unit, self.memories[-1], math.inf)
        if best.plan is None:
            return None
        for memory in self.memories:
            found = self.solver.solve(work, unit, memory, math.inf)
            if self._is_as_good(found, best):
                return self.solver.model_plan(work, unit, memory, found)
        return None

    def _is_as_good(self, found: UnitAnswer, best: UnitAnswer) -> bool:
        if found.plan is None or found.batch_s > best.batch_s:
            return False
        worth = self.valuation.worth(0, self.memories[-1].hbm_bytes)
        return not worth.is_per_watt or found.energy_per_sample_j == best.energy_per_sample_j

    def wrong_worth(self, plans: Sequence[ModelPlan | None], objective: float, bound: float) -> Wrong:
        """An objective that plans do not give, or a bound that nothing explains."""
        given = self.valuation.combined([self._worth(plan) for plan in plans])
        if differs(given, objective):
            yield f"objective {objective:.9g}, the plans give {given:.9g}"
        if bound < objective:
            yield f"bound {bound:.9g} below its objective {objective:.9g}"
        elif bound > objective * (1 + ROUNDING):
            most = self.valuation.combined(
                [
                    max(self._worth(plan), self._reachable(work))
                    for work, plan in zip(self.prepared.works, plans, strict=True)
                ]
            )
            if bound > most * (1 + ROUNDING):
                yield f"bound {bound:.9g}, schedules that are not proven allow {most:.9g}"

    def _worth(self, plan: ModelPlan | None) -> float:
        if plan is None:
            return 0.0
        return self.valuation.worth(0, plan.hbm_bytes).of_plan(plan.batch_s, plan.energy_per_sample_j)

    def _reachable(self, work: ModelWork) -> float:
        """What any unit might reach, were its schedules as short as their bounds."""
        best, least_j = 0.0, self.valuation.least_j(work, 0)
        for memory in self.memories if self.valuation.is_memory_priced else self.memories[-1:]:
            worth = self.valuation.worth(0, memory.hbm_bytes)
            for unit in work.units:
                answer = self.solver.solve(work, unit, memory, math.inf)
                best = max(best, worth.at_best(answer.bound_s, least_j))
        return best


def wrong_known_chips(prepared: Preparation, answers: Sequence[ChipAnswer]) -> Wrong:
    """Chips measured beside the search whose area, plans or objective do not come out again."""
    space = prepared.settings.scenario.space
    for one in answers:
        name, check = one.chip.name, PlansOnChip(prepared, one.chip)
        area_um2 = float(space_area(chip_table([one.chip]), space).total_um2_c[0])
        if differs(area_um2, one.area_um2):
            yield f"{name}: {one.area_um2:,.2f} um2 recorded, it has {area_um2:,.2f} um2"
        if len(one.plans) != len(prepared.works):
            yield f"{name}: {len(one.plans)} plans for {len(prepared.works)} models"
            continue
        for work, plan in zip(prepared.works, one.plans, strict=True):
            if plan is not None:
                yield from (f"{name}: {what}" for what in check.wrong_plan(work, plan))
            elif check.has_plan(work):
                yield f"{name}: {work.name} has a plan, none is recorded"
        if bool(one.reason) is not any(plan is None for plan in one.plans):
            yield f"{name}: its plans and its reason {one.reason!r} do not go together"
        yield from (f"{name}: {what}" for what in check.wrong_worth(one.plans, one.objective, one.bound))


def different_fields(recorded: Any, found: Any, path: str = "") -> Wrong:
    """Where two records differ by more than rounding."""
    if is_dataclass(recorded) and type(recorded) is type(found):
        for field in fields(recorded):
            step = f"{path}.{field.name}" if path else field.name
            yield from different_fields(getattr(recorded, field.name), getattr(found, field.name), step)
    elif isinstance(recorded, tuple) and isinstance(found, tuple) and len(recorded) == len(found):
        for at, (one, other) in enumerate(zip(recorded, found, strict=True)):
            yield from different_fields(one, other, f"{path}[{at}]")
    elif isinstance(recorded, float) and isinstance(found, float | int):
        if differs(recorded, float(found)):
            yield f"{path} {recorded!r:.40} recorded, {found!r:.40} derived"
    elif recorded != found or type(recorded) is not type(found):
        yield f"{path} {recorded!r:.40} recorded, {found!r:.40} derived"
