"""What a search's plans of cost model ``full`` spend time and memory on, derived again for people to look at."""

from __future__ import annotations

from rephaze.place.full.causes import causes_of
from rephaze.study.plan_again import plan_again
from rephaze.types.chip import Chip
from rephaze.types.placement import PlacementModel
from rephaze.types.plan_account import PlanAccount
from rephaze.types.search import ModelPlan, SearchResult, SearchSettings
from rephaze.types.stopping import UNSTOPPED, StopSignal


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
    again = plan_again(settings, chip, plan, stop)
    return PlanAccount(
        model=plan.model,
        causes=causes_of(again.problem, again.graph, again.price),
        devices=again.price.devices,
        num_keep_positions=max(len(layer.keep) for layer in again.graph.layers),
    )
