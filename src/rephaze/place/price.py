"""The time and memory of a given plan, straight from the definitions: a check on the solver, and its report.

Nothing here is shared with the solver but the records: waiting times come from running a stage's layers one
by one, sums are sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

from rephaze.errors import SpecError
from rephaze.place.network import pipeline_level, replica_level
from rephaze.types.placement import (
    BatchTime,
    LayerCost,
    LayerGraph,
    PlacementModel,
    PlacementProblem,
    Plan,
    PlannedStage,
    PricedPlan,
    Recompute,
    StageCost,
    StageMemory,
)


def price_plan(problem: PlacementProblem, plan: Plan) -> PricedPlan:
    """The plan with its time and memory, whether or not it fits.

    Raises:
        SpecError: It is no plan for this problem: unknown degree, layers missing, twice, or out of order.
    """
    graph = graph_of(problem, plan)
    _check_stages(graph, plan)
    is_paper = problem.cost_model is PlacementModel.PAPER
    num_microbatches = problem.microbatches_of(graph)
    if not 1 <= plan.dp <= num_microbatches:
        raise SpecError("dp", plan.dp, f"must be from 1 to the number of microbatches, {num_microbatches}")
    count = math.ceil(num_microbatches / plan.dp)
    widths = [_width(graph, stage) for stage in plan.stages]
    pipeline = sum(widths)
    level = len(problem.cluster.levels) - 1 if is_paper else pipeline_level(problem.cluster, pipeline, plan.dp)
    bytes_per_s = min(entry.bytes_per_s for entry in problem.cluster.levels[: level + 1])
    latency_s = 0.0 if is_paper else max(entry.latency_s for entry in problem.cluster.levels[: level + 1])
    stages = []
    for position, (stage, width) in enumerate(zip(plan.stages, widths, strict=True)):
        depth = plan.pp - position
        in_flight = depth if is_paper else min(depth, count)
        costs = price_stage(problem, graph, stage, width, in_flight, bytes_per_s, latency_s)
        stages.append(_with_batch_terms(problem, plan, costs, pipeline, bytes_per_s, latency_s, position))
    slowest = max(stages, key=lambda stage: stage.load_s)
    loads = [stage.load_s for stage in stages]
    bubble_s = (plan.pp - 1) * slowest.load_s if is_paper else math.fsum(loads) - slowest.load_s
    time = BatchTime(
        compute_s=count * (slowest.forward_s + slowest.backward_s),
        replay_s=count * slowest.replay_s,
        transfer_s=count * slowest.transfer_s,
        bubble_s=bubble_s,
        sync_s=max(stage.sync_s for stage in stages),
        tied_s=math.fsum(stage.tied_s for stage in stages),
        step_s=max(stage.step_s for stage in stages),
    )
    num_devices = plan.dp * pipeline
    return PricedPlan(
        plan=plan,
        batch_s=time.total_s,
        time=time,
        stages=tuple(stages),
        num_microbatches=count,
        num_devices=num_devices,
        device_memory_bytes=problem.device_memory_bytes,
        fits=num_devices <= problem.cluster.num_devices and all(stage.fits for stage in stages),
    )


def graph_of(problem: PlacementProblem, plan: Plan) -> LayerGraph:
    """The graph a plan is for."""
    for graph in problem.graphs:
        if graph.tp == plan.tp and graph.microbatch == plan.microbatch:
            return graph
    known = sorted({(graph.tp, graph.microbatch) for graph in problem.graphs})
    raise SpecError("(tp, microbatch)", (plan.tp, plan.microbatch), f"must be one the problem has: {known[:12]}")


def stage_memory(problem: PlacementProblem, graph: LayerGraph, stage: PlannedStage, in_flight: int) -> StageMemory:
    """What one device of a stage holds with this many microbatches in flight."""
    layers = [graph.layers[v] for v in stage.layers]
    inside = set(stage.layers)
    weights = sum(layer.param_bytes for layer in layers) + _copied_weights(problem, graph, inside)[0]
    per_weight = problem.precision.weight_bytes
    kept = sum(layer.activation_bytes for layer in layers)
    if stage.recompute is Recompute.NONE:
        kept_bytes, replay_bytes = in_flight * kept, 0.0
    elif stage.recompute is Recompute.BLOCK:
        inputs = [_input_bytes(graph, v) for v in stage.layers]
        kept_bytes = in_flight * sum(inputs)
        replay_bytes = max(
            0.0, *(layer.activation_bytes - held for layer, held in zip(layers, inputs, strict=True))
        )
    else:
        kept_bytes = (in_flight - 1) * _entering_bytes(problem, graph, stage.layers)
        replay_bytes = kept
    return StageMemory(
        weights_bytes=weights,
        gradients_bytes=weights * problem.precision.gradient_bytes / per_weight,
        state_bytes=weights * problem.precision.state_bytes / per_weight,
        kept_bytes=kept_bytes,
        replay_bytes=replay_bytes,
        working_bytes=_working_bytes(problem, layers),
    )


def run_layers(
    work_s: Mapping[int, float], needs: Mapping[int, list[int]], arrives_s: Mapping[int, float]
) -> float:
    """When a device has run all layers, one at a time, each after those it needs and its tensors' arrival.

    Whenever it is free it takes the layer whose turn can come first, so it waits only when it must.
    """
    left, done, now = set(work_s), set[int](), 0.0
    while left:
        ready = [v for v in left if all(u in done for u in needs[v])]
        v = min(ready, key=lambda v: (max(now, arrives_s[v]), v))
        now = max(now, arrives_s[v]) + work_s[v]
        left.remove(v)
        done.add(v)
    return now


def stage_passes(
    graph: LayerGraph, stage: PlannedStage, in_flight: int, bytes_per_s: float, latency_s: float
) -> tuple[float, float]:
    """Duration of a stage's forward and backward pass of one microbatch, waiting for tensors included."""
    inside = set(stage.layers)
    forward = {v: graph.layers[v].forward_s for v in inside}
    backward = {v: graph.layers[v].backward_s for v in inside}
    before: dict[int, list[int]] = {v: [] for v in inside}
    after: dict[int, list[int]] = {v: [] for v in inside}
    comes = dict.fromkeys(inside, 0.0)
    returns = dict.fromkeys(inside, 0.0)
    for link in graph.links:
        wait = link.payload_bytes / bytes_per_s + latency_s if link.payload_bytes > 0 else 0.0
        if link.src in inside and link.dst in inside:
            before[link.dst].append(link.src)
            after[link.src].append(link.dst)
        elif link.dst in inside:
            comes[link.dst] = max(comes[link.dst], wait)
        elif link.src in inside:
            returns[link.src] = max(returns[link.src], wait)
    forward_s = run_layers(forward, before, comes)
    mode = _effective_mode(stage, in_flight)
    if mode is Recompute.BLOCK:
        both = {v: forward[v] + backward[v] for v in inside}
        return forward_s, run_layers(both, after, returns)
    backward_s = run_layers(backward, after, returns)
    if mode is Recompute.STAGE:
        # Gradients travel while the stage is replayed from its own copy of the input.
        backward_s = max(backward_s, sum(forward.values()) + sum(backward.values()))
    return forward_s, backward_s


def _effective_mode(stage: PlannedStage, in_flight: int) -> Recompute:
    """With one microbatch in flight the backward pass follows at once: a stage has nothing to replay."""
    if stage.recompute is Recompute.STAGE and in_flight == 1:
        return Recompute.NONE
    return stage.recompute


def price_stage(
    problem: PlacementProblem,
    graph: LayerGraph,
    stage: PlannedStage,
    width: int,
    in_flight: int,
    bytes_per_s: float,
    latency_s: float,
) -> StageCost:
    """One stage's times for a microbatch and its memory; what happens once a batch is left at zero."""
    forward_s = sum(graph.layers[v].forward_s for v in stage.layers)
    backward_s = sum(graph.layers[v].backward_s for v in stage.layers)
    replay_s = 0.0 if _effective_mode(stage, in_flight) is Recompute.NONE else forward_s
    passes = stage_passes(graph, stage, in_flight, bytes_per_s, latency_s)
    memory = stage_memory(problem, graph, stage, in_flight)
    return StageCost(
        layers=tuple(graph.layers[v].name for v in stage.layers),
        num_devices=width,
        recompute=_effective_mode(stage, in_flight),
        num_in_flight=in_flight,
        forward_s=forward_s,
        backward_s=backward_s,
        replay_s=replay_s,
        transfer_s=max(0.0, sum(passes) - forward_s - backward_s - replay_s),
        sync_s=0.0,
        tied_s=0.0,
        step_s=0.0,
        param_bytes=memory.weights_bytes,
        memory=memory,
        fits=_fits(problem, graph, stage, in_flight),
    )


def _fits(problem: PlacementProblem, graph: LayerGraph, stage: PlannedStage, in_flight: int) -> bool:
    """Whether ``in_flight`` microbatches fit, told by how many do: exact where the memory is met to the byte.

    The order of the sums is part of the rule, so that plain doubles give one answer everywhere.
    """
    inside = set(stage.layers)
    weights = (
        _added(graph.layers[v].param_bytes for v in stage.layers) + _copied_weights(problem, graph, inside)[0]
    )
    kept = _added(graph.layers[v].activation_bytes for v in stage.layers)
    first, flight = kept, kept
    if stage.recompute is Recompute.BLOCK:
        flight = _added(_input_bytes(graph, v) for v in stage.layers)
        first = flight + stage_memory(problem, graph, stage, 1).replay_bytes
    elif stage.recompute is Recompute.STAGE:
        flight = _entering_bytes(problem, graph, stage.layers)
    rest = (problem.precision.resident_ratio - 2) * weights
    one = 2 * weights + first + rest + _working_bytes(problem, [graph.layers[v] for v in stage.layers])
    memory = problem.device_memory_bytes
    if one + (in_flight - 1) * flight <= memory:
        return True
    return one <= memory and in_flight <= 1 + math.floor((memory - one) / flight)


def _added(terms: Iterable[float]) -> float:
    """The sum, one after the other: ``sum`` rounds differently from one Python to the next."""
    return reduce(add, terms, 0.0)


def _with_batch_terms(
    problem: PlacementProblem,
    plan: Plan,
    stage: StageCost,
    pipeline: int,
    bytes_per_s: float,
    latency_s: float,
    position: int,
) -> StageCost:
    """The stage with what it costs once a batch."""
    if problem.cost_model is PlacementModel.PAPER:
        sync = 4 * (plan.dp - 1) / plan.dp * stage.param_bytes / bytes_per_s if position == 0 else 0.0
        return replace(stage, sync_s=sync)
    precision, sync_s, step_s, tied_s = problem.precision, 0.0, 0.0, 0.0
    gradients = stage.param_bytes * precision.gradient_bytes / precision.weight_bytes
    if plan.dp > 1:
        spanned = problem.cluster.levels[: replica_level(problem.cluster, pipeline, plan.dp) + 1]
        rate = min(entry.bytes_per_s for entry in spanned)
        sync_s = 2 * (plan.dp - 1) / plan.dp * gradients / rate
        sync_s += 2 * (plan.dp - 1) * max(entry.latency_s for entry in spanned)
    if problem.hbm_bytes_per_s:
        step_s = stage.param_bytes * precision.step_bytes / precision.weight_bytes / problem.hbm_bytes_per_s
    copied, num_copied = _copied_weights(problem, graph_of(problem, plan), set(plan.stages[position].layers))
    if num_copied:
        tied_s = copied * precision.gradient_bytes / precision.weight_bytes / bytes_per_s
        tied_s += num_copied * latency_s
    return replace(stage, sync_s=sync_s, step_s=step_s, tied_s=tied_s)


def _width(graph: LayerGraph, stage: PlannedStage) -> int:
    return graph.tp if any(graph.layers[v].is_sharded for v in stage.layers) else 1


def _working_bytes(problem: PlacementProblem, layers: Sequence[LayerCost]) -> float:
    if problem.cost_model is PlacementModel.PAPER:
        return 0.0
    return max(layer.working_bytes for layer in layers)


def _copied_weights(problem: PlacementProblem, graph: LayerGraph, inside: set[int]) -> tuple[float, int]:
    """Bytes and number of tied weights a stage holds although another stage owns them."""
    if problem.cost_model is PlacementModel.PAPER:
        return 0.0, 0
    copied = [
        tied.param_bytes
        for tied in graph.tied
        if tied.layers[0] not in inside and any(v in inside for v in tied.layers)
    ]
    return sum(copied), len(copied)


def _input_bytes(graph: LayerGraph, v: int) -> float:
    given = graph.layers[v].input_bytes
    if given is not None:
        return given
    return sum(link.payload_bytes for link in graph.links if link.dst == v)


def _entering_bytes(problem: PlacementProblem, graph: LayerGraph, layers: Sequence[int]) -> float:
    """What stage recompute keeps of a microbatch: the tensors that enter the stage."""
    inside = set(layers)
    entering = [link for link in graph.links if link.dst in inside and link.src not in inside]
    if problem.cost_model is PlacementModel.PAPER:
        return _added(link.payload_bytes for link in entering)
    largest: dict[int, float] = {}
    for link in entering:
        largest[link.src] = max(largest.get(link.src, 0.0), link.payload_bytes)
    fed = {link.dst for link in graph.links}
    sources = _added(graph.layers[v].input_bytes or 0.0 for v in layers if v not in fed)
    return _added(largest.values()) + sources


def _check_stages(graph: LayerGraph, plan: Plan) -> None:
    if not plan.stages:
        raise SpecError("stages", [], "a plan needs at least one stage")
    stage_of: dict[int, int] = {}
    for position, stage in enumerate(plan.stages):
        if not stage.layers:
            raise SpecError(f"stages.{position}.layers", [], "a stage needs at least one layer")
        for v in stage.layers:
            if not 0 <= v < len(graph.layers):
                raise SpecError(f"stages.{position}.layers", v, "no such layer")
            if v in stage_of:
                raise SpecError(f"stages.{position}.layers", graph.layers[v].name, "is placed in two stages")
            stage_of[v] = position
    missing = [layer.name for v, layer in enumerate(graph.layers) if v not in stage_of]
    if missing:
        raise SpecError("stages", missing[:5], f"{len(missing)} layers are in no stage")
    for link in graph.links:
        if stage_of[link.src] > stage_of[link.dst]:
            names = (graph.layers[link.src].name, graph.layers[link.dst].name)
            raise SpecError("stages", names, "a layer must not feed an earlier stage")
