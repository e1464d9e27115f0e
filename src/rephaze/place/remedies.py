"""What would have to change for a plan that does not fit."""

from __future__ import annotations

from dataclasses import replace

from rephaze.place.price import price_plan
from rephaze.types.placement import PlacementProblem, Plan, PlannedStage, PricedPlan, Recompute, StageCost
from rephaze.units import GIB


def suggest_remedies(problem: PlacementProblem, priced: PricedPlan) -> list[str]:
    """One sentence for each change that would help, the nearest to the plan first; none when it fits."""
    found = []
    if priced.num_devices > problem.cluster.num_devices:
        pipeline = sum(stage.num_devices for stage in priced.stages)
        room = problem.cluster.num_devices // pipeline
        found.append(
            f"it takes {priced.num_devices} devices ({priced.plan.dp} pipelines of {pipeline}), "
            f"{problem.cluster.num_devices} are there: "
            + (f"dp {room} would do" if room else "not even one pipeline fits")
        )
    tight = [position for position, stage in enumerate(priced.stages) if not stage.fits]
    if not tight:
        return found
    found.extend(_overflow(position, priced.stages[position], problem) for position in tight)
    found.extend(_by_recompute(problem, priced.plan, tight))
    found.extend(_by_smaller_microbatch(problem, priced.plan))
    needed = max(stage.memory.total_bytes for stage in priced.stages)
    found.append(f"a device memory of {needed / GIB:.4g} GiB would do as it is")
    found.extend(_by_moving_layers(problem, priced.plan))
    return found


def _overflow(position: int, stage: StageCost, problem: PlacementProblem) -> str:
    over = stage.memory.total_bytes - problem.device_memory_bytes
    kept = stage.memory.kept_bytes
    return (
        f"stage {position} is {over / GIB:.4g} GiB over: {stage.memory.total_bytes / GIB:.4g} GiB, of which "
        f"{kept / GIB:.4g} GiB of activations (microbatches in flight: {stage.num_in_flight})"
    )


def _by_recompute(problem: PlacementProblem, plan: Plan, tight: list[int]) -> list[str]:
    for mode in (Recompute.STAGE, Recompute.BLOCK):
        stages = tuple(
            PlannedStage(layers=stage.layers, recompute=mode) if position in tight else stage
            for position, stage in enumerate(plan.stages)
        )
        other = price_plan(problem, replace(plan, stages=stages))
        if all(stage.fits for stage in other.stages):
            which = ", ".join(str(position) for position in tight[:8]) + (", ..." if len(tight) > 8 else "")
            return [f"recompute {mode} in stage {which} would fit, at {other.batch_s:.6g} s a batch"]
    return []


def _by_smaller_microbatch(problem: PlacementProblem, plan: Plan) -> list[str]:
    sizes = sorted({graph.microbatch for graph in problem.graphs if graph.tp == plan.tp}, reverse=True)
    for size in sizes:
        if size < plan.microbatch:
            other = price_plan(problem, replace(plan, microbatch=size))
            if all(stage.fits for stage in other.stages):
                return [f"microbatch {size} would fit, at {other.batch_s:.6g} s a batch"]
    return []


def _by_moving_layers(problem: PlacementProblem, plan: Plan) -> list[str]:
    from rephaze.place.answer import find_placement
    from rephaze.types.placement import PlanLimits

    same = PlanLimits(tp=plan.tp, dp=plan.dp, pp=plan.pp, microbatch=plan.microbatch)
    moved = find_placement(problem, same)
    if moved.best is not None:
        return [f"the same degrees with layers moved between stages fit, at {moved.best.batch_s:.6g} s a batch"]
    anything = find_placement(problem)
    if anything.best is None:
        return [f"no plan fits this problem: {anything.reason}"]
    other = anything.best.plan
    return [
        f"these degrees never fit; tp {other.tp}, pp {other.pp}, dp {other.dp}, "
        f"microbatch {other.microbatch} do, at {anything.best.batch_s:.6g} s a batch"
    ]
