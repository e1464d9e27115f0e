"""A decided run as the planner writes it down: problem, graph of layers, plan."""

from __future__ import annotations

from rephaze.truth.layer_parts import FORWARD, INPUT, REPLAY, WEIGHT, LayerOps
from rephaze.truth.machines import Machine
from rephaze.truth.op_table import Column
from rephaze.truth.physics import Constants
from rephaze.truth.records import RunPlan
from rephaze.truth.variants import Variant
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.full import (
    DeviceOrder,
    FullGraph,
    FullLayer,
    FullPlan,
    FullProblem,
    FullStage,
    KeepPoint,
    PipelineSchedule,
    PlanOptions,
    Sharding,
)
from rephaze.types.placement import LayerLink, Optimizer, PrecisionPolicy, TiedWeights


def placed(variant: Variant, seconds: Column, c: Constants) -> tuple[FullProblem, FullGraph, FullPlan]:
    """The run as the planner writes it down, with these times of segments."""
    plan, machine, traits, run = variant.plan, variant.machine, variant.traits, variant.run
    microbatch = plan.microbatch or 1
    cluster = _cluster(plan, machine, c, is_ethernet=traits.is_ethernet)
    slow = _interference(variant, cluster, c)
    embedding = _full_layer(variant.embedding, "embedding", seconds, variant, is_block=False, slow=0.0)
    head = _full_layer(variant.head, "head", seconds, variant, is_block=False, slow=0.0)
    kinds = [
        _full_layer(
            kind,
            "block",
            seconds,
            variant,
            is_block=True,
            slow=slow * (kind.param_elements + kind.expert_elements),
        )
        for kind in variant.kinds
    ]
    layers = (embedding, *(kinds[at] for at in variant.blocks), head)
    sent = sent_bytes(variant)
    if variant.chunks > 1 and traits.is_pp_overlapped:
        sent *= c["interference"]
    # Layers form a chain; only what leaves a stage is ever sent.
    ends = [blocks[-1] + 1 if blocks else 0 for blocks in variant.stages[:-1]]
    links = tuple(LayerLink(src=at, dst=at + 1, payload_bytes=sent) for at in ends)
    tied: tuple[TiedWeights, ...] = ()
    if run.shape.is_tied and plan.pp > 1:
        tied = (TiedWeights(layers=(0, len(layers) - 1), param_bytes=embedding.param_bytes),)
    etp = plan.etp if run.shape.experts else 1
    graph = FullGraph(
        tp=plan.tp,
        cp=plan.cp,
        ep=plan.ep,
        etp=etp,
        sp=plan.sp,
        microbatch=microbatch,
        layers=layers,
        links=links,
        tied=tied,
    )
    stages = [tuple(block + 1 for block in blocks) for blocks in variant.stages]
    stages[0] = (0, *stages[0])
    stages[-1] = (*stages[-1], len(layers) - 1)
    schedule = PipelineSchedule.ONE_F_ONE_B
    if variant.chunks > 1:
        schedule = PipelineSchedule.INTERLEAVED
    elif plan.schedule.startswith("zb"):
        schedule = PipelineSchedule.ZERO_BUBBLE
    sharding = Sharding(plan.sharding)
    reshard = sharding is Sharding.WEIGHTS and plan.pp == 1
    full_plan = FullPlan(
        tp=plan.tp,
        cp=plan.cp,
        ep=plan.ep,
        etp=etp,
        sp=plan.sp,
        dp=plan.dp,
        microbatch=microbatch,
        order=DeviceOrder.PP_OUTER,
        sharding=sharding,
        shard_group=plan.shard_group,
        reshard=reshard,
        schedule=schedule,
        chunks=variant.chunks,
        stages=tuple(FullStage(layers=stage, keep=1) for stage in stages),
    )
    precision = PrecisionPolicy(
        name="run",
        weight_bytes=traits.weight_bytes,
        gradient_bytes=traits.gradient_bytes,
        state_bytes=traits.state_bytes,
        step_bytes=30.0,
    )
    problem = FullProblem(
        cluster=cluster,
        device_memory_bytes=machine.memory_bytes,
        hbm_bytes_per_s=machine.hbm_bytes_per_s * c["memory_rate"],
        global_batch=run.global_batch,
        optimizer=Optimizer.ADAM,
        precision=precision,
        options=PlanOptions(overlap=traits.is_dp_overlapped),
        graphs=(graph,),
    )
    return problem, graph, full_plan


def _full_layer(
    ops: LayerOps, name: str, seconds: Column, variant: Variant, *, is_block: bool, slow: float
) -> FullLayer:
    weight = variant.traits.weight_bytes
    forward = float(seconds[ops.segments[FORWARD]])
    replay = float(seconds[ops.segments[REPLAY]]) if ops.has_replay else 0.0
    weight_s = float(seconds[ops.segments[WEIGHT]])
    keep = (
        KeepPoint(kept_bytes=ops.full_bytes, replay_s=0.0),
        KeepPoint(kept_bytes=ops.kept_bytes, replay_s=replay),
    )
    return FullLayer(
        name=name,
        param_bytes=weight * ops.param_elements,
        expert_param_bytes=weight * ops.expert_elements,
        forward_s=forward + slow,
        backward_s=float(seconds[ops.segments[INPUT]]) + weight_s + 2 * slow,
        weight_backward_s=weight_s,
        keep=keep,
        working_bytes=ops.working_bytes,
        is_block=is_block,
    )


def _cluster(plan: RunPlan, machine: Machine, c: Constants, *, is_ethernet: bool) -> Cluster:
    link = machine.link_bytes_per_s * c["link_rate"]
    network = machine.network_bytes_per_s * c["network_rate"]
    if machine.is_tpu:
        inner = plan.num_devices // plan.num_slices
        link *= max(1, machine.axes - (machine.axes_of(plan.tp, inner) if plan.tp > 1 else 0))
        levels = [NetworkLevel(num_devices=inner, bytes_per_s=link, latency_s=0.0)]
        if plan.num_slices > 1:
            levels.append(NetworkLevel(num_devices=plan.num_devices, bytes_per_s=network, latency_s=0.0))
        return Cluster(num_devices=plan.num_devices, levels=tuple(levels))
    node = machine.node_devices
    if node == 72 and plan.num_devices % 72:
        node = 64
    if plan.num_devices <= node:
        return Cluster(
            num_devices=plan.num_devices,
            levels=(NetworkLevel(num_devices=plan.num_devices, bytes_per_s=link, latency_s=1e-6),),
        )
    outer = -(-plan.num_devices // node) * node
    return Cluster(
        num_devices=plan.num_devices,
        levels=(
            NetworkLevel(num_devices=node, bytes_per_s=link, latency_s=1e-6),
            NetworkLevel(
                num_devices=outer, bytes_per_s=network, latency_s=c["message_s"] if is_ethernet else 2e-6
            ),
        ),
    )


def _interference(variant: Variant, cluster: Cluster, c: Constants) -> float:
    """Seconds a weight by which gathering it slows the pass it hides behind."""
    plan = variant.plan
    if plan.sharding != "weights" or plan.pp > 1:
        return 0.0
    rate = cluster.levels[
        -1 if len(cluster.levels) == 1 or plan.shard_group > cluster.levels[0].num_devices else 0
    ].bytes_per_s
    # Layers in a compiled loop: the gather of one cannot begin before the loop has reached it.
    share = c["exposed_share"] if variant.machine.is_tpu else c["interference"]
    return share * variant.traits.weight_bytes / rate


def sent_bytes(variant: Variant) -> float:
    """By a device, of what leaves a stage."""
    plan, shape = variant.plan, variant.run.shape
    whole = 2.0 * (plan.microbatch or 1) * shape.seq / plan.cp * shape.hidden
    return whole if variant.traits.sends_whole else whole / plan.tp
