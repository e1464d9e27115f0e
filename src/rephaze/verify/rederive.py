"""The winner's times derived again, slowly: operator by operator, schedule by schedule, plan by plan.

Nothing is taken from a run but its settings, the chip and the plan: no memo is shared with the search, every
schedule goes through the independent validator and a second solver, the plan through the independent evaluator.

Axis letters: o = operator, m = mode.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.block_cycles import HALF
from rephaze.estimate.estimate_model import EstimateModel
from rephaze.estimate.estimator import Estimator, engine_of
from rephaze.estimate.gemm_costs import GemmMemo
from rephaze.estimate.least_work import FLOPS_PER_MAC
from rephaze.estimate.ticks import SIGNIFICANT_BITS, TICK_CYCLES
from rephaze.measure.model_work import ModelWork
from rephaze.measure.units import Memory, Unit
from rephaze.schedule.parts import SEARCH_WORK, Solver
from rephaze.schedule.solve import solve_problem
from rephaze.schedule.validate import find_violations
from rephaze.types.chip import Chip, chip_table
from rephaze.types.energy import AccessEnergy
from rephaze.types.graph import Op, OpGraph, OpKind
from rephaze.types.latency import IMPOSSIBLE_CYCLES, LatencyTable
from rephaze.types.placement import PlacementProblem, Recompute, RecomputePolicy
from rephaze.types.schedule import Exclusion, Mode, Schedule, ScheduleOp, ScheduleProblem, Way, operator_of
from rephaze.types.search import ModelPlan

Floats = NDArray[np.float64]

SECOND_OPINION_WORK = 500_000
"""For another solver, a schedule: it need not prove the same, only never contradict."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DerivedPass:
    """One pass of one layer type on the winner."""

    label: str
    seconds: float
    energy_j: float
    num_ops: int
    wrong_ops: tuple[str, ...]
    wrong_schedule: tuple[str, ...]
    is_proven: bool


class WinnerCheck:
    """The winner of a run, one model at a time.

    Args:
        chip: The winner.
        energy: Its energies.
        model: The estimate model.
        exclusion: What all-cores operators exclude.
    """

    def __init__(self, chip: Chip, energy: AccessEnergy, model: EstimateModel, exclusion: Exclusion) -> None:
        self.chip, self.energy, self.model, self.exclusion = chip, energy, model, exclusion

    def passes(self, work: ModelWork, plan: ModelPlan) -> list[tuple[DerivedPass, DerivedPass]]:
        """By layer type, the forward and the backward pass at the plan's degree and microbatch."""
        cut = work.cut_of(plan)
        assert cut is not None
        graph = work.graph(cut)
        return [
            (
                self.derived(work, f"{kind.name} forward", kind.forward, plan.microbatch),
                self.derived(work, f"{kind.name} backward", kind.backward, plan.microbatch),
            )
            for kind in graph.layer_types
        ]

    def op_figures(self, work: ModelWork, graph: OpGraph, microbatch: int) -> tuple[Floats, Floats]:
        """Seconds and joules of each operator alone, in its fastest way."""
        tables = [own.exact(graph, microbatch) for own in self._estimators(work)]
        problem = schedule_problem(graph, tables, self.chip, self.exclusion)
        seconds = np.array([min(way.cycles for way in op.ways) / self.chip.clock_hz for op in problem.ops])
        return seconds, np.array([_energy_j(op) for op in problem.ops])

    def _estimators(self, work: ModelWork) -> list[Estimator]:
        # A memo of its own: nothing the search or another pass computed is used.
        return [
            Estimator(chip_table([self.chip]), self.energy, work.scenario.cluster, self.model, GemmMemo(), share)
            for share in ((1.0, HALF) if self.model.has_memory_terms else (1.0,))
        ]

    def derived(self, work: ModelWork, label: str, graph: OpGraph, microbatch: int) -> DerivedPass:
        """One pass, timed and scheduled afresh."""
        estimator, *narrower = self._estimators(work)
        table = estimator.exact(graph, microbatch)
        tables = [table, *(own.exact(graph, microbatch) for own in narrower)]
        problem = schedule_problem(graph, tables, self.chip, self.exclusion)
        found = solve_problem(problem, work_limit=SEARCH_WORK)
        second = solve_problem(problem, solver=Solver.CPSAT, work_limit=SECOND_OPINION_WORK)
        return DerivedPass(
            label=label,
            seconds=found.makespan_cycles / self.chip.clock_hz,
            energy_j=math.fsum(_energy_j(op) for op in problem.ops),
            num_ops=len(graph.ops),
            wrong_ops=tuple(self._wrong_ops(graph, estimator, table, microbatch)),
            wrong_schedule=tuple(_wrong_schedules(problem, found, second)),
            is_proven=found.bound_cycles == found.makespan_cycles,
        )

    def _in_ticks(self, cycles: int) -> int:
        """Whole ticks, where operators take those."""
        return _whole_ticks(cycles) if self.model.has_memory_terms else cycles

    def _wrong_ops(
        self, graph: OpGraph, estimator: Estimator, table: LatencyTable, microbatch: int
    ) -> Iterator[str]:
        """Operators faster than their multiply-accumulates, their closed-form bound, or HBM allow."""
        bound = estimator.bound(graph, microbatch)
        macs_per_cycle = self.chip.num_macs
        for o, op in enumerate(graph.ops):
            fastest = self._in_ticks(
                min(int(table.one_core_cycles_oc[o, 0]), int(table.all_cores_cycles_oc[o, 0]))
            )
            least = int(bound.fastest_oc[o, 0])
            if op.kind is OpKind.GEMM:
                least = max(least, int(op.num_flops.at(microbatch) / FLOPS_PER_MAC / macs_per_cycle))
            if fastest < least:
                yield f"{op.name} takes {fastest} cycles, no less than {least} is possible"
            for share_oc in (table.one_core_hbm_share_oc, table.all_cores_hbm_share_oc):
                if share_oc[o, 0] > 1:
                    yield f"{op.name} uses {share_oc[o, 0]:.3f} of the HBM bandwidth"


def schedule_problem(
    graph: OpGraph, tables: Sequence[LatencyTable], chip: Chip, exclusion: Exclusion
) -> ScheduleProblem:
    """One pass as the validator takes it.

    Args:
        graph: The pass.
        tables: Its operators with all of both bandwidths and, if another follows, with half of them.
        chip: The chip.
        exclusion: What all-cores operators exclude.
    """
    return ScheduleProblem(
        num_tensor_cores=chip.num_tensor_cores,
        num_vector_cores=chip.num_vector_cores,
        ops=tuple(_operator(o, op, tables) for o, op in enumerate(graph.ops)),
        edges=tuple((int(src), int(dst)) for src, dst in graph.edges),
        all_cores_excludes=exclusion,
    )


def _whole_ticks(cycles: int) -> int:
    if cycles >= IMPOSSIBLE_CYCLES:
        return cycles
    tick = max(TICK_CYCLES, 1 << max(cycles.bit_length() - SIGNIFICANT_BITS, 0))
    return -(-cycles // tick) * tick


def _operator(o: int, op: Op, tables: Sequence[LatencyTable]) -> ScheduleOp:
    ways = []
    for table, part in zip(tables, (1.0, HALF), strict=False):
        columns = (
            (Mode.ONE_CORE, table.one_core_cycles_oc, table.one_core_j_oc),
            (Mode.ALL_CORES, table.all_cores_cycles_oc, table.all_cores_j_oc),
        )
        held = {
            bandwidth: part * float(getattr(table, f"all_cores_{bandwidth}_oc")[o, 0] > 0)
            for bandwidth in ("hbm_share", "buffer_share")
        }
        for mode, cycles_oc, energy_j_oc in columns:
            cycles = int(cycles_oc[o, 0])
            if len(tables) > 1:
                cycles = _whole_ticks(cycles)
            ways.append(Way(mode=mode, cycles=cycles, energy_j=float(energy_j_oc[o, 0]), **held))
    # Names repeat in some graphs; positions do not.
    return operator_of(f"{o} {op.name}", engine_of(op), ways)


def _energy_j(op: ScheduleOp) -> float:
    """What an operator is charged, whatever the schedule: that of its fastest way, the least where several are."""
    return min((way.cycles, way.energy_j) for way in op.ways)[1]


def _wrong_schedules(problem: ScheduleProblem, found: Schedule, second: Schedule) -> Iterator[str]:
    yield from find_violations(problem, found)
    yield from (f"second solver: {what}" for what in find_violations(problem, second))
    if second.bound_cycles > found.makespan_cycles:
        yield f"another solver proves {second.bound_cycles} cycles, the schedule has {found.makespan_cycles}"
    if second.makespan_cycles < found.bound_cycles:
        yield f"another solver finds {second.makespan_cycles} cycles, below the bound {found.bound_cycles}"


def timed_problem(
    work: ModelWork, plan: ModelPlan, hbm_bytes_per_s: float, passes: list[tuple[DerivedPass, DerivedPass]]
) -> PlacementProblem:
    """The placement problem of the plan's unit with the derived times."""
    cut = work.cut_of(plan)
    assert cut is not None
    unit = Unit(cut, plan.microbatch, RecomputePolicy.AUTO)
    problem = work.placement_problem((unit,), Memory(plan.hbm_bytes, hbm_bytes_per_s))
    graph = problem.graphs[0]
    layers = tuple(
        replace(layer, forward_s=passes[kind][0].seconds, backward_s=passes[kind][1].seconds)
        for layer, kind in zip(graph.layers, work.layer_type_of, strict=True)
    )
    return replace(problem, graphs=(replace(graph, layers=layers),))


def plan_energy_j(
    work: ModelWork, plan: ModelPlan, passes: list[tuple[DerivedPass, DerivedPass]], idle_w: float
) -> float:
    """Energy of one sample: every layer on every chip of its group, replays and idle power included."""
    cut, scenario = work.cut_of(plan), work.scenario
    assert cut is not None
    modes = [stage.recompute for stage in plan.stages for _ in range(stage.num_layers)]
    parts = []
    for kind, mode in zip(work.layer_type_of, modes, strict=True):
        members = work.num_members(cut, kind)
        runs = 1 if mode == Recompute.NONE else 2
        parts.append(members * (runs * passes[kind][0].energy_j + passes[kind][1].energy_j))
    idle_j = idle_w * scenario.cluster.num_devices * plan.batch_s / scenario.training.global_batch
    return math.fsum(parts) / plan.microbatch + idle_j
