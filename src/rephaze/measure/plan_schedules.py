"""The schedules behind a plan's layer times, derived again for people to look at."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.layer_problem import layer_problem
from rephaze.measure.model_work import ModelWork
from rephaze.measure.units import Unit
from rephaze.schedule.solve import LayerSchedule
from rephaze.types.chip import Chip
from rephaze.types.full import FullPlan
from rephaze.types.scenario import Scenario
from rephaze.types.schedule import (
    PassSchedule,
    Schedule,
    ScheduleProblem,
    ScheduleStatus,
    scheduled,
)
from rephaze.types.search import ModelPlan, SearchSettings
from rephaze.types.stopping import UNSTOPPED, StopSignal

DIRECTIONS = ("forward", "backward")


def plan_passes(
    settings: SearchSettings, chip: Chip, plan: ModelPlan, stop: StopSignal = UNSTOPPED
) -> tuple[PassSchedule, ...]:
    """Forward and backward pass of every layer type of a model on a chip, the most repeated type first.

    Layers are estimated and scheduled as the search did, at the degree and the microbatch size of the plan. A
    model given as a file is read again: ``RephazeError`` if it is gone. ``StoppedError`` when cut.
    """
    return tuple(_layer_schedules(plan.model, settings.scenario, chip, plan, stop))


def scenario_of_plan(scenario: Scenario, plan: ModelPlan | FullPlan) -> Scenario:
    """The scenario with the plan's own cut and size alone: preparing the others would take most of the time."""
    training = replace(
        scenario.training,
        tp_degrees=(plan.tp,),
        microbatches=(plan.microbatch,),
        sequence_parallel=(plan.sp,),
        cp_degrees=(plan.cp,),
        ep_degrees=(plan.ep,),
        etp_degrees=None if scenario.training.etp_degrees is None else (plan.etp,),
    )
    return replace(scenario, training=training)


def plan_schedules(
    model: str, scenario: Scenario, chip: Chip, plan: ModelPlan | FullPlan, stop: StopSignal = UNSTOPPED
) -> list[PassSchedule]:
    """Forward and backward pass of a model's most repeated layer type on a chip, cut as a plan says."""
    return list(_layer_schedules(model, scenario, chip, plan, stop, most=1))


def _layer_schedules(
    model: str,
    scenario: Scenario,
    chip: Chip,
    plan: ModelPlan | FullPlan,
    stop: StopSignal,
    most: int | None = None,
) -> Iterator[PassSchedule]:
    """Both passes of so many layer types, the most repeated first."""
    scenario = scenario_of_plan(scenario, plan)
    work, solver = ModelWork(model, scenario, stop), ChipSolver(chip, scenario, stop=stop)
    unit = Unit(work.cuts[0], plan.microbatch, work.units[0].policy)
    for kind, num_layers in Counter(work.layer_type_of).most_common(most):
        for direction, name in enumerate(DIRECTIONS):
            problem, schedule = _pass(work, solver, unit, kind, direction)
            yield PassSchedule(
                model=model,
                layer=work.graph(unit.cut).layer_types[kind].name,
                direction=name,
                num_layers=num_layers,
                tp=plan.tp,
                microbatch=plan.microbatch,
                clock_hz=chip.clock_hz,
                problem=problem,
                schedule=schedule,
            )


def _pass(
    work: ModelWork, solver: ChipSolver, unit: Unit, kind: int, direction: int
) -> tuple[ScheduleProblem, Schedule]:
    began = time.perf_counter()
    form = solver.fastest_form(work, unit.cut, unit.microbatch, kind).form
    one_pass = work.forms(unit.cut)[form].passes[kind][direction]
    table = solver.pass_table(work, unit.cut, unit.microbatch, kind, direction, form)
    found = solver.schedule(work, one_pass, table)
    problem = layer_problem(table, solver.chip, one_pass.graph.edges, solver.exclusion)
    return problem, _schedule(problem, found, time.perf_counter() - began)


def _schedule(problem: ScheduleProblem, found: LayerSchedule, solve_s: float) -> Schedule:
    is_feasible = found.status is not ScheduleStatus.INFEASIBLE
    starts = zip(problem.ops, found.start_cycles_o.tolist(), found.mode_o.tolist(), strict=True)
    return Schedule(
        status=found.status,
        makespan_cycles=found.makespan_cycles,
        bound_cycles=found.bound_cycles,
        starts=tuple(scheduled(op, start, way) for op, start, way in starts) if is_feasible else (),
        solve_s=solve_s,
        reason="" if is_feasible else f"op {problem.ops[found.impossible_op].name!r} can run in no mode",
    )
