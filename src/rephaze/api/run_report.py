"""The page of a recorded run: what the run holds, and what is missing worked out and recorded with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rephaze.api.measured_chips import measured_chips
from rephaze.api.run_details import complete_details, read_details
from rephaze.errors import RunError
from rephaze.types.output_files import HTML_PAGE, check_output
from rephaze.types.stopping import UNSTOPPED, StopSignal

if TYPE_CHECKING:
    from rephaze.report.explored import MarkedChip
    from rephaze.types.assumption import Assumption
    from rephaze.types.chip_items import ChipItems
    from rephaze.types.comparison import ChipAnswer
    from rephaze.types.scenario import Scenario
    from rephaze.types.search import SearchResult, SearchSettings
    from rephaze.types.truth import ExpectedError, Stability

REPORT_NAME = "report.html"


def write_report(
    run: Path,
    out: Path | None = None,
    known_chips_s: float = 0.0,
    stop: StopSignal = UNSTOPPED,
    on_step: Callable[[str], None] = lambda _doing: None,
) -> Path:
    """Write the page of a recorded run and return its path.

    Args:
        run: The run's folder.
        out: The page; None: ``report.html`` in the folder.
        known_chips_s: Time for measuring known chips that the run does not hold yet, and as much again for other
            baselines. 0: no chips, and a little for the others if it holds none.
        stop: When the page must do with what is there.
        on_step: Told what is being done, where that takes time.
    """
    from rephaze.report.explored import ExploredDesigns
    from rephaze.report.search_report import SearchRecords, write_search_report
    from rephaze.store.run_store import RunStore

    if out is not None:
        check_output(out, HTML_PAGE)
    with RunStore.read(run, whole=True) as reader:
        info, result, designs, held = reader.info(), reader.result(), reader.designs(), reader.known_chips()
        if result is None:
            raise RunError(f"{run}: holds no answer yet; finish it with rephaze search --out {run} --resume")
        place = {number: at for at, number in enumerate(reader.design_numbers())}
        explored = designs and ExploredDesigns(
            chips=designs[0],
            area_um2_c=designs[1],
            area_limit_um2=info.settings.scenario.space.area_limit_um2,
            # Of a search by boxes only designs that were looked at are held, by numbers of their own.
            evaluations=tuple(replace(item, design=place[item.design]) for item in reader.evaluations()),
            bounds=reader.bounds(),
        )
        incumbents, kept = reader.incumbents(), read_details(reader)
    own = _own_settings(info.settings, result)
    if known_chips_s > 0:
        on_step("report: measuring known chips")
    known = measured_chips(run, info, own, held, known_chips_s, stop) if result.chip else []
    kept = complete_details(
        run, info, own, result, known, kept, budget_s=known_chips_s, stop=stop, on_step=on_step
    )
    on_step("report: writing the page")
    shown = result if result.design is None else replace(result, design=place.get(result.design))
    records = SearchRecords(
        info=info,
        result=shown,
        explored=explored,
        incumbents=incumbents,
        plans=kept.winner.plans if kept.winner else (),
        plans_missing=kept.winner_missing,
        marked=[_marked(one) for one in known],
        reaches=kept.fields.fields if kept.fields else (),
        baselines=kept.baselines.baselines if kept.baselines else (),
        accounts=kept.baselines.accounts if kept.baselines else (),
        points=kept.points,
        comparison=kept.comparison,
        sensitivity=kept.sensitivity,
        expected=_expected(result, own.scenario),
        stability=_stability(result, run),
        losses=_losses(own.scenario),
        items=_items(own.scenario, result),
        assumptions=_assumptions(own.scenario),
    )
    return write_search_report(out or run / REPORT_NAME, records)


def _own_settings(settings: SearchSettings, result: SearchResult) -> SearchSettings:
    """The run's, with the system of its answer where systems were searched."""
    if result.system is None:
        return settings
    from rephaze.search.systems import settings_of_design

    return settings_of_design(settings, result.design)


def _items(scenario: Scenario, result: SearchResult) -> list[ChipItems]:
    """The silicon of the winner and of TPUv4 under the area model of the space."""
    from rephaze.hardware.area import chip_items
    from rephaze.hardware.presets import preset_chip

    if result.chip is None:
        return []
    model = scenario.space.area_model
    return [chip_items(result.chip, model), chip_items(preset_chip("tpuv4"), model)]


def _expected(result: SearchResult, scenario: Scenario) -> dict[str, ExpectedError | None]:
    """By model, what measured runs near its plan say."""
    from rephaze.api.expected_errors import expected_of_search

    return expected_of_search(result.plans, scenario)


def _stability(result: SearchResult, run: Path) -> Stability | None:
    """Whether the chip stays the best of those solved under the error of predictions."""
    from rephaze.api.expected_errors import stability_of_search

    return stability_of_search(result, run)


def _losses(scenario: Scenario) -> str:
    """At which rates the page's times are, if not those of the figures."""
    from rephaze.hardware.derating import losses_at

    losses = losses_at("searched", scenario)
    return "" if losses is None else losses.sentence()


def _assumptions(scenario: Scenario) -> tuple[Assumption, ...]:
    from rephaze.hardware.assumptions import scenario_assumptions

    return scenario_assumptions(scenario)


def _marked(found: ChipAnswer) -> MarkedChip:
    from rephaze.report.explored import MarkedChip

    return MarkedChip(
        name=found.chip.name,
        area_um2=found.area_um2,
        objective=found.objective,
        bound=found.bound,
        reason=found.reason,
    )
