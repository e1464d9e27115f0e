"""NEST's scenarios through the door: its figures beside what our cost model makes of its plans and of ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rephaze.api.full_plans import FullAnswer
from rephaze.api.plans import place_model
from rephaze.api.present import Block, Shown, TextTable
from rephaze.errors import FileError
from rephaze.types.checks import check_choice
from rephaze.types.files import parse_json, read_text
from rephaze.types.full import FullPlan, FullPrice, Sharding
from rephaze.types.output_files import MARKDOWN_PAGE, check_folder, check_output, write_whole
from rephaze.types.readable import rounded_amount
from rephaze.types.reproduction import NestCell, NestFigure, PlacedCell
from rephaze.types.scenario import Scenario

CELL_TIME_LIMIT_S = 120.0
"""Of a plan with all our choices; most take seconds."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ReproducedNest(Shown):
    """NEST's cells beside ours, and the page that tells of them."""

    cells: tuple[NestCell, ...]
    page: Path

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return {"page": str(self.page), "cells": [asdict(cell) for cell in self.cells]}

    def blocks(self) -> Sequence[Block]:
        """A row a cell."""
        rows = []
        for cell in self.cells:
            figure, degrees = cell.figure, cell.its_degrees
            rows.append(
                (
                    figure.setup,
                    figure.model,
                    f"{figure.num_devices:,}",
                    rounded_amount(degrees.samples_per_s) if degrees else "-",
                    rounded_amount(cell.its_choices.samples_per_s),
                    rounded_amount(cell.all_choices.samples_per_s),
                    f"{cell.its_choices.cpu_s + cell.all_choices.cpu_s:.1f}",
                    "-" if figure.run_s is None else f"{figure.run_s:,.0f}",
                )
            )
        headings = ("setup", "model", "chips", "its degrees", "its choices", "all choices", "CPU s", "its run s")
        table = TextTable(headings=headings, rows=tuple(rows), left=frozenset({"setup", "model"}))
        return [f"NEST's scenarios, samples/s in our cost model; page in {self.page}", table]


def reproduce_nest(
    folder: str | Path,
    page: str | Path,
    *,
    models: Sequence[str] = (),
    max_devices: int | None = None,
    on_step: Callable[[str], None] = lambda _step: None,
) -> ReproducedNest:
    """NEST's scenarios planned by us, beside what its artifact prints, written as a page.

    Args:
        folder: Where cells are kept as they are found; those are not computed again.
        page: Markdown file to write.
        models: Zoo names; all of its five unless given.
        max_devices: Leave larger clusters out.
        on_step: Told which cell is being planned.
    """
    from rephaze.report.nest_page import nest_page
    from rephaze.store.record_json import json_text, to_json
    from rephaze.study.nest_setups import nest_data, nest_figures

    figures = list(nest_figures())
    for name in models:
        check_choice("model", name, list(dict.fromkeys(one.model for one in figures)))
    check_output(Path(page), MARKDOWN_PAGE)
    check_folder(Path(folder))
    path = Path(folder) / "cells.jsonl"
    kept = _kept_cells(path)
    cells = []
    for figure in figures:
        is_asked = not models or figure.model in models
        if not is_asked or (max_devices is not None and figure.num_devices > max_devices):
            continue
        cell = kept.get((figure.setup, figure.model, figure.num_devices))
        if cell is None or cell.figure != figure or cell.estimator != _estimator(figure):
            on_step(f"{figure.model} on {figure.num_devices:,} chips of {figure.setup}")
            cell = nest_cell(figure)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as out:
                out.write(json_text(to_json(cell)) + "\n")
        cells.append(cell)
    write_whole(Path(page), nest_page(cells, nest_data()), MARKDOWN_PAGE)
    return ReproducedNest(cells=tuple(cells), page=Path(page))


def nest_cell(figure: NestFigure) -> NestCell:
    """One model on one cluster, planned three ways."""
    from rephaze.study.nest_setups import nest_limits, nest_scenario

    limits = nest_limits(figure)
    asked = None if limits is None else f"tp={limits.tp},pp={limits.pp},dp={limits.dp}"
    began = time.process_time()
    restricted = _placed(figure, nest_scenario(figure, is_free=False), asked)
    between = time.process_time()
    free = _placed(figure, nest_scenario(figure, is_free=True), None)
    cell = _cell(restricted, figure, between - began)
    return NestCell(
        figure=figure,
        estimator=_estimator(figure),
        its_degrees=None if limits is None else _its_degrees(restricted),
        its_choices=cell,
        all_choices=_cell(free, figure, time.process_time() - between),
    )


def _placed(figure: NestFigure, scenario: Scenario, why: str | None) -> FullAnswer:
    from rephaze.study.nest_setups import nest_chip

    found = place_model(
        figure.model, nest_chip(figure.setup), scenario=scenario, why=why, time_limit_s=CELL_TIME_LIMIT_S
    )
    assert isinstance(found, FullAnswer), "the scenario's placement model is full"
    return found


def _cell(found: FullAnswer, figure: NestFigure, cpu_s: float) -> PlacedCell:
    batch = found.problem.global_batch
    if found.price is None:
        return PlacedCell(samples_per_s=0.0, bound_samples_per_s=0.0, plan=found.reason, cpu_s=cpu_s)
    assert found.price.plan.num_devices <= figure.num_devices
    return PlacedCell(
        samples_per_s=batch / found.batch_s,
        bound_samples_per_s=batch / found.bound_s,
        plan=_words(found.price),
        cpu_s=cpu_s,
    )


def _its_degrees(found: FullAnswer) -> PlacedCell | None:
    other = found.alternative
    if other is None:
        return None
    best = other.placement.best
    if best is None:
        return PlacedCell(samples_per_s=0.0, bound_samples_per_s=0.0, plan=other.text, cpu_s=0.0)
    rate = found.problem.global_batch / best.batch_s
    return PlacedCell(samples_per_s=rate, bound_samples_per_s=rate, plan=_words(best), cpu_s=0.0)


def _words(price: FullPrice) -> str:
    plan: FullPlan = price.plan
    parts = [f"tp {plan.tp}, pp {plan.pp}, dp {plan.dp}"]
    parts += [f"{name} {value}" for name, value in (("cp", plan.cp), ("ep", plan.ep)) if value > 1]
    parts += [f"microbatch {plan.microbatch}"] if plan.microbatch > 1 else []
    parts += [str(plan.sharding)] if plan.sharding is not Sharding.NONE else []
    parts += [str(plan.schedule)] if plan.pp > 1 and str(plan.schedule) != "1f1b" else []
    return ", ".join(parts)


def _estimator(figure: NestFigure) -> str:
    from rephaze.estimate.estimate_model import named_estimate_model
    from rephaze.study.nest_setups import nest_scenario

    model = named_estimate_model(nest_scenario(figure, is_free=False).estimate_model)
    return f"{model.name}/{model.version}"


def _kept_cells(path: Path) -> dict[tuple[str, str, int], NestCell]:
    """By setup, model and number of devices; of two the later."""
    from rephaze.store.record_json import from_json

    if not path.exists():
        return {}
    found = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        source = f"{path}:{number}"
        try:
            one = from_json(NestCell, parse_json(line, source))
        except FileError as error:
            said = str(error).removeprefix(f"{source}: ")
            raise FileError(f"{source}: {said}; remove the line, and it is planned again") from None
        found[one.figure.setup, one.figure.model, one.figure.num_devices] = one
    return found
