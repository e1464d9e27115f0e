"""Chips measured beside a recorded run: what the run holds of them, and what is added to it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rephaze.errors import RephazeError, RunError
from rephaze.types.comparison import ChipAnswer
from rephaze.types.run_record import RunInfo
from rephaze.types.search import SearchSettings
from rephaze.types.stopping import UNSTOPPED, StopSignal


def measured_chips(
    run: Path,
    info: RunInfo,
    settings: SearchSettings,
    held: Sequence[ChipAnswer],
    budget_s: float,
    stop: StopSignal = UNSTOPPED,
) -> list[ChipAnswer]:
    """The chips a run holds and further known ones, measured within a budget and then held by the run, too.

    Args:
        run: The run's folder.
        info: What the run is.
        settings: What chips are measured under: the run's, with the system of its answer.
        held: The chips it holds.
        budget_s: After this no further chip is begun; 0 measures none.
        stop: Ends the work; what is measured by then counts.
    """
    if budget_s <= 0 or not is_comparable(info):
        return list(held)
    from rephaze.study.known_chips import measure_known_chips

    try:
        names = frozenset(one.chip.name for one in held)
        found = measure_known_chips(settings, budget_s=budget_s, stop=stop, without=names)
    except RephazeError:  # a graph file that is gone: the page says so elsewhere
        return list(held)
    keep_measured(run, info, found)
    return [*held, *found]


def keep_measured(run: Path, info: RunInfo, found: Sequence[ChipAnswer]) -> None:
    """Record chips with a run, unless it is from another version, or its folder cannot be written to now."""
    from rephaze.store.run_store import RunStore

    if not found or not is_comparable(info):
        return
    with suppress(RunError), RunStore.annotate(run) as store:
        store.record_known_chips(found)


def is_comparable(info: RunInfo) -> bool:
    """Whether what is measured here has the numbers of the run: the same estimator and graph files."""
    from rephaze.search.provenance import versions_of

    try:
        here = versions_of(info.settings)
    except OSError:  # a graph file is gone
        return False
    return (here.estimator, here.input_digests) == (info.versions.estimator, info.versions.input_digests)
