"""A search by boxes from its first designs to its answer and certificate, recorded as it goes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import numpy as np

from rephaze.hardware.system import chosen_system
from rephaze.search.box_certificate import CoverCount, certify_boxes
from rephaze.search.box_climb import Climb
from rephaze.search.box_engine import BoxState, run_boxes
from rephaze.search.progress import BestShown, SearchClock, SearchProgress
from rephaze.search.reasons import why_nothing_in_boxes, why_unproven
from rephaze.search.system_evaluator import AnyBoxEvaluator
from rephaze.search.systems import settings_of_design
from rephaze.search.workers.base import Workers
from rephaze.store.run_store import RunStore
from rephaze.types.boxes import NO_GOAL, SOLVED, Expansion, Goal, OpenBox, Trial
from rephaze.types.search import Evaluation, SearchResult, SearchStatus
from rephaze.types.stopping import StoppedError
from rephaze.types.system import ChosenSystem

RECORD_S = 5.0
"""Between two records of the cover."""
MANY_MARGINS = (0.3, 0.15, 0.08, 0.04, 0.02, 0.009, 0.0)
"""Of several models, and mixtures, what boxes are brought below one by one: less than a percent before none."""


class BoxSearch:
    """One run.

    Args:
        evaluator: Of the search.
        workers: Of the same search.
        store: Where it is recorded, if it is.
        clock: Of the search.
    """

    def __init__(
        self, evaluator: AnyBoxEvaluator, workers: Workers, store: RunStore | None, clock: SearchClock
    ) -> None:
        self.evaluator, self.workers, self.store, self.clock = evaluator, workers, store, clock
        self.settings, self.grid = evaluator.settings, evaluator.grid
        self.count = CoverCount()
        # A mixture's design is solved by one worker in half a minute: another can see to the next best meanwhile.
        has_next_best = evaluator.is_much and len(self.settings.models) == 1
        self._climb = Climb(self.grid, self._try_designs, by_bounds=evaluator.is_much, has_next_best=has_next_best)
        self._recorded_at = time.perf_counter()
        self._shown = BestShown(store.incumbents() if store is not None else ())

    def run(self, count_within: float) -> SearchResult:
        """The best chip and plans, proven unless stopped early; then also those within a part of the best."""
        known: Sequence[Evaluation] = list(self.store.evaluations()) if self.store else []
        margins = MANY_MARGINS if self.evaluator.is_much and not count_within else (0.0,)
        self.state = BoxState(rank=self._rank, area_of=self._area_um2, within=count_within, margins=margins)
        self.state.absorb(known)
        is_new = self._open_cover()
        is_complete = False
        try:
            if is_new and self.state.incumbent is None:
                self._push_first()
            is_complete = run_boxes(
                self.state,
                self._expand,
                self.workers.solve,
                design_at=self.grid.design_at,
                better_than=self._near,
                known=known,
                on_wave=self._on_wave,
                should_stop=self.clock.stop.is_over,
            )
        except StoppedError:
            pass
        self._record_cover()
        result = self._result(is_complete)
        if self.store is not None:
            self.store.record_result(result)
        return result

    def _open_cover(self) -> bool:
        """Take up the boxes that were open, or all; whether the run is new."""
        if self.store is not None:
            self._reopen_near(self.store)
            closed, left = self.store.closed_boxes(), self.store.open_boxes()
            if closed or left:
                self.count.add(closed)
                for box in left:
                    self.state.push(box)
                return False
        roots = self.grid.roots()
        for first_f, last_f in zip(roots.first_bf.tolist(), roots.last_bf.tolist(), strict=True):
            self.state.push(
                OpenBox(first=tuple(first_f), last=tuple(last_f), upper=math.inf, bounded_by="", times=())
            )
        return True

    def _reopen_near(self, store: RunStore) -> None:
        """Open what an earlier session closed and this one is to count."""
        threshold = self.state.goal.threshold
        if self.state.within and self.state.goal.has_answer:
            near = [box for box in store.closed_boxes() if box.bound >= threshold and box.closed_by != SOLVED]
            store.reopen_boxes(near)

    def _push_first(self) -> None:
        """A good design to begin with, to have an answer to hold bounds against."""
        self._report("drawing designs")
        found = self._climb.from_drawn(
            self.settings.seed, lambda at_cf: self.evaluator.bound(at_cf, NO_GOAL, self.clock.stop)
        )
        self.state.aside = found

    def _near(self, answer: Evaluation) -> list[OpenBox]:
        """The best design that a climb from the answer comes to, if that is a better one."""
        found = self._climb.from_answer(self.grid.position_of(answer.design), answer.objective)
        return [] if found is None else [found]

    def _try_designs(self, boxes: Sequence[OpenBox], goal: Goal) -> list[Trial]:
        self._report("climbing")
        return self.workers.try_designs(boxes, goal)

    def _expand(self, pieces: Sequence[Sequence[OpenBox]], goal: Goal) -> Iterator[list[Expansion] | None]:
        self._report("bounding")
        return self.workers.expand(pieces, goal)

    def _on_wave(self, solved: Sequence[Evaluation]) -> None:
        step = self._shown.step(self.state.incumbent, self.state.bound, self.clock.elapsed_s())
        if self.store is not None and (solved or step is not None):
            if solved:
                at_cf = np.array([self.grid.position_of(item.design) for item in solved], dtype=np.int64)
                numbers = [item.design for item in solved]
                self.store.record_looked_at(numbers, self.grid.chips(at_cf), self.grid.area_um2(at_cf))
            self.store.record_evaluations(solved, step)
        if time.perf_counter() - self._recorded_at > RECORD_S:
            self._record_cover()
        self._report("solving")

    def _record_cover(self) -> None:
        fresh = self.state.take_fresh()
        self.count.add(fresh)
        if self.store is not None:
            self.store.record_boxes(fresh, self.state.open_boxes())
        self._recorded_at = time.perf_counter()

    def _report(self, phase: str) -> None:
        progress = self.state.progress()
        self.clock.on_progress(
            SearchProgress(
                phase=phase,
                elapsed_s=self.clock.elapsed_s(),
                objective=self._shown.objective,
                bound=self._shown.bound(progress.bound),
                num_designs=self.grid.num_points,
                num_open=progress.num_open,
                num_solved=progress.num_evaluated,
                counted="boxes",
            )
        )

    def _area_um2(self, design: int) -> float:
        return float(self.grid.area_um2(np.array([self.grid.position_of(design)], dtype=np.int64))[0])

    def _rank(self, item: Evaluation) -> tuple[float, ...]:
        """The better objective, then smaller area, less memory, less energy, and the order of the grid."""
        return (
            -item.objective,
            self._area_um2(item.design),
            float(sum(plan.hbm_bytes for plan in item.plans)),
            sum(plan.energy_per_sample_j for plan in item.plans),
            float(item.design),
        )

    def _result(self, is_complete: bool) -> SearchResult:
        state, best = self.state, self.state.incumbent
        left = [] if is_complete else state.open_boxes()
        bound = max(state.objective, state.unproven_bound) if is_complete else state.bound
        is_proven = best is not None and is_complete and bound <= best.objective * (1 + 1e-12)
        certificate = certify_boxes(
            self.settings, self.grid, self.count, state.evaluations, best, left, is_proven=is_proven
        )
        elapsed_s = self.clock.elapsed_s()
        if best is None:
            return SearchResult(
                status=SearchStatus.INFEASIBLE if is_complete else SearchStatus.UNKNOWN,
                objective=0.0,
                bound=0.0 if is_complete else state.bound,
                gap=0.0 if is_complete else math.inf,
                design=None,
                chip=None,
                area_um2=0.0,
                plans=(),
                certificate=certificate,
                reason=why_nothing_in_boxes(certificate, state.evaluations.values(), is_complete=is_complete),
                search_s=elapsed_s,
            )
        return SearchResult(
            status=SearchStatus.OPTIMAL if is_proven else SearchStatus.FEASIBLE,
            objective=best.objective,
            bound=best.objective if is_proven else bound,
            gap=0.0 if is_proven else max(0.0, (bound - best.objective) / best.objective),
            design=best.design,
            chip=self.grid.chip(best.design),
            area_um2=self._area_um2(best.design),
            plans=best.plans,
            certificate=certificate,
            reason=why_unproven(
                is_complete=is_complete, is_proven=is_proven, num_unproven=certificate.num_unproven or 0
            ),
            search_s=elapsed_s,
            system=self._chosen_system(best.design),
        )

    def _chosen_system(self, design: int) -> ChosenSystem | None:
        """The winner's, where the system is part of the search."""
        if not self.settings.has_systems:
            return None
        return chosen_system(settings_of_design(self.settings, design).scenario, self.grid.chip(design))
