"""Fused attention: products on tensor cores, softmax on vector cores, scores that never leave the chip.

The unit of work is a block of query rows of one head: its scores are computed and used key block by key block.
Larger blocks read keys and values fewer times from the global buffer, smaller ones spread better over the cores;
the best of a ladder of block sizes is taken, so that more hardware is never slower.

Axis letters: c = chip.
"""

from __future__ import annotations

import numpy as np

from rephaze.estimate.arrays import Floats, Ints
from rephaze.estimate.costs import ELEMENT_BYTES, ChipRates, ModeCost, OpCost, bounded_by_memory
from rephaze.estimate.vector import LANE_OP_BYTES, lane_cycles, traffic_energy_j, vector_energy_j
from rephaze.estimate.vector_weights import lane_ops
from rephaze.types.graph import AttentionDims, Op

ACCUMULATOR_BYTES = 4
CAUSAL_BLOCK = 128
"""Causal attention skips key blocks above the diagonal; blocks on it are computed whole."""
BLOCK_ROWS = (16, 32, 64, 128, 256, 512, 1024, 2048)

FORWARD_PRODUCTS = ((True, 1), (False, 1))
"""(with the keys' and queries' dimension: scores; with the values': output), how often."""
BACKWARD_PRODUCTS = ((True, 3), (False, 2))
"""Scores again, gradients of queries and keys; gradients of scores and values."""


def attention_cost(op: Op, microbatch: int, rates: ChipRates) -> OpCost:
    """Fused attention, forward or backward, on one tensor and one vector core, and on all."""
    dims = op.attention
    assert dims is not None
    chips = rates.chips
    one = np.ones(len(rates), dtype=np.int64)
    return OpCost(
        one_core=_mode(op, dims, microbatch, rates, one, chips.vector_lanes),
        all_cores=_mode(op, dims, microbatch, rates, chips.num_tensor_cores, chips.num_lanes),
    )


def computed_keys(dims: AttentionDims) -> float:
    """Keys a query meets on average: all, half under a causal mask, fewer in a window; of a ring, its part."""
    share = dims.num_ring_steps / dims.num_ring_members
    if not dims.causal:
        return dims.key_len * share
    block = min(CAUSAL_BLOCK, dims.key_len)
    causal = min(float(dims.key_len), (dims.key_len + block) / 2)
    if not dims.window_len:
        return causal * share
    # A block of queries meets the blocks that its first query's window reaches into, and its own; the first
    # blocks of a sequence have fewer before them.
    num_blocks = dims.key_len / block
    num_met = 1 + -(-(dims.window_len - 1) // block)
    if num_met >= num_blocks:
        return causal * share
    return block * num_met * (1 - (num_met - 1) / (2 * num_blocks)) * share


def attention_macs(dims: AttentionDims, microbatch: int) -> float:
    """Multiply-accumulates that are done: products of skipped keys are not, and the backward pass has five."""
    return _num_scores(dims, microbatch) * _macs_a_score(dims)


def _num_scores(dims: AttentionDims, microbatch: int) -> float:
    return dims.batch.at(microbatch) * dims.num_heads * dims.query_len * computed_keys(dims)


def _macs_a_score(dims: AttentionDims) -> int:
    products = BACKWARD_PRODUCTS if dims.backward else FORWARD_PRODUCTS
    return sum(count * (dims.head_dim if of_keys else dims.value_dim) for of_keys, count in products)


def attention_lane_cycles(op: Op, microbatch: int, lanes_c: Ints) -> Floats:
    """Cycles the lanes need for the softmax and for what the operator absorbed."""
    dims = op.attention
    assert dims is not None
    scores = _num_scores(dims, microbatch)
    softmax_c = np.ceil(scores / lanes_c) * _lane_ops_a_score(dims)
    return np.asarray(softmax_c + lane_cycles(op, microbatch, lanes_c))


def _lane_ops_a_score(dims: AttentionDims) -> float:
    if not dims.backward:
        return lane_ops("softmax")
    # The backward pass computes the exponentials again.
    return lane_ops("softmax_backward") + lane_ops("exp")


def _mode(
    op: Op, dims: AttentionDims, microbatch: int, rates: ChipRates, cores_c: Ints, lanes_c: Ints
) -> ModeCost:
    heads = dims.batch.at(microbatch) * dims.num_heads
    keys = computed_keys(dims)
    hbm = float(op.input_bytes.at(microbatch) + op.output_bytes.at(microbatch))
    hbm_c = np.full(len(rates), hbm)
    scores = _num_scores(dims, microbatch)
    per_score = _lane_ops_a_score(dims)
    vector_c = attention_lane_cycles(op, microbatch, lanes_c)
    best_cycles = np.full(len(rates), np.inf)
    best_buffer = np.zeros(len(rates))
    least_buffer = np.full(len(rates), np.inf)
    for rows in BLOCK_ROWS:
        if rows > BLOCK_ROWS[0] and rows // 2 >= dims.query_len:
            break
        fits_c = _block_bytes(dims, rows) <= rates.chips.tensor_scratchpad_bytes
        num_blocks = heads * -(-dims.query_len // rows)
        compute_c = np.ceil(num_blocks / cores_c) * _block_cycles(dims, min(rows, dims.query_len), keys, rates)
        passes = -(-dims.query_len // rows)
        key_value = heads * keys * (dims.head_dim + dims.value_dim) * ELEMENT_BYTES * (2 if dims.backward else 1)
        buffer_c = np.full(len(rates), hbm + max(0, passes - 1) * key_value)
        cycles_c = bounded_by_memory(np.maximum(compute_c, vector_c), hbm_c, buffer_c, rates)
        can_run_c = fits_c | (rows == BLOCK_ROWS[0])
        better_c = (cycles_c < best_cycles) & can_run_c
        # With less bandwidth larger blocks, which move less, may be the fastest.
        least_buffer = np.where(can_run_c, np.minimum(least_buffer, buffer_c), least_buffer)
        best_cycles = np.where(better_c, cycles_c, best_cycles)
        best_buffer = np.where(better_c, buffer_c, best_buffer)
    return ModeCost(
        cycles_c=best_cycles,
        hbm_bytes_c=hbm_c,
        buffer_bytes_c=best_buffer,
        energy_j_c=_energy_j(op, dims, microbatch, rates, scores, per_score, hbm_c, best_buffer),
        least_buffer_bytes_c=least_buffer,
    )


def _block_bytes(dims: AttentionDims, rows: int) -> int:
    """Scratchpad a block needs: queries, output sums, and one array-wide strip of scores."""
    return rows * (dims.head_dim * ELEMENT_BYTES + dims.value_dim * ACCUMULATOR_BYTES)


def _block_cycles(dims: AttentionDims, rows: int, keys: float, rates: ChipRates) -> Floats:
    """Cycles of one core on one block: every product streams its rows through the array tile by tile.

    Tiles of one product follow each other without a gap (weights are loaded behind the stream), so the array's
    fill is paid once a block; it is below a percent for the rows in use here and left out.
    """
    width_c, depth_c = rates.chips.tensor_width, rates.chips.tensor_depth
    products = BACKWARD_PRODUCTS if dims.backward else FORWARD_PRODUCTS
    total: Floats = np.zeros(len(rates))
    for of_keys, count in products:
        inner = dims.head_dim if of_keys else keys
        outer = keys if of_keys else dims.value_dim
        straight = np.ceil(inner / width_c) * np.ceil(outer / depth_c)
        turned = np.ceil(outer / width_c) * np.ceil(inner / depth_c)
        total = total + count * np.minimum(straight, turned) * rows
    return total


def _energy_j(
    op: Op,
    dims: AttentionDims,
    microbatch: int,
    rates: ChipRates,
    scores: float,
    per_score: float,
    hbm_c: Floats,
    buffer_c: Floats,
) -> Floats:
    energy = rates.energy
    macs = scores * _macs_a_score(dims)
    scratchpad_bytes = 2 * scores * ELEMENT_BYTES + buffer_c
    return (
        macs * energy.mac_j_c
        + scores * per_score * (energy.lane_op_j_c + LANE_OP_BYTES * energy.register_j_per_byte_c)
        + vector_energy_j(op, microbatch, rates)
        + scratchpad_bytes * energy.tensor_scratchpad_j_per_byte_c
        + traffic_energy_j(hbm_c, buffer_c, rates)
    )
