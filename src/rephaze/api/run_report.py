"""The page of a recorded run: what the run holds, its blocks scheduled again, known chips beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rephaze.api.measured_chips import is_comparable, measured_chips
from rephaze.errors import RephazeError, RunError
from rephaze.types.output_files import HTML_PAGE, check_output
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal

if TYPE_CHECKING:
    from rephaze.report.search_plots import MarkedChip
    from rephaze.store.reader import RunReader
    from rephaze.types.boxes import FieldReach
    from rephaze.types.comparison import ChipAnswer
    from rephaze.types.plan_account import PlanAccount
    from rephaze.types.run_record import RunInfo
    from rephaze.types.schedule import PassSchedule
    from rephaze.types.search import SearchResult, SearchSettings

REPORT_NAME = "report.html"
FIELD_STEPS_S = 10.0
"""For measuring the winner with one field changed."""


def write_report(
    run: Path, out: Path | None = None, known_chips_s: float = 0.0, stop: StopSignal = UNSTOPPED
) -> Path:
    """Write the page of a recorded run, its plans priced and its blocks scheduled again, and return its path.

    Args:
        run: The run's folder.
        out: The page; None: ``report.html`` in the folder.
        known_chips_s: Time for measuring known chips that the run does not hold yet.
        stop: When the page must do with what is there.
    """
    from rephaze.report.search_plots import ExploredDesigns
    from rephaze.report.search_report import SearchRecords, write_search_report
    from rephaze.search.systems import settings_of_design
    from rephaze.store.run_store import RunStore

    if out is not None:
        check_output(out, HTML_PAGE)
    with RunStore.read(run, whole=True) as reader:
        info, result, designs, held = reader.info(), reader.result(), reader.designs(), reader.known_chips()
        if result is None:
            raise RunError(f"{run}: holds no answer yet; finish its search with rephaze search ... --resume")
        place = {number: at for at, number in enumerate(reader.design_numbers())}
        explored = designs and ExploredDesigns(
            chips=designs[0],
            area_um2_c=designs[1],
            area_limit_um2=info.settings.scenario.space.area_limit_um2,
            # Of a search by boxes only designs that were looked at are held, by numbers of their own.
            evaluations=tuple(replace(item, design=place[item.design]) for item in reader.evaluations()),
            bounds=reader.bounds(),
        )
        incumbents, reaches = reader.incumbents(), _reaches(reader, info, stop)
    own = settings_of_design(info.settings, result.design)
    accounts, accounts_missing = _accounts(own, result, stop)
    blocks, missing = _blocks(own, result, stop)
    known = measured_chips(run, info, own, held, known_chips_s, stop) if result.chip else []
    shown = result if result.design is None else replace(result, design=place.get(result.design))
    records = SearchRecords(
        info=info,
        result=shown,
        explored=explored,
        incumbents=incumbents,
        blocks=blocks,
        blocks_missing=missing,
        marked=[_marked(one) for one in known],
        accounts=accounts,
        accounts_missing=accounts_missing,
        reaches=reaches,
    )
    return write_search_report(out or run / REPORT_NAME, records)


def _reaches(reader: RunReader, info: RunInfo, stop: StopSignal) -> tuple[FieldReach, ...]:
    """How near designs come with each value of a field; the winner's neighbours measured, if that is fair."""
    from rephaze.study.field_reach import field_reaches

    try:
        return field_reaches(reader, FIELD_STEPS_S if is_comparable(info) else 0.0, stop)
    except RunError:
        raise
    except RephazeError:  # a graph file that is not what it was
        return field_reaches(reader)


def _accounts(
    settings: SearchSettings, result: SearchResult, stop: StopSignal
) -> tuple[tuple[PlanAccount, ...], str]:
    """Where time and memory of the winner's plans go, or nothing and why."""
    from rephaze.study.plan_accounts import plan_accounts

    try:
        return plan_accounts(settings, result, stop), ""
    except StoppedError:
        return (), "There was no time left to split time and memory by cause: rephaze report does."
    except RephazeError as error:
        return (), f"Time and memory could not be split by cause: {error}"


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


def _marked(found: ChipAnswer) -> MarkedChip:
    from rephaze.report.search_plots import MarkedChip

    return MarkedChip(
        name=found.chip.name,
        area_um2=found.area_um2,
        objective=found.objective,
        bound=found.bound,
        reason=found.reason,
    )
