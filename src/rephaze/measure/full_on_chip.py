"""One model on one chip under cost model ``full``: its placement problem with scheduled times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rephaze.measure.best_plan import UnitSearch
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.full_planner import FullPlanner
from rephaze.measure.model_on_chip import UnprovenPass, unproven_passes
from rephaze.measure.model_work import Memory, ModelWork, Unit
from rephaze.measure.objective import ChipWorth
from rephaze.types.chip import Chip
from rephaze.types.full import FullGraph, FullProblem
from rephaze.types.scenario import Scenario


@dataclass(frozen=True, kw_only=True, slots=True)
class FullChipProblem:
    """The placement problem of a model on a chip, and how far its layers' schedules are proven."""

    problem: FullProblem
    """Without the cuts and sizes that a bound shows to be slower than the best plan, or at which some layer cannot
    run on the chip; possibly without any."""
    bound_s: float
    """No plan is faster, whatever schedules that are not proven might still give."""
    num_passes: int
    unproven: tuple[UnprovenPass, ...]


def full_placement_on_chip(
    model: str,
    chip: Chip,
    scenario: Scenario,
    on_unit: Callable[[int, int], None] = lambda _done, _all: None,
    *,
    is_asked: Callable[[Unit], bool] = lambda _unit: False,
) -> FullChipProblem:
    """The placement problem of a model on a cluster of one chip, every layer that matters scheduled.

    Args:
        model: Zoo name or graph file.
        chip: The chip; its memory is what plans must fit.
        scenario: Lists to choose from, cluster, training; its placement model is ``full``.
        on_unit: Told how many of the cuts and microbatch sizes are scheduled, and of how many.
        is_asked: Units that stay whatever their bounds, to be compared with the best plan.
    """
    work, solver = ModelWork(model, scenario), ChipSolver(chip, scenario)
    memory = Memory(chip.hbm_bytes, chip.hbm_bytes_per_s)
    global_batch = scenario.training.global_batch
    search = UnitSearch(
        solver, work, memory, solver.unit_bounds(work, memory), ChipWorth(global_batch=global_batch)
    )
    solved: list[Unit] = []
    while search.promise > 1.0:
        on_unit(len(solved), len(work.units))
        if (unit := search.refine()) is not None:
            solved.append(unit)
    # Without a plan every unit stays, to say what is in the way.
    units = [unit for unit in work.units if search.best is None or unit in solved or is_asked(unit)]
    graphs: list[FullGraph] = []
    unproven: list[UnprovenPass] = []
    num_passes = 0
    for done, unit in enumerate(units):
        on_unit(done, len(units))
        planner = FullPlanner(solver, work, unit, memory)
        if planner.times().is_possible:
            graphs.append(planner.problem().graphs[0])
            num_passes += 2 * len(work.passes(unit.cut))
            unproven.extend(unproven_passes(solver, work, unit.cut, unit.microbatch))
    upper = search.upper
    return FullChipProblem(
        problem=work.full_problem((), memory).with_graphs(tuple(graphs)),
        bound_s=global_batch / upper if upper > 0 else 0.0,
        num_passes=num_passes,
        unproven=tuple(unproven),
    )
