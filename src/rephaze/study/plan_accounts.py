"""What a search's plans of cost model ``full`` spend time and memory on, derived again for people to look at."""

from __future__ import annotations

from rephaze.errors import RunError
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.full_planner import FullPlanner
from rephaze.measure.model_work import Memory, ModelWork, Unit
from rephaze.measure.plan_schedules import scenario_of_plan
from rephaze.place.full.causes import causes_of
from rephaze.place.full.price import price_full_plan
from rephaze.types.chip import Chip
from rephaze.types.placement import PlacementModel
from rephaze.types.plan_account import PlanAccount
from rephaze.types.search import ModelPlan, SearchResult, SearchSettings
from rephaze.types.stopping import UNSTOPPED, StopSignal

SAME = 1e-9
"""Relative: times derived again are sums of the same terms."""


def plan_accounts(
    settings: SearchSettings, result: SearchResult, stop: StopSignal = UNSTOPPED
) -> tuple[PlanAccount, ...]:
    """One for each model of a search; none under other cost models, or without an answer.

    Layers are estimated and scheduled as the search did. ``RunError`` if that gives another time than was
    recorded, ``StoppedError`` when cut.
    """
    if result.chip is None or settings.scenario.placement_model is not PlacementModel.FULL:
        return ()
    return tuple(_account(settings, result.chip, plan, stop) for plan in result.plans)


def _account(settings: SearchSettings, chip: Chip, plan: ModelPlan, stop: StopSignal) -> PlanAccount:
    scenario = scenario_of_plan(settings.scenario, plan)
    work, solver = ModelWork(plan.model, scenario, stop), ChipSolver(chip, scenario, stop=stop)
    cut = work.cut_of(plan)
    if cut is None:
        raise RunError(f"{plan.model} has no cut into tp {plan.tp}, cp {plan.cp}, ep {plan.ep} now")
    unit = Unit(cut, plan.microbatch, work.units[0].policy)
    planner = FullPlanner(solver, work, unit, Memory(plan.hbm_bytes, chip.hbm_bytes_per_s))
    problem = planner.problem()
    graph = problem.graphs[0]
    price = price_full_plan(problem, graph, plan.full_plan)
    if abs(price.batch_s - plan.batch_s) > SAME * plan.batch_s:
        raise RunError(
            f"a batch of {plan.model} took {plan.batch_s:.9g} s in the search, {price.batch_s:.9g} s now"
        )
    return PlanAccount(
        model=plan.model,
        causes=causes_of(problem, graph, price),
        devices=price.devices,
        num_keep_positions=max(len(layer.keep) for layer in graph.layers),
    )
