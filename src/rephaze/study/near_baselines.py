"""What a search is set beside when it ends: known chips, TPUv4 and the winner with plans people would use."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rephaze.measure.rule_plans import PlanRule
from rephaze.search.evaluator import Preparation
from rephaze.study.baselines import (
    SEARCHED_EXPERT,
    chip_with_expert_plans,
    chip_with_rule_plans,
    tpuv4_of,
)
from rephaze.study.yardstick import Yardstick
from rephaze.types.chip import Chip
from rephaze.types.comparison import TPUV4_EXPERT, Baseline, ChipAnswer
from rephaze.types.placement import PlacementModel
from rephaze.types.search import SearchResult, SearchSettings
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal


def near_baselines(
    settings: SearchSettings,
    result: SearchResult,
    stop: StopSignal = UNSTOPPED,
    *,
    without: Collection[str] = (),
) -> list[Baseline]:
    """TPUv4 with an expert's plan and practitioners' rules, the winner with an expert's; as many as time allows.

    What has no plan, such as a model no expert plan is published for, is among them with the reason. Those
    named in ``without`` are passed over.
    """
    if result.chip is None:
        return []
    left = [name for name in _names(settings) if name not in without]
    found: list[Baseline] = []
    try:
        yardstick = Yardstick(Preparation(settings, stop)) if left else None
        for name in left:
            assert yardstick is not None
            found.append(_measured(yardstick, name, result.chip))
            stop.check()
    except StoppedError:
        pass
    return found


def _names(settings: SearchSettings) -> list[str]:
    is_full = settings.scenario.placement_model is PlacementModel.FULL
    rules = [f"tpuv4, {rule}" for rule in PlanRule] if is_full else []
    return [TPUV4_EXPERT, *rules, SEARCHED_EXPERT]


def _measured(yardstick: Yardstick, name: str, winner: Chip) -> Baseline:
    if name == SEARCHED_EXPERT:
        return chip_with_expert_plans(yardstick, name, winner)
    tpuv4 = tpuv4_of(yardstick.settings.scenario)
    if name == TPUV4_EXPERT:
        return chip_with_expert_plans(yardstick, name, tpuv4)
    rule = next(rule for rule in PlanRule if name == f"tpuv4, {rule}")
    return chip_with_rule_plans(yardstick, name, tpuv4, rule)


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
