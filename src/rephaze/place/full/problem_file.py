"""Problems and plans of cost model ``full`` as files: format 2 of placement problems and plans.

Pydantic checks the shape of the text; the rules that join several fields are checked here.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rephaze.errors import SpecError
from rephaze.place.full.legality import check_graph, graph_of_plan
from rephaze.place.precision import named_precision
from rephaze.types.checks import check_choice, check_count
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.files import check_format, validate
from rephaze.types.full import (
    DeviceOrder,
    FullGraph,
    FullLayer,
    FullPlan,
    FullProblem,
    FullStage,
    KeepPoint,
    PipelineSchedule,
    PlanFamily,
    PlanOptions,
    ShardGroups,
    Sharding,
)
from rephaze.types.placement import LayerLink, Optimizer, PrecisionPolicy, TiedWeights
from rephaze.types.quantities import MAX_CUTS, MAX_LAYERS, MAX_LINKS, Bytes, Name, Rate, Seconds

PROBLEM_FORMAT = "rephaze.placement-problem/2"
PLAN_FORMAT = "rephaze.placement-plan/2"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _LevelText(_Strict):
    num_devices: int
    bytes_per_s: Rate
    latency_s: Seconds = 0.0


class _ClusterText(_Strict):
    num_devices: int
    device_memory_bytes: Rate
    hbm_bytes_per_s: Rate | None = None
    levels: list[_LevelText] = Field(min_length=1)


class _PrecisionText(_Strict):
    weight_bytes: float
    gradient_bytes: float
    state_bytes: float
    step_bytes: float = 0.0


class _TrainingText(_Strict):
    global_batch: int
    optimizer: str
    precision: str | _PrecisionText = "mixed"


class _OptionsText(_Strict):
    sharding: list[str] = Field(default=["none"], min_length=1)
    shard_group: list[str] = Field(default=["all"], min_length=1)
    reshard: list[bool] = Field(default=[False], min_length=1)
    schedule: list[str] = Field(default=["1f1b"], min_length=1)
    chunks: list[int] = []
    order: list[str] = Field(default=["dp-outer"], min_length=1)
    overlap: bool = False
    family: str = "any"


class _KeepText(_Strict):
    bytes: Bytes
    replay_s: Seconds


class _LayerText(_Strict):
    name: Name
    param_bytes: Bytes
    expert_param_bytes: Bytes = 0.0
    forward_s: Seconds
    backward_s: Seconds
    weight_backward_s: Seconds | None = None
    keep: list[_KeepText] = Field(min_length=1)
    working_bytes: Bytes = 0.0
    block: bool = False


class _EdgeText(_Strict):
    src: str
    dst: str
    bytes: Bytes


class _TiedText(_Strict):
    layers: list[str] = Field(min_length=1)
    param_bytes: Bytes


class _GraphText(_Strict):
    tp: int
    cp: int = 1
    ep: int = 1
    etp: int = 1
    sp: bool = False
    microbatch: int = 1
    layers: list[_LayerText] = Field(min_length=1, max_length=MAX_LAYERS)
    edges: list[_EdgeText] = Field(max_length=MAX_LINKS)
    tied: list[_TiedText] = []
    orders: list[str] = Field(default=["dp-outer", "pp-outer"], min_length=1)


class _ProblemText(_Strict):
    format: str
    cost_model: Literal["full"] = "full"
    cluster: _ClusterText
    training: _TrainingText
    options: _OptionsText = _OptionsText()
    graphs: list[_GraphText] = Field(min_length=1, max_length=MAX_CUTS)


class _StageText(_Strict):
    layers: list[str] = Field(min_length=1)
    keep: int = Field(default=0, ge=0)


class _PlanText(_Strict):
    tp: int
    cp: int = 1
    ep: int = 1
    etp: int = 1
    sp: bool = False
    dp: int
    microbatch: int = 1
    order: str = "dp-outer"
    sharding: str = "none"
    shard_group: int | None = None
    reshard: bool = False
    schedule: str = "1f1b"
    chunks: int = 1
    stages: list[_StageText] = Field(min_length=1)


class _PlanFileText(_Strict):
    format: str
    problem: dict[str, Any]
    plan: _PlanText


def parse_full_problem(data: dict[str, Any]) -> FullProblem:
    """The problem a file of format 2 holds; ``SpecError`` names the field, its value and the rule it breaks."""
    check_format(data, PROBLEM_FORMAT, "problem")
    text = validate(_ProblemText, data)
    check_count("cluster.num_devices", text.cluster.num_devices, at_most=2**30)
    check_count("training.global_batch", text.training.global_batch, at_most=2**40)
    check_choice("training.optimizer", text.training.optimizer, list(Optimizer))
    optimizer = Optimizer(text.training.optimizer)
    problem = FullProblem(
        cluster=Cluster(
            num_devices=text.cluster.num_devices,
            levels=tuple(NetworkLevel(**level.model_dump()) for level in text.cluster.levels),
        ),
        device_memory_bytes=text.cluster.device_memory_bytes,
        hbm_bytes_per_s=text.cluster.hbm_bytes_per_s,
        global_batch=text.training.global_batch,
        optimizer=optimizer,
        precision=_precision(text.training.precision, optimizer),
        options=_options(text.options),
        graphs=tuple(_graph(f"graphs.{at}", graph) for at, graph in enumerate(text.graphs)),
    )
    seen: set[tuple[object, ...]] = set()
    for at, graph in enumerate(problem.graphs):
        key = (graph.tp, graph.cp, graph.ep, graph.etp, graph.sp, graph.microbatch)
        if key in seen:
            raise SpecError(f"graphs.{at}", key, "has the tp, cp, ep, etp, sp and microbatch of another graph")
        seen.add(key)
        check_graph(f"graphs.{at}", graph)
    return problem


def parse_full_plan(data: dict[str, Any]) -> tuple[FullProblem, FullGraph, FullPlan]:
    """The problem, its graph and the plan that a plan file of format 2 holds."""
    check_format(data, PLAN_FORMAT, "plan file")
    text = validate(_PlanFileText, data)
    problem = parse_full_problem(text.problem)
    asked = text.plan
    for field, value, kind in (
        ("order", asked.order, DeviceOrder),
        ("sharding", asked.sharding, Sharding),
        ("schedule", asked.schedule, PipelineSchedule),
    ):
        check_choice(f"plan.{field}", value, list(kind))
    for field in ("tp", "cp", "ep", "etp", "dp", "microbatch", "chunks"):
        check_count(f"plan.{field}", getattr(asked, field), at_most=2**30)
    sharding = Sharding(asked.sharding)
    usual = 1 if sharding is Sharding.NONE else asked.dp * asked.cp
    graph = graph_of_plan(problem, asked.model_dump())
    position = {layer.name: v for v, layer in enumerate(graph.layers)}
    for at, stage in enumerate(asked.stages):
        for name in stage.layers:
            check_choice(f"plan.stages.{at}.layers", name, position)
    plan = FullPlan(
        tp=asked.tp,
        cp=asked.cp,
        ep=asked.ep,
        etp=asked.etp,
        sp=asked.sp,
        dp=asked.dp,
        microbatch=asked.microbatch,
        order=DeviceOrder(asked.order),
        sharding=sharding,
        shard_group=usual if asked.shard_group is None else asked.shard_group,
        reshard=asked.reshard,
        schedule=PipelineSchedule(asked.schedule),
        chunks=asked.chunks,
        stages=tuple(
            FullStage(layers=tuple(position[name] for name in stage.layers), keep=stage.keep)
            for stage in asked.stages
        ),
    )
    return problem, graph, plan


def _precision(given: str | _PrecisionText, optimizer: Optimizer) -> PrecisionPolicy:
    if isinstance(given, str):
        return named_precision(given, optimizer)
    return PrecisionPolicy(name="custom", **given.model_dump())


def _options(text: _OptionsText) -> PlanOptions:
    lists = (
        ("sharding", text.sharding, Sharding),
        ("shard_group", text.shard_group, ShardGroups),
        ("schedule", text.schedule, PipelineSchedule),
        ("order", text.order, DeviceOrder),
        ("family", [text.family], PlanFamily),
    )
    for field, values, kind in lists:
        for value in values:
            check_choice(f"options.{field}", value, list(kind))
    for chunks in text.chunks:
        check_count("options.chunks", chunks, at_least=2, at_most=2**20)
    return PlanOptions(
        sharding=tuple(Sharding(one) for one in dict.fromkeys(text.sharding)),
        shard_group=tuple(ShardGroups(one) for one in dict.fromkeys(text.shard_group)),
        reshard=tuple(dict.fromkeys(text.reshard)),
        schedule=tuple(PipelineSchedule(one) for one in dict.fromkeys(text.schedule)),
        chunks=tuple(dict.fromkeys(text.chunks)),
        order=tuple(DeviceOrder(one) for one in dict.fromkeys(text.order)),
        overlap=text.overlap,
        family=PlanFamily(text.family),
    )


def _graph(field: str, text: _GraphText) -> FullGraph:
    position: dict[str, int] = {}
    for at, layer in enumerate(text.layers):
        if layer.name in position:
            raise SpecError(f"{field}.layers.{at}.name", layer.name, "is the name of another layer")
        position[layer.name] = at
    for at, edge in enumerate(text.edges):
        for end in (edge.src, edge.dst):
            if end not in position:
                raise SpecError(f"{field}.edges.{at}", end, "is not the name of a layer")
    for at, tied in enumerate(text.tied):
        for name in tied.layers:
            if name not in position:
                raise SpecError(f"{field}.tied.{at}.layers", name, "is not the name of a layer")
    for order in text.orders:
        check_choice(f"{field}.orders", order, list(DeviceOrder))
    return FullGraph(
        tp=text.tp,
        cp=text.cp,
        ep=text.ep,
        etp=text.etp,
        sp=text.sp,
        microbatch=text.microbatch,
        layers=tuple(
            FullLayer(
                name=layer.name,
                param_bytes=layer.param_bytes,
                expert_param_bytes=layer.expert_param_bytes,
                forward_s=layer.forward_s,
                backward_s=layer.backward_s,
                weight_backward_s=layer.weight_backward_s,
                keep=tuple(KeepPoint(kept_bytes=point.bytes, replay_s=point.replay_s) for point in layer.keep),
                working_bytes=layer.working_bytes,
                is_block=layer.block,
            )
            for layer in text.layers
        ),
        links=tuple(
            LayerLink(src=position[edge.src], dst=position[edge.dst], payload_bytes=edge.bytes)
            for edge in text.edges
        ),
        tied=tuple(
            TiedWeights(layers=tuple(position[name] for name in tied.layers), param_bytes=tied.param_bytes)
            for tied in text.tied
        ),
        orders=tuple(DeviceOrder(order) for order in dict.fromkeys(text.orders)),
    )
