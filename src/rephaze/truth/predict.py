"""Predicted times and memory of runs: their layers from physics, the batch through the planner's own pricing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rephaze.place.full.price import full_plan_time, price_full_plan
from rephaze.truth.layer_parts import INPUT, WEIGHT
from rephaze.truth.op_table import Column
from rephaze.truth.physics import Constants
from rephaze.truth.placed_run import placed, sent_bytes
from rephaze.truth.variants import Variant
from rephaze.types.full import DeviceMemory, FullPrice

MEMORY_DOUBT = 1.0
"""Of a device's memory, what a run that is known to have fitted may take by our count."""

LEAST_DOUBT = 1.25
"""Times the least that any variant takes, where none fits: what chunks may add."""


@dataclass(slots=True)
class Prediction:
    """Of one variant."""

    batch_s: float
    device_bytes: float
    first_device_bytes: float
    price: FullPrice
    variant: Variant


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


CONTEXT_BYTES = 6e9
"""Of a whole device, beside what the allocator has: the driver's context, libraries' workspaces and the buffers of
six communicators (all, tensor, pipeline, data, model, embeddings) at about half a GB."""
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
    # What hides behind passes slows them, as gathers do.
    hidden = _hidden_by_chunks(variant, seconds, sync_s) * (1 - c["interference"])
    added = c["batch_s"] * _num_tensors(variant) / TENSORS_OF_A_BATCH + _tensor_by_tensor(variant, c)
    return added + _first_rounds(variant, c) - hidden - _further_filled(variant, seconds)


def _first_rounds(variant: Variant, c: Constants) -> float:
    """Messages of the first and the last microbatches through all chunks, which no other work hides.

    While pipelines fill, a chunk's pp microbatches take as long as the first needs to go round: its messages come
    on top, once for each chunk and stage, forward and back.
    """
    plan, machine = variant.plan, variant.machine
    if variant.chunks == 1 or not variant.traits.is_pp_overlapped:
        return 0.0
    sent = sent_bytes(variant)
    node = machine.node_devices or plan.num_devices
    stages_together = max(1, node * plan.pp // plan.num_devices)
    crossing = 1 / stages_together
    link, network = machine.link_bytes_per_s * c["link_rate"], machine.network_bytes_per_s * c["network_rate"]
    one_s = sent * ((1 - crossing) / link + crossing / network) + c["message_s"]
    return 2 * plan.pp * variant.chunks * one_s


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


def best_prediction(variants: Sequence[Variant], seconds: Column, c: Constants) -> Prediction:
    """Of the variants that may have fitted, the fastest.

    The run did fit: only what is beyond memory by more than our own error is ruled out. Where that is all of them,
    our count is wrong by some factor, and those that need about as much as the least may have fitted.
    """
    found = [predict_variant(variant, seconds, c) for variant in variants]
    limit = MEMORY_DOUBT * found[0].variant.machine.memory_bytes
    least = min(one.device_bytes for one in found)
    if least > limit:
        limit = LEAST_DOUBT * least
    return min((one for one in found if one.device_bytes <= limit), key=lambda one: one.batch_s)
