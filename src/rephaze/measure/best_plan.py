"""The best plan of one model on one chip: best first over units, each refined only while it may still win.

A unit (cut, microbatch size, recompute policy) comes along the same stages everywhere: layer bounds in closed
form, the same with mapped operators, the placement program on those, then on what little work proves of the
schedules, and at last exact schedules and the best plan. Why each is a bound: docs/proof.md.

Axis letters: u = unit, c = chip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.model_bounds import ModelBounds
from rephaze.measure.model_work import ModelWork
from rephaze.measure.objective import ChipWorth
from rephaze.measure.pass_times import LayerSeconds
from rephaze.measure.unit_answer import UnitAnswer
from rephaze.measure.units import Memory, Unit
from rephaze.types.search import ModelPlan

Floats = NDArray[np.float64]


class Stage(IntEnum):
    """How far a unit has come."""

    BOUNDED = 0
    MAPPED = 1
    PLACED = 2
    HURRIED = 3
    SOLVED = 4


STAGE_NAMES = (
    "layer bounds",
    "mapped operators",
    "plans on mapped operators",
    "hurried schedules",
    "schedules and plans",
)
"""What a certificate calls the bound of each stage."""
MOST_MAPPED = 32
"""Classes of passes that a trial maps before it goes on with the best of these."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BestPlan:
    """The best plan found so far."""

    value: float
    unit: Unit
    answer: UnitAnswer


class UnitSearch:
    """Best first over the units of one model on one chip with one memory.

    Args:
        solver: Of the chip.
        work: The model.
        memory: What plans must fit.
        bounds: Of the model on this chip alone; those of a larger memory will do.
        worth: What plans are worth.
        least_j: Dynamic energy of a sample that no plan goes below, if energy counts.
        is_one_of_many: The chip is for other models too: then it matters how good this one may be even where that
            does not drop the chip.
    """

    def __init__(
        self,
        solver: ChipSolver,
        work: ModelWork,
        memory: Memory,
        bounds: ModelBounds,
        worth: ChipWorth,
        least_j: float = 0.0,
        *,
        is_one_of_many: bool = False,
    ) -> None:
        self.solver, self.work, self.memory = solver, work, memory
        self._is_one_of_many = is_one_of_many
        self.worth, self.least_j = worth, least_j
        self._finer = solver.finer_bounds(work, memory, bounds)
        self.upper_u = np.array([self._at_best(float(batch_s)) for batch_s in bounds.batch_s_uc[:, 0]])
        """No plan of a unit has a better value."""
        self._class_of_u = np.array([work.class_of[unit.cut, unit.microbatch] for unit in work.units])
        self.stage_u = np.where(bounds.is_mapped_kc[self._class_of_u, 0] > 0, Stage.MAPPED, Stage.BOUNDED)
        self.best: BestPlan | None = None
        self.unproven = 0.0
        """The most that schedules not proven might still reach; zero if all that matter are."""
        self.cut = 0.0
        """The most that plans beyond a limit might reach, which were not looked for; zero if there are none."""
        self._cut_units: list[int] = []
        """Solved only below a limit."""
        self.finest = Stage(int(self.stage_u.max(initial=Stage.BOUNDED)))
        """The furthest any unit has come."""
        self._num_mapped = 0
        """Classes of passes."""

    @property
    def value(self) -> float:
        """Of the best plan; zero without one."""
        return self.best.value if self.best else 0.0

    @property
    def upper(self) -> float:
        """No plan does better, by all that is known now."""
        return max(self._open_upper, self.value, self.unproven, self.cut)

    @property
    def promise(self) -> float:
        """How many times better than the best an open unit may be; 1 when none is better."""
        if self._open_upper <= self.value:
            return 1.0
        return self._open_upper / self.value if self.best else math.inf

    @property
    def _open_upper(self) -> float:
        return float(self.upper_u[self.stage_u < Stage.SOLVED].max(initial=0.0))

    @property
    def num_open(self) -> int:
        """Units that are not solved and may be better than the best."""
        return int(np.count_nonzero((self.stage_u < Stage.SOLVED) & (self.upper_u > self.value)))

    def run(self) -> None:
        """Refine until no unit can beat the best."""
        while self.promise > 1.0:
            self.refine()

    def take_over(self, other: UnitSearch) -> Unit | None:
        """Know what another search of the same units found, and solve its best one, if any, before others.

        Its bounds hold whatever its solver could prove of schedules; its plans count for nothing here.
        """
        self._finer, self.finest = other._finer, min(other.finest, Stage.HURRIED)
        self.upper_u = np.minimum(self.upper_u, other.upper_u)
        self.stage_u = np.minimum(other.stage_u, Stage.HURRIED)
        if other.best is None:
            return None
        self._solve(other.best.unit, math.inf)
        self.stage_u[self.work.units.index(other.best.unit)] = self.finest = Stage.SOLVED
        return other.best.unit

    def refine(self, limit_s: float = math.inf, *, is_trial: bool = False) -> Unit | None:
        """Take the most promising open unit one stage further; the unit if that solved it.

        Args:
            limit_s: Plans that take longer are of no use, whatever they save.
            is_trial: A plan is wanted, not a proof: what hurried schedules say of a unit is not asked for.
        """
        self.solver.stop.check()
        is_open_u = self.stage_u < Stage.SOLVED
        if is_trial and self._num_mapped >= MOST_MAPPED:
            is_mapped_u = is_open_u & (self.stage_u > Stage.BOUNDED) & (self.upper_u > 0)
            is_open_u = is_mapped_u if is_mapped_u.any() else is_open_u
        u = int(np.argmax(np.where(is_open_u, self.upper_u, -1.0)))
        unit = self.work.units[u]
        # A slower plan of the same model is of no use, unless energy counts.
        best_s = self.best.answer.batch_s if self.best and not self.worth.is_per_watt else math.inf
        cutoff_s = min(best_s, limit_s)
        stage = Stage(int(self.stage_u[u]) + 1)
        if is_trial and stage is Stage.HURRIED:
            stage = Stage.SOLVED
        self.finest = max(self.finest, stage)
        if stage is Stage.MAPPED:
            self._map_class(int(self._class_of_u[u]))
        elif stage is Stage.SOLVED:
            answer = self._solve(unit, cutoff_s)
            if limit_s < best_s and math.isfinite(answer.bound_s):
                self.cut = max(self.cut, min(float(self.upper_u[u]), self._at_best(limit_s)))
                self._cut_units.append(u)
        else:
            self.upper_u[u] = min(self.upper_u[u], self._at_best(self._bound_s(unit, stage, cutoff_s)))
        # Only now: what is cut on the way keeps its bound.
        self.stage_u[u] = stage
        return unit if stage is Stage.SOLVED else None

    def reopen(self) -> None:
        """Have the units that were solved only below a limit solved once more."""
        self.stage_u[self._cut_units] = Stage.HURRIED
        self.cut, self._cut_units = 0.0, []

    def _map_class(self, k: int) -> None:
        """All units of the class at once: their passes are bounded as one."""
        self._num_mapped += 1
        self._finer.map_class(k, np.array([0]))
        for u in self._finer.units_of_k[k].tolist():
            if self.stage_u[u] == Stage.BOUNDED:
                batch_s = float(self._finer.bounds.batch_s_uc[u, 0])
                self.upper_u[u] = min(self.upper_u[u], self._at_best(batch_s))
                self.stage_u[u] = Stage.MAPPED

    def _bound_s(self, unit: Unit, stage: Stage, cutoff_s: float) -> float:
        k, bounds = self.work.class_of[unit.cut, unit.microbatch], self._finer.bounds
        layer_s = LayerSeconds(bounds.forward_s_kct[k, 0], bounds.backward_s_kct[k, 0], bounds.input_s_kct[k, 0])
        if stage is Stage.PLACED:
            is_told = self._is_one_of_many
            return self.solver.placed_bound_s(self.work, unit, self.memory, layer_s, cutoff_s, is_told=is_told)
        return self.solver.hurried_bound_s(self.work, unit, self.memory, cutoff_s, layer_s)

    def _solve(self, unit: Unit, cutoff_s: float) -> UnitAnswer:
        answer = self.solver.solve(self.work, unit, self.memory, cutoff_s)
        if answer.bound_s < min(answer.batch_s, cutoff_s):
            self.unproven = max(self.unproven, self._at_best(answer.bound_s))
        value = self.worth.of_plan(answer.batch_s, answer.energy_per_sample_j)
        if value > self.value:
            self.best = BestPlan(value=value, unit=unit, answer=answer)
        return answer

    def _at_best(self, batch_s: float) -> float:
        return self.worth.at_best(batch_s, self.least_j)

    def plan(self, smaller: Sequence[Memory] = ()) -> ModelPlan:
        """The best plan as it is reported, on the smallest of these memories it does not lose by, or on its own.

        Args:
            smaller: Memories to try, smallest first.
        """
        assert self.best is not None
        unit, answer = self.best.unit, self.best.answer
        for memory in smaller:
            found = self.solver.solve(self.work, unit, memory, math.inf)
            if found.plan is None or found.batch_s > answer.batch_s:
                continue
            # As fast with other stages replayed, it may use another energy: then it is not the plan valued.
            if not self.worth.is_per_watt or found.energy_per_sample_j == answer.energy_per_sample_j:
                return self.solver.model_plan(self.work, unit, memory, found)
        return self.solver.model_plan(self.work, unit, self.memory, answer)
