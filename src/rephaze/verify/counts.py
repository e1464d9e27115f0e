"""A recorded certificate and table of bounds against the account of all designs, derived again."""

from __future__ import annotations

from collections.abc import Iterator

from rephaze.search.certificate import BOUNDS, Account
from rephaze.search.scope import plans_scope, search_scope
from rephaze.types.run_record import NOT_REMOVED, BoundTable
from rephaze.types.search import SearchResult, SearchSettings, SearchStatus

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
    yield from _wrong_rows(table, derived)


def _wrong_rows(table: BoundTable, derived: Account) -> Iterator[str]:
    if len(table) != len(derived.removed_by_d):
        yield f"{len(table)} bounds recorded for {len(derived.removed_by_d)} designs"
        return
    pairs = zip(table.removed_by_c.tolist(), derived.removed_by_d.tolist(), strict=True)
    for design, (claimed, found) in enumerate(pairs):
        # The table's names are in the order they were first recorded.
        said, meant = (
            "none" if at == NOT_REMOVED else names[at] for at, names in ((claimed, table.names), (found, BOUNDS))
        )
        if said != meant:
            yield f"design {design} is recorded as removed by {said}, not by {meant}"


def wrong_scope(result: SearchResult, settings: SearchSettings) -> Iterator[str]:
    """What the certificate says of its scope, or claims as proven, otherwise than settings and records."""
    certificate = result.certificate
    scopes = (search_scope(settings), plans_scope(settings))
    # Runs of older versions have none.
    if certificate.designs_scope and (certificate.designs_scope, certificate.plans_scope) != scopes:
        yield f"said to range over {certificate.designs_scope!r}, the settings give {scopes[0]!r}"
    if result.status is SearchStatus.OPTIMAL and certificate.num_unproven:
        yield f"called optimal with {certificate.num_unproven} designs whose schedules might do better"
