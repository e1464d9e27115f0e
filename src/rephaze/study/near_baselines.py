"""What a search is set beside when it ends: known chips, TPUv4 and the winner with plans people would use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rephaze.measure.rule_plans import PlanRule
from rephaze.search.evaluator import Preparation
from rephaze.study.baselines import (
    SEARCHED_EXPERT,
    chip_with_expert_plans,
    chip_with_rule_plans,
    tpuv4_of,
)
from rephaze.study.yardstick import Yardstick
from rephaze.types.comparison import TPUV4_EXPERT, Baseline, ChipAnswer
from rephaze.types.placement import PlacementModel
from rephaze.types.search import SearchResult, SearchSettings
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal


def near_baselines(settings: SearchSettings, result: SearchResult, stop: StopSignal = UNSTOPPED) -> list[Baseline]:
    """TPUv4 with an expert's plan and practitioners' rules, the winner with an expert's; as many as time allows.

    What has no plan, such as a model no expert plan is published for, is among them with the reason.
    """
    if result.chip is None:
        return []
    found: list[Baseline] = []
    try:
        yardstick = Yardstick(Preparation(settings, stop))
        for measure in _measures(yardstick, result):
            found.append(measure())
            stop.check()
    except StoppedError:
        pass
    return found


def _measures(yardstick: Yardstick, result: SearchResult) -> list[Callable[[], Baseline]]:
    tpuv4, winner = tpuv4_of(yardstick.settings.scenario.space), result.chip
    assert winner is not None
    is_full = yardstick.settings.scenario.placement_model is PlacementModel.FULL

    def by_rule(rule: PlanRule) -> Callable[[], Baseline]:
        return lambda: chip_with_rule_plans(yardstick, f"tpuv4, {rule}", tpuv4, rule)

    return [
        lambda: chip_with_expert_plans(yardstick, TPUV4_EXPERT, tpuv4),
        *(by_rule(rule) for rule in PlanRule if is_full),
        lambda: chip_with_expert_plans(yardstick, SEARCHED_EXPERT, winner),
    ]


def known_as_baselines(known: Sequence[ChipAnswer]) -> list[Baseline]:
    """Known chips with their best plans, the best first."""
    return [
        Baseline(
            name=f"{one.chip.name}, searched plan",
            answer=one,
            num_evaluations=1,
            search_s=0.0,
            note=one.reason,
        )
        for one in sorted(known, key=lambda one: (-one.objective, one.chip.name))
    ]
