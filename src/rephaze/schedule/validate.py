"""An independent check of any schedule: only the rounding of bandwidth shares is common with the solvers."""

from __future__ import annotations

from collections.abc import Iterator

from rephaze.schedule.shares import SHARE_UNITS, share_units
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine
from rephaze.types.schedule import Exclusion, Mode, Schedule, ScheduleOp, ScheduleProblem, ScheduleStatus, Way

_HOLDS = {
    Engine.TENSOR: ("tensor",),
    Engine.VECTOR: ("vector",),
    Engine.FUSED: ("tensor", "vector"),
    Engine.LINK: ("link",),
    Engine.NONE: (),
}


def find_violations(problem: ScheduleProblem, schedule: Schedule) -> list[str]:
    """Every rule a schedule breaks, one line each; an empty list means it is valid.

    Checks that each operator runs once in a possible mode after its inputs, that cores, link, bandwidths and
    exclusivity hold at every instant, and that makespan, bound and status agree with each other.
    """
    if schedule.status is ScheduleStatus.INFEASIBLE:
        if all(op.is_possible for op in problem.ops):
            return ["called infeasible, but every op has a possible mode"]
        return []
    wrong = list(_wrong_starts(problem, schedule))
    if wrong:  # without exactly one start per op nothing else can be replayed
        return wrong
    ops = {op.name: op for op in problem.ops}
    way = {start.op: start.way_of(ops[start.op]) for start in schedule.starts}
    begin = {start.op: start.start_cycles for start in schedule.starts}
    end = {op.name: begin[op.name] + way[op.name].cycles for op in problem.ops}
    names = [op.name for op in problem.ops]
    wrong.extend(
        f"{names[dst]} starts at {begin[names[dst]]}, before its input {names[src]} ends at {end[names[src]]}"
        for src, dst in problem.edges
        if begin[names[dst]] < end[names[src]]
    )
    live = [op for op in problem.ops if end[op.name] > begin[op.name]]
    for moment in sorted({begin[op.name] for op in live}):
        now = [op for op in live if begin[op.name] <= moment < end[op.name]]
        wrong.extend(f"at {moment}: {what}" for what in _clashes(problem, now, way))
    makespan = max(end.values(), default=0)
    if makespan != schedule.makespan_cycles:
        wrong.append(f"makespan is {schedule.makespan_cycles}, the last op ends at {makespan}")
    if schedule.bound_cycles > schedule.makespan_cycles:
        wrong.append(f"bound {schedule.bound_cycles} is above the makespan {schedule.makespan_cycles}")
    proven = schedule.bound_cycles == schedule.makespan_cycles
    if (schedule.status is ScheduleStatus.OPTIMAL) != proven:
        wrong.append(
            f"called {schedule.status}, bound {schedule.bound_cycles}, makespan {schedule.makespan_cycles}"
        )
    return wrong


def _wrong_starts(problem: ScheduleProblem, schedule: Schedule) -> Iterator[str]:
    ops = {op.name: op for op in problem.ops}
    seen: set[str] = set()
    for start in schedule.starts:
        if start.op not in ops:
            yield f"{start.op} is no op of the problem"
            continue
        if start.op in seen:
            yield f"{start.op} starts twice"
        seen.add(start.op)
        if start.start_cycles < 0:
            yield f"{start.op} starts at {start.start_cycles}"
        if start.further is not None and not 0 <= start.further < len(ops[start.op].further):
            yield f"{start.op} runs in further way {start.further}, which there is not"
        elif start.way_of(ops[start.op]).mode is not start.mode:
            yield f"{start.op} runs in mode {start.mode}, its way has another"
        elif start.way_of(ops[start.op]).cycles >= IMPOSSIBLE_CYCLES:
            yield f"{start.op} runs in mode {start.mode}, which is impossible"
    yield from (f"{name} is never started" for name in ops if name not in seen)


def _clashes(problem: ScheduleProblem, now: list[ScheduleOp], way: dict[str, Way]) -> Iterator[str]:
    """Which rules the operators running at one instant break together."""
    for op in now:
        if way[op.name].mode is Mode.ALL_CORES and op.engine is not Engine.LINK:
            for other in now:
                shares_engine = set(_HOLDS[op.engine]) & set(_HOLDS[other.engine])
                whole_chip = problem.all_cores_excludes is Exclusion.CHIP
                if other is not op and (whole_chip or shares_engine):
                    yield f"{op.name} has all cores, yet {other.name} runs"
    if problem.all_cores_excludes is Exclusion.CHIP and len(now) > 1:
        yield from (
            f"{op.name} has the whole chip, yet others run"
            for op in now
            if op.engine is Engine.LINK and way[op.name].mode is Mode.ALL_CORES
        )
    limits = {"tensor": problem.num_tensor_cores, "vector": problem.num_vector_cores, "link": 1}
    for resource, limit in limits.items():
        held = sum(
            resource in _HOLDS[op.engine] and (way[op.name].mode is Mode.ONE_CORE or op.engine is Engine.LINK)
            for op in now
        )
        if held > limit:
            yield f"{held} ops on {limit} {resource} resources"
    for bandwidth in ("hbm", "buffer"):
        used = sum(int(share_units(getattr(way[op.name], f"{bandwidth}_share"))) for op in now)
        if used > SHARE_UNITS:
            yield f"{used / SHARE_UNITS:.9f} of the {bandwidth} bandwidth in use"
