"""Placement problems and plans as files: ``rephaze.placement-problem/1`` and ``rephaze.placement-plan/1``.

Pydantic checks the shape of the text (``problem_schema``); the rules that join several fields are checked here, in
the order a reader would meet them.
"""

from __future__ import annotations

import math
from typing import Any

from rephaze.errors import SpecError
from rephaze.place.precision import named_precision
from rephaze.place.problem_schema import (
    ClusterText,
    GraphText,
    PlanFileText,
    PrecisionText,
    ProblemText,
    TiedText,
    TrainingText,
)
from rephaze.types.checks import check_choice, check_count, check_number
from rephaze.types.cluster import Cluster, NetworkLevel, flat_cluster
from rephaze.types.files import check_format, validate
from rephaze.types.placement import (
    LayerCost,
    LayerGraph,
    LayerLink,
    Optimizer,
    PlacementModel,
    PlacementProblem,
    Plan,
    PlannedStage,
    PrecisionPolicy,
    Recompute,
    RecomputePolicy,
    TiedWeights,
)

PROBLEM_FORMAT = "rephaze.placement-problem/1"
PLAN_FORMAT = "rephaze.placement-plan/1"
MAX_TP = 10_000
"""Greatest tensor-parallel degree, unless the cluster is larger."""


def parse_problem(data: dict[str, Any]) -> PlacementProblem:
    """The problem a file holds.

    Raises:
        SpecError: Naming the field, its value and the rule it breaks.
    """
    check_format(data, PROBLEM_FORMAT, "problem")
    text = validate(ProblemText, data)
    cost_model = PlacementModel(text.cost_model)
    cluster = _cluster(text.cluster, cost_model)
    num_microbatches = _microbatches(text.training, cost_model)
    check_choice("training.optimizer", text.training.optimizer, [entry.value for entry in Optimizer])
    optimizer = Optimizer(text.training.optimizer)
    if not text.graphs:
        raise SpecError("graphs", [], "at least one graph is needed", "one for each tensor-parallel degree")
    graphs = tuple(
        _graph(f"graphs.{at}", graph, max(MAX_TP, cluster.num_devices), cost_model)
        for at, graph in enumerate(text.graphs)
    )
    return PlacementProblem(
        cost_model=cost_model,
        cluster=cluster,
        device_memory_bytes=text.cluster.device_memory_bytes,
        graphs=_same_model(graphs),
        recompute=_policy(text.training.recompute, cost_model),
        optimizer=optimizer,
        precision=_precision(text.training.precision, optimizer, cost_model),
        num_microbatches=num_microbatches,
        global_batch=text.training.global_batch,
        hbm_bytes_per_s=text.cluster.hbm_bytes_per_s,
    )


def parse_plan(data: dict[str, Any]) -> tuple[PlacementProblem, Plan]:
    """The problem and the plan that a plan file holds."""
    check_format(data, PLAN_FORMAT, "plan file")
    text = validate(PlanFileText, data)
    problem = parse_problem(text.problem)
    check_count("plan.dp", text.plan.dp)
    position = {layer.name: v for v, layer in enumerate(problem.graphs[0].layers)}
    usual = Recompute.NONE if problem.recompute is RecomputePolicy.AUTO else Recompute(problem.recompute)
    stages = []
    for at, stage in enumerate(text.plan.stages):
        for name in stage.layers:
            if name not in position:
                check_choice(f"plan.stages.{at}.layers", name, position)
        stages.append(
            PlannedStage(
                layers=tuple(position[name] for name in stage.layers),
                recompute=Recompute(stage.recompute) if stage.recompute else usual,
            )
        )
    return problem, Plan(tp=text.plan.tp, dp=text.plan.dp, microbatch=text.plan.microbatch, stages=tuple(stages))


def _cluster(text: ClusterText, cost_model: PlacementModel) -> Cluster:
    check_count("cluster.num_devices", text.num_devices, at_most=2**30)
    if (text.link_bytes_per_s is None) == (text.levels is None):
        raise SpecError("cluster", text.link_bytes_per_s, "give link_bytes_per_s or levels, one of them")
    if text.levels is None:
        assert text.link_bytes_per_s is not None
        return flat_cluster(text.num_devices, text.link_bytes_per_s)
    if cost_model is PlacementModel.PAPER:
        raise SpecError("cluster.levels", "given", "the paper's model has one bandwidth", "link_bytes_per_s")
    levels = tuple(
        NetworkLevel(num_devices=level.num_devices, bytes_per_s=level.bytes_per_s, latency_s=level.latency_s)
        for level in text.levels
    )
    return Cluster(num_devices=text.num_devices, levels=levels)


def _microbatches(text: TrainingText, cost_model: PlacementModel) -> int | None:
    given = text.num_microbatches
    if given is None:
        if text.global_batch is None:
            raise SpecError("training.num_microbatches", None, "is required and missing", "or give global_batch")
        return None
    check_number("training.num_microbatches", given, at_least=1, at_most=2**40)
    if cost_model is PlacementModel.PAPER:
        return math.trunc(given)  # what the paper's program does with a fraction
    if given != math.trunc(given):
        raise SpecError("training.num_microbatches", given, "must be a whole number")
    return int(given)


def _policy(given: bool | str, cost_model: PlacementModel) -> RecomputePolicy:
    if isinstance(given, bool):
        return RecomputePolicy.STAGE if given else RecomputePolicy.NONE
    policy = RecomputePolicy(given)
    if cost_model is PlacementModel.PAPER and policy not in (RecomputePolicy.NONE, RecomputePolicy.STAGE):
        raise SpecError("training.recompute", given, "the paper's model knows true and false")
    return policy


def _precision(
    given: str | PrecisionText | None, optimizer: Optimizer, cost_model: PlacementModel
) -> PrecisionPolicy:
    if cost_model is PlacementModel.PAPER:
        if given not in (None, "paper"):
            raise SpecError("training.precision", given, "the paper's model has its own", "leave it out")
        return named_precision("paper", optimizer)
    if isinstance(given, PrecisionText):
        return PrecisionPolicy(
            name="custom",
            weight_bytes=given.weight_bytes,
            gradient_bytes=given.gradient_bytes,
            state_bytes=given.state_bytes,
            step_bytes=given.step_bytes,
        )
    return named_precision(given or "mixed", optimizer)


def _graph(field: str, text: GraphText, max_tp: int, cost_model: PlacementModel) -> LayerGraph:
    check_count(f"{field}.tp", text.tp, at_most=max_tp)
    check_count(f"{field}.microbatch", text.microbatch)
    if not text.layers:
        raise SpecError(f"{field}.layers", [], "a graph needs at least one layer")
    position: dict[str, int] = {}
    for at, layer in enumerate(text.layers):
        where = f"{field}.layers.{at}"
        if layer.name in position:
            raise SpecError(f"{where}.name", layer.name, "is the name of another layer; names must differ")
        position[layer.name] = at
        if layer.tensor_parallel and text.tp == 1:
            raise SpecError(
                f"{where}.tensor_parallel", True, "must be false at tp 1", "one device holds the whole layer"
            )
        if cost_model is PlacementModel.PAPER and (layer.input_bytes is not None or layer.working_bytes):
            raise SpecError(f"{where}", layer.name, "input_bytes and working_bytes are for cost model 1f1b")
    seen: set[tuple[str, str]] = set()
    for at, edge in enumerate(text.edges):
        where = f"{field}.edges.{at}"
        for end in (edge.src, edge.dst):
            if end not in position:
                raise SpecError(where, end, "is not the name of a layer")
        if edge.src == edge.dst:
            raise SpecError(where, edge.src, "an edge must join two different layers")
        if (edge.src, edge.dst) in seen:
            raise SpecError(where, f"{edge.src} -> {edge.dst}", "is given twice", "add their bytes up")
        seen.add((edge.src, edge.dst))
    return LayerGraph(
        tp=text.tp,
        microbatch=text.microbatch,
        layers=tuple(
            LayerCost(
                name=layer.name,
                param_bytes=layer.param_bytes,
                activation_bytes=layer.activation_bytes,
                forward_s=layer.forward_s,
                backward_s=layer.backward_s,
                is_sharded=layer.tensor_parallel,
                input_bytes=layer.input_bytes,
                working_bytes=layer.working_bytes,
            )
            for layer in text.layers
        ),
        links=tuple(
            LayerLink(src=position[edge.src], dst=position[edge.dst], payload_bytes=edge.bytes)
            for edge in text.edges
        ),
        tied=tuple(
            _tied(f"{field}.tied.{at}", tied, position, text, cost_model) for at, tied in enumerate(text.tied)
        ),
    )


def _tied(
    field: str, text: TiedText, position: dict[str, int], graph: GraphText, cost_model: PlacementModel
) -> TiedWeights:
    if cost_model is PlacementModel.PAPER:
        raise SpecError(field, text.layers, "tied weights are for cost model 1f1b")
    for name in text.layers:
        if name not in position:
            raise SpecError(f"{field}.layers", name, "is not the name of a layer")
    owner = graph.layers[position[text.layers[0]]]
    if text.param_bytes > owner.param_bytes:
        raise SpecError(
            f"{field}.param_bytes", text.param_bytes,
            f"must be part of the param_bytes of the first layer, {owner.name}: {owner.param_bytes:g}",
        )  # fmt: skip
    return TiedWeights(layers=tuple(position[name] for name in text.layers), param_bytes=text.param_bytes)


def _same_model(graphs: tuple[LayerGraph, ...]) -> tuple[LayerGraph, ...]:
    """The graphs with layers in the first one's order; raises unless they are one model at many degrees."""
    first = graphs[0]
    names = [layer.name for layer in first.layers]
    links = {(names[link.src], names[link.dst]) for link in first.links}
    seen: set[tuple[int, int]] = set()
    aligned = []
    for at, graph in enumerate(graphs):
        key = (graph.tp, graph.microbatch)
        if key in seen:
            raise SpecError(f"graphs.{at}.tp", graph.tp, "is given twice for this microbatch size")
        seen.add(key)
        own = [layer.name for layer in graph.layers]
        if set(own) != set(names):
            odd = sorted(set(own) ^ set(names))
            raise SpecError(f"graphs.{at}.layers", odd[:4], "every graph must have the same layers")
        if {(own[link.src], own[link.dst]) for link in graph.links} != links:
            odd_links = sorted({(own[link.src], own[link.dst]) for link in graph.links} ^ links)
            raise SpecError(f"graphs.{at}.edges", odd_links[:4], "every graph must have the same edges")
        aligned.append(_in_order(graph, names))
    return tuple(aligned)


def _in_order(graph: LayerGraph, names: list[str]) -> LayerGraph:
    own = [layer.name for layer in graph.layers]
    if own == names:
        return graph
    target = {name: v for v, name in enumerate(names)}
    by_name = {layer.name: layer for layer in graph.layers}
    return LayerGraph(
        tp=graph.tp,
        microbatch=graph.microbatch,
        layers=tuple(by_name[name] for name in names),
        links=tuple(
            LayerLink(src=target[own[link.src]], dst=target[own[link.dst]], payload_bytes=link.payload_bytes)
            for link in graph.links
        ),
        tied=tuple(
            TiedWeights(layers=tuple(target[own[v]] for v in tied.layers), param_bytes=tied.param_bytes)
            for tied in graph.tied
        ),
    )
