"""From a problem to the answer: solve it, price the plan from the definitions, or say what is in the way."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rephaze.place.precision import named_precision
from rephaze.place.price import price_plan
from rephaze.place.solver import PAPER_LONGEST_LOAD_S, Placer, Solution
from rephaze.types.cluster import Cluster, NetworkLevel, flat_cluster
from rephaze.types.placement import (
    LayerCost,
    LayerGraph,
    LayerLink,
    Optimizer,
    Placement,
    PlacementModel,
    PlacementProblem,
    PlanLimits,
    PricedPlan,
    RecomputePolicy,
    SolveStatus,
)
from rephaze.units import GIB

PRICE_TOLERANCE = 1e-9
"""Greatest relative difference between a solved and a priced plan: they add in different orders."""


def find_placement(
    problem: PlacementProblem, limits: PlanLimits | None = None, cutoff_s: float = math.inf
) -> Placement:
    """The fastest plan with its proof, or the reason why there is none.

    Args:
        problem: What to place where.
        limits: Choices made beforehand.
        cutoff_s: Give up once no plan can be faster than this.
    """
    placer = Placer(problem, limits)
    return describe_solution(placer, placer.solve(cutoff_s=cutoff_s), cutoff_s)


def describe_solution(placer: Placer, solution: Solution, cutoff_s: float = math.inf) -> Placement:
    """A solution as an answer: its plan priced from the definitions, or what is in the way.

    Its bound holds also if layers whose times are not proven shortest turn out as fast as their bounds.

    Args:
        placer: What solved it.
        solution: For the problem's own times.
        cutoff_s: The limit it was solved with.
    """
    problem = placer.problem
    if solution.status is SolveStatus.INFEASIBLE:
        return Placement(
            status=solution.status, bound_s=math.inf, reason=explain_infeasible(problem, placer.limits)
        )
    least_s = _bound_with_faster_layers(placer, solution)
    if solution.status is SolveStatus.CUTOFF:
        is_limited = math.isfinite(cutoff_s)
        reason = "nothing below the cutoff" if is_limited else "the work limit was reached before a plan was found"
        return Placement(status=solution.status, bound_s=least_s, reason=reason)
    best = price_plan(problem, placer.plan(solution))
    assert best.fits, "the solver chose a plan that does not fit"
    assert math.isclose(best.batch_s, solution.batch_s, rel_tol=PRICE_TOLERANCE), "solver and price differ"
    unproven = []
    if solution.status is not SolveStatus.OPTIMAL:
        unproven.append("the search for plans reached its work limit")
    if least_s < solution.bound_s:
        unproven.append("some layer times are not proven shortest")
    if not unproven:
        return Placement(status=SolveStatus.OPTIMAL, bound_s=best.batch_s, best=best)
    return Placement(status=SolveStatus.FEASIBLE, bound_s=least_s, best=best, reason="; ".join(unproven))


def _bound_with_faster_layers(placer: Placer, solution: Solution) -> float:
    """A time no plan beats, were every layer as fast as its bound."""
    graphs = placer.problem.graphs
    layers = [layer for graph in graphs for layer in graph.layers]
    if all(layer.forward_bound_s is None and layer.backward_bound_s is None for layer in layers):
        return solution.bound_s
    times = [
        (
            np.array([_least(layer.forward_bound_s, layer.forward_s) for layer in graph.layers]),
            np.array([_least(layer.backward_bound_s, layer.backward_s) for layer in graph.layers]),
        )
        for graph in graphs
    ]
    # Only plans faster than the one found can lower the bound.
    return min(solution.bound_s, placer.solve(times, min(solution.batch_s, solution.bound_s)).bound_s)


def _least(bound_s: float | None, time_s: float) -> float:
    return time_s if bound_s is None else bound_s


def explain_infeasible(problem: PlacementProblem, limits: PlanLimits | None = None) -> str:
    """Which limit an infeasible problem runs into, by how much, and what would do."""
    limits = limits or PlanLimits()
    graphs = [
        graph
        for graph in problem.graphs
        if limits.tp in (None, graph.tp) and limits.microbatch in (None, graph.microbatch)
    ]
    if not graphs:
        return f"no graph comes {_said(limits)}"
    num_layers = len(graphs[0].layers)
    if limits.pp is not None and limits.pp > num_layers:
        return f"layers: {limits.pp} stages asked for, {num_layers} layers given"
    microbatches = max(problem.microbatches_of(graph) for graph in graphs)
    if limits.dp is not None and limits.dp > microbatches:
        return f"microbatches: dp {limits.dp} asked for, {microbatches} microbatches in a batch"
    roomy = _solved(replace(problem, device_memory_bytes=1e300), limits)
    if roomy is None:
        grown = _with_devices(problem, _most_useful_devices(problem))
        found = _solved(replace(grown, device_memory_bytes=1e300), limits)
        if found is None:
            return f"time: every plan {_said(limits)} has a stage of {PAPER_LONGEST_LOAD_S:g} s or more"
        needed = _fewest_devices(replace(problem, device_memory_bytes=1e300), limits, found.num_devices)
        return f"devices: at least {needed} are needed, {problem.cluster.num_devices} given"
    low = problem.device_memory_bytes
    high = max(stage.memory.total_bytes for stage in roomy.stages) * (1 + 1e-12)
    best = roomy
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        found = _solved(replace(problem, device_memory_bytes=middle), limits)
        if found is None:
            low = middle
        else:
            best = found
            high = min(middle, max(stage.memory.total_bytes for stage in found.stages) * (1 + 1e-12))
    fullest = max(best.stages, key=lambda stage: stage.memory.total_bytes)
    reason = (
        f"memory: {_size(high)} a device would do, {_size(problem.device_memory_bytes)} given "
        f"({_size(high - problem.device_memory_bytes)} short); at that size the fullest stage is "
        f"{_layers(fullest.layers)} at tp {best.plan.tp}"
    )
    found = _solved(_with_devices(problem, _most_useful_devices(problem)), limits)
    if found is not None:
        needed = _fewest_devices(problem, limits, found.num_devices)
        reason += f"; or {needed} devices of this memory instead of {problem.cluster.num_devices}"
    return reason


def warm_up() -> None:
    """Compile or load the compiled searches, so that the first solve is as fast as the next."""
    layer = LayerCost(
        name="a", param_bytes=1.0, activation_bytes=1.0, forward_s=1.0, backward_s=1.0, is_sharded=False
    )
    graph = LayerGraph(tp=1, microbatch=1, layers=(layer, replace(layer, name="b")), links=())
    for cost_model in PlacementModel:
        problem = PlacementProblem(
            cost_model=cost_model,
            cluster=flat_cluster(2, 1.0),
            device_memory_bytes=100.0,
            graphs=(graph,),
            recompute=RecomputePolicy.NONE,
            optimizer=Optimizer.SGD,
            precision=named_precision("paper", Optimizer.SGD),
            num_microbatches=2,
        )
        find_placement(problem)
        line = replace(graph, links=(LayerLink(src=0, dst=1, payload_bytes=1.0),))
        find_placement(replace(problem, graphs=(line,)))


def _solved(problem: PlacementProblem, limits: PlanLimits) -> PricedPlan | None:
    placer = Placer(problem, limits)
    solution = placer.solve()
    return price_plan(problem, placer.plan(solution)) if solution.graph >= 0 else None


def _with_devices(problem: PlacementProblem, num_devices: int) -> PlacementProblem:
    """The same problem on more devices; the outermost level grows with them."""
    *inner, last = problem.cluster.levels
    unit = inner[-1].num_devices if inner else 1
    group = max(last.num_devices, -(-num_devices // unit) * unit)
    level = NetworkLevel(num_devices=group, bytes_per_s=last.bytes_per_s, latency_s=last.latency_s)
    return replace(problem, cluster=Cluster(num_devices=num_devices, levels=(*inner, level)))


def _most_useful_devices(problem: PlacementProblem) -> int:
    """Enough for every layer to be a stage of its own, in as many pipelines as there are microbatches."""
    widest = max(graph.tp for graph in problem.graphs) * len(problem.graphs[0].layers)
    microbatches = max(problem.microbatches_of(graph) for graph in problem.graphs)
    return max(problem.cluster.num_devices, min(2**28, widest * microbatches))


def _fewest_devices(problem: PlacementProblem, limits: PlanLimits, enough: int) -> int:
    low, high = problem.cluster.num_devices, enough
    while high - low > 1:
        middle = (low + high) // 2
        found = _solved(_with_devices(problem, middle), limits)
        low, high = (middle, high) if found is None else (low, min(middle, found.num_devices))
    return high


def _said(limits: PlanLimits) -> str:
    names = ("tp", "dp", "pp", "microbatch", "recompute")
    chosen = [f"{name} {getattr(limits, name)}" for name in names if getattr(limits, name) is not None]
    return "with " + ", ".join(chosen) if chosen else "there is"


def _size(num_bytes: float) -> str:
    return f"{num_bytes / GIB:.4g} GiB" if num_bytes >= GIB / 16 else f"{num_bytes:.6g} bytes"


def _layers(names: tuple[str, ...]) -> str:
    return f"layer {names[0]}" if len(names) == 1 else f"layers {names[0]} to {names[-1]}"
