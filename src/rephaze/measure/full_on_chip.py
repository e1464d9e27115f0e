"""One model on one chip under cost model ``full``: its placement problem with scheduled times."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from rephaze.measure.best_plan import UnitSearch
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.full_planner import FullPlanner
from rephaze.measure.model_on_chip import UnprovenPass, unproven_passes
from rephaze.measure.model_work import ModelWork
from rephaze.measure.objective import ChipWorth
from rephaze.measure.pass_solver import Memos
from rephaze.measure.units import Memory, Unit
from rephaze.place.full.limits import limited_options
from rephaze.schedule.parts import SEARCH_WORK
from rephaze.types.chip import Chip
from rephaze.types.full import FullGraph, FullLimits, FullProblem
from rephaze.types.scenario import Scenario
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal

QUICK_WORK = SEARCH_WORK // 10
"""For a schedule of which a proof is not asked for yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FullChipProblem:
    """The placement problem of a model on a chip, and how far its layers' schedules are proven."""

    problem: FullProblem
    """Without the cuts and sizes that a bound shows to be slower than the best plan, or at which some layer cannot
    run on the chip; possibly without any."""
    bound_s: float
    """No plan is faster, whatever schedules that are not proven might still give."""
    is_unproven: bool
    """Such schedules, or what time did not suffice for, might give a faster plan."""
    num_open: int
    """Cuts and sizes that may be faster and were not solved when time was up."""
    num_passes: int
    unproven: tuple[UnprovenPass, ...]


def full_placement_on_chip(
    model: str,
    chip: Chip,
    scenario: Scenario,
    on_unit: Callable[[int, int], None] = lambda _done, _all: None,
    *,
    limits: FullLimits | None = None,
    time_limit_s: float = math.inf,
) -> FullChipProblem:
    """The placement problem of a model on a cluster of one chip, every layer that matters scheduled.

    Args:
        model: Zoo name or graph file.
        chip: The chip; its memory is what plans must fit.
        scenario: Lists to choose from, cluster, training; its placement model is ``full``.
        on_unit: Told how many of the cuts and microbatch sizes are scheduled, and of how many.
        limits: Choices to be compared with the best plan: the cuts and sizes that matter under them stay too.
        time_limit_s: After so long the best plan so far will do, if there is one; its gap is proven all the same.
    """
    on_chip = _OnChip(model, chip, scenario, on_unit, StopSignal(time.perf_counter() + time_limit_s))
    search, units = on_chip.search(scenario)
    if limits is not None and search.best is not None:
        units |= on_chip.search(limited_scenario(scenario, limits), limits)[1]
    graphs: dict[Unit, FullGraph] = {}
    unproven: list[UnprovenPass] = []
    for done, unit in enumerate(units):
        on_unit(done, len(units))
        planner = on_chip.planner(unit)
        if planner.times().is_possible:
            graphs[unit] = planner.problem().graphs[0]
            unproven.extend(unproven_passes(on_chip.solver, planner.work, unit.cut, unit.microbatch))
    return FullChipProblem(
        problem=on_chip.problem(tuple(graphs.values())),
        bound_s=scenario.training.global_batch / search.upper if search.upper > 0 else 0.0,
        is_unproven=search.upper > search.value,
        num_open=search.num_open,
        num_passes=2 * len(set(on_chip.works[0].layer_type_of)) * len(graphs),
        unproven=tuple(unproven),
    )


class _OnChip:
    """One chip, and the model under the scenario and under choices made beforehand."""

    def __init__(
        self,
        model: str,
        chip: Chip,
        scenario: Scenario,
        on_unit: Callable[[int, int], None],
        time_limit: StopSignal,
    ) -> None:
        self.model, self._on_unit, self._time_limit = model, on_unit, time_limit
        memos = Memos()
        self.solver = ChipSolver(chip, scenario, memos=memos)
        self._quick_solver = ChipSolver(chip, scenario, memos=memos, schedule_work=QUICK_WORK)
        self._memory = Memory(chip.hbm_bytes, chip.hbm_bytes_per_s)
        self.works: list[ModelWork] = []
        self._work_of: dict[Unit, ModelWork] = {}

    def search(self, scenario: Scenario, limits: FullLimits | None = None) -> tuple[UnitSearch, dict[Unit, None]]:
        """The best plan under a scenario and choices, and the units that had to be solved for it."""
        work = ModelWork(self.model, scenario, limits=limits)
        self.works.append(work)
        bounds = self.solver.unit_bounds(work, self._memory)
        worth = ChipWorth(global_batch=scenario.training.global_batch)
        found = UnitSearch(self.solver, work, self._memory, bounds, worth)
        solved: dict[Unit, None] = {}
        # A good plan first, on schedules that are nearly the best: fewer units are left to be scheduled exactly.
        quick = UnitSearch(self._quick_solver, work, self._memory, bounds, worth)
        self._run(self._quick_solver, quick, {})
        if (unit := found.take_over(quick)) is not None:
            solved[unit] = None
        self._run(self.solver, found, solved)
        # Without a plan every unit stays, to say what is in the way.
        solved = solved if found.best is not None else dict.fromkeys(work.units)
        for unit in solved:
            self._work_of.setdefault(unit, work)
        return found, solved

    def _run(self, solver: ChipSolver, found: UnitSearch, solved: dict[Unit, None]) -> None:
        """Refine until no unit can beat the best, or time is up and there is a plan."""
        solver.stop = StopSignal(is_asked=lambda: found.best is not None and self._time_limit.is_over())
        try:
            while found.promise > 1.0:
                self._on_unit(len(solved), len(found.work.units))
                if (unit := found.refine()) is not None:
                    solved[unit] = None
        except StoppedError:
            pass  # the best so far will do; what was not solved keeps its bound
        finally:
            solver.stop = UNSTOPPED

    def planner(self, unit: Unit) -> FullPlanner:
        """Of a unit that was solved."""
        return FullPlanner(self.solver, self._work_of[unit], unit, self._memory)

    def problem(self, graphs: tuple[FullGraph, ...]) -> FullProblem:
        """Of these graphs, under the scenario itself."""
        return self.works[0].full_problem((), self._memory).with_graphs(graphs)


def limited_scenario(scenario: Scenario, limits: FullLimits) -> Scenario:
    """The scenario with only what agrees with choices made beforehand."""

    def only(value: int | None, listed: tuple[int, ...]) -> tuple[int, ...]:
        return listed if value is None else (value,)

    training = scenario.training
    etp = training.etp_degrees
    limited = replace(
        training,
        tp_degrees=only(limits.tp, training.tp_degrees),
        cp_degrees=only(limits.cp, training.cp_degrees),
        ep_degrees=only(limits.ep, training.ep_degrees),
        etp_degrees=etp if limits.etp is None else (limits.etp,),
        microbatches=only(limits.microbatch, training.microbatches),
        sequence_parallel=training.sequence_parallel if limits.sp is None else (limits.sp,),
    )
    return replace(scenario, training=limited, plans=limited_options(scenario.plans, limits))
