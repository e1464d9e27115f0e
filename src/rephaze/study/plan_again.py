"""A recorded plan of cost model ``full`` with its problem and price, derived again."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.errors import RunError
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.full_planner import FullPlanner
from rephaze.measure.model_work import Memory, ModelWork, Unit
from rephaze.measure.plan_schedules import scenario_of_plan
from rephaze.place.full.price import price_full_plan
from rephaze.types.chip import Chip
from rephaze.types.full import FullGraph, FullPrice, FullProblem
from rephaze.types.search import ModelPlan, SearchSettings
from rephaze.types.stopping import UNSTOPPED, StopSignal

SAME = 1e-9
"""Relative: times derived again are sums of the same terms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanAgain:
    """A plan as placement sees it."""

    problem: FullProblem
    graph: FullGraph
    price: FullPrice


def plan_again(settings: SearchSettings, chip: Chip, plan: ModelPlan, stop: StopSignal = UNSTOPPED) -> PlanAgain:
    """The plan priced on layers that are estimated and scheduled as the search did.

    Raises:
        RunError: That gives another time than was recorded.
        StoppedError: When cut.
    """
    scenario = scenario_of_plan(settings.scenario, plan)
    work, solver = ModelWork(plan.model, scenario, stop), ChipSolver(chip, scenario, stop=stop)
    cut = work.cut_of(plan)
    if cut is None:
        raise RunError(f"{plan.model} has no cut into tp {plan.tp}, cp {plan.cp}, ep {plan.ep} now")
    unit = Unit(cut, plan.microbatch, work.units[0].policy)
    problem = FullPlanner(solver, work, unit, Memory(plan.hbm_bytes, chip.hbm_bytes_per_s)).problem()
    graph = problem.graphs[0]
    price = price_full_plan(problem, graph, plan.full_plan)
    if abs(price.batch_s - plan.batch_s) > SAME * plan.batch_s:
        raise RunError(
            f"a batch of {plan.model} took {plan.batch_s:.9g} s in the search, {price.batch_s:.9g} s now"
        )
    return PlanAgain(problem=problem, graph=graph, price=price)
