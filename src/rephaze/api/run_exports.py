"""A recorded run in other tools' words: its winner's plans, its chip, itself as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any

from rephaze.api.exports import Exported, chip_export, launch_export, pipeline_slices, schedule_trace, trace_export
from rephaze.api.launching import launch_of_full, launch_of_recorded
from rephaze.errors import RunError, SpecError
from rephaze.types.launch import ExportTarget
from rephaze.types.placement import PlacementModel
from rephaze.types.run_record import RunInfo
from rephaze.types.search import ModelPlan, SearchResult, SearchSettings

if TYPE_CHECKING:
    from rephaze.api.runs import Run
    from rephaze.launch.traces import Slice
    from rephaze.types.chip import Chip


def export_run(run: Run, target: ExportTarget, model: str | None = None) -> Exported:
    """The run's answer for one tool.

    Args:
        run: With an answer.
        target: Not a table.
        model: Whose plan, where the run has several.
    """
    from rephaze.search.systems import settings_of_design

    info, result = run.info, run.result
    if target is ExportTarget.JSON:
        return Exported(target=target, text=json.dumps(run_record(info, result), allow_nan=False) + "\n")
    if result is None:
        raise RunError(
            f"{run.folder}: holds no answer yet; finish it with rephaze search --out {run.folder} --resume"
        )
    if result.chip is None:
        raise RunError(f"{run.folder}: {result.status}, there is no plan to export")
    # Where the system was searched, that of the answer.
    settings = settings_of_design(info.settings, result.design)
    if target.is_chip:
        from rephaze.hardware.derating import searched_chip_of

        return chip_export(target, searched_chip_of(result.chip, settings.scenario), settings.scenario)
    plan = plan_of_model(result, model)
    if target.is_framework:
        return _settings(target, settings, result.chip, plan)
    slices, notes = _slices(settings, result.chip, plan)
    return trace_export(target, slices, notes)


def plan_of_model(result: SearchResult, model: str | None) -> ModelPlan:
    """The plan of a model, or of the only one there is."""
    names = [plan.model for plan in result.plans]
    if model is None and len(names) > 1:
        raise SpecError("--model", model, "says whose plan is exported", f"the run has {', '.join(names)}")
    if model is not None and model not in names:
        raise SpecError("--model", model, f"must be one of {', '.join(names)}")
    return result.plans[0 if model is None else names.index(model)]


def run_record(info: RunInfo, result: SearchResult | None) -> dict[str, Any]:
    """Settings, versions and answer as plain data; infinities, which JSON lacks, as null."""
    from rephaze.store.record_json import to_json

    answer: dict[str, Any] | None = None
    if result is not None:
        answer = {key: value for key, value in asdict(result).items() if key != "settings"}
        for name in ("objective", "bound", "gap"):
            answer[name] = answer[name] if isfinite(answer[name]) else None
    return {
        "format": "rephaze.run/1",
        "settings": to_json(info.settings),
        "versions": to_json(info.versions),
        "created_at": info.created_at,
        "updated_at": info.updated_at,
        "answer": answer,
    }


def _settings(target: ExportTarget, settings: SearchSettings, chip: Chip, plan: ModelPlan) -> Exported:
    from rephaze.workload.zoo import load_model

    scenario = settings.scenario
    graph = load_model(plan.model, scenario.attention)
    if scenario.placement_model is PlacementModel.FULL:
        from rephaze.study.plan_again import plan_again

        again = plan_again(settings, chip, plan)
        launch = launch_of_full(plan.model, again.problem, again.graph, again.price.plan, graph.seq_len)
    else:
        launch = launch_of_recorded(plan, scenario, graph.layer_names, graph.seq_len)
    return launch_export(target, launch)


def _slices(settings: SearchSettings, chip: Chip, plan: ModelPlan) -> tuple[Iterator[Slice], tuple[str, ...]]:
    from rephaze.measure.plan_schedules import plan_schedules

    found: list[Slice] = []
    notes: tuple[str, ...] = ()
    scenario = settings.scenario
    if scenario.placement_model is PlacementModel.FULL:
        from rephaze.study.plan_again import plan_again

        again = plan_again(settings, chip, plan)
        slices, notes = pipeline_slices(plan.model, again.problem, again.graph, again.price)
        found += slices
    else:
        notes = (f"no trace of the pipeline: needs cost model full, not {scenario.placement_model}",)
    found += schedule_trace(plan_schedules(plan.model, scenario, chip, plan))
    return iter(found), notes
