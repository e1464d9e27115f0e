"""The co-search beside every baseline: one table, the gain split by cause, and what sharing a chip costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rephaze.errors import SpecError
from rephaze.measure.rule_plans import PlanRule
from rephaze.search.certificate import DEVICE_TIME, LAYER_BOUNDS
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import Preparation
from rephaze.search.progress import SearchProgress
from rephaze.store.run_store import RunStore
from rephaze.study.baselines import (
    SEARCHED,
    SEARCHED_EXPERT,
    chip_with_expert_plans,
    chip_with_rule_plans,
    chip_with_searched_plans,
    search_at_random,
    search_by_area_groups,
    search_spotlight_style,
    tpuv4_of,
)
from rephaze.study.candidates import even_candidates, largest_candidates
from rephaze.study.chip_metric import ChipMetric
from rephaze.study.gains import split_gain
from rephaze.study.yardstick import Yardstick
from rephaze.types.comparison import TPUV4_EXPERT, TPUV4_SEARCHED, Baseline, Comparison, Sharing
from rephaze.types.placement import PlacementModel
from rephaze.types.search import SearchResult, SearchSettings, SearchStatus

OnStep = Callable[[str, SearchProgress | None], None]
"""Called when a baseline begins, and as the co-search goes on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedRun:
    """A finished search read back from its folder."""

    folder: Path
    settings: SearchSettings
    result: SearchResult


def read_run(folder: Path) -> RecordedRun:
    """The settings and the answer in a run folder; ``SpecError`` while it has no answer."""
    with RunStore.read(folder, whole=True) as store:
        settings, result = store.info().settings, store.result()
    if result is None:
        raise SpecError("run", str(folder), "has no answer yet", "finish it with rephaze search --resume")
    return RecordedRun(folder=folder, settings=settings, result=result)


def common_run(runs: Sequence[RecordedRun]) -> RecordedRun:
    """The run whose models are all the models of the others; every other must be one model's own search.

    ``SpecError`` says which run does not belong to the comparison.
    """
    common = max(runs, key=lambda run: len(run.settings.models))
    for run in runs:
        if run is common:
            continue
        if len(run.settings.models) != 1 or run.settings.models[0] not in common.settings.models:
            rule = f"must be the search of one of {', '.join(common.settings.models)} alone"
            raise SpecError("run", str(run.folder), rule)
        if run.settings != own_settings(common.settings, run.settings.models[0]):
            raise SpecError("run", str(run.folder), f"was made with other settings than {common.folder}")
    return common


def own_settings(settings: SearchSettings, model: str) -> SearchSettings:
    """The same search for one model alone."""
    return replace(settings, models=(model,), weights=(1.0,))


def compare_baselines(
    settings: SearchSettings,
    *,
    budget: int,
    runs: Sequence[RecordedRun] = (),
    own_best: bool = False,
    searching: bool = True,
    num_workers: int = 1,
    time_limit_s: float = math.inf,
    on_step: OnStep = lambda _step, _progress: None,
) -> Comparison:
    """Every baseline on one yardstick, beside the co-search.

    Args:
        settings: The search; its seed is the baselines' too.
        budget: Chips each searching baseline may look at.
        runs: Finished searches to take answers from instead of searching: the common one, single models'.
        own_best: Search each model's own best chip where no run gives it.
        searching: Also the baselines that look for a chip of their own.
        num_workers: Processes of the co-search.
        time_limit_s: Of each co-search; past it the incumbent is compared.
        on_step: Called when something begins, and as a search goes on.
    """
    if budget < 1:
        raise SpecError("budget", budget, "must be at least 1")
    if settings.has_systems:
        rule = "baselines are chips on a given cluster, and this run chooses its system"
        raise SpecError(
            "run", [str(run.folder) for run in runs], rule, "compare a run without [system] and [budget]"
        )
    answers = {run.settings.models: run.result for run in runs}

    def search(wanted: SearchSettings, step: str) -> SearchResult:
        if wanted.models not in answers:
            answers[wanted.models] = run_search(
                wanted,
                num_workers=num_workers,
                time_limit_s=time_limit_s,
                on_progress=lambda progress: on_step(step, progress),
            )
        return answers[wanted.models]

    on_step(SEARCHED, None)
    result = search(settings, SEARCHED)
    yardstick = Yardstick(Preparation(settings))
    baselines = _baselines(yardstick, result, budget if searching else 0, on_step)
    on_step("gains by cause", None)
    by_name = {one.name: one for one in baselines}
    expert, searched, winner = (by_name[name].answer for name in (TPUV4_EXPERT, TPUV4_SEARCHED, SEARCHED))
    gains = split_gain(yardstick, expert, searched, winner) if expert and searched and winner else None
    sharing = []
    for position, model in enumerate(settings.models if len(settings.models) > 1 else ()):
        if result.chip is None or not (own_best or (model,) in answers):
            continue
        step = f"own best chip of {model}"
        on_step(step, None)
        own = search(own_settings(settings, model), step)
        if own.chip is not None:
            sharing.append(_sharing(model, result, position, own))
    return Comparison(
        settings=settings,
        status=str(result.status),
        baselines=tuple(baselines),
        gains=gains,
        sharing=tuple(sharing),
    )


def _baselines(yardstick: Yardstick, result: SearchResult, budget: int, on_step: OnStep) -> list[Baseline]:
    settings = yardstick.settings
    tpuv4 = tpuv4_of(settings.scenario)
    found: list[Baseline] = []
    on_step(TPUV4_EXPERT, None)
    found.append(chip_with_expert_plans(yardstick, TPUV4_EXPERT, tpuv4))
    if settings.scenario.placement_model is PlacementModel.FULL:
        for rule in PlanRule:
            on_step(f"tpuv4, {rule}", None)
            found.append(chip_with_rule_plans(yardstick, f"tpuv4, {rule}", tpuv4, rule))
    on_step(TPUV4_SEARCHED, None)
    found.append(chip_with_searched_plans(yardstick, TPUV4_SEARCHED, tpuv4))
    if budget:
        found.extend(_searching(yardstick, budget, on_step))
    if result.chip is not None:
        on_step(SEARCHED_EXPERT, None)
        found.append(chip_with_expert_plans(yardstick, SEARCHED_EXPERT, result.chip))
    found.append(_searched(yardstick, result))
    return found


def _searching(yardstick: Yardstick, budget: int, on_step: OnStep) -> list[Baseline]:
    """The baselines that look for a chip of their own."""
    seed = yardstick.settings.seed
    on_step("designs for the baselines", None)
    candidates = even_candidates(yardstick.prepared)
    if not candidates.num_designs:
        return []
    found: list[Baseline] = []
    for metric in ChipMetric:
        on_step(f"spotlight {metric}", None)
        found.extend(search_spotlight_style(yardstick, candidates, metric, budget, seed))
    on_step("random search", None)
    found.append(search_at_random(yardstick, candidates, budget, seed))
    on_step("paper's heuristic", None)
    found.append(search_by_area_groups(yardstick, largest_candidates(yardstick.prepared, budget + 1), budget))
    return found


def _searched(yardstick: Yardstick, result: SearchResult) -> Baseline:
    certificate = result.certificate
    by_boxes = certificate.num_boxes is not None
    dropped = {} if by_boxes else certificate.num_dropped_by_bound
    while_solving = sum(count for name, count in dropped.items() if name not in (DEVICE_TIME, LAYER_BOUNDS))
    counted = "grid points" if by_boxes else "designs"
    is_proven = result.status is SearchStatus.OPTIMAL
    gap = f"gap {result.gap:.2%}" if math.isfinite(result.gap) else "no bound yet"
    proof = "proven optimal" if is_proven else f"{result.status}, {gap}"
    return Baseline(
        name=SEARCHED,
        answer=None if result.chip is None else yardstick.answer(result.chip, result.plans, bound=result.bound),
        num_evaluations=certificate.num_solved_exactly + while_solving,
        search_s=result.search_s,
        note=f"{proof} over {certificate.num_designs:,} {counted}" if result.chip else result.reason,
    )


def _sharing(model: str, common: SearchResult, position: int, own: SearchResult) -> Sharing:
    assert own.chip is not None
    shared, alone = common.plans[position].samples_per_s, own.plans[0].samples_per_s
    return Sharing(
        model=model,
        common_samples_per_s=shared,
        own_samples_per_s=alone,
        own_chip=own.chip,
        lost_fraction=1.0 - shared / alone,
        is_proven=common.status is SearchStatus.OPTIMAL and own.status is SearchStatus.OPTIMAL,
    )
