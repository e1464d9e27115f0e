"""Schedules given next to no work: what is then unproven must not be called optimal, by any command."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from typer.testing import CliRunner

from rephaze.cli.main import app
from rephaze.hardware.scenarios import scenario_mapping
from rephaze.measure.chip_solver import ChipSolver
from rephaze.search.settings import SCENARIO_FIELDS
from tests.attack.cases import Case, toml_value
from tests.attack.claims import attack_answer, attack_optimal, searched
from tests.attack.findings import Tally, exceeds
from tests.attack.slow import SlowEvaluator

HURRIED_WORK = 1


@contextmanager
def hurried() -> Iterator[None]:
    """Every schedule of the search with next to no work: many stay unproven, some are not the shortest."""
    begin = ChipSolver.__init__

    def begin_hurried(self, *args, **kwargs):
        begin(self, *args, **(kwargs | {"schedule_work": HURRIED_WORK}))

    ChipSolver.__init__ = begin_hurried
    try:
        yield
    finally:
        ChipSolver.__init__ = begin


def attack_hurried(case: Case, tally: Tally) -> None:
    """A search in a hurry, and ``rephaze place`` of its winner: neither may claim more than it proved."""
    settings = case.settings()
    slow, quick = SlowEvaluator(settings), SlowEvaluator(settings, HURRIED_WORK)
    with hurried():
        found = searched(settings)
    tally.num_searches += 1
    designs = range(slow.census.num_designs)
    tally.num_designs += len(designs)
    attack_answer(case, found, slow, list(designs), tally)
    attack_optimal(case, found, quick, tally)
    for design in designs:
        attack_place(case, quick, design, tally)


def attack_place(case: Case, quick: SlowEvaluator, design: int, tally: Tally) -> None:
    """``rephaze place`` of a design's chip, hurried: optimal only if the proven parts of schedules say so."""
    chip = quick.census.chips.chip(design)
    with TemporaryDirectory() as scratch, hurried():
        chip_file, scenario_file = Path(scratch) / "chip.json", Path(scratch) / "scenario.toml"
        chip_file.write_text(json.dumps(asdict(chip)))
        scenario_file.write_text(_scenario_toml(case))
        name = quick.settings.models[0]
        arguments = ["place", name, "--chip", str(chip_file), "--scenario", str(scenario_file), "--json"]
        shown = CliRunner().invoke(app, arguments)
    answer = json.loads(shown.stdout)
    if answer["status"] != "optimal":
        return
    tally.num_bounds += 1
    units = [unit for unit in quick.units_at_best(design)[0] if unit.hbm_bytes == chip.hbm_bytes]
    least_s = min((unit.batch_s for unit in units), default=math.inf)
    if exceeds(answer["batch_s"], least_s):
        text = f"{answer['batch_s']:.9g} s called optimal, no more than {least_s:.9g} s is proven"
        tally.add("status", "rephaze place", f"design {design} ({chip.in_words}): {text}", case.toml)


def _scenario_toml(case: Case) -> str:
    """The whole scenario of a case as a file."""
    data = scenario_mapping(case.run["scenario"])
    sections = [name for name in ("space", "cluster", "training", "plans") if name in data]
    for section in sections:
        data[section] = data[section] | case.run.get(section, {})
    if "area_limit_um2" in data["space"]:
        data["space"] = {
            k: v for k, v in data["space"].items() if k not in ("area_limit_chip", "area_limit_design")
        }
    lines = [f"{field} = {toml_value(data[field])}" for field in SCENARIO_FIELDS]
    for section in sections:
        lines += [f"[{section}]", *(f"{name} = {toml_value(value)}" for name, value in data[section].items())]
    return "\n".join(lines)
