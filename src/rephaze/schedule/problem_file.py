"""Scheduling problems as text: format ``rephaze.schedule-problem/1``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rephaze.errors import SpecError
from rephaze.types.checks import check_choice, did_you_mean
from rephaze.types.files import check_format, validate
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine
from rephaze.types.quantities import MAX_OP_EDGES, MAX_OPS
from rephaze.types.schedule import Exclusion, Mode, Schedule, ScheduleOp, ScheduleProblem, ScheduleStatus, Way

FORMAT = "rephaze.schedule-problem/1"


class _WayText(BaseModel):
    """A further way to run an operator, as written."""

    model_config = ConfigDict(extra="forbid")

    mode: str
    cycles: Any
    hbm_share: Any = 0.0
    buffer_share: Any = 0.0
    energy_j: Any = 0.0


class _OpText(BaseModel):
    """An operator as written; numbers are checked by the record they become, which names the operator."""

    model_config = ConfigDict(extra="forbid")

    name: str
    core: str
    one_core_cycles: Any
    """null: this mode is impossible."""
    all_cores_cycles: Any
    one_core_hbm_share: Any = 0.0
    all_cores_hbm_share: Any = 0.0
    one_core_buffer_share: Any = 0.0
    all_cores_buffer_share: Any = 0.0
    one_core_j: Any = 0.0
    all_cores_j: Any = 0.0
    further: list[_WayText] = []


class _ProblemText(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: str
    num_tensor_cores: Any
    num_vector_cores: Any
    ops: list[_OpText] = Field(max_length=MAX_OPS)
    edges: list[tuple[str, str]] = Field(max_length=MAX_OP_EDGES)
    all_cores_excludes: str = Exclusion.CHIP.value


def problem_from(data: dict[str, Any], source: str = "problem") -> ScheduleProblem:
    """The problem in the object of a problem file; ``SpecError`` names the first thing wrong with it."""
    check_format(data, FORMAT, source)
    text = validate(_ProblemText, data)
    check_choice("all_cores_excludes", text.all_cores_excludes, [rule.value for rule in Exclusion])
    ops = tuple(_op_from(op) for op in text.ops)
    position = {op.name: k for k, op in enumerate(ops)}
    for edge in text.edges:
        for name in edge:
            if name not in position:
                raise SpecError(
                    "edge", list(edge), f"names {name!r}, which is no op", did_you_mean(name, position)
                )
    return ScheduleProblem(
        num_tensor_cores=text.num_tensor_cores,
        num_vector_cores=text.num_vector_cores,
        ops=ops,
        edges=tuple((position[src], position[dst]) for src, dst in text.edges),
        all_cores_excludes=Exclusion(text.all_cores_excludes),
    )


def answer_of(schedule: Schedule) -> dict[str, Any]:
    """An answer as the object that is printed."""
    answer: dict[str, Any] = {"status": schedule.status.value}
    if schedule.status is ScheduleStatus.INFEASIBLE:
        answer["reason"] = schedule.reason
    else:
        answer["makespan_cycles"] = schedule.makespan_cycles
        answer["bound_cycles"] = schedule.bound_cycles
        answer["starts"] = [
            {"op": start.op, "start_cycles": start.start_cycles, "mode": start.mode.value}
            | ({} if start.further is None else {"further": start.further})
            for start in schedule.starts
        ]
    answer["solve_s"] = schedule.solve_s
    return answer


def _op_from(text: _OpText) -> ScheduleOp:
    check_choice(f"op {text.name!r}: core", text.core, [engine.value for engine in Engine])
    fields = text.model_dump(exclude={"name", "core", "further"})
    for mode in Mode:
        field = f"{mode}_cycles"
        if fields[field] is None:
            fields[field] = IMPOSSIBLE_CYCLES
        elif fields[field] == IMPOSSIBLE_CYCLES:
            raise SpecError(
                f"op {text.name!r}: {field}", fields[field], "is too long", "write null if it cannot run"
            )
    further = tuple(_way_from(way, f"op {text.name!r}: further[{at}]") for at, way in enumerate(text.further))
    return ScheduleOp(name=text.name, engine=Engine(text.core), further=further, **fields)


def _way_from(text: _WayText, where: str) -> Way:
    check_choice(f"{where}.mode", text.mode, [mode.value for mode in Mode])
    if text.cycles == IMPOSSIBLE_CYCLES:
        raise SpecError(f"{where}.cycles", text.cycles, "is too long", "leave out a way that cannot run")
    return Way(**(text.model_dump() | {"mode": Mode(text.mode)}))
