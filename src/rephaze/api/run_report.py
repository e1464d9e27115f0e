"""The page of a recorded run: what the run holds, its blocks scheduled again, known chips beside its designs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from rephaze.errors import RephazeError, RunError
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal

if TYPE_CHECKING:
    from rephaze.report.search_plots import MarkedChip
    from rephaze.types.schedule import PassSchedule
    from rephaze.types.search import SearchResult, SearchSettings

REPORT_NAME = "report.html"


def write_report(
    run: Path, out: Path | None = None, known_chips_s: float = math.inf, stop: StopSignal = UNSTOPPED
) -> Path:
    """Write the page of a recorded run, its blocks scheduled again, and return its path.

    Args:
        run: The run's folder.
        out: The page; None: ``report.html`` in the folder.
        known_chips_s: Time for measuring known chips to mark among the designs.
        stop: When the page must do with what is there.
    """
    from rephaze.report.search_plots import ExploredDesigns
    from rephaze.report.search_report import SearchRecords, write_search_report
    from rephaze.store.run_store import RunStore

    with RunStore.read(run) as reader:
        info, result, designs = reader.info(), reader.result(), reader.designs()
        if result is None:
            raise RunError(f"{run}: holds no answer yet; finish its search with rephaze search ... --resume")
        explored = designs and ExploredDesigns(
            chips=designs[0],
            area_um2_c=designs[1],
            area_limit_um2=info.settings.scenario.space.area_limit_um2,
            evaluations=tuple(reader.evaluations()),
            bounds=reader.bounds(),
        )
        incumbents = reader.incumbents()
    blocks, missing = _blocks(info.settings, result, stop)
    marked = _marked(info.settings, known_chips_s, stop) if explored and result.chip else []
    records = SearchRecords(
        info=info,
        result=result,
        explored=explored,
        incumbents=incumbents,
        blocks=blocks,
        blocks_missing=missing,
        marked=marked,
    )
    return write_search_report(out or run / REPORT_NAME, records)


def _blocks(
    settings: SearchSettings, result: SearchResult, stop: StopSignal
) -> tuple[tuple[PassSchedule, ...], str]:
    """The schedules of the winner's blocks, or none and why."""
    from rephaze.measure.plan_schedules import block_schedules

    try:
        return block_schedules(settings, result, stop), ""
    except StoppedError:
        return (), "There was no time left to schedule the layers: rephaze report does."
    except RephazeError as error:  # a graph file that has moved since takes nothing from the rest of the page
        return (), f"The layers could not be read again: {error}"


def _marked(settings: SearchSettings, budget_s: float, stop: StopSignal) -> list[MarkedChip]:
    """Known chips with the best plans of the search's models, for the picture of the designs."""
    from rephaze.report.search_plots import MAX_AREA_FACTOR, MarkedChip
    from rephaze.study.known_chips import measure_known_chips

    try:
        max_area_um2 = MAX_AREA_FACTOR * settings.scenario.space.area_limit_um2
        found = measure_known_chips(settings, max_area_um2, budget_s, stop)
    except RephazeError:  # the page says elsewhere which file is missing
        return []
    return [MarkedChip(name=one.chip.name, area_um2=one.area_um2, objective=one.objective) for one in found]
