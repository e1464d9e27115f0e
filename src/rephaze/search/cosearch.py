"""A search from settings to its answer and certificate, recorded as it goes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import SpecError
from rephaze.hardware.space import enumerate_designs
from rephaze.search.bounded_designs import BoundedDesigns
from rephaze.search.box_search import BoxSearch
from rephaze.search.certificate import bound_table, certify, is_proven, nothing_certified
from rephaze.search.design_search import dropped_design
from rephaze.search.engine import FIRST_PART, EngineOutcome, EngineProgress, run_best_first
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.method import searches_boxes
from rephaze.search.near_best import settle_near_best
from rephaze.search.progress import BestShown, OnProgress, SearchClock, SearchProgress
from rephaze.search.provenance import versions_of
from rephaze.search.reasons import UNPREPARED, why_nothing_listed, why_unproven
from rephaze.search.systems import listed_systems
from rephaze.search.workers.base import Workers, make_evaluator
from rephaze.search.workers.start import start_workers
from rephaze.store.opening import is_run
from rephaze.store.run_store import RunStore
from rephaze.types.search import Evaluation, SearchResult, SearchSettings, SearchStatus
from rephaze.types.stopping import StoppedError, StopSignal

Floats = NDArray[np.float64]

BATCH_SIZE = 8
"""Designs solved between two looks at the incumbent."""
REFINE_SIZE = 4096
SHARPEN_SIZE = 256
MANY_UNITS = 300
"""Of a model with more, as mixtures have, next to nothing is looked at before the first design is solved."""
UNITS_A_PART = 20
"""How much less: so many units take as long to sharpen as a design of other models."""
PREPARATION_GRACE_S = 2.0
"""The models' preparation may run over the limit by this much: without it there is not even a bound."""


def run_search(
    settings: SearchSettings,
    *,
    folder: Path | None = None,
    resume: bool = False,
    num_workers: int = 1,
    dask: str | None = None,
    time_limit_s: float = math.inf,
    count_within: float = 0.0,
    on_progress: OnProgress = lambda _progress: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> SearchResult:
    """The best chip and plans, proven unless stopped early.

    Args:
        settings: What to search.
        folder: Where the run is recorded; None keeps nothing.
        resume: Go on with the run in ``folder``.
        num_workers: Processes on this machine.
        dask: Address of a Dask scheduler, whose workers are then used instead.
        time_limit_s: After this the incumbent and its gap are the answer; holds to a few seconds.
        count_within: After the proof also settle which designs lie within this fraction of the best.
        on_progress: Called now and then; cannot fail the run.
        should_stop: Asked all along, by this process; once True the search ends as at the time limit.
    """
    if not 0 <= count_within < 1:
        raise SpecError("count_within", count_within, "must be a fraction from 0 to below 1", "0.01 is 1 %")
    began = time.perf_counter()
    stop = StopSignal(began + time_limit_s, should_stop)
    try:
        later = stop.later(PREPARATION_GRACE_S)
        evaluator = make_evaluator(settings, later)
    except StoppedError:
        return _unprepared(settings, folder, resume, began)
    store = _open(folder, resume, settings)
    try:
        if store is not None and isinstance(evaluator, SpaceEvaluator):
            store.record_designs(evaluator.census.chips, evaluator.census.area_um2_c)
        if store is not None and settings.has_systems:
            store.record_systems(listed_systems(settings))
        workers = start_workers(settings, evaluator, num_workers, dask, stop)
        try:
            clock = SearchClock(began, stop, on_progress, store.clock_s() if store is not None else 0.0)
            if store is not None:
                store.keep_time(clock.elapsed_s)
            if not isinstance(evaluator, SpaceEvaluator):
                return BoxSearch(evaluator, workers, store, clock).run(count_within)
            return _Search(settings, evaluator, workers, store, clock).run(count_within)
        finally:
            workers.close()
    finally:
        if store is not None:
            store.close()


def _unprepared(settings: SearchSettings, folder: Path | None, resume: bool, began: float) -> SearchResult:
    """The answer of a search that had to stop before its models were ready."""
    result = SearchResult(
        status=SearchStatus.UNKNOWN,
        objective=0.0,
        bound=math.inf,
        gap=math.inf,
        design=None,
        chip=None,
        area_um2=0.0,
        plans=(),
        certificate=nothing_certified(settings),
        reason=UNPREPARED,
        search_s=time.perf_counter() - began,
    )
    store = _open(folder, resume, settings)
    if store is not None:
        if not searches_boxes(settings):
            census = enumerate_designs(settings.scenario.space)
            store.record_designs(census.chips, census.area_um2_c)
        result = replace(result, search_s=store.clock_s() + result.search_s)
        # An earlier session may know more.
        if store.result() is None and not store.num_evaluations():
            store.record_result(result)
        store.close()
    return result


def _open(folder: Path | None, resume: bool, settings: SearchSettings) -> RunStore | None:
    if folder is None:
        return None
    versions = versions_of(settings)
    if resume and is_run(folder):
        return RunStore.resume(folder, settings, versions)
    return RunStore.create(folder, settings, versions)


class _Search:
    """One run: the engine's callbacks and what they share."""

    def __init__(
        self,
        settings: SearchSettings,
        evaluator: SpaceEvaluator,
        workers: Workers,
        store: RunStore | None,
        clock: SearchClock,
    ) -> None:
        self.settings, self.evaluator, self.store = settings, evaluator, store
        self.clock, self.stop = clock, clock.stop
        self.designs = BoundedDesigns(evaluator, workers)
        self._last = EngineProgress(incumbent=None, bound=math.inf, num_open=0, num_refined=0, num_evaluated=0)
        self._shown = BestShown(store.incumbents() if store is not None else ())

    def run(self, count_within: float) -> SearchResult:
        coarse = self.evaluator.coarse()
        num_units = max(len(work.units) for work in self.evaluator.works)
        known: Sequence[Evaluation] = list(self.store.evaluations()) if self.store else []
        outcome = run_best_first(
            coarse,
            self.designs.evaluate,
            tie_key=self._tie_key,
            batch_size=BATCH_SIZE,
            refine=self._refine,
            refine_size=REFINE_SIZE,
            sharpen=self._sharpen,
            drop=dropped_design,
            sharpen_size=SHARPEN_SIZE,
            first_part=FIRST_PART * (num_units // UNITS_A_PART if num_units > MANY_UNITS else 1),
            known=known,
            on_batch=self._on_batch,
            should_stop=self.stop.is_over,
            exhaustive=self.settings.exhaustive,
        )
        if outcome.is_complete:
            # What an earlier session settled near the best counts too.
            settle_near_best(
                outcome,
                coarse,
                count_within,
                refine=self._refine,
                evaluate=self.designs.evaluate,
                batch_size=BATCH_SIZE,
                refine_size=REFINE_SIZE,
                known=known,
                on_batch=self._on_near_batch,
                should_stop=self.stop.is_over,
            )
        result = self._result(outcome, coarse)
        if self.store is not None:
            self.store.record_bounds(bound_table(self.evaluator, outcome, coarse))
            self.store.record_result(result)
        return result

    def _refine(self, designs: Sequence[int]) -> Floats:
        self._report("bounding")
        return self.designs.refine(designs)

    def _sharpen(self, designs: Sequence[int], cutoff: float) -> Floats:
        self._report("bounding")
        return self.designs.sharpen(designs, cutoff)

    def _on_batch(self, batch: list[Evaluation], progress: EngineProgress) -> None:
        step = self._shown.step(progress.incumbent, progress.bound, self.clock.elapsed_s())
        if self.store is not None:
            self.store.record_evaluations(batch, step)
        self._last = progress
        self._report("solving")

    def _on_near_batch(self, batch: list[Evaluation], num_left: int) -> None:
        if self.store is not None:
            self.store.record_evaluations(batch)
        self._last = replace(self._last, num_open=num_left, num_evaluated=self._last.num_evaluated + len(batch))
        self._report("counting near the best")

    def _report(self, phase: str) -> None:
        self.clock.on_progress(
            SearchProgress(
                phase=phase,
                elapsed_s=self.clock.elapsed_s(),
                objective=self._shown.objective,
                bound=self._shown.bound(self._last.bound),
                num_designs=self.evaluator.census.num_designs,
                num_open=self._last.num_open,
                num_solved=self._last.num_evaluated,
            )
        )

    def _tie_key(self, item: Evaluation) -> tuple[float, ...]:
        """Smaller area, then less memory, then less energy."""
        return (
            float(self.evaluator.census.area_um2_c[item.design]),
            float(sum(plan.hbm_bytes for plan in item.plans)),
            sum(plan.energy_per_sample_j for plan in item.plans),
        )

    def _result(self, outcome: EngineOutcome, coarse: Floats) -> SearchResult:
        census = self.evaluator.census
        best = outcome.incumbent
        certificate = certify(self.evaluator, outcome, coarse)
        if best is None:
            status = SearchStatus.INFEASIBLE if outcome.is_complete else SearchStatus.UNKNOWN
            return SearchResult(
                status=status,
                objective=0.0,
                bound=max(outcome.bound, 0.0),
                gap=0.0 if outcome.is_complete else math.inf,
                design=None,
                chip=None,
                area_um2=0.0,
                plans=(),
                certificate=certificate,
                reason=why_nothing_listed(
                    certificate, outcome.evaluations.values(), is_complete=outcome.is_complete
                ),
                search_s=self.clock.elapsed_s(),
            )
        gap = max(0.0, (outcome.bound - best.objective) / best.objective)
        proven = is_proven(outcome)
        return SearchResult(
            status=SearchStatus.OPTIMAL if proven else SearchStatus.FEASIBLE,
            objective=best.objective,
            bound=best.objective if proven else outcome.bound,
            gap=0.0 if proven else gap,
            design=best.design,
            chip=census.chips.chip(best.design),
            area_um2=float(census.area_um2_c[best.design]),
            plans=best.plans,
            certificate=certificate,
            reason=why_unproven(
                is_complete=outcome.is_complete, is_proven=proven, num_unproven=certificate.num_unproven or 0
            ),
            search_s=self.clock.elapsed_s(),
        )
