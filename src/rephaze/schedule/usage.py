"""What a schedule makes of the chip: cores held at the peak and on average, link time, energy."""

from __future__ import annotations

from rephaze.types.latency import Engine
from rephaze.types.schedule import Mode, Schedule, ScheduleOp, ScheduleProblem, ScheduleUsage

_TENSOR = (Engine.TENSOR, Engine.FUSED)
_VECTOR = (Engine.VECTOR, Engine.FUSED)


def usage_of(problem: ScheduleProblem, schedule: Schedule) -> ScheduleUsage:
    """Peak and time-averaged use of each engine, and the operators' energy.

    A fused operator on all cores pairs them up, so it counts as many of each kind as the scarcer kind has;
    the others of the abundant kind are kept from work but do none. An empty schedule uses nothing.
    """
    ops = {op.name: op for op in problem.ops}
    makespan = schedule.makespan_cycles
    changes: list[tuple[int, int, int, int]] = []  # moment, ends before starts, tensor cores, vector cores
    tensor_cycles = vector_cycles = link_cycles = 0
    energy_j = 0.0
    for start in schedule.starts:
        op = ops[start.op]
        way = start.way_of(op)
        cycles = way.cycles
        energy_j += way.energy_j
        if cycles == 0:
            continue
        tensor, vector = cores_held(problem, op, start.mode)
        tensor_cycles += tensor * cycles
        vector_cycles += vector * cycles
        link_cycles += cycles if op.engine is Engine.LINK else 0
        changes.append((start.start_cycles, 1, tensor, vector))
        changes.append((start.start_cycles + cycles, 0, -tensor, -vector))
    tensor_now = vector_now = tensor_peak = vector_peak = 0
    for _, _, tensor, vector in sorted(changes):
        tensor_now += tensor
        vector_now += vector
        tensor_peak = max(tensor_peak, tensor_now)
        vector_peak = max(vector_peak, vector_now)
    span = max(makespan, 1)
    return ScheduleUsage(
        tensor_peak_utilization=tensor_peak / problem.num_tensor_cores,
        tensor_mean_utilization=tensor_cycles / (problem.num_tensor_cores * span),
        vector_peak_utilization=vector_peak / problem.num_vector_cores,
        vector_mean_utilization=vector_cycles / (problem.num_vector_cores * span),
        link_mean_utilization=link_cycles / span,
        energy_j=energy_j,
    )


def cores_held(problem: ScheduleProblem, op: ScheduleOp, mode: Mode) -> tuple[int, int]:
    """Tensor and vector cores an operator computes on in a mode."""
    uses_tensor, uses_vector = op.engine in _TENSOR, op.engine in _VECTOR
    if mode is Mode.ONE_CORE:
        return int(uses_tensor), int(uses_vector)
    if op.engine is Engine.FUSED:
        pairs = min(problem.num_tensor_cores, problem.num_vector_cores)
        return pairs, pairs
    return problem.num_tensor_cores * uses_tensor, problem.num_vector_cores * uses_vector
