"""Which graphs and plans make sense: each rule with its field, the value and the legal ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rephaze.errors import SpecError
from rephaze.place.full.layouts import (
    LEAST_ZERO_BUBBLE_STAGES,
    are_chunks_legal,
    are_experts_legal,
    has_split_backward,
    shard_group_sizes,
)
from rephaze.types.checks import check_count, check_number
from rephaze.types.full import FullGraph, FullLayer, FullPlan, FullProblem, PipelineSchedule, Sharding

GRAPH_FIELDS = ("tp", "cp", "ep", "etp", "sp", "microbatch")
"""What tells the graphs of a problem apart."""
MOST_LISTED = 8
"""Legal values that a message lists."""


def check_graph(field: str, graph: FullGraph) -> None:
    """Raise unless a graph's numbers make sense."""
    for name in ("tp", "cp", "ep", "etp", "microbatch"):
        check_count(f"{field}.{name}", getattr(graph, name), at_most=2**30)
    if graph.tp % graph.etp:
        rule = f"must divide tp, {graph.tp}"
        raise SpecError(f"{field}.etp", graph.etp, rule)
    if graph.sp and graph.tp == 1:
        raise SpecError(f"{field}.sp", True, "must be false at tp 1", "there is nothing to cut a sequence over")
    for at, layer in enumerate(graph.layers):
        _check_layer(f"{field}.layers.{at}", layer)
    seen: set[tuple[int, int]] = set()
    for at, link in enumerate(graph.links):
        names = f"{graph.layers[link.src].name} -> {graph.layers[link.dst].name}"
        check_number(f"{field}.edges.{at}.bytes", link.payload_bytes)
        if link.src >= link.dst:
            rule = "must lead to a later layer: layers stand in topological order"
            raise SpecError(f"{field}.edges.{at}", names, rule)
        if (link.src, link.dst) in seen:
            raise SpecError(f"{field}.edges.{at}", names, "is given twice", "add their bytes up")
        seen.add((link.src, link.dst))
    for at, tied in enumerate(graph.tied):
        check_number(f"{field}.tied.{at}.param_bytes", tied.param_bytes)


def _check_layer(where: str, layer: FullLayer) -> None:
    for name in ("param_bytes", "expert_param_bytes", "forward_s", "backward_s", "working_bytes"):
        check_number(f"{where}.{name}", getattr(layer, name))
    if layer.weight_backward_s is not None:
        check_number(f"{where}.weight_backward_s", layer.weight_backward_s)
        if layer.weight_backward_s > layer.backward_s:
            rule = f"is part of backward_s, {layer.backward_s:g}, and cannot be longer"
            raise SpecError(f"{where}.weight_backward_s", layer.weight_backward_s, rule)
    for at, point in enumerate(layer.keep):
        check_number(f"{where}.keep.{at}.bytes", point.kept_bytes)
        check_number(f"{where}.keep.{at}.replay_s", point.replay_s)
    if layer.keep[0].replay_s:
        raise SpecError(
            f"{where}.keep.0.replay_s", layer.keep[0].replay_s, "the first point keeps everything: must be 0"
        )
    for at, (more, less) in enumerate(zip(layer.keep, layer.keep[1:], strict=False), start=1):
        if less.kept_bytes > more.kept_bytes or less.replay_s < more.replay_s:
            rule = "must keep no more, and replay no less, than the point before it"
            raise SpecError(f"{where}.keep.{at}", (less.kept_bytes, less.replay_s), rule)


def graph_of_plan(problem: FullProblem, asked: dict[str, Any]) -> FullGraph:
    """The graph a plan is for."""
    fields = GRAPH_FIELDS
    wanted = tuple(asked[field] for field in fields)
    known = [tuple(getattr(graph, field) for field in fields) for graph in problem.graphs]
    if wanted not in known:
        for at, field in enumerate(fields):
            alike = [one[at] for one in known if one[:at] + one[at + 1 :] == wanted[:at] + wanted[at + 1 :]]
            if alike:
                rule = f"must be one of the problem's graphs, which beside the other degrees have {_some(alike)}"
                raise SpecError(f"plan.{field}", wanted[at], rule)
        listed = "; ".join(", ".join(f"{f} {v}" for f, v in zip(fields, one, strict=True)) for one in known[:8])
        raise SpecError(
            "plan", dict(zip(fields, wanted, strict=True)), f"must be one of the problem's graphs: {listed}"
        )
    return problem.graphs[known.index(wanted)]


def graph_like(problem: FullProblem, plan: FullPlan) -> FullGraph:
    """The graph of a plan of the problem."""
    return graph_of_plan(problem, {field: getattr(plan, field) for field in GRAPH_FIELDS})


def check_plan(problem: FullProblem, graph: FullGraph, plan: FullPlan) -> None:
    """Raise unless the plan is legal; it may lie outside the problem's options and family."""
    count = problem.num_microbatches(graph)
    if not 1 <= plan.dp <= count:
        raise SpecError("plan.dp", plan.dp, f"must be from 1 to the number of microbatches, {count}")
    if len(plan.stages) % plan.chunks:
        rule = f"{len(plan.stages)} stages cannot be dealt out {plan.chunks} to a device"
        raise SpecError("plan.chunks", plan.chunks, rule)
    if plan.num_devices > problem.cluster.num_devices:
        rule = f"needs {plan.num_devices} devices, the cluster has {problem.cluster.num_devices}"
        raise SpecError("plan", f"dp {plan.dp}, pp {plan.pp}, tp {plan.tp}, cp {plan.cp}", rule)
    if plan.dp > 1 and plan.pp > 1 and plan.order not in graph.orders:
        rule = f"the graph's collectives were priced for {', '.join(graph.orders)}"
        raise SpecError("plan.order", str(plan.order), rule)
    _check_schedule(problem, graph, plan)
    _check_sharding(plan)
    if not are_experts_legal(graph, plan.dp):
        legal = [
            dp for dp in range(1, min(count, problem.cluster.num_devices) + 1) if are_experts_legal(graph, dp)
        ]
        rule = f"ep {plan.ep} times etp {plan.etp} devices must be whole factors of tp, cp and dp"
        fix = f"legal dp: {_some(legal)}" if legal else "choose another ep"
        raise SpecError("plan.ep", plan.ep, rule, fix)
    _check_stages(graph, plan)


def _check_schedule(problem: FullProblem, graph: FullGraph, plan: FullPlan) -> None:
    if plan.schedule is PipelineSchedule.INTERLEAVED:
        _check_chunks(problem, graph, plan)
    elif plan.chunks != 1:
        raise SpecError("plan.chunks", plan.chunks, f"must be 1 for {plan.schedule}", "interleaved takes chunks")
    if plan.schedule is PipelineSchedule.ZERO_BUBBLE:
        if plan.pp < LEAST_ZERO_BUBBLE_STAGES:
            rule = f"needs {LEAST_ZERO_BUBBLE_STAGES} or more stages"
            raise SpecError("plan.schedule", str(plan.schedule), rule, "1f1b at one stage, or another cut")
        if plan.is_gathering:
            rule = "cannot be together with weights gathered for every pass"
            fix = "reshard false, or schedule 1f1b or interleaved"
            raise SpecError("plan.schedule", str(plan.schedule), rule, fix)
        if not has_split_backward(graph):
            names = [layer.name for layer in graph.layers if layer.weight_backward_s is None]
            rule = f"needs weight_backward_s in every layer; {len(names)} have none: {', '.join(names[:4])}"
            fix = "give it, 0 is allowed; or schedule 1f1b or interleaved"
            raise SpecError("plan.schedule", str(plan.schedule), rule, fix)


def _check_chunks(problem: FullProblem, graph: FullGraph, plan: FullPlan) -> None:
    if are_chunks_legal(problem, graph, plan.dp, plan.pp, plan.chunks):
        return
    if plan.chunks < 2:
        rule = "interleaved needs 2 or more chunks a device"
        raise SpecError("plan.chunks", plan.chunks, rule, "one chunk a device is schedule 1f1b")
    if plan.pp < 2:
        rule = f"interleaved needs pp of 2 or more, {len(plan.stages)} stages make pp {plan.pp}"
        raise SpecError("plan.chunks", plan.chunks, rule, "fewer chunks, or schedule 1f1b")
    count = problem.num_microbatches(graph)
    per_replica = -(-count // plan.dp)
    rule = (
        f"interleaved needs microbatches of a replica that are a multiple of pp, {plan.pp}; "
        f"dp {plan.dp} leaves {per_replica} of {count}"
    )
    degrees = [pp for pp in range(2, min(per_replica, len(graph.layers) // 2) + 1) if per_replica % pp == 0]
    most = min(count, problem.cluster.num_devices // (plan.pp * graph.stage_width))
    replicas = [dp for dp in range(1, most + 1) if -(-count // dp) % plan.pp == 0]
    raise SpecError(
        "plan.chunks", plan.chunks, rule, f"legal pp: {_some(degrees)}; or legal dp: {_some(replicas)}"
    )


def _some(values: Sequence[int]) -> str:
    """The first few of the legal values."""
    more = ", ..." if len(values) > MOST_LISTED else ""
    return (", ".join(str(value).lower() for value in sorted(values)[:MOST_LISTED]) + more) or "none"


def _check_sharding(plan: FullPlan) -> None:
    if plan.sharding is Sharding.NONE:
        if plan.shard_group != 1:
            raise SpecError("plan.shard_group", plan.shard_group, "must be 1 or left out without sharding")
        if plan.reshard:
            raise SpecError("plan.reshard", True, "is for sharding weights")
        return
    legal = shard_group_sizes(plan.cp, plan.dp)
    if plan.shard_group not in legal:
        listed = ", ".join(map(str, legal)) or "none, there is one replica"
        rule = f"must be a group of the cp {plan.cp} x dp {plan.dp} replicas: {listed}"
        raise SpecError("plan.shard_group", plan.shard_group, rule)
    if plan.reshard and plan.sharding is not Sharding.WEIGHTS:
        raise SpecError("plan.reshard", True, f"is for sharding weights, not {plan.sharding}")


def _check_stages(graph: FullGraph, plan: FullPlan) -> None:
    stage_of: dict[int, int] = {}
    for at, stage in enumerate(plan.stages):
        for v in stage.layers:
            if v in stage_of:
                raise SpecError(f"plan.stages.{at}.layers", graph.layers[v].name, "is in two stages")
            stage_of[v] = at
        if list(stage.layers) != sorted(stage.layers):
            names = [graph.layers[v].name for v in stage.layers]
            raise SpecError(f"plan.stages.{at}.layers", names[:6], "must stand in the order of the graph")
    missing = [layer.name for v, layer in enumerate(graph.layers) if v not in stage_of]
    if missing:
        raise SpecError("plan.stages", missing[:5], f"{len(missing)} layers are in no stage")
    for link in graph.links:
        if stage_of[link.src] > stage_of[link.dst]:
            names = [graph.layers[link.src].name, graph.layers[link.dst].name]
            raise SpecError("plan.stages", names, "a layer must not feed an earlier stage")
