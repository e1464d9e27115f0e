"""Searches and the studies built on them, through the door."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rephaze.api.measured_chips import is_comparable
from rephaze.api.run_details import keep_parts
from rephaze.api.search_results import ChangedAnswers, ComparedBaselines, Exploration, shown_as
from rephaze.errors import SpecError
from rephaze.types.checks import check_count
from rephaze.types.run_record import RunPart
from rephaze.types.search import SearchSettings

if TYPE_CHECKING:
    from rephaze.search.progress import SearchProgress as SearchProgress
    from rephaze.study.comparison import OnStep as OnStep
    from rephaze.study.comparison import RecordedRun
    from rephaze.types.comparison import Comparison
    from rephaze.types.sensitivity import Sensitivity

DEFAULT_BUDGET = 64
"""Chips each searching baseline of a comparison may look at."""


def explore(
    *models: str,
    scenario: str | None = None,
    config: str | Path | None = None,
    changes: dict[str, Any] | None = None,
    store: str | Path | None = None,
    resume: bool = False,
    num_workers: int = 1,
    dask: str | None = None,
    time_limit_s: float = math.inf,
    count_within: float = 0.0,
    on_progress: Callable[[SearchProgress], None] = lambda _progress: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Exploration:
    """The best chip and plans for the models, with their certificate.

    Example:
        >>> import rephaze
        >>> space = {"num_tensor_cores": [4, 8], "tensor_width": [128], "tensor_depth": [128]}
        >>> few = {"space": space | {"num_hbm_stacks": [2]}, "training": {"microbatches": [1], "tp_degrees": [1]}}
        >>> result = rephaze.explore("vit-large", scenario="coarse", changes=few, store="run")
        >>> result.status.value, result.chip.num_tensor_cores, result.certificate.num_open
        ('optimal', 8, 0)

    Args:
        models: Names of ``list_models``, or graph files.
        scenario: ``default``, ``coarse``, ``paper`` or a scenario file.
        config: A run file; the arguments come on top of it.
        changes: Single fields by section (``space``, ``cluster``, ``training``, ``search``, ``system``,
            ``budget``); of the scenario itself by name (``physics``: ``ideal`` or ``calibrated``).
        store: Folder to record the run in, for ``open_run``.
        resume: Go on with the run in ``store``; with its settings if none is given, else they must be the same.
        num_workers: Processes on this machine.
        dask: Address of a Dask scheduler (extra ``[dask]``), whose workers are then used instead.
        time_limit_s: After this the best found so far is the answer, with its gap.
        count_within: After the proof also settle which designs lie within this fraction of the best.
        on_progress: Called now and then; cannot fail the search.
        should_stop: Asked all along; once True the search ends as at the time limit.
    """
    began = perf_counter()
    _check_effort(num_workers, time_limit_s)
    from rephaze.search.cosearch import run_search
    from rephaze.search.settings import resolve_settings

    is_asked = bool(models) or scenario is not None or config is not None or any((changes or {}).values())
    if resume and store is not None and not is_asked:
        settings = _recorded_settings(Path(store))
    else:
        settings = resolve_settings(
            tuple(models), config=None if config is None else Path(config), scenario=scenario, changes=changes
        )
    result = run_search(
        settings,
        folder=None if store is None else Path(store),
        resume=resume,
        num_workers=num_workers,
        dask=dask,
        # What was loaded and read so far counts too.
        time_limit_s=max(time_limit_s - (perf_counter() - began), 0.0),
        count_within=count_within,
        on_progress=on_progress,
        should_stop=should_stop,
    )
    return shown_as(Exploration, result, settings=settings)


def _recorded_settings(folder: Path) -> SearchSettings:
    from rephaze.store.run_store import RunStore

    with RunStore.read(folder) as reader:
        return reader.info().settings


def compare(
    *models: str,
    scenario: str | None = None,
    runs: Sequence[str | Path] = (),
    budget: int = DEFAULT_BUDGET,
    own_best: bool = False,
    seed: int | None = None,
    num_workers: int = 1,
    time_limit_s: float = math.inf,
    on_step: OnStep = lambda _step, _progress: None,
) -> ComparedBaselines:
    """The co-search beside TPUv4, Spotlight-style, random search and the paper's heuristic, on one cost model.

    Example:
        >>> import rephaze
        >>> found = rephaze.compare("gpt2-xl", budget=8)  # doctest: +SKIP
        >>> found.gains.total_gain_factor > 1  # doctest: +SKIP
        True
        >>> rephaze.compare("gpt2-xl", budget=0)
        Traceback (most recent call last):
        rephaze.errors.SpecError: budget is 0: must be at least 1

    Args:
        models: Names of ``list_models``, or graph files; not needed with ``runs``.
        scenario: ``default``, ``coarse``, ``paper`` or a scenario file; not with ``runs``.
        runs: Folders of finished searches to take answers from instead of searching.
        budget: Chips each searching baseline may look at.
        own_best: Of several models: search each one's own best chip as well.
        seed: Of the random and Bayesian baselines.
        num_workers: Processes of the co-search.
        time_limit_s: For each co-search; then its incumbent is compared.
        on_step: Told which search begins, and how far it is.
    """
    from rephaze.study.comparison import common_run, compare_baselines, read_run

    _check_effort(num_workers, time_limit_s)
    recorded = [read_run(Path(folder)) for folder in runs]
    found = compare_baselines(
        _compared_settings(tuple(models), scenario, seed, recorded),
        budget=budget,
        runs=recorded,
        own_best=own_best,
        num_workers=num_workers,
        time_limit_s=time_limit_s,
        on_step=on_step,
    )
    if recorded:
        _keep_with_run(common_run(recorded).folder, RunPart.COMPARISON, found)
    return shown_as(ComparedBaselines, found)


def sensitivity(
    *models: str,
    scenario: str | None = None,
    config: str | Path | None = None,
    changes: dict[str, dict[str, Any]] | None = None,
    run: str | Path | None = None,
    knobs: Sequence[str] = (),
    factors: Sequence[float] = (0.5, 2.0),
    num_workers: int = 1,
    time_limit_s: float = math.inf,
    on_step: OnStep = lambda _step, _progress: None,
) -> ChangedAnswers:
    """The best chip again with a bandwidth, a link or the area limit changed, one at a time.

    Example:
        >>> import rephaze
        >>> found = rephaze.sensitivity("gpt2-xl", knobs=["hbm"], factors=[2.0])  # doctest: +SKIP
        >>> found.changes[0].gain_factor >= 1  # doctest: +SKIP
        True
        >>> rephaze.sensitivity("gpt2-xl", knobs=["clock"])
        Traceback (most recent call last):
        rephaze.errors.SpecError: knob is 'clock': must be one of hbm, buffer, inner-links, outer-links, area

    Args:
        models: Names of ``list_models``, or graph files; not needed with ``run``.
        scenario: ``default``, ``coarse``, ``paper`` or a scenario file; not with ``run``.
        config: A run file; the arguments come on top of it.
        changes: Single fields by section, as in ``explore``.
        run: Folder of a finished search to take settings and the unchanged answer from, instead of all these; its
            report shows the study then.
        knobs: What to change: ``hbm``, ``buffer``, ``inner-links``, ``outer-links``, ``area``; of a search with a
            budget also ``power-budget``, ``usd-budget``, ``silicon-budget``; all that can matter unless given.
        factors: What each is multiplied by.
        num_workers: Processes of each search.
        time_limit_s: For each search.
        on_step: Told which search begins, and how far it is.
    """
    from rephaze.search.settings import resolve_settings
    from rephaze.study.comparison import read_run
    from rephaze.study.sensitivity import study_sensitivity

    _check_effort(num_workers, time_limit_s)
    recorded = [] if run is None else [read_run(Path(run))]
    if recorded:
        if config is not None or any((changes or {}).values()):
            given = str(config) if config is not None else changes
            raise SpecError("config or changes", given, "come from the run", "leave them or the run away")
        settings = _compared_settings(tuple(models), scenario, None, recorded)
    else:
        settings = resolve_settings(
            tuple(models), config=None if config is None else Path(config), scenario=scenario, changes=changes
        )
    found = study_sensitivity(
        settings,
        base=recorded[0].result if recorded else None,
        knobs=tuple(knobs),
        factors=tuple(factors),
        num_workers=num_workers,
        time_limit_s=time_limit_s,
        on_step=on_step,
    )
    if run is not None:
        _keep_with_run(Path(run), RunPart.SENSITIVITY, found)
    return shown_as(ChangedAnswers, found)


def _keep_with_run(folder: Path, name: RunPart, part: Comparison | Sensitivity) -> None:
    """Have a run hold a study of it, unless it is from another version or cannot be written to."""
    from rephaze.store.run_store import RunStore

    with RunStore.read(folder) as store:
        info = store.info()
    if is_comparable(info):
        keep_parts(folder, {name: part})


def _check_effort(num_workers: int, time_limit_s: float) -> None:
    check_count("num_workers", num_workers, at_most=1024)
    if not time_limit_s >= 0:
        raise SpecError("time_limit_s", time_limit_s, "must be zero or more", "leave it out for none")


def _compared_settings(
    models: tuple[str, ...], scenario: str | None, seed: int | None, runs: Sequence[RecordedRun]
) -> SearchSettings:
    """The settings to compare under: resolved, or with finished runs theirs."""
    from rephaze.search.settings import resolve_settings
    from rephaze.study.comparison import common_run

    if not runs:
        changes = {} if seed is None else {"search": {"seed": seed}}
        return resolve_settings(models, scenario=scenario, changes=changes)
    if scenario is not None:
        raise SpecError("scenario", scenario, "comes from the run", "leave --scenario or --run away")
    settings = common_run(runs).settings
    if models and models != settings.models:
        raise SpecError("models", list(models), f"the run is of {', '.join(settings.models)}", "leave them away")
    return settings if seed is None else replace(settings, seed=seed)
