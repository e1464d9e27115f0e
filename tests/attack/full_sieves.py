"""What only cost model ``full`` claims of a unit: lists of what to keep, cutoffs, and that no plan is better."""

from __future__ import annotations

import math
from typing import Protocol

from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.full_times import least_times
from rephaze.measure.model_work import ModelWork
from rephaze.measure.pass_times import BACKWARD, FORWARD, INPUT_PART, LayerSeconds, Times
from rephaze.measure.units import Memory, Unit
from tests.attack.findings import Tally, exceeds
from tests.attack.plan_attack import better_plan
from tests.attack.slow import SlowEvaluator
from tests.attack.slow_types import UnitWorth
from tests.kits.mapped_stages import mapped_seconds

KEEP_LISTS = "lists of what to keep"
CUTOFF = "cutoff"
PLAN = "best plan"
NEARLY = 1e-6
"""Relative: how near to the truth cutoffs are asked."""


class Report(Protocol):
    """Takes a finding: whose claim, which design, where in it, what is wrong, of what kind."""

    def __call__(self, sieve: str, design: int, where: str, text: str, kind: str = "bound") -> None: ...


class FullSieves:
    """The units of one search under ``full``.

    Args:
        slow: Its designs, solved slowly.
        tally: Counts what was asked.
        num_plans: To price for each unit.
        report: Takes findings.
    """

    def __init__(self, slow: SlowEvaluator, tally: Tally, num_plans: int, report: Report) -> None:
        assert slow.full is not None
        self._slow, self._full, self._tally = slow, slow.full, tally
        self._num_plans, self._report = num_plans, report

    def attack(
        self, design: int, m: int, solver: ChipSolver, work: ModelWork, unit: Unit, memory: Memory, true: UnitWorth
    ) -> None:
        """All of it for one unit on one design with one memory."""
        where = f"{work.name.rsplit('/', 1)[-1]}, {unit}, {memory.hbm_bytes} B"
        self._keep_lists(design, m, solver, work, unit, where)
        self._cutoffs(design, solver, work, unit, memory, true, where)
        self._plans(design, m, unit, memory, where)

    def _keep_lists(
        self, design: int, m: int, solver: ChipSolver, work: ModelWork, unit: Unit, where: str
    ) -> None:
        """Replays from bounds of operators and passes: at no position more than a chip needs."""
        chip = self._slow.census.chips.chip(design)
        graphs = self._slow.models[m][unit.cut]
        passes = self._slow.passes(design, m, unit.cut, unit.microbatch)
        directions = (FORWARD, BACKWARD, INPUT_PART) if work.has_split_backward else (FORWARD, BACKWARD)
        seconds = [solver.pass_seconds(work, unit.cut, unit.microbatch, one, Times.HURRIED) for one in directions]
        layer_s = LayerSeconds(*seconds, *([0.0 * seconds[0]] if len(seconds) < 3 else []))
        bounds = least_times(solver, work, unit, layer_s, range(len(seconds[0])))
        for kind, true in enumerate(self._full.layers(graphs, unit.microbatch, chip, passes)):
            for k, point in enumerate(true.keep):
                self._tally.num_bounds += 2
                bound_s, kept = float(bounds.lists[kind].replay_s_k[k]), float(bounds.lists[kind].kept_bytes_k[k])
                if exceeds(bound_s, point.replay_s) or kept != point.kept_bytes:
                    text = f"layer type {kind} replays {point.replay_s:.9g} s for {point.kept_bytes:.0f} B kept"
                    said = f"no less than {bound_s:.9g} s for {kept:.0f} B was said"
                    self._report(KEEP_LISTS, design, where, f"{text} at position {k}; {said}")

    def _cutoffs(
        self,
        design: int,
        solver: ChipSolver,
        work: ModelWork,
        unit: Unit,
        memory: Memory,
        true: UnitWorth,
        where: str,
    ) -> None:
        """Just above the truth a cutoff finds it, just below it finds nothing, and its bound is still one."""
        if not math.isfinite(true.batch_s) or not true.is_proven:
            return
        above, below = true.batch_s * (1 + NEARLY), true.batch_s * (1 - NEARLY)
        found = solver.solve(work, unit, memory, above)
        self._tally.num_bounds += 9
        if not math.isclose(found.batch_s, true.batch_s, rel_tol=1e-9):
            text = f"{found.batch_s!r} s found below a cutoff of {above!r} s, there is {true.batch_s!r} s"
            self._report(CUTOFF, design, where, text)
        mapped = mapped_seconds(solver, work, unit, memory, solver.unit_bounds(work, memory))
        for name, bound_s in (
            ("solved", solver.solve(work, unit, memory, below).bound_s),
            ("hurried", solver.hurried_bound_s(work, unit, memory, above)),
            ("hurried below", solver.hurried_bound_s(work, unit, memory, below)),
            ("hurried where layers repeat", solver.hurried_bound_s(work, unit, memory, above, mapped)),
            ("placed", solver.placed_bound_s(work, unit, memory, mapped, above)),
            ("placed below", solver.placed_bound_s(work, unit, memory, mapped, below)),
            ("placed, told", solver.placed_bound_s(work, unit, memory, mapped, above, is_told=True)),
            ("placed below, told", solver.placed_bound_s(work, unit, memory, mapped, below, is_told=True)),
        ):
            if exceeds(bound_s, true.batch_s):
                text = f"{name}: a batch takes {true.batch_s:.9g} s, no less than {bound_s:.9g} s was said"
                self._report(CUTOFF, design, where, text)

    def _plans(self, design: int, m: int, unit: Unit, memory: Memory, where: str) -> None:
        chip = self._slow.census.chips.chip(design)
        answer = self._full.answer(self._slow.models[m][unit.cut], unit.microbatch, chip, memory.hbm_bytes)
        if answer is None or not self._num_plans:
            return
        problem, best = answer
        found, num_priced = better_plan(problem, best, self._num_plans, seed=design)
        self._tally.num_plans += num_priced
        if found is not None:
            said = f"{best.batch_s!r} s" if best is not None else "none"
            text = f"{found.plan} takes {found.batch_s!r} s; the best was said to take {said}"
            self._report(PLAN, design, where, text, kind="plan")
