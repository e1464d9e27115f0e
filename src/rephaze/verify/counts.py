"""A recorded certificate and table of bounds against the account of all designs, derived again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from rephaze.search.certificate import BOUNDS, WITHIN, Account
from rephaze.search.reasons import UNPREPARED
from rephaze.search.scope import plans_scope, search_scope
from rephaze.types.run_record import NOT_REMOVED, BoundTable
from rephaze.types.search import Evaluation, SearchResult, SearchSettings, SearchStatus
from rephaze.verify.findings import TOLERANCE, differs

Floats = NDArray[np.float64]

LEFT_OPEN = "left open"
INFEASIBLE = "infeasible"


def wrong_counts(result: SearchResult, table: BoundTable, derived: Account) -> Iterator[str]:
    """What the certificate or the table claims otherwise than derived.

    Args:
        result: The recorded answer.
        table: The recorded bounds of all designs.
        derived: Where every design of the space went.
    """
    certificate, num_designs = result.certificate, len(derived.removed_by_d)
    claimed = {
        INFEASIBLE: certificate.num_infeasible,
        LEFT_OPEN: certificate.num_open or 0,
        **certificate.num_dropped_by_bound,
    }
    counted = certificate.num_solved_exactly + sum(claimed.values())
    if certificate.num_designs != num_designs:
        yield f"{certificate.num_designs} designs claimed, the space has {num_designs}"
    # Runs recorded before open designs were counted left them out.
    is_old = certificate.num_open is None
    may_be_short = is_old and result.status in (SearchStatus.FEASIBLE, SearchStatus.UNKNOWN)
    if counted > certificate.num_designs or (counted < certificate.num_designs and not may_be_short):
        yield f"counts add up to {counted} of {certificate.num_designs} designs"
    solved = int(derived.is_solved_d.sum())
    if solved != certificate.num_solved_exactly:
        yield f"{certificate.num_solved_exactly} solved exactly claimed, {solved} recorded"
    if is_old:
        return  # these named the bound the search looked at first, which depends on its history
    found = {INFEASIBLE: int(derived.is_infeasible_d.sum()), LEFT_OPEN: int(derived.is_open_d.sum())}
    found |= derived.num_dropped()
    for what in claimed | found:
        if claimed.get(what, 0) != found.get(what, 0):
            yield f"{what}: {claimed.get(what, 0)} designs claimed, {found.get(what, 0)} derived"
    if certificate.num_boxes is not None:
        yield "a search through a list counts boxes"
    yield from _wrong_rows(table, derived)


def _wrong_rows(table: BoundTable, derived: Account) -> Iterator[str]:
    if table.design_c.tolist() != list(range(len(derived.removed_by_d))):
        yield f"{len(table)} bounds recorded for {len(derived.removed_by_d)} designs, or of other designs"
        return
    pairs = zip(table.removed_by_c.tolist(), derived.removed_by_d.tolist(), strict=True)
    for design, (claimed, found) in enumerate(pairs):
        # The table's names are in the order they were first recorded.
        said, meant = (
            "none" if at == NOT_REMOVED else names[at] for at, names in ((claimed, table.names), (found, BOUNDS))
        )
        if said != meant:
            yield f"design {design} is recorded as removed by {said}, not by {meant}"


def wrong_bounds(
    table: BoundTable,
    coarse_d: Floats,
    refined: Mapping[int, float],
    evaluations: Mapping[int, Evaluation],
    derived: Account,
) -> Iterator[str]:
    """Recorded bounds that are not those of their kind.

    Args:
        table: The recorded bounds of all designs.
        coarse_d: By device time.
        refined: By layer, of those that it may have settled.
        evaluations: Of designs taken up to be solved.
        derived: Where every design went.
    """
    if len(table) != len(coarse_d):
        return  # told with the counts
    is_open_d = derived.is_open_d
    for design, bound in enumerate(table.bound_c.tolist()):
        coarse = float(coarse_d[design])
        if design in evaluations:
            if bound != evaluations[design].bound:
                yield f"design {design}: bound {bound:.9g}, its evaluation has {evaluations[design].bound:.9g}"
        elif is_open_d[design]:
            # Left by a search that was stopped: as it came, or bounded further than is done here.
            if not 0 < bound <= coarse * (1 + TOLERANCE):
                yield f"design {design}: left open at {bound:.9g}, its device time allows {coarse:.9g}"
        else:
            due = refined.get(design, coarse)
            if differs(bound, due):
                yield f"design {design}: bound {bound:.9g} recorded, {due:.9g} derived"


def wrong_within(
    result: SearchResult, coarse_d: Floats, refined: Mapping[int, float], evaluations: Mapping[int, Evaluation]
) -> Iterator[str]:
    """Counts of designs near the best that no course of the search gives.

    A search refines designs by falling coarse bound, as many as it takes: the counts follow from how many.

    Args:
        result: The recorded answer.
        coarse_d: By device time.
        refined: By layer, of every design within reach of the widest count.
        evaluations: Of designs taken up to be solved.
    """
    claimed = result.certificate.num_within
    order = [d for d in np.argsort(-coarse_d, kind="stable").tolist() if d not in evaluations and coarse_d[d] > 0]
    near = []
    has_best = result.design is not None
    exact = [item for item in evaluations.values() if item.is_exact]
    for part in WITHIN.values():
        floor = result.objective * (1 - part) if has_best else 0.0
        least = sum(item.objective >= floor for item in exact) if has_best else 0
        if has_best:
            maybe = sum(item.objective < floor <= item.bound for item in evaluations.values())
            is_maybe = [(coarse_d[d] >= floor, refined.get(d, -np.inf) >= floor) for d in order]
        else:
            maybe = sum(item.bound > 0 for item in evaluations.values())
            is_maybe = [(True, refined.get(d, 1.0) > 0) for d in order]
        before = np.cumsum([0, *(by_layers for _, by_layers in is_maybe)])
        after = np.cumsum([0, *(by_time for by_time, _ in is_maybe)])
        # With the first p refined: those by their layers, the others by device time.
        near.append((least, least + maybe + before + (after[-1] - after)))
    said = [tuple(claimed.get(name, (-1, -1))) for name in WITHIN]
    if set(claimed) != set(WITHIN) or not any(
        all(one == (least, int(most_p[p])) for one, (least, most_p) in zip(said, near, strict=True))
        for p in range(len(order) + 1)
    ):
        ends = [(least, int(most_p.min()), int(most_p.max())) for least, most_p in near]
        yield f"within {', '.join(WITHIN)}: {said} claimed, derived (at least, fewest, most) {ends}"


def wrong_scope(result: SearchResult, settings: SearchSettings, *, is_old: bool) -> Iterator[str]:
    """What the certificate says of its scope, or claims as proven, otherwise than settings and records."""
    certificate = result.certificate
    scopes = (search_scope(settings), plans_scope(settings))
    may_lack = is_old or result.reason == UNPREPARED
    if (
        not (may_lack and not certificate.designs_scope)
        and (certificate.designs_scope, certificate.plans_scope) != scopes
    ):
        yield f"said to range over {certificate.designs_scope!r}, the settings give {scopes[0]!r}"
    if result.status is SearchStatus.OPTIMAL and certificate.num_unproven:
        yield f"called optimal with {certificate.num_unproven} designs whose schedules might do better"
