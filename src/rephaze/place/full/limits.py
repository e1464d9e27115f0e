"""Choices made beforehand: read from text, and what is left of a problem under them."""

from __future__ import annotations

from dataclasses import fields, replace
from enum import StrEnum
from typing import Any, Protocol

from rephaze.errors import SpecError
from rephaze.types.checks import check_choice, check_count, whole_number
from rephaze.types.full import (
    DeviceOrder,
    FullGraph,
    FullLimits,
    FullProblem,
    PipelineSchedule,
    PlanFamily,
    PlanOptions,
    ShardGroups,
    Sharding,
)

GRAPH_CHOICES = ("tp", "sp", "cp", "ep", "etp", "microbatch")
LAYOUT_CHOICES = ("dp", "pp", "order", "sharding", "shard_group", "reshard", "schedule", "chunks")
CHUNKS = (2, 4)
"""Tried where interleaved plans are asked about and the options name no number of chunks."""
_NAMES: dict[str, type[StrEnum]] = {
    "order": DeviceOrder,
    "sharding": Sharding,
    "schedule": PipelineSchedule,
    "family": PlanFamily,
}
_FLAGS = {"on": True, "true": True, "off": False, "false": False}


class Degrees(Protocol):
    """What is looked at first of a layout or a plan; the other choices are its fields, too."""

    @property
    def dp(self) -> int:
        """Replicas."""

    @property
    def pp(self) -> int:
        """Stages."""


def parse_full_limits(text: str, own: PlanFamily = PlanFamily.EXACT) -> FullLimits:
    """The choices in text such as ``tp=8,sharding=weights,schedule=1f1b``; each name at most once.

    ``family`` alone asks what it costs that plans can be launched: against any plan, or of any plan against exact.

    Args:
        text: What was asked.
        own: The family of the problem.
    """
    if text.strip() == "family":
        return FullLimits(family=PlanFamily.EXACT if own is PlanFamily.ANY else PlanFamily.ANY)
    known = [field.name for field in fields(FullLimits)]
    chosen: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        check_choice("--why", name, known)
        if name in chosen:
            raise SpecError(f"--why {name}", value, "is given twice", "one value for each choice")
        chosen[name] = _value(name, value)
    return FullLimits(**chosen)


def _value(name: str, value: str) -> int | bool | StrEnum:
    if name in _NAMES:
        check_choice(f"--why {name}", value, [str(one) for one in _NAMES[name]])
        return _NAMES[name](value)
    if name in ("sp", "reshard"):
        check_choice(f"--why {name}", value, _FLAGS)
        return _FLAGS[value]
    least = 0 if name == "keep" else 1
    found = whole_number(value)
    if found is None:
        raise SpecError(f"--why {name}", value, f"must be a whole number from {least}", "for example tp=8,pp=4")
    check_count(f"--why {name}", found, at_least=least)
    return found


def chosen_of(limits: FullLimits) -> dict[str, Any]:
    """The choices made, by name."""
    values = {field.name: getattr(limits, field.name) for field in fields(limits)}
    return {name: value for name, value in values.items() if value is not None}


def told_choice(name: str, value: Any) -> str:
    """A choice as it is asked for."""
    return f"{name}={('off', 'on')[value] if isinstance(value, bool) else value}"


def is_within(limits: FullLimits, layout: Degrees) -> bool:
    """Whether a layout, or a plan, makes these choices; with one stage or one replica both orders are the same."""
    for name in LAYOUT_CHOICES:
        wanted = getattr(limits, name)
        if wanted is None or (name == "order" and (layout.dp == 1 or layout.pp == 1)):
            continue
        if getattr(layout, name) != wanted:
            return False
    return True


def limited_problem(problem: FullProblem, limits: FullLimits) -> FullProblem:
    """The problem with only plans that make these choices, also such as its options leave out.

    What all stages keep is not part of it: ``limited_solve`` sees to that.
    """
    graphs = tuple(graph for graph in problem.graphs if is_graph_within(limits, graph))
    return replace(problem, graphs=graphs, limits=limits, options=limited_options(problem.options, limits))


def is_graph_within(limits: FullLimits, graph: FullGraph) -> bool:
    """Whether a graph is cut as these choices say."""
    return all(getattr(limits, name) in (None, getattr(graph, name)) for name in GRAPH_CHOICES)


def limited_options(options: PlanOptions, limits: FullLimits) -> PlanOptions:
    """Lists with what is asked for, whether or not they had it."""
    options = replace(options, family=limits.family or options.family)
    if limits.order is not None:
        options = replace(options, order=(limits.order,))
    if limits.reshard is not None:
        options = replace(options, reshard=(limits.reshard,))
    if limits.shard_group is not None:
        options = replace(options, shard_group=tuple(ShardGroups))
    options = replace(options, sharding=_shardings(options, limits))
    schedules, chunks = _schedules(options, limits)
    return replace(options, schedule=schedules, chunks=chunks)


def _shardings(options: PlanOptions, limits: FullLimits) -> tuple[Sharding, ...]:
    if limits.sharding is not None:
        return (limits.sharding,)
    if limits.reshard:
        return (Sharding.WEIGHTS,)
    if limits.shard_group is None:
        return options.sharding
    if limits.shard_group == 1:
        return (Sharding.NONE,)
    sharded = tuple(one for one in options.sharding if one is not Sharding.NONE)
    return sharded or tuple(one for one in Sharding if one is not Sharding.NONE)


def _schedules(options: PlanOptions, limits: FullLimits) -> tuple[tuple[PipelineSchedule, ...], tuple[int, ...]]:
    schedules, chunks = options.schedule, options.chunks
    if limits.schedule is not None:
        schedules = (limits.schedule,)
    elif limits.chunks is not None and limits.chunks > 1:
        schedules = (PipelineSchedule.INTERLEAVED,)
    elif limits.chunks == 1:
        whole = tuple(one for one in schedules if one is not PipelineSchedule.INTERLEAVED)
        schedules = whole or (PipelineSchedule.ONE_F_ONE_B,)
    if limits.chunks is not None and limits.chunks > 1:
        chunks = (limits.chunks,)
    elif limits.schedule is PipelineSchedule.INTERLEAVED:
        chunks = chunks or CHUNKS
    return schedules, chunks
