"""One chip solved exactly: mapped operators, proven schedules, the best plan of every unit that may win."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.estimate_model import named_estimate_model
from rephaze.estimate.estimator import Estimator
from rephaze.estimate.gemm_costs import GemmMemo
from rephaze.hardware.energy import access_energy
from rephaze.measure.layer_bounds import ModelBounds, layer_bounds
from rephaze.measure.model_work import Memory, ModelWork, PassWork, Unit
from rephaze.measure.objective import idle_j_per_sample
from rephaze.place.price import price_plan
from rephaze.schedule.bounds import lower_bounds
from rephaze.schedule.parts import HURRIED_WORK, SEARCH_WORK, Effort
from rephaze.schedule.solve import LayerModes, LayerSchedule, ScheduleMemo, schedule_layer
from rephaze.schedule.tasks import Cores
from rephaze.types.chip import Chip, ChipTable, chip_table
from rephaze.types.energy import AccessEnergy
from rephaze.types.latency import IMPOSSIBLE_CYCLES, ModeTable
from rephaze.types.placement import Plan, PricedPlan, Recompute, SolveStatus
from rephaze.types.scenario import Scenario
from rephaze.types.search import ModelPlan, StagePlan
from rephaze.types.stopping import UNSTOPPED, StopSignal

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitAnswer:
    """One unit of one model on one chip."""

    batch_s: float
    """Of the best plan found; infinite if nothing fits or nothing beats the cutoff."""
    bound_s: float
    """No plan of the unit is faster."""
    plan: Plan | None
    energy_per_sample_j: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PassTimes:
    """One pass of one layer type on one chip."""

    cycles: int
    bound_cycles: int
    energy_j: float

    @property
    def is_proven(self) -> bool:
        """No schedule of the pass is shorter."""
        return self.bound_cycles >= self.cycles


class Times(Enum):
    """Which times of a model's passes."""

    MAPPED = auto()
    """Bounds from mapped operators."""
    HURRIED = auto()
    """What little work proves of the schedules."""
    LEAST = auto()
    """What all the work there is proves of them."""
    SCHEDULED = auto()


def placed_bound_s(
    work: ModelWork, unit: Unit, memory: Memory, forward_s_t: Floats, backward_s_t: Floats, cutoff_s: float
) -> float:
    """A batch time no plan of the unit beats if no layer is faster than given; ``cutoff_s`` if it is no less."""
    if not (np.isfinite(forward_s_t).all() and np.isfinite(backward_s_t).all()):
        return math.inf
    kinds = np.array(work.layer_type_of)
    return work.placer(unit, memory).solve([(forward_s_t[kinds], backward_s_t[kinds])], cutoff_s).bound_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Memos:
    """What was computed for one chip and may serve another."""

    gemms: GemmMemo = field(default_factory=GemmMemo)
    schedules: ScheduleMemo = field(default_factory=ScheduleMemo)
    """Solved parts of schedules."""


class ChipSolver:
    """Exact times and plans of models on one chip.

    Args:
        chip: The chip.
        scenario: Models of cost and rules.
        energy: The chip's energies; by default those of the scenario's area model.
        memos: Shared among chips.
        schedule_work: For one layer's schedule (``schedule.solve.schedule_layer``); past it a bound remains.
        stop: Ends any of the work below with ``StoppedError``.
    """

    def __init__(
        self,
        chip: Chip,
        scenario: Scenario,
        *,
        energy: AccessEnergy | None = None,
        memos: Memos | None = None,
        schedule_work: int = SEARCH_WORK,
        stop: StopSignal = UNSTOPPED,
    ) -> None:
        self.chip, self.stop = chip, stop
        self.table: ChipTable = chip_table([chip])
        self.energy = energy or access_energy(self.table, scenario.space.area_model)
        self.model = named_estimate_model(scenario.estimate_model)
        self.exclusion = scenario.all_cores_excludes
        self._memos, self._schedule_work = memos or Memos(), schedule_work
        self._estimators: dict[str, Estimator] = {}
        self._tables: dict[tuple[str, int, int, int, int], ModeTable] = {}
        self._times: dict[tuple[str, int, int, int, int], PassTimes] = {}
        self._hurried: dict[tuple[str, int, int, int, int], PassTimes] = {}

    def unit_bounds(self, work: ModelWork, memory: Memory) -> ModelBounds:
        """Layer bounds of every unit of the model."""
        return layer_bounds(work, self._estimator(work), self.table, [memory], self.exclusion, self.stop)

    def bound_batch_s(self, work: ModelWork, unit: Unit, memory: Memory, cutoff_s: float = math.inf) -> float:
        """A batch time no plan of the unit beats, from mapped operators, schedule bounds and the best plan."""
        return placed_bound_s(work, unit, memory, *self._columns(work, unit, Times.MAPPED), cutoff_s)

    def hurried_bound_s(self, work: ModelWork, unit: Unit, memory: Memory, cutoff_s: float = math.inf) -> float:
        """The same from what little work proves of the schedules."""
        return placed_bound_s(work, unit, memory, *self._columns(work, unit, Times.HURRIED), cutoff_s)

    def solve(self, work: ModelWork, unit: Unit, memory: Memory, cutoff_s: float) -> UnitAnswer:
        """The best plan of the unit, if it is below ``cutoff_s``."""
        forward, backward = self._columns(work, unit, Times.SCHEDULED)
        if not (np.isfinite(forward).all() and np.isfinite(backward).all()):
            return UnitAnswer(batch_s=math.inf, bound_s=math.inf, plan=None, energy_per_sample_j=math.inf)
        kinds = np.array(work.layer_type_of)
        placer = work.placer(unit, memory)
        found = placer.solve([(forward[kinds], backward[kinds])], cutoff_s)
        bound_s = found.bound_s
        least_f, least_b = self._columns(work, unit, Times.LEAST)
        if (least_f < forward).any() or (least_b < backward).any():
            # Some schedule was not proven: with its bound the plan might be faster.
            bound_s = min(bound_s, placer.solve([(least_f[kinds], least_b[kinds])], cutoff_s).bound_s)
        if found.status not in (SolveStatus.OPTIMAL, SolveStatus.FEASIBLE):
            return UnitAnswer(batch_s=math.inf, bound_s=bound_s, plan=None, energy_per_sample_j=math.inf)
        plan = placer.plan(found)
        return UnitAnswer(
            batch_s=found.batch_s,
            bound_s=bound_s,
            plan=plan,
            energy_per_sample_j=self.plan_energy_per_sample_j(work, unit, plan, found.batch_s),
        )

    def model_plan(self, work: ModelWork, unit: Unit, memory: Memory, answer: UnitAnswer) -> ModelPlan:
        """The answer as it is reported, stages priced one by one."""
        assert answer.plan is not None
        priced = self.priced(work, unit, memory, answer.plan)
        names = work.graphs[unit.tp].layer_names
        stages = tuple(
            StagePlan(
                first_layer=names[stage.layers[0]],
                last_layer=names[stage.layers[-1]],
                num_layers=len(stage.layers),
                num_devices=cost.num_devices,
                load_s=cost.load_s,
                memory_bytes=cost.memory.total_bytes,
                recompute=str(cost.recompute),
            )
            for stage, cost in zip(answer.plan.stages, priced.stages, strict=True)
        )
        modes = {stage.recompute for stage in stages}
        return ModelPlan(
            model=work.name,
            samples_per_s=work.scenario.training.global_batch / answer.batch_s,
            batch_s=answer.batch_s,
            tp=answer.plan.tp,
            dp=answer.plan.dp,
            pp=answer.plan.pp,
            microbatch=answer.plan.microbatch,
            recompute=modes.pop() if len(modes) == 1 else "mixed",
            hbm_bytes=memory.hbm_bytes,
            energy_per_sample_j=answer.energy_per_sample_j,
            stages=stages,
        )

    def least_batch_s(self, work: ModelWork, unit: Unit, memory: Memory, priced: PricedPlan) -> float:
        """The time of a priced plan were every schedule that is not proven as short as its bound."""
        kinds = range(len(work.passes[unit.tp]))
        passes = [self.pass_times(work, unit.tp, unit.microbatch, kind, d) for kind in kinds for d in (0, 1)]
        if all(one.is_proven for one in passes):
            return priced.batch_s
        return self.priced(work, unit, memory, priced.plan, use_bounds=True).batch_s

    def priced(
        self, work: ModelWork, unit: Unit, memory: Memory, plan: Plan, *, use_bounds: bool = False
    ) -> PricedPlan:
        """A plan priced by the independent evaluator, with this chip's layer times (or their bounds)."""
        from dataclasses import replace

        forward, backward = self._columns(work, unit, Times.LEAST if use_bounds else Times.SCHEDULED)
        problem = work.placement_problem((unit,), memory)
        graph = problem.graphs[0]
        layers = tuple(
            replace(layer, forward_s=float(forward[kind]), backward_s=float(backward[kind]))
            for layer, kind in zip(graph.layers, work.layer_type_of, strict=True)
        )
        return price_plan(replace(problem, graphs=(replace(graph, layers=layers),)), plan)

    def schedule(self, one_pass: PassWork, table: ModeTable, most_work: int | None = None) -> LayerSchedule:
        """The schedule of one pass, proven within the work limit, or within ``most_work`` if that is less."""
        modes = LayerModes(
            cycles_om=table.cycles_om,
            all_cores_om=np.tile(table.all_cores_m, (len(table.op_names), 1)),
            hbm_share_om=table.hbm_share_om,
            buffer_share_om=table.buffer_share_om,
        )
        cores = Cores(
            num_tensor_cores=self.chip.num_tensor_cores,
            num_vector_cores=self.chip.num_vector_cores,
            exclusion=self.exclusion,
        )
        work_limit = min(self._schedule_work, most_work or self._schedule_work)
        effort = Effort(work_limit=work_limit, stop=self.stop)
        return schedule_layer(one_pass.structure, modes, cores, effort, self._memos.schedules)

    def pass_table(self, work: ModelWork, tp: int, microbatch: int, kind: int, direction: int) -> ModeTable:
        """Mapped operators of one pass (direction 0 forward, 1 backward)."""
        key = (work.name, tp, microbatch, kind, direction)
        if key not in self._tables:
            self._tables[key] = self._estimator(work).modes(work.passes[tp][kind][direction].graph, microbatch)
        return self._tables[key]

    def _estimator(self, work: ModelWork) -> Estimator:
        if work.name not in self._estimators:
            self._estimators[work.name] = Estimator(
                self.table, self.energy, work.scenario.cluster, self.model, self._memos.gemms
            )
        return self._estimators[work.name]

    def pass_times(
        self, work: ModelWork, tp: int, microbatch: int, kind: int, direction: int, *, hurried: bool = False
    ) -> PassTimes:
        """The scheduled pass; ``hurried``: with little work, if it was not scheduled before."""
        key = (work.name, tp, microbatch, kind, direction)
        if hurried and key not in self._times:
            if key not in self._hurried:
                table = self.pass_table(work, tp, microbatch, kind, direction)
                found = self.schedule(work.passes[tp][kind][direction], table, HURRIED_WORK)
                self._hurried[key] = PassTimes(
                    cycles=found.makespan_cycles, bound_cycles=found.bound_cycles, energy_j=math.nan
                )
            return self._hurried[key]
        if key not in self._times:
            table = self.pass_table(work, tp, microbatch, kind, direction)
            found = self.schedule(work.passes[tp][kind][direction], table)
            self._times[key] = PassTimes(
                cycles=found.makespan_cycles,
                bound_cycles=found.bound_cycles,
                energy_j=table.energy_j,
            )
        return self._times[key]

    def _columns(self, work: ModelWork, unit: Unit, times: Times) -> tuple[Floats, Floats]:
        """Forward and backward seconds by layer type."""
        columns = []
        for direction in (0, 1):
            cycles = []
            for kind in range(len(work.passes[unit.tp])):
                self.stop.check()
                if times is Times.MAPPED:
                    cycles.append(self._pass_bound(work, unit, kind, direction))
                    continue
                hurried = times is Times.HURRIED
                found = self.pass_times(work, unit.tp, unit.microbatch, kind, direction, hurried=hurried)
                cycles.append(found.cycles if times is Times.SCHEDULED else found.bound_cycles)
            seconds = np.array(cycles, dtype=np.float64) / self.chip.clock_hz
            seconds[np.array(cycles) >= IMPOSSIBLE_CYCLES] = np.inf
            columns.append(seconds)
        return columns[0], columns[1]

    def _pass_bound(self, work: ModelWork, unit: Unit, kind: int, direction: int) -> int:
        one_pass = work.passes[unit.tp][kind][direction]
        estimator = self._estimator(work)
        found = lower_bounds(
            one_pass.structure,
            estimator.nearly_exact(one_pass.graph, unit.microbatch),
            num_tensor_cores_c=self.table.num_tensor_cores,
            num_vector_cores_c=self.table.num_vector_cores,
            exclusion=self.exclusion,
        )
        return int(found[0])

    def plan_energy_per_sample_j(self, work: ModelWork, unit: Unit, plan: Plan, batch_s: float) -> float:
        """Dynamic energy of all chips of a group, replays included, plus idle power for the batch."""
        graph = work.graphs[unit.tp]
        total = 0.0
        for stage in plan.stages:
            for layer in stage.layers:
                kind = graph.layer_type_of[layer]
                members = unit.tp if graph.layer_types[kind].is_sharded else 1
                runs = 2 if stage.recompute is not Recompute.NONE else 1
                forward = self.pass_times(work, unit.tp, unit.microbatch, kind, 0).energy_j
                backward = self.pass_times(work, unit.tp, unit.microbatch, kind, 1).energy_j
                total += members * (runs * forward + backward)
        scenario = work.scenario
        cluster_idle_w = float(self.energy.idle_w_c[0]) * scenario.cluster.num_devices
        return total / unit.microbatch + idle_j_per_sample(cluster_idle_w, batch_s, scenario.training.global_batch)
