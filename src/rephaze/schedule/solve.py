"""A layer's schedule: contraction, series parts, each part solved, parts put end to end.

Axis letters: o = operator of the graph, m = mode (a way to run it: its cores, its part of the bandwidths).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from rephaze.recent import Recent
from rephaze.schedule.needs import Cores, PartModes
from rephaze.schedule.parts import DEFAULT_BACKEND, Effort, Solver, solve_part
from rephaze.schedule.relaxation import NEVER
from rephaze.schedule.resumable_search import PartSolution
from rephaze.schedule.shares import SHARE_UNITS, share_units
from rephaze.schedule.structure import Part, ScheduleStructure, compile_structure, series_parts
from rephaze.schedule.tables import Flags, Floats, Ints, Task
from rephaze.schedule.tasks import in_ticks, make_task, without_gaps
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.schedule import (
    Mode,
    Schedule,
    ScheduleProblem,
    ScheduleStatus,
    Way,
    scheduled,
)


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class LayerSchedule:
    """A layer's schedule as arrays along the operators of its graph.

    Where nothing is feasible ``impossible_op`` is the first operator that can run in no mode; makespan and
    bound are then ``IMPOSSIBLE_CYCLES``.
    """

    makespan_cycles: int
    bound_cycles: int
    start_cycles_o: Ints
    mode_o: Ints
    """Columns of the durations given."""
    impossible_op: int = -1

    @property
    def status(self) -> ScheduleStatus:
        """Optimal only if the bound equals the makespan."""
        if self.impossible_op >= 0:
            return ScheduleStatus.INFEASIBLE
        proven = self.bound_cycles == self.makespan_cycles
        return ScheduleStatus.OPTIMAL if proven else ScheduleStatus.FEASIBLE


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class LayerModes:
    """What the operators of a layer take on one chip, mode by mode. At most ``MAX_MODES`` modes."""

    cycles_om: Ints
    """Durations; ``IMPOSSIBLE_CYCLES`` or more is impossible."""
    all_cores_om: Flags | None = None
    """Which modes take all cores; None for two modes, one core and all."""
    hbm_share_om: Floats | None = None
    """Part of the HBM bandwidth held; None for none."""
    buffer_share_om: Floats | None = None
    """Likewise for the global buffer."""


MOST_PARTS = 20_000
"""Kept, at some kilobytes each."""


@dataclass(frozen=True, eq=False, slots=True)
class ScheduleMemo:
    """Solved parts by structure, durations, needs and (capped) capacities; give one to many solves.

    A part that is not proven is kept only if work limited it, with that limit.
    """

    parts: Recent[tuple[bytes, ...], PartSolution] = field(default_factory=lambda: Recent(MOST_PARTS))

    def __len__(self) -> int:
        return len(self.parts)


def schedule_layer(
    structure: ScheduleStructure,
    modes: LayerModes,
    cores: Cores,
    effort: Effort | None = None,
    memo: ScheduleMemo | None = None,
) -> LayerSchedule:
    """The best schedule of a layer on one chip, with its proven bound; with a cutoff, if it is below that.

    Args:
        structure: Of the layer's operator graph.
        modes: Its operators on the chip.
        cores: Of the chip.
        effort: How hard to look; ten seconds by default.
        memo: Shared among solves, or None; a part that was cut by a stop signal does not go into it.

    Raises:
        StoppedError: The stop signal came before a proof and before the limit.
    """
    effort = effort or Effort()
    cycles_om, all_cores_om = modes.cycles_om, modes.all_cores_om
    time_limit_s = effort.time_limit_s
    if effort.work_limit is not None and effort.solver is not Solver.ILP:
        time_limit_s = math.inf
    deadline = time.perf_counter() + time_limit_s
    fastest_o = cycles_om.min(axis=1)
    fastest_o[~structure.takes_time[structure.place]] = 0
    if fastest_o.size and fastest_o.max() >= IMPOSSIBLE_CYCLES:
        return _impossible(structure, int(np.argmax(fastest_o >= IMPOSSIBLE_CYCLES)))
    units = [
        None if share_om is None or not share_om.any() else share_units(share_om)
        for share_om in (modes.hbm_share_om, modes.buffer_share_om)
    ]
    if all_cores_om is None:
        all_cores_om = np.array([[False, True]] * structure.num_ops).reshape(-1, 2)
    takes_time = structure.takes_time & (fastest_o[structure.order] > 0)
    parts = series_parts(structure, takes_time)
    solutions: list[PartSolution | None] = [None] * len(parts)
    # What all parts take at least, as far as is known: a part must not take more than is left of the cutoff.
    least = sum(int(fastest_o[part.ops[0]]) for part in parts if len(part.ops) == 1)
    # Small parts first: what they leave of their share of the time goes to the large ones.
    hard = sorted((k for k, part in enumerate(parts) if len(part.ops) > 1), key=lambda k: len(parts[k].ops))
    for rank, k in enumerate(hard):
        part = parts[k]
        share_s = max(deadline - time.perf_counter(), 0.0) / (len(hard) - rank)
        part_cycles = cycles_om[part.ops]
        part_cycles[part_cycles >= IMPOSSIBLE_CYCLES] = NEVER
        hbm_units_im, buffer_units_im = (None if units_om is None else units_om[part.ops] for units_om in units)
        part_modes = PartModes(
            cycles_im=part_cycles,
            all_cores_im=all_cores_om[part.ops],
            hbm_units_im=hbm_units_im,
            buffer_units_im=buffer_units_im,
            share_units=SHARE_UNITS,
        )
        task = make_task(part, part_modes, cores)
        task, was_im = without_gaps(task)
        task, tick = in_ticks(task)
        cutoff = NEVER if effort.cutoff_cycles is None else max(-(-(effort.cutoff_cycles - least) // tick), 0)
        found = _solved(part, task, effort, share_s, memo, cutoff)
        least += tick * found.bound
        mode_i = was_im[np.arange(len(part.ops)), found.mode_i]
        solutions[k] = PartSolution(
            bound=tick * found.bound, makespan=tick * found.makespan, start_i=tick * found.start_i, mode_i=mode_i
        )
    return _joined(structure, parts, solutions, cycles_om, takes_time)


def solve_problem(
    problem: ScheduleProblem,
    *,
    time_limit_s: float = 10.0,
    work_limit: int | None = None,
    solver: Solver = Solver.AUTO,
    backend: str = DEFAULT_BACKEND,
    memo: ScheduleMemo | None = None,
) -> Schedule:
    """The answer to a problem record; raises ``SpecError`` if its edges form a cycle."""
    began = time.perf_counter()
    ops = problem.ops
    structure = compile_structure([op.engine for op in ops], problem.edges, [op.name for op in ops])
    num_ways = max((2 + len(op.further) for op in ops), default=2)
    shape = (len(ops), num_ways)
    # Rows of equal length: what is missing cannot run.
    missing = Way(mode=Mode.ONE_CORE, cycles=IMPOSSIBLE_CYCLES)
    ways = [[*op.ways, *[missing] * (num_ways - 2 - len(op.further))] for op in ops]
    hbm_share = [[way.hbm_share for way in own] for own in ways]
    buffer_share = [[way.buffer_share for way in own] for own in ways]
    modes = LayerModes(
        cycles_om=np.array([[way.cycles for way in own] for own in ways], dtype=np.int64).reshape(shape),
        all_cores_om=np.array([[way.mode is Mode.ALL_CORES for way in own] for own in ways]).reshape(shape),
        hbm_share_om=np.array(hbm_share, dtype=np.float64).reshape(shape),
        buffer_share_om=np.array(buffer_share, dtype=np.float64).reshape(shape),
    )
    cores = Cores(
        num_tensor_cores=problem.num_tensor_cores,
        num_vector_cores=problem.num_vector_cores,
        exclusion=problem.all_cores_excludes,
    )
    effort = Effort(time_limit_s=time_limit_s, work_limit=work_limit, solver=solver, backend=backend)
    found = schedule_layer(structure, modes, cores, effort, memo)
    feasible = found.status is not ScheduleStatus.INFEASIBLE
    return Schedule(
        status=found.status,
        makespan_cycles=found.makespan_cycles,
        bound_cycles=found.bound_cycles,
        starts=tuple(
            scheduled(op, start, mode)
            for op, start, mode in zip(ops, found.start_cycles_o.tolist(), found.mode_o.tolist(), strict=True)
        )
        if feasible
        else (),
        solve_s=time.perf_counter() - began,
        reason="" if feasible else f"op {ops[found.impossible_op].name!r} can run in no mode on this chip",
    )


def _solved(
    part: Part, task: Task, effort: Effort, time_limit_s: float, memo: ScheduleMemo | None, cutoff: int
) -> PartSolution:
    if memo is None:
        return solve_part(task, part.width, effort, time_limit_s, cutoff)
    key = tuple(
        a.tobytes()
        for a in (part.ancestors_iw, part.pred_index, task.dur_im, task.need_imr, task.cap_r, task.alone_im)
    )
    limited = (str(effort.work_limit).encode(), *key)
    known = memo.parts.get(key) or memo.parts.get(limited)
    if known is None:
        known = solve_part(task, part.width, effort, time_limit_s, cutoff)
        if known.is_proven:
            memo.parts[key] = known
        elif effort.work_limit is not None and cutoff == NEVER:
            # More time might still prove a part; the same work would end the same way.
            memo.parts[limited] = known
    return known


def _joined(
    structure: ScheduleStructure,
    parts: tuple[Part, ...],
    solutions: list[PartSolution | None],
    cycles_om: Ints,
    takes_time: Flags,
) -> LayerSchedule:
    """Parts end to end; contracted operators start the moment their inputs are ready."""
    start_o = np.zeros(structure.num_ops, dtype=np.int64)
    mode_o = np.argmin(cycles_om, axis=1)
    makespan = bound = 0
    for part, solution in zip(parts, solutions, strict=True):
        if solution is None:
            op = part.ops[0]
            start_o[op] = makespan
            makespan += int(cycles_om[op, mode_o[op]])
            bound += int(cycles_om[op, mode_o[op]])
        else:
            start_o[part.ops] = makespan + solution.start_i
            mode_o[part.ops] = solution.mode_i
            makespan += solution.makespan
            bound += solution.bound
    contracted = np.flatnonzero(~takes_time)
    if contracted.size:
        end_o = start_o + cycles_om[np.arange(len(mode_o)), mode_o]
        kept_end = np.where(takes_time, end_o[structure.order], 0)
        start_o[structure.order[contracted]] = (structure.before_oo[contracted] * kept_end).max(axis=1)
    return LayerSchedule(makespan_cycles=makespan, bound_cycles=bound, start_cycles_o=start_o, mode_o=mode_o)


def _impossible(structure: ScheduleStructure, op: int) -> LayerSchedule:
    none = np.zeros(structure.num_ops, dtype=np.int64)
    return LayerSchedule(
        makespan_cycles=IMPOSSIBLE_CYCLES,
        bound_cycles=IMPOSSIBLE_CYCLES,
        start_cycles_o=none,
        mode_o=none,
        impossible_op=op,
    )
