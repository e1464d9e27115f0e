"""What would have to change for a given plan of cost model ``full`` that does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rephaze.errors import SpecError
from rephaze.place.full.legality import check_plan
from rephaze.place.full.limited_solve import limited_solve
from rephaze.place.full.limits import GRAPH_CHOICES, LAYOUT_CHOICES
from rephaze.place.full.obstacles import purposes
from rephaze.place.full.price import price_full_plan
from rephaze.types.full import (
    FullGraph,
    FullLimits,
    FullPlan,
    FullPrice,
    FullProblem,
    PipelineSchedule,
    PlanFamily,
    Sharding,
)
from rephaze.units import GIB

MOST_NAMED = 4
"""Devices that are told one by one."""


def suggest_full_remedies(problem: FullProblem, graph: FullGraph, price: FullPrice) -> list[str]:
    """What is lacking on each device, then each change that would help, a sentence each; none if it fits."""
    limit = problem.device_memory_bytes
    tight = [number for number, device in enumerate(price.devices) if device.total_bytes > limit]
    if not tight:
        return []
    found = [_overflow(price, number, limit) for number in tight[:MOST_NAMED]]
    if len(tight) > MOST_NAMED:
        found.append(f"so are {len(tight) - MOST_NAMED} more devices")
    plan = price.plan
    changes = _first_that_fits(problem, graph, _keeping_less(graph, plan, tight))
    changes += _fastest_that_fits(problem, graph, _sharded_otherwise(plan))
    if not changes:
        last = max(len(layer.keep) for layer in graph.layers) - 1
        leanest = replace(plan, stages=tuple(replace(stage, keep=last) for stage in plan.stages))
        both = ((f"{told} with keep {last} everywhere", one) for told, one in _sharded_otherwise(leanest))
        changes += _fastest_that_fits(problem, graph, both)
    found += changes
    found += _smaller_microbatch(problem, graph, plan)
    needed = max(device.total_bytes for device in price.devices)
    found.append(f"a device memory of {needed / GIB:.4g} GiB would do as it is")
    found += _moved_layers(problem, plan)
    return found


def _overflow(price: FullPrice, number: int, limit: float) -> str:
    device = price.devices[number]
    return (
        f"device {number} of a pipeline is {(device.total_bytes - limit) / GIB:.4g} GiB over: "
        f"{device.total_bytes / GIB:.4g} of {limit / GIB:.4g} GiB ({purposes(device)})"
    )


def _keeping_less(graph: FullGraph, plan: FullPlan, tight: list[int]) -> Iterator[tuple[str, FullPlan]]:
    """Ever less kept by the stages of these devices."""
    which = ", ".join(map(str, tight[:8])) + (", ..." if len(tight) > 8 else "")
    for keep in range(1, max(len(layer.keep) for layer in graph.layers)):
        stages = tuple(
            replace(stage, keep=max(stage.keep, keep)) if at % plan.pp in tight else stage
            for at, stage in enumerate(plan.stages)
        )
        yield f"keep {keep} on device {which}", replace(plan, stages=stages)


def _sharded_otherwise(plan: FullPlan) -> Iterator[tuple[str, FullPlan]]:
    """More sharded over all replicas of a weight."""
    if plan.num_replicas == 1:
        return
    kinds = [(sharding, False) for sharding in Sharding if sharding is not Sharding.NONE]
    for sharding, reshard in (*kinds, (Sharding.WEIGHTS, True)):
        again = ", gathered for every pass" if reshard else ""
        told = f"sharding {sharding} over {plan.num_replicas}{again}"
        yield told, replace(plan, sharding=sharding, shard_group=plan.num_replicas, reshard=reshard)


def _first_that_fits(problem: FullProblem, graph: FullGraph, changed: Iterator[tuple[str, FullPlan]]) -> list[str]:
    for told, plan in changed:
        price = _fitting(problem, graph, plan)
        if price is not None:
            return [f"{told} would fit, at {price.batch_s:.6g} s a batch"]
    return []


def _fastest_that_fits(
    problem: FullProblem, graph: FullGraph, changed: Iterator[tuple[str, FullPlan]]
) -> list[str]:
    priced = [(told, _fitting(problem, graph, plan)) for told, plan in changed]
    fitting = [(price.batch_s, told) for told, price in priced if price is not None]
    if not fitting:
        return []
    batch_s, told = min(fitting)
    return [f"{told} would fit, at {batch_s:.6g} s a batch"]


def _smaller_microbatch(problem: FullProblem, graph: FullGraph, plan: FullPlan) -> list[str]:
    cut = [name for name in GRAPH_CHOICES if name != "microbatch"]
    alike = [
        other
        for other in problem.graphs
        if other.microbatch < graph.microbatch
        and len(other.layers) == len(graph.layers)
        and all(getattr(other, name) == getattr(graph, name) for name in cut)
    ]
    for other in sorted(alike, key=lambda one: -one.microbatch):
        price = _fitting(problem, other, replace(plan, microbatch=other.microbatch))
        if price is not None:
            return [f"microbatch {other.microbatch} would fit, at {price.batch_s:.6g} s a batch"]
    return []


def _moved_layers(problem: FullProblem, plan: FullPlan) -> list[str]:
    """The same choices but for the cut and what is kept; of interleaved plans there are too many to look at."""
    if plan.schedule is PipelineSchedule.INTERLEAVED:
        return []
    chosen = {name: getattr(plan, name) for name in (*GRAPH_CHOICES, *LAYOUT_CHOICES)}
    moved = limited_solve(problem, FullLimits(**chosen, family=PlanFamily.ANY))
    if moved.best is not None:
        return [f"the same choices with layers moved between stages fit, at {moved.best.batch_s:.6g} s a batch"]
    return []


def _fitting(problem: FullProblem, graph: FullGraph, plan: FullPlan) -> FullPrice | None:
    """The price of a plan that is legal and fits."""
    try:
        check_plan(problem, graph, plan)
    except SpecError:
        return None
    price = price_full_plan(problem, graph, plan)
    return price if price.fits else None
