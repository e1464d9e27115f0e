"""Every sieve by itself: its bound of a design, a unit, a layer against what the slow way finds.

A recorded run keeps only the last bound of each design. Here each sieve is asked about every chosen design,
also those another one removed, and about every unit, not only the one that decides.
"""

from __future__ import annotations

import math

from rephaze.measure.model_work import Memory, Unit
from rephaze.search import evaluator
from rephaze.search.evaluator import SpaceEvaluator
from tests.attack.cases import Case
from tests.attack.findings import Tally, exceeds
from tests.attack.objectives import model_value
from tests.attack.slow import SlowEvaluator, UnitWorth
from tests.kits.mapped_stages import mapped_stages

DEVICE_TIME = "device time"
LAYER_BOUNDS = "layer bounds"
MAPPED = "mapped operators"
PLACED = "plans on mapped operators"
HURRIED = "hurried schedules"
SOLVED = "schedules and plans"
SIEVES = (DEVICE_TIME, LAYER_BOUNDS, MAPPED, PLACED, HURRIED, SOLVED)


class SieveAttack:
    """The sieves of one search.

    Args:
        case: The search.
        slow: Its designs, solved slowly.
        tally: Takes what is found.
    """

    def __init__(self, case: Case, slow: SlowEvaluator, tally: Tally) -> None:
        self.case, self.slow, self.tally = case, slow, tally
        self.space = SpaceEvaluator(slow.settings)

    def run(self, designs: list[int]) -> None:
        """Every sieve on every one of these designs."""
        bounds = self.space.unit_bounds(designs)
        coarse_d, refined_c = self.space.coarse(), self.space.refined(designs, bounds)
        for c, design in enumerate(designs):
            value = self.slow.worth(design).value
            self._value(DEVICE_TIME, design, "the design", value, float(coarse_d[design]))
            self._value(LAYER_BOUNDS, design, "the design", value, float(refined_c[c]))
            for m in range(len(self.space.works)):
                self._model(design, m, bounds[m].chip(c))

    def _model(self, design: int, m: int, own) -> None:
        work, solver = self.space.works[m], self.space.solver(design)
        units = self.slow.units(design)[m]
        at = {(unit.tp, unit.microbatch, unit.policy): unit for unit in work.units}
        chips = self.slow.census.chips
        device_s = float(
            evaluator.device_time_batch_s(work, chips, self.space.model, self.space.exclusion)[design]
        )
        for (cut, microbatch), k in work.class_of.items():
            self._layers(design, m, cut.tp, microbatch, own.forward_s_kct[k, 0], own.backward_s_kct[k, 0])
        for true in units:
            unit = at[true.tp, true.microbatch, true.policy]
            memory = Memory(true.hbm_bytes, float(chips.hbm_bytes_per_s[design]))
            self._unit(design, m, unit, memory, true, DEVICE_TIME, device_s)
            u = work.units.index(unit)
            self._unit(design, m, unit, memory, true, LAYER_BOUNDS, float(own.batch_s_uc[u, 0]))
            mapped_s, placed_s = mapped_stages(solver, work, unit, memory, own)
            self._unit(design, m, unit, memory, true, MAPPED, mapped_s)
            self._unit(design, m, unit, memory, true, PLACED, placed_s)
            self._unit(design, m, unit, memory, true, HURRIED, solver.hurried_bound_s(work, unit, memory))
            answer = solver.solve(work, unit, memory, math.inf)
            self._unit(design, m, unit, memory, true, SOLVED, answer.bound_s)
            if not math.isclose(answer.batch_s, true.batch_s, rel_tol=1e-9):
                text = f"{answer.batch_s!r} s solved, {true.batch_s!r} s the slow way"
                self._add(SOLVED, design, f"{self._name(m)} {unit}", text)

    def _layers(self, design: int, m: int, tp: int, microbatch: int, forward_s_t, backward_s_t) -> None:
        """Layer times against proven schedules: a plan hides most of what a layer's bound gets wrong."""
        clock_hz = float(self.slow.census.chips.clock_hz[design])
        for t, both in enumerate(self.slow.passes(design, m, tp, microbatch)):
            for one, bound_s in zip(both, (forward_s_t[t], backward_s_t[t]), strict=True):
                self.tally.num_bounds += 1
                if exceeds(float(bound_s), one.cycles / clock_hz):
                    text = f"a layer takes {one.cycles / clock_hz:.9g} s, no less than {bound_s:.9g} s was said"
                    where = f"{self._name(m)}, tp {tp}, microbatch {microbatch}, layer type {t}"
                    self._add(LAYER_BOUNDS, design, where, text)

    def _unit(
        self, design: int, m: int, unit: Unit, memory: Memory, true: UnitWorth, sieve: str, bound_s: float
    ) -> None:
        self.tally.num_bounds += 1
        where = f"{self._name(m)}, {unit}, {memory.hbm_bytes} B"
        if exceeds(bound_s, true.batch_s):
            text = f"a batch takes {true.batch_s:.9g} s, no less than {bound_s:.9g} s was said"
            self._add(sieve, design, where, text)
        chip, area_um2 = self.slow.census.chips.chip(design), float(self.slow.census.area_um2_c[design])
        value = model_value(self.slow.settings, chip, area_um2, true)
        valuation = self.space.valuation
        least_j = valuation.least_j(self.space.works[m], design)
        bound = valuation.worth(design, memory.hbm_bytes).at_best(bound_s, least_j)
        self._value(sieve, design, where, value, bound)

    def _value(self, sieve: str, design: int, what: str, value: float, bound: float) -> None:
        self.tally.num_bounds += 1
        if exceeds(value, bound):
            self._add(sieve, design, what, f"reaches {value:.9g}, its bound is {bound:.9g}")

    def _name(self, m: int) -> str:
        return self.slow.settings.models[m]

    def _add(self, sieve: str, design: int, where: str, text: str) -> None:
        chip = self.slow.census.chips.chip(design).in_words
        self.tally.add("bound", sieve, f"design {design} ({chip}), {where}: {text}", self.case.toml)
