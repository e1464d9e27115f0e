"""What a run holds beside its answer, for its page: read, and what is missing worked out once and recorded.

A search works all of it out when it ends, so that writing a page again only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from rephaze.api.measured_chips import is_comparable
from rephaze.errors import RephazeError, RunError
from rephaze.types.boxes import FieldReaches
from rephaze.types.comparison import Baseline, ChipAnswer, Comparison
from rephaze.types.pareto import ChipPoints
from rephaze.types.plan_account import RunBaselines, WinnerDetails
from rephaze.types.run_record import RunInfo, RunPart
from rephaze.types.search import SearchResult, SearchSettings
from rephaze.types.sensitivity import Sensitivity
from rephaze.types.stopping import StoppedError, StopSignal

if TYPE_CHECKING:
    from rephaze.store.reader import RunReader

FIELD_STEPS_S = 6.0
"""For measuring the winner with one field changed, when a search ends."""
LATER_S = 2.0
"""For that, and for baselines, if a run holds none when its page is written again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDetails:
    """Everything beside the answer; None where there is nothing."""

    winner: WinnerDetails | None = None
    winner_missing: str = ""
    """Why not, if it should be there."""
    fields: FieldReaches | None = None
    baselines: RunBaselines | None = None
    points: ChipPoints | None = None
    comparison: Comparison | None = None
    sensitivity: Sensitivity | None = None


def read_details(reader: RunReader) -> RunDetails:
    """What a run holds."""
    return RunDetails(
        winner=reader.part(RunPart.WINNER, WinnerDetails),
        fields=reader.part(RunPart.FIELDS, FieldReaches),
        baselines=reader.part(RunPart.BASELINES, RunBaselines),
        points=reader.part(RunPart.POINTS, ChipPoints),
        comparison=reader.part(RunPart.COMPARISON, Comparison),
        sensitivity=reader.part(RunPart.SENSITIVITY, Sensitivity),
    )


def complete_details(
    run: Path,
    info: RunInfo,
    settings: SearchSettings,
    result: SearchResult,
    known: Sequence[ChipAnswer],
    held: RunDetails,
    *,
    budget_s: float = 0.0,
    stop: StopSignal,
    on_step: Callable[[str], None] = lambda _doing: None,
) -> RunDetails:
    """What a run holds and what was missing, which the run holds then, too.

    Nothing is recorded of a run from another version: what is worked out here need not be what it found.

    Args:
        run: The run's folder.
        info: What the run is.
        settings: Its settings, with the system of its answer.
        result: Its answer.
        known: The known chips it holds.
        held: What it holds.
        budget_s: For baselines, also for those that others left out for lack of time; 0: a little time for them if
            the run holds none.
        stop: Ends the work; what is found by then counts.
        on_step: Told what is being worked out.
    """
    if result.chip is None or (not budget_s and not _is_lacking(held, known)):
        return held
    found: dict[RunPart, object] = {}
    details = held
    comparable = is_comparable(info)
    if details.winner is None:
        on_step("report: pricing the plans again, scheduling their layers")
        details = _with_winner(settings, result, details, stop)
        found[RunPart.WINNER] = details.winner
    if comparable:
        if details.fields is None or (budget_s and _lacks_steps(details.fields)):
            on_step("report: measuring the chip with one field changed")
            details = _with_fields(run, details, FIELD_STEPS_S if budget_s else LATER_S, stop)
            found[RunPart.FIELDS] = details.fields
        before = details.baselines
        on_step("report: pricing baselines, and where their time goes")
        details = _with_baselines(settings, result, known, details, _within(budget_s or LATER_S, stop))
        if details.baselines is not before:
            found[RunPart.BASELINES] = details.baselines
        details = _with_points(run, settings, known, details)
        found[RunPart.POINTS] = details.points
        keep_parts(run, found)
    elif details.fields is None:
        details = _with_fields(run, details, 0.0, stop)
    return details


def keep_parts(run: Path, parts: dict[RunPart, object]) -> None:
    """Record parts with a run, unless its folder cannot be written to now."""
    from rephaze.store.run_store import RunStore

    with suppress(RunError), RunStore.annotate(run) as store:
        for name, part in parts.items():
            if part is not None:
                store.record_part(name, part)


def _is_lacking(held: RunDetails, known: Sequence[ChipAnswer]) -> bool:
    return (
        held.winner is None
        or held.fields is None
        or held.baselines is None
        or held.points is None
        or set(held.points.known_names) != {one.chip.name for one in known}
        or (held.comparison is not None and not _has_all(held.baselines, held.comparison))
    )


def _lacks_steps(reaches: FieldReaches) -> bool:
    """Whether time was too short to measure a step along every field."""
    return any(
        one.changed[at] is None
        for one in reaches.fields
        for at in (one.position - 1, one.position + 1)
        if 0 <= at < len(one.changed)
    )


def _has_all(baselines: RunBaselines, comparison: Comparison) -> bool:
    names = {one.name for one in baselines.baselines}
    return all(one.name in names for one in comparison.baselines[:-1])


def _within(budget_s: float, stop: StopSignal) -> StopSignal:
    return StopSignal(min(perf_counter() + budget_s, stop.deadline_s), stop.is_over)


def _with_winner(settings: SearchSettings, result: SearchResult, held: RunDetails, stop: StopSignal) -> RunDetails:
    from rephaze.study.plan_accounts import winner_details

    try:
        return replace(held, winner=winner_details(settings, result, stop))
    except StoppedError:
        said = "There was no time left to price the plans again and schedule their layers: rephaze report does."
        return replace(held, winner_missing=said)
    except RephazeError as error:  # a graph file that has moved since takes nothing from the rest of the page
        return replace(held, winner_missing=f"The layers could not be read again: {error}")


def _with_fields(run: Path, held: RunDetails, budget_s: float, stop: StopSignal) -> RunDetails:
    from rephaze.store.run_store import RunStore
    from rephaze.study.field_reach import field_reaches

    with RunStore.read(run) as reader:
        try:
            return replace(held, fields=field_reaches(reader, budget_s, stop))
        except RunError:
            raise
        except RephazeError:  # a graph file that is not what it was
            return replace(held, fields=field_reaches(reader))


def _with_baselines(
    settings: SearchSettings, result: SearchResult, known: Sequence[ChipAnswer], held: RunDetails, stop: StopSignal
) -> RunDetails:
    """Baselines that lack, and where the time of each goes."""
    from rephaze.study.near_baselines import known_as_baselines, near_baselines
    from rephaze.study.plan_accounts import baseline_accounts

    before = held.baselines or RunBaselines(baselines=(), accounts=())
    names = {one.chip.name for one in known}
    own: list[Baseline] = [one for one in before.baselines if not _is_known(one, names)]
    if held.comparison is not None:
        # The last of a comparison is the search itself.
        own = [one for one in held.comparison.baselines[:-1] if not _is_known(one, names)]
    try:
        if held.comparison is None:
            own += near_baselines(settings, result, stop, without=[one.name for one in own])
        listed = (*own, *known_as_baselines(known))
        done = {one.name for one in before.accounts}
        added = baseline_accounts(settings, [one for one in listed if one.name not in done], stop)
    except RephazeError:  # a graph file that is gone: the page says so elsewhere
        return held
    if not added and {one.name for one in listed} == {one.name for one in before.baselines}:
        return held
    return replace(held, baselines=RunBaselines(baselines=listed, accounts=(*before.accounts, *added)))


def _is_known(one: Baseline, names: set[str]) -> bool:
    """Whether it is a known chip with its own best plans."""
    return one.answer is not None and one.answer.chip.name in names and one.name.endswith(", searched plan")


def _with_points(run: Path, settings: SearchSettings, known: Sequence[ChipAnswer], held: RunDetails) -> RunDetails:
    from rephaze.store.run_store import RunStore
    from rephaze.study.run_points import run_points

    with RunStore.read(run) as reader:
        changed = held.fields.changed if held.fields else ()
        return replace(held, points=run_points(reader, settings, known, changed))
