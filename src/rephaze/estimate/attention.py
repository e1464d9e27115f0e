"""Fused attention: products on tensor cores, softmax on vector cores, scores that never leave the chip.

The unit of work is a block of query rows of one head: its scores are computed and used key block by key block.
Larger blocks read keys and values fewer times from the global buffer, smaller ones spread better over the cores;
the best of a ladder of block sizes is taken, so that more hardware is never slower.

Axis letters: c = chip.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rephaze.compiled import inner_in_place, kernel_in_place
from rephaze.estimate.arrays import Floats, Ints
from rephaze.estimate.costs import ELEMENT_BYTES, ChipRates, ModeCost, OpCost
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
    return num_scores(dims, microbatch) * _macs_a_score(dims)


def num_scores(dims: AttentionDims, microbatch: int) -> float:
    """Scores that are computed."""
    return dims.batch.at(microbatch) * dims.num_heads * dims.query_len * computed_keys(dims)


def _macs_a_score(dims: AttentionDims) -> int:
    products = BACKWARD_PRODUCTS if dims.backward else FORWARD_PRODUCTS
    return sum(count * (dims.head_dim if of_keys else dims.value_dim) for of_keys, count in products)


def attention_lane_cycles(op: Op, microbatch: int, lanes_c: Ints) -> Floats:
    """Cycles the lanes need for the softmax and for what the operator absorbed."""
    dims = op.attention
    assert dims is not None
    softmax_c: Floats = np.ceil(num_scores(dims, microbatch) / lanes_c) * lane_ops_a_score(dims)
    return softmax_c + lane_cycles(op, microbatch, lanes_c) if op.vector else softmax_c


def lane_ops_a_score(dims: AttentionDims) -> float:
    """Lane operations of the softmax on each."""
    if not dims.backward:
        return lane_ops("softmax")
    # The backward pass computes the exponentials again.
    return lane_ops("softmax_backward") + lane_ops("exp")


def _mode(
    op: Op, dims: AttentionDims, microbatch: int, rates: ChipRates, cores_c: Ints, lanes_c: Ints
) -> ModeCost:
    block = query_blocks(op, microbatch)
    hbm_c = np.full(len(rates), block.hbm_bytes)
    chips = rates.chips
    on_chips = _OnChips(
        width_c=chips.tensor_width,
        depth_c=chips.tensor_depth,
        scratchpad_bytes_c=chips.tensor_scratchpad_bytes,
        cores_c=cores_c,
        vector_cycles_c=attention_lane_cycles(op, microbatch, lanes_c),
        hbm_bytes_per_cycle_c=rates.hbm_bytes_per_cycle_c,
        buffer_bytes_per_cycle_c=rates.buffer_bytes_per_cycle_c,
    )
    best_cycles, best_buffer = np.empty(len(rates)), np.empty(len(rates))
    _fill_best(block, on_chips, best_cycles, best_buffer)
    scores, per_score = num_scores(dims, microbatch), lane_ops_a_score(dims)
    return ModeCost(
        cycles_c=best_cycles,
        hbm_bytes_c=hbm_c,
        buffer_bytes_c=best_buffer,
        energy_of=lambda: _energy_j(op, dims, microbatch, rates, scores, per_score, hbm_c, best_buffer),
    )


class QueryBlocks(NamedTuple):
    """What blocks of query rows are cut from."""

    heads: float
    query_len: int
    keys: float
    head_dim: float
    value_dim: float
    is_backward: bool
    hbm_bytes: float
    key_value_bytes: float
    """What is read again for every block of rows but the first."""


class AttentionCore(NamedTuple):
    """What a block runs on: cores of one chip, and its rates."""

    width: float
    depth: float
    scratchpad_bytes: float
    num_cores: float
    hbm_bytes_per_cycle: float
    buffer_bytes_per_cycle: float


class _OnChips(NamedTuple):
    """What it runs on, an entry a chip."""

    width_c: Ints
    depth_c: Ints
    scratchpad_bytes_c: Ints
    cores_c: Ints
    vector_cycles_c: Floats
    hbm_bytes_per_cycle_c: Floats
    buffer_bytes_per_cycle_c: Floats


def query_blocks(op: Op, microbatch: int) -> QueryBlocks:
    """The operator as its blocks are cut."""
    dims = op.attention
    assert dims is not None
    heads, keys = dims.batch.at(microbatch) * dims.num_heads, computed_keys(dims)
    key_value = heads * keys * (dims.head_dim + dims.value_dim) * ELEMENT_BYTES * (2 if dims.backward else 1)
    return QueryBlocks(
        heads=float(heads),
        query_len=dims.query_len,
        keys=float(keys),
        head_dim=float(dims.head_dim),
        value_dim=float(dims.value_dim),
        is_backward=dims.backward,
        hbm_bytes=float(op.input_bytes.at(microbatch) + op.output_bytes.at(microbatch)),
        key_value_bytes=float(key_value),
    )


@kernel_in_place
def _fill_best(block: QueryBlocks, chips: _OnChips, cycles_c: Floats, buffer_bytes_c: Floats) -> None:
    """Fill in the cycles of the fastest size of blocks, and what it moves through the buffer."""
    for c in range(len(cycles_c)):
        core = AttentionCore(
            float(chips.width_c[c]),
            float(chips.depth_c[c]),
            float(chips.scratchpad_bytes_c[c]),
            float(chips.cores_c[c]),
            chips.hbm_bytes_per_cycle_c[c],
            chips.buffer_bytes_per_cycle_c[c],
        )
        cycles_c[c], buffer_bytes_c[c] = best_block(block, core, chips.vector_cycles_c[c])


@inner_in_place
def best_block(block: QueryBlocks, core: AttentionCore, vector_cycles: float) -> tuple[float, float]:
    """Cycles of the fastest size of blocks, infinite if none fits, and what it moves through the buffer."""
    best_cycles, best_bytes = np.inf, 0.0
    query_len = block.query_len
    hbm_cycles = block.hbm_bytes / core.hbm_bytes_per_cycle
    row_cycles = _row_cycles(block, core.width, core.depth)
    for rows in BLOCK_ROWS:
        if rows > BLOCK_ROWS[0] and rows // 2 >= query_len:
            break
        # Scratchpad for queries, output sums, and one array-wide strip of scores.
        needed = rows * (block.head_dim * ELEMENT_BYTES + block.value_dim * ACCUMULATOR_BYTES)
        if needed > core.scratchpad_bytes and rows > BLOCK_ROWS[0]:
            continue
        passes = -(-query_len // rows)
        compute = np.ceil(block.heads * passes / core.num_cores) * (row_cycles * min(rows, query_len))
        moved = block.hbm_bytes + max(0, passes - 1) * block.key_value_bytes
        cycles = max(compute, vector_cycles, hbm_cycles, moved / core.buffer_bytes_per_cycle)
        if cycles < best_cycles:
            best_cycles, best_bytes = cycles, moved
    return best_cycles, best_bytes


@inner_in_place
def _row_cycles(block: QueryBlocks, width: float, depth: float) -> float:
    """Cycles of one core on a row of a block: every product streams its rows through the array tile by tile.

    Tiles of one product follow each other without a gap (weights are loaded behind the stream), so the array's
    fill is paid once a block; it is below a percent for the rows in use here and left out.
    """
    total = 0.0
    for of_keys, count in BACKWARD_PRODUCTS if block.is_backward else FORWARD_PRODUCTS:
        within = block.head_dim if of_keys else block.keys
        along = block.keys if of_keys else block.value_dim
        straight = np.ceil(within / width) * np.ceil(along / depth)
        turned = np.ceil(along / width) * np.ceil(within / depth)
        total += count * min(straight, turned)
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
