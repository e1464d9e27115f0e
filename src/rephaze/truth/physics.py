"""Times of operators from a machine's data sheet and a few calibrated constants."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rephaze.hardware.calibration import NO_POWER_LIMIT, product_constant
from rephaze.truth.op_table import Column, OpColumns

TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
SPLITS = (1, 2, 4)
REDUCTION_START = 128.0
"""Steps of the reduction before a tile's cores are busy: four stages of 32 in flight, of 64 bytes a row: shorter
factors are more to a stage."""
TILE_READS = 21.0
"""Products an SM computes in the time it reads one element of a tile: 1,024 a clock, about 96 bytes."""
SHARPNESS = 8
"""Of the maximum of work and start: a host that is ahead during long kernels is not waited for."""
OLD_INSTRUCTIONS = 0.63
"""Of Hopper's peak, what Ampere's matrix instructions can reach there (arXiv:2402.13499)."""
FILLED = 0.9
"""Of a network's adapters, what kernels made to exchange tokens reach (DeepEP in 2025: 43 to 47 of 50 GB/s)."""
THIRD_OVER_SECOND = 1.6
"""How much faster FlashAttention 3 is than 2 on Hopper: 1.5 to 2 forward, 1.5 to 1.75 back (arXiv:2407.08608)."""
ATTENTION_KINDS = ("ampere", "hopper", "hopper-second", "hopper-first", "blackwell", "tpu")

Constants = Mapping[str, float]


def segment_times(ops: OpColumns, c: Constants) -> Column:
    """Seconds of every segment: its operators one after another, or the time to start them if that is longer."""
    total = np.zeros(ops.num_segments)
    np.add.at(total, ops.product_segment, product_times(ops, c))
    np.add.at(total, ops.attention_segment, attention_times(ops, c))
    np.add.at(total, ops.move_segment, move_times(ops, c))
    np.add.at(total, ops.send_segment, send_times(ops, c))
    num_ops = ops.num_ops_s + ops.num_ranks_s * c["rank_operators"]
    least = (
        num_ops
        * np.where(
            ops.is_waiting_s,
            c["routing_operator_s"],
            np.where(ops.is_eager_s, c["eager_operator_s"], c["operator_s"]),
        )
        * np.where(ops.is_tpu_s, 0.2, 1.0)
    )
    # A smooth maximum, so that a fit sees both sides.
    found: Column = (total**SHARPNESS + least**SHARPNESS) ** (1 / SHARPNESS)
    return found


def product_times(ops: OpColumns, c: Constants) -> Column:
    """Of every product: tiles in waves over the cores, or bytes at the rate of the memory."""
    by_family = {family: c[product_constant(family)] for family in set(ops.family_s)}
    efficiency = np.array([by_family[family] for family in ops.family_s])[ops.product_segment]
    # A chip that may take fewer watts for a FLOP than its family's first runs so much slower.
    efficiency = efficiency * ops.power_s[ops.product_segment] ** c.get(NO_POWER_LIMIT, 1.0)
    efficiency = np.where(ops.is_grouped, efficiency * c["grouped_product"], efficiency)
    reached = np.where(ops.is_blackwell_s[ops.product_segment], c["precision_gain_blackwell"], c["precision_gain"])
    gain = np.where(ops.product_gain > 1, ops.product_gain * reached, 1.0)
    # Rows that do not begin at 16 bytes keep tensor cores idle: a quarter of the rate is left (A100: 78 of 312).
    # Tokens of an expert are a mean, and kernels for many experts fill them up: never odd.
    is_odd = (
        (ops.product_arrays == 0)
        & ~ops.is_grouped
        & ((ops.k % 8 > 0) | (ops.n % 8 > 0))
        & (ops.k > 64)
        & (ops.n > 64)
    )
    rate = ops.product_flops_16 * efficiency * gain * np.where(is_odd, 0.25, 1.0)
    best = np.full(len(rate), np.inf)
    is_array = ops.product_arrays > 0
    start = REDUCTION_START * 16 / ops.bits
    for a, b in TILES:
        # What a tile reads a step grows with its edge, what it computes with its area.
        spread = (1 + TILE_READS * (1 / a + 1 / b)) / (1 + TILE_READS * (1 / 256 + 1 / 128))
        tiles = np.ceil(ops.m / a) * np.ceil(ops.n / b) * ops.count
        for split in SPLITS:
            waves = np.ceil(tiles * split / ops.product_cores)
            work = waves * ops.product_cores * 2.0 * a * b * (ops.k / split + start) * spread
            best = np.minimum(best, work)
    width = np.where(is_array, ops.product_arrays, 1)
    padded = (
        2.0
        * ops.count
        * np.maximum(ops.m, 8)
        * (np.ceil(ops.n / width) * width)
        * (np.ceil(ops.k / width) * width)
    )
    work = np.where(is_array, padded, best)
    moved = (2 * ops.m * ops.n + ops.bits / 8 * (ops.m * ops.k + ops.n * ops.k)) * ops.count
    found: Column = np.maximum(work / rate, moved / (ops.hbm_s[ops.product_segment] * c["memory_rate"]))
    return found


def attention_times(ops: OpColumns, c: Constants) -> Column:
    """Of fused attention."""
    share = np.array([_attention_share(kind, c) for kind in ATTENTION_KINDS])[ops.attention_kind]
    # Every query's first block of keys finds the pipeline empty.
    longer = 1 + c["attention_start"] / ops.attention_keys
    found: Column = ops.attention_flops * longer / (ops.attention_peak * share)
    return found


def _attention_share(kind: str, c: Constants) -> float:
    if kind == "hopper-second":
        return c["attention_hopper"] / THIRD_OVER_SECOND
    if kind == "hopper-first":
        return c["attention_ampere"] * OLD_INSTRUCTIONS
    return c["attention_" + kind.replace("-", "_")]


def move_times(ops: OpColumns, c: Constants) -> Column:
    """Of what moves through memory and computes little."""
    more = np.where(ops.is_eager_move, c["eager_moves"], 1.0)
    found: Column = more * ops.move_bytes / (ops.hbm_s[ops.move_segment] * c["memory_rate"])
    return found


def send_times(ops: OpColumns, c: Constants) -> Column:
    """Of collectives inside a layer, as far as they are exposed."""
    is_tpu = ops.is_tpu_s[ops.send_segment]
    link = ops.link_s[ops.send_segment] * c["link_rate"] * ops.inner_axes
    reached = np.where(ops.fills_network, np.maximum(FILLED, c["network_rate"]), c["network_rate"])
    network = ops.network_s[ops.send_segment] * reached
    start = np.where(is_tpu, 0.2, 1.0) * c["message_s"]
    inner = ops.inner_bytes / link + ops.inner_messages * start
    outer = ops.outer_bytes / network + ops.outer_messages * c["message_s"]
    found: Column = (inner + outer) * np.where(ops.is_overlapped, c["exposed_share"], 1.0)
    return found
