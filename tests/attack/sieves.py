"""Every sieve by itself: its bound of a design, a unit, a layer against what the slow way finds.

A recorded run keeps only the last bound of each design. Here each sieve is asked about every chosen design,
also those another one removed, and about every unit, not only the one that decides.
"""

from __future__ import annotations

import math

from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.model_bounds import ModelBounds
from rephaze.measure.model_work import ModelWork
from rephaze.measure.units import Memory, Unit
from rephaze.search import evaluator
from rephaze.search.evaluator import SpaceEvaluator
from tests.attack.cases import Case
from tests.attack.findings import Tally, exceeds
from tests.attack.full_sieves import FullSieves
from tests.attack.objectives import model_value
from tests.attack.slow import SlowEvaluator
from tests.attack.slow_types import UnitWorth
from tests.kits.mapped_stages import mapped_layers, mapped_stages

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
        num_plans: Of cost model ``full``, to price for each unit, looking for a better one than the solver's.
    """

    def __init__(self, case: Case, slow: SlowEvaluator, tally: Tally, num_plans: int = 0) -> None:
        self.case, self.slow, self.tally = case, slow, tally
        self.space = SpaceEvaluator(slow.settings)
        self._full = FullSieves(slow, tally, num_plans, self._add) if slow.is_full else None

    def run(self, designs: list[int]) -> None:
        """Every sieve on every one of these designs."""
        bounds = self.space.unit_bounds(designs)
        coarse_d, refined_c = self.space.coarse(), self.space.refined(designs, bounds)
        # No cutoff asks for everything to be mapped; any design reaches zero.
        sharp_c = self.space.refined(designs, self.space.sharpened(designs, bounds, 0.0))
        for c, design in enumerate(designs):
            value = self.slow.worth(design).value
            self._value(DEVICE_TIME, design, "the design", value, float(coarse_d[design]))
            self._value(LAYER_BOUNDS, design, "the design", value, float(refined_c[c]))
            self._value(MAPPED, design, "the design", value, float(sharp_c[c]))
            for m in range(len(self.space.works)):
                self._model(design, m, bounds[m].chip(c))

    def _model(self, design: int, m: int, own: ModelBounds) -> None:
        work, solver = self.space.works[m], self.space.solver(design)
        units = self.slow.units(design)[m]
        if set(work.cuts) != set(self.slow.models[m]):
            text = f"{sorted(map(str, work.cuts))} are searched, {sorted(map(str, self.slow.models[m]))} there are"
            self.tally.add("space", "cuts", f"{self._name(m)}: {text}", self.case.toml)
            return
        at = {(unit.cut, unit.microbatch, unit.policy): unit for unit in work.units}
        chips = self.slow.census.chips
        device_s = float(
            evaluator.device_time_batch_s(work, chips, self.space.model, self.space.exclusion)[design]
        )
        self._layers(LAYER_BOUNDS, design, m, own)
        largest = Memory(max(self.slow.memories(design)), float(chips.hbm_bytes_per_s[design]))
        self._layers(MAPPED, design, m, mapped_layers(solver, work, largest, own))
        for true in units:
            unit = at[true.cut, true.microbatch, true.policy]
            memory = Memory(true.hbm_bytes, float(chips.hbm_bytes_per_s[design]))
            self._unit(design, m, unit, memory, true, DEVICE_TIME, device_s)
            u = work.units.index(unit)
            self._unit(design, m, unit, memory, true, LAYER_BOUNDS, float(own.batch_s_uc[u, 0]))
            mapped_s, placed_s = mapped_stages(solver, work, unit, memory, own)
            self._unit(design, m, unit, memory, true, MAPPED, mapped_s)
            self._unit(design, m, unit, memory, true, PLACED, placed_s)
            self._unit(design, m, unit, memory, true, HURRIED, solver.hurried_bound_s(work, unit, memory))
            self._solved(design, m, unit, memory, true, solver)
            if self._full is not None:
                self._full.attack(design, m, solver, work, unit, memory, true)

    def _solved(
        self, design: int, m: int, unit: Unit, memory: Memory, true: UnitWorth, solver: ChipSolver
    ) -> None:
        work = self.space.works[m]
        answer = solver.solve(work, unit, memory, math.inf)
        self._unit(design, m, unit, memory, true, SOLVED, answer.bound_s)
        where = f"{self._name(m)} {unit}"
        # Unproven schedules under ``full`` may choose another form of the cut.
        is_known = true.is_proven or not self.slow.is_full
        if is_known and not math.isclose(answer.batch_s, true.batch_s, rel_tol=1e-9):
            self._add(SOLVED, design, where, f"{answer.batch_s!r} s solved, {true.batch_s!r} s the slow way")
        elif is_known and math.isfinite(true.batch_s) and self.slow.is_full:
            self.tally.num_bounds += 1
            if not math.isclose(answer.energy_per_sample_j, true.energy_per_sample_j, rel_tol=1e-9):
                text = f"{answer.energy_per_sample_j!r} J a sample, {true.energy_per_sample_j!r} J the slow way"
                self._add(SOLVED, design, where, text)

    def _layers(self, sieve: str, design: int, m: int, bounds: ModelBounds) -> None:
        """Layer times against proven schedules: a plan hides most of what a layer's bound gets wrong."""
        clock_hz = float(self.slow.census.chips.clock_hz[design])
        work: ModelWork = self.space.works[m]
        columns = (bounds.forward_s_kct, bounds.backward_s_kct, bounds.input_s_kct)
        for (cut, microbatch), k in work.class_of.items():
            for t, forms in enumerate(self.slow.passes(design, m, cut, microbatch)):
                for form, passes in enumerate(forms):
                    for one, bound_s_kct in zip(passes, columns, strict=False):
                        bound_s, true_s = float(bound_s_kct[k, 0, t]), one.cycles / clock_hz
                        self.tally.num_bounds += 1
                        if exceeds(bound_s, true_s):
                            where = f"{self._name(m)}, {cut}, form {form}, microbatch {microbatch}, layer type {t}"
                            text = f"a layer takes {true_s:.9g} s, no less than {bound_s:.9g} s was said"
                            self._add(sieve, design, where, text)

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
        return self.case.run["search"]["models"][m]

    def _add(self, sieve: str, design: int, where: str, text: str, kind: str = "bound") -> None:
        chip = self.slow.census.chips.chip(design).in_words
        self.tally.add(kind, sieve, f"design {design} ({chip}), {where}: {text}", self.case.toml)
