"""Predicted times and memory of runs: their layers from physics, the batch through the planner's own pricing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rephaze.place.full.price import full_plan_time, price_full_plan
from rephaze.truth.layer_ops import FORWARD, INPUT, REPLAY, WEIGHT, LayerOps, LayerWriter
from rephaze.truth.machines import Machine, find_machine
from rephaze.truth.op_table import Column, OpTable
from rephaze.truth.physics import Constants
from rephaze.truth.records import MeasuredRun, ModelShape, RunPlan
from rephaze.truth.traits import Traits, traits_of
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.full import (
    DeviceMemory,
    DeviceOrder,
    FullGraph,
    FullLayer,
    FullPlan,
    FullPrice,
    FullProblem,
    FullStage,
    KeepPoint,
    PipelineSchedule,
    PlanOptions,
    Sharding,
)
from rephaze.types.placement import LayerLink, Optimizer, PrecisionPolicy, TiedWeights

MEMORY_DOUBT = 1.0
"""Of a device's memory, what a run that is known to have fitted may take by our count."""


@dataclass(slots=True)
class Variant:
    """A run with everything decided, and its layers in a table of operators."""

    run: MeasuredRun
    plan: RunPlan
    machine: Machine
    traits: Traits
    embedding: LayerOps
    head: LayerOps
    kinds: list[LayerOps]
    blocks: list[int]
    """Kind of each block."""
    stages: list[list[int]]
    """Blocks of each stage or chunk."""
    chunks: int

    @property
    def segments(self) -> list[int]:
        """All passes of all its layers."""
        return [at for layer in (self.embedding, self.head, *self.kinds) for at in layer.segments]


@dataclass(slots=True)
class Prediction:
    """Of one variant."""

    batch_s: float
    device_bytes: float
    first_device_bytes: float
    price: FullPrice
    variant: Variant


def write_variants(run: MeasuredRun, table: OpTable) -> list[Variant]:
    """All ways to fill in what the run does not state, in a table; none where no machine is known."""
    machine = find_machine(run.chip, run.facts.get("network") or "")
    if machine is None:
        raise LookupError(f"no data of chip {run.chip}")
    if machine.is_tpu and run.plan.num_devices == 2 * int(float(run.facts.get("gpus", 0) or 0)):
        machine = machine.halved()
    plans = _decided(run)
    num_blocks = run.shape.num_blocks + run.shape.num_extra_blocks
    if num_blocks + 2 < run.plan.pp * (plans[0].chunks or 1):
        raise LookupError(f"{run.plan.pp * (plans[0].chunks or 1)} stages or chunks for {num_blocks} blocks")
    return [_variant(run, plan, machine, table) for plan in plans]


def _decided(run: MeasuredRun) -> list[RunPlan]:
    plan = run.plan
    per_replica = max(1, run.global_batch // plan.dp)
    sizes = [plan.microbatch] if plan.microbatch else [b for b in (1, 2, 4, 8) if per_replica % b == 0]
    found = []
    for size in sizes:
        count = max(1, per_replica // size)
        chunks = [plan.chunks] if plan.chunks else [1]
        if not plan.chunks and count % plan.pp == 0:
            blocks = run.shape.num_blocks
            most = (blocks + 2) // plan.pp
            chunks += [
                v for v in range(2, most + 1) if blocks % (plan.pp * v) == 0 or (blocks + 2) % (plan.pp * v) == 0
            ]
        found += [replace(plan, microbatch=size, chunks=v) for v in chunks]
    return found


def _variant(run: MeasuredRun, plan: RunPlan, machine: Machine, table: OpTable) -> Variant:
    traits = traits_of(run, machine)
    writer = LayerWriter(table, run.shape, plan, machine, traits, run.bits, run.is_fused)
    shape = run.shape
    total = shape.num_blocks + shape.num_extra_blocks
    dense = shape.experts.num_dense_blocks if shape.experts else total
    keys = []
    for at in range(total):
        if not shape.experts:
            is_mixture = False
        elif dense == shape.num_blocks // 2 and dense > 3:
            is_mixture = at % 2 == 1
        else:
            is_mixture = at >= dense
        is_windowed = at * shape.num_windowed_blocks // total != (at + 1) * shape.num_windowed_blocks // total
        is_replayed = plan.recompute != "alternate" or at % 2 == 0
        keys.append((is_mixture, is_windowed, is_replayed))
    names = sorted(set(keys))
    kinds = []
    for is_mixture, is_windowed, is_replayed in names:
        if plan.recompute == "alternate":
            writer.plan = replace(plan, recompute="full" if is_replayed else "none")
        kinds.append(writer.block(is_mixture=is_mixture, is_windowed=is_windowed))
    # Zero-bubble V has two chunks a device, but no stage before it waits for the second.
    chunks = 1 if plan.schedule.startswith("zb") else plan.chunks or 1
    return Variant(
        run=run,
        plan=plan,
        machine=machine,
        traits=traits,
        embedding=writer.embedding(),
        head=writer.head(),
        kinds=kinds,
        blocks=[names.index(key) for key in keys],
        stages=cut_by_work(shape, plan.pp) if traits.cuts_by_work else cut_blocks(total, plan.pp * chunks),
        chunks=chunks,
    )


def cut_blocks(num_blocks: int, num_stages: int) -> list[list[int]]:
    """Blocks of each stage: as even as may be, the last and then the first with fewer."""
    base, more = divmod(num_blocks, num_stages)
    sizes = [base] * num_stages
    order = [*range(1, num_stages - 1), 0, num_stages - 1]
    for at in order[:more]:
        sizes[at] += 1
    cut, start = [], 0
    for size in sizes:
        cut.append(list(range(start, start + size)))
        start += size
    return cut


def cut_by_work(shape: ModelShape, num_stages: int) -> list[list[int]]:
    """Blocks of each stage where a stage ends once its share of all weights, the head's among them, is reached."""
    block = shape.hidden * (4 * shape.heads * shape.head_dim + 3 * shape.ffn)
    head = shape.vocab * shape.hidden
    share = (shape.num_blocks * block + head) / num_stages
    cut: list[list[int]] = [[]]
    for at in range(shape.num_blocks):
        cut[-1].append(at)
        if (at + 1) * block > len(cut) * share and len(cut) < num_stages:
            cut.append([])
    return cut


def predict_variant(variant: Variant, seconds: Column, c: Constants) -> Prediction:
    """Its price under these times of segments."""
    problem, graph, full_plan = placed(variant, seconds, c)
    price = price_full_plan(problem, graph, full_plan)
    held = [_device_bytes(device, variant, c) for device in price.devices]
    return Prediction(
        batch_s=price.batch_s + _beside_price(variant, seconds, c, price.time.sync_s),
        device_bytes=max(held),
        first_device_bytes=held[0],
        price=price,
        variant=variant,
    )


CONTEXT_BYTES = 3e9
"""Of a device, beside what the allocator has: the driver's context and the buffers of communicators."""
BUCKET_BYTES = 2e9
"""Two buckets of 5e8 elements at 16 bits, which DeepSpeed gathers and sums through."""


def _device_bytes(device: DeviceMemory, variant: Variant, c: Constants) -> float:
    """With what the code base holds beside what the plan needs, and what the measured figure counts."""
    traits, run = variant.traits, variant.run
    # ZB-2p keeps twice the microbatches of 1F1B.
    kept = device.kept_bytes * (2.0 if variant.plan.schedule.startswith("zb-2p") else 1.0)
    # What the allocator has reserved, not what is in use; or code that keeps more than gradients need.
    if traits.is_eager or run.memory_meaning in ("reserved", "device"):
        kept *= c["eager_kept"]
    beside = device.weights_bytes * traits.second_gradient_bytes / traits.weight_bytes
    if traits.holds_whole_gradients:
        beside += device.weights_bytes * traits.gradient_bytes / traits.weight_bytes
    if run.memory_meaning == "device":
        beside += CONTEXT_BYTES + (BUCKET_BYTES if run.source.startswith("BigScience") else 0.0)
    return device.total_bytes - device.kept_bytes + kept + beside + c["held_bytes"]


def predict_time(variant: Variant, seconds: Column, c: Constants) -> float:
    """Of a batch, without its memory."""
    found = full_plan_time(*placed(variant, seconds, c))
    return found.total_s + _beside_price(variant, seconds, c, found.sync_s)


def _beside_price(variant: Variant, seconds: Column, c: Constants, sync_s: float) -> float:
    """What a code base does that the planner's cost model has no word for."""
    filled = _further_filled(variant, seconds) + _hidden_by_chunks(variant, seconds, sync_s)
    return c["batch_s"] * _num_tensors(variant) / TENSORS_OF_A_BATCH + _tensor_by_tensor(variant, c) - filled


TENSORS_OF_A_BATCH = 300
"""What ``batch_s`` is stated for: about the weights of 32 dense blocks."""


def _num_tensors(variant: Variant) -> int:
    """Of the fullest stage: norms of gradients, copies and updates start operators for each, experts' too."""
    if variant.machine.is_tpu:
        return TENSORS_OF_A_BATCH
    experts, plan = variant.run.shape.experts, variant.plan
    dense = 9
    mixture = dense + 2 * max(1, experts.num_experts // plan.ep) if experts else dense
    num_blocks = max(sum(len(blocks) for blocks in variant.stages[device :: plan.pp]) for device in range(plan.pp))
    return num_blocks * mixture + 3


def _hidden_by_chunks(variant: Variant, seconds: Column, sync_s: float) -> float:
    """Of the gradients' sums: of all chunks but the first while pp microbatches pass the chunks before."""
    plan, chunks = variant.plan, variant.chunks
    if chunks == 1 or not variant.traits.is_dp_overlapped:
        return 0.0
    behind_s = min(sum(_backward_s(variant, seconds, at) for at in stage) for stage in variant.stages[: plan.pp])
    return min(sync_s * (chunks - 1) / chunks, (plan.pp - 1) * (chunks - 1) * behind_s)


def _backward_s(variant: Variant, seconds: Column, block: int) -> float:
    segments = variant.kinds[variant.blocks[block]].segments
    return float(seconds[segments[INPUT]] + seconds[segments[WEIGHT]])


def _tensor_by_tensor(variant: Variant, c: Constants) -> float:
    """Steps of rings over nodes, where every tensor of a block is gathered for itself after the step."""
    plan, node = variant.plan, variant.machine.node_devices
    if plan.sharding != "optimizer" or variant.traits.tensors_by_block == 1 or not node:
        return 0.0
    num_nodes = -(-plan.shard_group // max(1, node // plan.tp))
    longest = max(len(blocks) for blocks in variant.stages)
    return longest * (variant.traits.tensors_by_block - 1) * (num_nodes - 1) * c["message_s"]


def _further_filled(variant: Variant, seconds: Column) -> float:
    """What schedules that keep twice the microbatches (ZB-2p, ZB-V) fill of the bubble that H1 leaves."""
    if not variant.plan.schedule.startswith(("zb-2p", "zb-v")):
        return 0.0
    weight_s = min(
        sum(float(seconds[variant.kinds[variant.blocks[at]].segments[WEIGHT]]) for at in stage)
        for stage in variant.stages
    )
    return (variant.plan.pp - 1) * weight_s


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
    sent = 2.0 * microbatch * run.shape.seq / plan.cp * run.shape.hidden
    sent /= 1 if traits.sends_whole else plan.tp
    if variant.chunks > 1 and traits.is_pp_overlapped:
        sent *= c["exposed_share"]
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


def best_prediction(variants: Sequence[Variant], seconds: Column, c: Constants) -> Prediction:
    """Of the variants that may have fitted, the fastest; of none, the one that needs least.

    The run did fit: only what is beyond memory by more than our own error is ruled out.
    """
    found = [predict_variant(variant, seconds, c) for variant in variants]
    fitting = [one for one in found if one.device_bytes <= MEMORY_DOUBT * one.variant.machine.memory_bytes]
    if fitting:
        return min(fitting, key=lambda one: one.batch_s)
    return min(found, key=lambda one: one.device_bytes)
