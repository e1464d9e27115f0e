"""What of ``verify`` catches a tampered run; what settings and chips alone decide is derived once for all runs."""

import shutil
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from rephaze.errors import RunError
from rephaze.search.system_evaluator import SystemEvaluator
from rephaze.store.reader import settings_digest
from rephaze.verify import run_check
from rephaze.verify.rederive import WinnerCheck
from tests.tampering.forging import recompute_chain

READING = "reading"
"""Caught since the record cannot be read: one line, exit code 1."""
NOTHING = "nothing"


@contextmanager
def quick():
    """Models are prepared once a settings, solvers made once a chip, winners' passes derived once."""
    evaluators, passes = {}, {}
    make, derived = run_check.make_evaluator, WinnerCheck.derived

    def make_once(settings):
        key = settings_digest(settings)
        if key not in evaluators:
            evaluators[key] = _remembering(make(settings))
        return evaluators[key]

    def derived_once(self, work, label, graph, microbatch):
        key = (self.chip, settings_of(work), label, microbatch)
        if key not in passes:
            passes[key] = derived(self, work, label, graph, microbatch)
        return passes[key]

    def settings_of(work):
        return (work.name, repr(work.scenario))

    run_check.make_evaluator, WinnerCheck.derived = make_once, derived_once
    try:
        yield
    finally:
        run_check.make_evaluator, WinnerCheck.derived = make, derived


def _remembering(evaluator):
    if isinstance(evaluator, SystemEvaluator):
        evaluator.of = cache(lambda system, of=evaluator.of: _remembering(of(system)))
        return evaluator
    solvers, bounds = {}, {}
    solver_of = evaluator.chip_solver

    def chip_solver(chip, energy=None, stop=None):
        key = replace(chip, name="")
        if key not in solvers:
            solvers[key] = solver_of(chip, energy, stop)
        return solvers[key]

    evaluator.chip_solver = chip_solver
    if hasattr(evaluator, "coarse"):
        coarse, unit_bounds = evaluator.coarse(), evaluator.unit_bounds

        def bounds_once(designs, *stop):
            key = tuple(designs)
            if key not in bounds:
                bounds[key] = unit_bounds(designs, *stop)
            return bounds[key]

        evaluator.coarse, evaluator.unit_bounds = coarse.copy, bounds_once
    return evaluator


def caught_by(folder: Path, *, sample: int = 0, skip_digests: bool = False) -> str:
    """The first check that fails, ``READING`` or ``NOTHING``; anything else that is raised is a crash."""
    try:
        for check in run_check.each_check(folder, sample, None, lambda _doing: None):
            if not check.passed and not (skip_digests and check.name == "digests"):
                return check.name
    except RunError as error:
        return READING if "\n" not in str(error) else "more than a line"
    return NOTHING


def copied(run: Path, folder: Path) -> Path:
    """A run to be tampered with."""
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(run, folder))


def outcomes(run: Path, tampering, folder: Path) -> tuple[str, str] | None:
    """What catches a change, digests left alone and chain recomputed; None if it cannot be made."""
    if not tampering.apply(copied(run, folder)):
        return None
    alone = caught_by(folder)
    recompute_chain(folder)
    return alone, caught_by(folder)
