"""What an answer claims of itself, from what is recorded and open: status, bound, gap, reason, what binds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rephaze.hardware.system_grid import AnyGrid
from rephaze.search.box_certificate import binding_in_grid
from rephaze.search.certificate import binding_of
from rephaze.search.reasons import UNPREPARED, why_nothing_in_boxes, why_nothing_listed, why_unproven
from rephaze.types.search import Evaluation, SearchResult, SearchSettings, SearchStatus
from rephaze.verify.findings import Wrong, differs

ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """How far a search came."""

    is_complete: bool
    """Nothing is open that might be better."""
    open_bound: float
    """The most that what is open may reach; minus infinity if nothing is."""


def wrong_claims(
    result: SearchResult,
    settings: SearchSettings,
    evaluations: Mapping[int, Evaluation],
    settled: Settled,
    *,
    is_old: bool,
    grid: AnyGrid | None = None,
) -> Wrong:
    """Claims of an answer that do not follow from the record.

    Args:
        result: The recorded answer.
        settings: Of the run.
        evaluations: By design.
        settled: What is open.
        is_old: Recorded by a version that noted less.
        grid: Of a search by boxes.
    """
    solved = [item for item in evaluations.values() if item.is_exact]
    best = max((item.objective for item in solved if item.objective > 0), default=0.0)
    proven_bound = max([best, *(item.bound for item in solved)])
    is_proven = settled.is_complete and best > 0 and proven_bound <= best * (1 + ROUNDING)
    status = _status(best, is_proven=is_proven, is_complete=settled.is_complete)
    if result.status is not status:
        yield f"called {result.status}, by what is recorded it is {status}"
    bound = best if is_proven else max(proven_bound, settled.open_bound, 0.0)
    if differs(result.bound, bound):
        yield f"bound {result.bound:.9g} claimed, {bound:.9g} recorded"
    gap = max(0.0, (bound - best) / best) if best else (0.0 if settled.is_complete else math.inf)
    if not math.isclose(result.gap, gap, rel_tol=1e-9, abs_tol=ROUNDING):
        yield f"gap {result.gap:.6g} claimed, {gap:.6g} derived"
    if result.chip is None and (result.objective, result.area_um2, result.plans, result.design) != (
        0,
        0,
        (),
        None,
    ):
        yield "no chip is the answer, but it has an objective, an area, plans or a number"
    if not is_old:  # its words may have been others
        yield from _wrong_words(result, settings, evaluations, settled, grid, is_proven=is_proven)


def _status(best: float, *, is_proven: bool, is_complete: bool) -> SearchStatus:
    if best > 0:
        return SearchStatus.OPTIMAL if is_proven else SearchStatus.FEASIBLE
    return SearchStatus.INFEASIBLE if is_complete else SearchStatus.UNKNOWN


def _wrong_words(
    result: SearchResult,
    settings: SearchSettings,
    evaluations: Mapping[int, Evaluation],
    settled: Settled,
    grid: AnyGrid | None,
    *,
    is_proven: bool,
) -> Wrong:
    certificate, solved = result.certificate, [item for item in evaluations.values() if item.is_exact]
    floor = result.objective * (1 + ROUNDING)
    num_unproven = sum(item.bound > floor for item in solved)
    if certificate.num_unproven != num_unproven and result.reason != UNPREPARED:
        yield f"{certificate.num_unproven} designs claimed that might do better, {num_unproven} recorded"
    if result.chip is not None:
        reason = why_unproven(is_complete=settled.is_complete, is_proven=is_proven, num_unproven=num_unproven)
        if grid is None:
            binding = binding_of(settings.scenario.space, result.chip, is_proven)
        else:
            assert result.design is not None
            binding = binding_in_grid(settings, grid, result.design, is_proven)
    else:
        tell = why_nothing_listed if certificate.num_boxes is None else why_nothing_in_boxes
        reason = tell(certificate, evaluations.values(), is_complete=settled.is_complete)
        binding = ""
        if result.reason == UNPREPARED and not evaluations and certificate.num_open == certificate.num_designs:
            reason = UNPREPARED
    if result.reason != reason:
        yield f"reason {result.reason!r} recorded, {reason!r} derived"
    if certificate.binding != binding:
        yield f"said to be held back by {certificate.binding!r}, not by {binding!r}"
