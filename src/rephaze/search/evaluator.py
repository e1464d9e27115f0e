"""Designs of a space bounded and solved for all models of a search: what every worker process runs.

Axis letters: m = model, u = unit, c = chip of the chunk at hand, d = design of the space.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.estimate_model import named_estimate_model
from rephaze.estimate.estimator import Estimator
from rephaze.estimate.gemm_costs import GemmMemo
from rephaze.hardware.area import chip_area
from rephaze.hardware.cost import chip_cost
from rephaze.hardware.energy import access_energy
from rephaze.hardware.space import DesignCensus, enumerate_designs
from rephaze.measure.chip_solver import ChipSolver, UnitAnswer, placed_bound_s
from rephaze.measure.layer_bounds import ModelBounds, layer_bounds
from rephaze.measure.least_energy import least_energy_per_sample_j
from rephaze.measure.model_work import Memory, ModelWork
from rephaze.measure.objective import combine
from rephaze.schedule.solve import ScheduleMemo
from rephaze.search.device_time import device_time_batch_s
from rephaze.search.engine import RELATIVE_SLACK
from rephaze.types.chip import Chip, chip_table
from rephaze.types.energy import AccessEnergy
from rephaze.types.schedule import Exclusion
from rephaze.types.search import Evaluation, ModelPlan, Objective, SearchSettings, Unsettled
from rephaze.types.space import AreaModel
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal
from rephaze.units import UM2_PER_MM2

Floats = NDArray[np.float64]

LAYER_BOUNDS = "layer bounds"
PLACED = "plans on layer bounds"
MAPPED = "mapped operators"
HURRIED = "hurried schedules"
SOLVED = "schedules and plans"
STAGES = (LAYER_BOUNDS, PLACED, MAPPED, HURRIED, SOLVED)
BOUNDED, IS_PLACED, IS_MAPPED, IS_HURRIED, IS_SOLVED = range(5)
"""How far a unit has come."""


class SpaceEvaluator:
    """Bounds and exact answers for the designs of a space.

    Args:
        settings: The search.
        stop: Ends the preparation of the models, and solvers that are given no other, with ``StoppedError``.
    """

    def __init__(self, settings: SearchSettings, stop: StopSignal = UNSTOPPED) -> None:
        self.settings, self._stop = settings, stop
        scenario = settings.scenario
        self.census: DesignCensus = enumerate_designs(scenario.space)
        self.works = [ModelWork(name, scenario, stop) for name in settings.models]
        self.model = named_estimate_model(scenario.estimate_model)
        self.exclusion = Exclusion(scenario.all_cores_excludes)
        self._gemm_memo, self._schedule_memo = GemmMemo(), ScheduleMemo()
        self._least_j: dict[str, Floats] = {}
        self._factors: dict[int, Floats] = {}
        """By memory size, where it is priced: what turns throughputs into objectives."""

    @cached_property
    def energy(self) -> AccessEnergy:
        """Energies of all designs."""
        return access_energy(self.census.chips, self.settings.scenario.space.area_model)

    def coarse(self) -> Floats:
        """An upper bound of every design's objective, by device time."""
        chips = self.census.chips
        batch_s_md = np.stack(
            [device_time_batch_s(work, chips, self.model, self.exclusion) for work in self.works]
        )
        designs = np.arange(len(chips))
        return self._objective(batch_s_md, designs)

    def unit_bounds(self, designs: Sequence[int], stop: StopSignal = UNSTOPPED) -> list[ModelBounds]:
        """For each model, times no plan of a unit beats on these designs; ``StoppedError`` when cut."""
        index = np.asarray(designs, dtype=np.intp)
        chips = self.census.chips.take(index)
        estimator = Estimator(
            chips, self._energy_of(index), self.settings.scenario.cluster, self.model, self._gemm_memo
        )
        memory = [self.memory_options(design)[-1] for design in designs]
        return [layer_bounds(work, estimator, chips, memory, self.exclusion, stop) for work in self.works]

    def refined(self, designs: Sequence[int], bounds: list[ModelBounds]) -> Floats:
        """An upper bound of each design's objective, from its unit bounds."""
        batch_s_mc = np.stack([own.batch_s_uc.min(axis=0) for own in bounds])
        return self._objective(batch_s_mc, np.asarray(designs, dtype=np.intp))

    def memory_options(self, design: int) -> list[Memory]:
        """Memories a design may have, smallest first."""
        chips = self.census.chips
        bytes_per_s = float(chips.hbm_bytes_per_s[design])
        options = self.settings.scenario.space.hbm_bytes_options
        sizes = sorted(options) if options else [int(chips.hbm_bytes[design])]
        return [Memory(size, bytes_per_s) for size in sizes]

    def solver(self, design: int, stop: StopSignal | None = None) -> ChipSolver:
        """The exact solver of one design."""
        return self.chip_solver(self.census.chips.chip(design), self._energy_of(np.array([design])), stop)

    def chip_solver(
        self, chip: Chip, energy: AccessEnergy | None = None, stop: StopSignal | None = None
    ) -> ChipSolver:
        """The exact solver of any chip, of the space or not."""
        if energy is None:
            energy = access_energy(chip_table([chip]), self.settings.scenario.space.area_model)
        memos = self._gemm_memo, self._schedule_memo
        return ChipSolver(chip, energy, self.model, self.exclusion, *memos, stop=stop or self._stop)

    def evaluate(
        self, design: int, bounds: list[ModelBounds], cutoff: float, stop: StopSignal = UNSTOPPED
    ) -> Evaluation | Unsettled:
        """One design, solved exactly, or dropped as soon as a bound falls below ``cutoff``.

        Args:
            design: Position in the space.
            bounds: For each model, those of ``unit_bounds`` for this design alone.
            cutoff: The incumbent's objective.
            stop: Leaves the design unsettled, with the best bound known by then.
        """
        searches = [_DesignSearch(self, design, bounds, memory, stop) for memory in self.priced_memories(design)]
        found: list[Evaluation] = []
        try:
            for one in searches:
                stop.check()
                found.append(one.run(max([cutoff, *(item.objective for item in found)])))
        except StoppedError:
            return Unsettled(design=design, bound=max(one.bound() for one in searches))
        return _of_best_memory(found)

    def priced_memories(self, design: int) -> list[Memory]:
        """Memories a design must be tried with, smallest first.

        More memory never slows a plan: where its price is no part of the objective, the largest is enough.
        """
        options = self.memory_options(design)
        return options if self.settings.objective is Objective.PER_USD else options[-1:]

    def _energy_of(self, index: NDArray[np.intp]) -> AccessEnergy:
        from dataclasses import fields

        return AccessEnergy(**{item.name: getattr(self.energy, item.name)[index] for item in fields(AccessEnergy)})

    def _objective(self, batch_s_mc: Floats, designs: NDArray[np.intp]) -> Floats:
        """Upper bounds of the objective from lower bounds on batch times."""
        scenario = self.settings.scenario
        throughput_mc = scenario.training.global_batch / batch_s_mc
        if self.settings.objective is Objective.PER_WATT:
            least_j_mc = np.stack([self._least_energy_j(work)[designs] for work in self.works])
            cluster_w_c = self.energy.idle_w_c[designs] * scenario.cluster.num_devices
            fits_mc = np.isfinite(batch_s_mc)
            idle_j_mc = cluster_w_c * (np.where(fits_mc, batch_s_mc, 0.0) / scenario.training.global_batch)
            value_mc = np.where(fits_mc, 1.0 / (least_j_mc + idle_j_mc), 0.0)
        else:
            value_mc = throughput_mc * self.value_factor[designs]
        return combine(value_mc, self.settings.weights, self.settings.aggregate)

    def _least_energy_j(self, work: ModelWork) -> Floats:
        if work.name not in self._least_j:
            self._least_j[work.name] = least_energy_per_sample_j(work, self.census.chips, self.energy, self.model)
        return self._least_j[work.name]

    @cached_property
    def value_factor(self) -> Floats:
        """What turns a design's throughput into its objective, with the cheapest memory it may have."""
        num_devices = self.settings.scenario.cluster.num_devices
        if self.settings.objective is Objective.PER_AREA:
            return UM2_PER_MM2 / (self.census.area_um2_c * num_devices)
        if self.settings.objective is Objective.PER_USD:
            options = self.settings.scenario.space.hbm_bytes_options
            if options:
                return self._per_usd(np.full(self.census.num_designs, min(options), dtype=np.int64))
            return self._per_usd(self.census.chips.hbm_bytes)
        return np.ones(self.census.num_designs)

    def _factor(self, design: int, memory: Memory) -> float:
        """What turns a design's throughput into its objective, with this memory."""
        is_priced = self.settings.objective is Objective.PER_USD and self.settings.scenario.space.hbm_bytes_options
        if not is_priced:
            return float(self.value_factor[design])
        if memory.hbm_bytes not in self._factors:
            sizes = np.full(self.census.num_designs, memory.hbm_bytes, dtype=np.int64)
            self._factors[memory.hbm_bytes] = self._per_usd(sizes)
        return float(self._factors[memory.hbm_bytes][design])

    def _per_usd(self, hbm_bytes_d: NDArray[np.int64]) -> Floats:
        """One over the cost of a cluster of each design, with memories of these sizes."""
        # Cost at the 7 nm of the corrected model, whatever model limits the area.
        area_um2_d = chip_area(self.census.chips, AreaModel.CORRECTED).total_um2_c
        num_devices = self.settings.scenario.cluster.num_devices
        return 1.0 / (chip_cost(area_um2_d, hbm_bytes_d).total_usd_c * num_devices)

    def value_of(self, design: int, memory: Memory, batch_s: float, energy_per_sample_j: float) -> float:
        """A model's objective on a design with this memory, from its exact plan."""
        if not math.isfinite(batch_s):
            return 0.0
        if self.settings.objective is Objective.PER_WATT:
            return 1.0 / energy_per_sample_j
        return self.settings.scenario.training.global_batch / batch_s * self._factor(design, memory)

    def bound_of(self, design: int, memory: Memory, work: ModelWork, batch_s: float) -> float:
        """A model's objective on a design with this memory at best, if no plan is faster than ``batch_s``."""
        if not math.isfinite(batch_s):
            return 0.0
        if self.settings.objective is Objective.PER_WATT:
            scenario = self.settings.scenario
            idle_j = float(self.energy.idle_w_c[design]) * scenario.cluster.num_devices * batch_s
            least_j = float(self._least_energy_j(work)[design]) + idle_j / scenario.training.global_batch
            return 1.0 / least_j
        return self.value_of(design, memory, batch_s, math.inf)


def _of_best_memory(found: list[Evaluation]) -> Evaluation:
    """What is known of a design from its evaluations with each memory; the smaller one where both are as good."""
    solved = [item for item in found if item.is_exact and item.objective > 0]
    if solved:
        # A memory that was dropped is no better than one that was solved before it, or than the cutoff.
        best = max(solved, key=lambda item: item.objective)
        return replace(best, bound=max(item.bound for item in solved))
    dropped = [item for item in found if not item.is_exact]
    return max(dropped, key=lambda item: item.bound) if dropped else found[-1]


class _DesignSearch:
    """Best first over the units of all models on one design with one memory."""

    def __init__(
        self, space: SpaceEvaluator, design: int, bounds: list[ModelBounds], memory: Memory, stop: StopSignal
    ) -> None:
        self.space, self.design, self.memory, self.stop = space, design, memory, stop
        self.solver = space.solver(design, stop)
        self.upper = [
            np.array([space.bound_of(design, memory, work, float(batch_s)) for batch_s in own.batch_s_uc[:, 0]])
            for work, own in zip(space.works, bounds, strict=True)
        ]
        """By model and unit: no plan has a better value."""
        self.bounds = bounds
        self.stage = [np.full(len(upper), BOUNDED, dtype=np.int64) for upper in self.upper]
        self.best: list[tuple[float, int, UnitAnswer] | None] = [None] * len(bounds)
        self.unproven = [0.0] * len(bounds)
        """Values that unproven schedules might still reach."""
        self.finest = LAYER_BOUNDS

    def run(self, cutoff: float) -> Evaluation:
        while True:
            bound = self.bound()
            if bound <= 0.0:
                return self._infeasible()
            if bound < cutoff * (1 - RELATIVE_SLACK):
                return self._dropped(bound)
            model = self._model_to_refine()
            if model is None:
                return self._exact()
            self.stop.check()
            self._refine(model)

    def bound(self) -> float:
        """No plans of the design with this memory do better, by all that is known now."""
        return self._combined([self._model_upper(m) for m in range(len(self.upper))])

    def _model_upper(self, m: int) -> float:
        best = self.best[m]
        open_upper = float(self.upper[m][self.stage[m] < IS_SOLVED].max(initial=0.0))
        return max(open_upper, best[0] if best else 0.0, self.unproven[m])

    def _model_to_refine(self) -> int | None:
        """The model whose open units promise most over what is known."""
        widest, chosen = 1.0, None
        for m in range(len(self.upper)):
            best = self.best[m]
            open_upper = float(self.upper[m][self.stage[m] < IS_SOLVED].max(initial=0.0))
            if open_upper <= (best[0] if best else 0.0):
                continue
            ratio = open_upper / best[0] if best else math.inf
            if ratio > widest:
                widest, chosen = ratio, m
        return chosen

    def _refine(self, m: int) -> None:
        work = self.space.works[m]
        is_open = self.stage[m] < IS_SOLVED
        u = int(np.argmax(np.where(is_open, self.upper[m], -1.0)))
        unit = work.units[u]
        best = self.best[m]
        # For any objective but energy a slower plan of the same model is of no use.
        is_timed = self.space.settings.objective is not Objective.PER_WATT
        cutoff_s = best[2].batch_s if best and is_timed else math.inf
        stage = int(self.stage[m][u]) + 1
        self.finest = max(self.finest, STAGES[stage], key=STAGES.index)
        if stage < IS_SOLVED:
            if stage == IS_PLACED:
                pair = work.pairs.index((unit.tp, unit.microbatch))
                times = (self.bounds[m].forward_s_kct[pair, 0], self.bounds[m].backward_s_kct[pair, 0])
                batch_s = placed_bound_s(work, unit, self.memory, *times, cutoff_s)
            elif stage == IS_MAPPED:
                batch_s = self.solver.bound_batch_s(work, unit, self.memory, cutoff_s)
            else:
                batch_s = self.solver.hurried_bound_s(work, unit, self.memory, cutoff_s)
            self.upper[m][u] = min(self.upper[m][u], self.space.bound_of(self.design, self.memory, work, batch_s))
            self.stage[m][u] = stage
            return
        answer = self.solver.solve(work, unit, self.memory, cutoff_s)
        self.stage[m][u] = IS_SOLVED
        reachable = self.space.bound_of(self.design, self.memory, work, answer.bound_s)
        value = self.space.value_of(self.design, self.memory, answer.batch_s, answer.energy_per_sample_j)
        if answer.bound_s < answer.batch_s and answer.bound_s < cutoff_s:
            self.unproven[m] = max(self.unproven[m], reachable)
        if value > (best[0] if best else 0.0):
            self.best[m] = (value, u, answer)

    def _combined(self, values: list[float]) -> float:
        settings = self.space.settings
        column = np.array(values)[:, None]
        return float(combine(column, settings.weights, settings.aggregate)[0])

    def _exact(self) -> Evaluation:
        plans = tuple(self._plan(m) for m in range(len(self.upper)))
        objective = self._combined([best[0] for best in self.best if best])
        return Evaluation(
            design=self.design, is_exact=True, objective=objective, bound=max(self.bound(), objective), plans=plans
        )

    def _plan(self, m: int) -> ModelPlan:
        """The model's plan on the smallest memory it does not lose by, or on the one that was priced."""
        best = self.best[m]
        assert best is not None
        work = self.space.works[m]
        _, u, answer = best
        is_timed = self.space.settings.objective is not Objective.PER_WATT
        unit = work.units[u]
        is_priced = len(self.space.priced_memories(self.design)) > 1
        for memory in [] if is_priced else self.space.memory_options(self.design)[:-1]:
            smaller = self.solver.solve(work, unit, memory, math.inf)
            if smaller.plan is None or smaller.batch_s > answer.batch_s:
                continue
            # As fast with other stages replayed, it may use another energy: then it is not the plan valued.
            if is_timed or smaller.energy_per_sample_j == answer.energy_per_sample_j:
                return self.solver.model_plan(work, unit, memory, smaller)
        return self.solver.model_plan(work, unit, self.memory, answer)

    def _dropped(self, bound: float) -> Evaluation:
        return Evaluation(
            design=self.design, is_exact=False, objective=-math.inf, bound=bound, plans=(), dropped_by=self.finest
        )

    def _infeasible(self) -> Evaluation:
        missing = [work.name for m, work in enumerate(self.space.works) if self._model_upper(m) <= 0.0]
        return Evaluation(
            design=self.design,
            is_exact=True,
            objective=-math.inf,
            bound=-math.inf,
            plans=(),
            reason=f"no plan of {', '.join(missing)} fits",
        )
