"""Cycles of a block of operators in every mode on many chips: one compiled call for what a pass asks.

The formulas are those of ``attention``, ``vector``, ``gemm_default.bounds``; what is here puts them together as
``Estimator.op_cost`` does for one operator, which tests hold it against bit for bit.

Axis letters: n = operator, c = chip, m = mode (one core, all cores; then with half the bandwidths),
g = mapped product, s = core shape, w = piece of element work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rephaze.compiled import inner_in_place, kernel_in_place
from rephaze.estimate.arrays import Floats, Ints, Rows
from rephaze.estimate.attention import AttentionCore, QueryBlocks, best_block
from rephaze.estimate.costs import ONE_CORE_HBM_FRACTION, ChipRates
from rephaze.estimate.gemm_default.bounds import Core, Product, bound_terms
from rephaze.estimate.gemm_default.core_shapes import BUFFERED_WORD_BYTES
from rephaze.estimate.op_block import ATTENTION, ELEMENTS, MESSAGE, OP_ROW, PRODUCT, OpBlock
from rephaze.estimate.ticks import as_whole_cycles, as_whole_ticks
from rephaze.estimate.vector import busy_lanes
from rephaze.types.cluster import Cluster

HALF = 0.5
"""The part of both bandwidths that an operator may do with instead of all, so that another runs beside it."""
NUM_MODES = 4
Row = Any
"""One of ``Rows``, whose fields compiled code reads as attributes."""
HBM, BUFFER = range(2)

CHIP_ROW = np.dtype(
    [
        (name, np.float64)
        for name in (
            "num_cores",
            "width",
            "depth",
            "scratchpad_bytes",
            "scratchpad_words",
            "buffer_words",
            "scratchpad_rate",
            "buffer_rate",
            "hbm_rate",
            "multicast",
            "lanes",
            "all_lanes",
            "clock_hz",
        )
    ]
)


class BlockBounds(NamedTuple):
    """Operators on many chips: what they take in each mode at least."""

    cycles_mnc: Ints
    uses_hbm_n: Floats
    """1 if it moves anything, else 0."""
    uses_buffer_n: Floats


class MappedProducts(NamedTuple):
    """Products of a block that were mapped."""

    number_mn: Ints
    """Which of the products below an operator is in a mode; -1 if it is to be bounded in closed form."""
    cycles_gc: Floats


class _Ops(NamedTuple):
    """A block as compiled functions take it."""

    rows_n: Rows
    link_s_n: Floats
    elements_w: Floats
    lane_ops_w: Floats


class _OnChips(NamedTuple):
    """The chips, and memory for what products take at least on the core shapes they have."""

    rows_c: Rows
    shape_of_c: Ints
    first_s: Ints
    """A chip of each shape."""
    terms_s6: Floats


def chip_rows(rates: ChipRates) -> Rows:
    """The chips as compiled functions take them."""
    chips = rates.chips
    rows_c = np.empty(len(rates), CHIP_ROW)
    rows_c["num_cores"] = chips.num_tensor_cores
    rows_c["width"], rows_c["depth"] = chips.tensor_width, chips.tensor_depth
    rows_c["scratchpad_bytes"] = chips.tensor_scratchpad_bytes
    rows_c["scratchpad_words"] = np.floor(chips.tensor_scratchpad_bytes / BUFFERED_WORD_BYTES)
    rows_c["buffer_words"] = np.floor(chips.global_buffer_bytes / BUFFERED_WORD_BYTES)
    rows_c["scratchpad_rate"] = chips.scratchpad_bytes_per_cycle
    rows_c["buffer_rate"] = rates.buffer_bytes_per_cycle_c
    rows_c["hbm_rate"] = rates.hbm_bytes_per_cycle_c
    rows_c["multicast"] = chips.global_buffer_multicast
    rows_c["lanes"], rows_c["all_lanes"] = chips.vector_lanes, chips.num_lanes
    rows_c["clock_hz"] = chips.clock_hz
    return rows_c


def block_bounds(
    block: OpBlock, chips_c: Rows, shape_of_c: Ints, cluster: Cluster, mapped: MappedProducts
) -> BlockBounds:
    """Cycles that no mode of any operator goes below, exact but for products that were not mapped.

    Args:
        block: The operators.
        chips_c: The chips, all bandwidths theirs.
        shape_of_c: Chips of one number have the same core shape: products are bounded once for all of them.
        cluster: The network.
        mapped: What is known of products.
    """
    cycles_mnc = np.empty((NUM_MODES, len(block), len(chips_c)), dtype=np.int64)
    uses_2n = np.zeros((2, len(block)))
    num_shapes = int(shape_of_c.max(initial=-1)) + 1
    first_s = np.zeros(num_shapes, dtype=np.int64)
    first_s[shape_of_c[::-1]] = np.arange(len(chips_c))[::-1]
    ops = _Ops(block.rows_n, block.link_s(cluster), block.elements_w, block.lane_ops_w)
    on_chips = _OnChips(chips_c, shape_of_c, first_s, np.empty((num_shapes, 6)))
    _fill_block(ops, on_chips, mapped, cycles_mnc, uses_2n)
    return BlockBounds(cycles_mnc, uses_2n[HBM], uses_2n[BUFFER])


def compile_kernels() -> None:
    """Make ``block_bounds`` ready: of no operators on no chips, which have the types of all others."""
    numbers, none, none_2d = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 0))
    ops = _Ops(np.zeros(0, OP_ROW), none, none, none)
    on_chips = _OnChips(np.zeros(0, CHIP_ROW), numbers, numbers, none_2d)
    mapped = MappedProducts(number_mn=np.zeros((0, 0), dtype=np.int64), cycles_gc=none_2d)
    _fill_block(ops, on_chips, mapped, np.zeros((0, 0, 0), dtype=np.int64), none_2d)


@kernel_in_place
def _fill_block(ops: _Ops, chips: _OnChips, mapped: MappedProducts, cycles_mnc: Ints, uses_2n: Floats) -> None:
    rows_n, link_s_n, elements_w, lane_ops_w = ops
    chips_c, shape_of_c, first_s, terms_s6 = chips
    for n in range(len(rows_n)):
        row = rows_n[n]
        if row.kind == PRODUCT:
            for s in range(len(first_s)):
                _fill_terms(row, chips_c[first_s[s]], terms_s6[s])
        for c in range(len(chips_c)):
            chip = chips_c[c]
            lane_cycles = busy_lanes(elements_w, lane_ops_w, row.first_work, row.end_work, chip.lanes)
            all_lane_cycles = busy_lanes(elements_w, lane_ops_w, row.first_work, row.end_work, chip.all_lanes)
            for m in range(NUM_MODES):
                is_all, share = m % 2 == 1, 1.0 if m < 2 else HALF
                lane = all_lane_cycles if is_all else lane_cycles
                hbm_rate, buffer_rate = share * chip.hbm_rate, share * chip.buffer_rate
                cycles, hbm_bytes, buffer_bytes = 0.0, row.moved_bytes, row.moved_bytes
                if row.kind == PRODUCT:
                    at = mapped.number_mn[m, n]
                    if at >= 0:
                        cycles = mapped.cycles_gc[at, c]
                    else:
                        terms = terms_s6[shape_of_c[c]]
                        first = 3 if is_all else 0
                        cycles = max(
                            terms[first],
                            (terms[first + 1] + row.side_bytes) / buffer_rate,
                            (terms[first + 2] + row.side_bytes) / hbm_rate,
                        )
                    # Every product moves its matrices, however many times.
                    hbm_bytes = buffer_bytes = 1.0
                    cycles = max(cycles, lane)
                elif row.kind == ATTENTION:
                    cycles, buffer_bytes = _attention(row, chip, is_all, lane, hbm_rate, buffer_rate)
                elif row.kind == MESSAGE:
                    cycles, buffer_bytes = max(link_s_n[n] * chip.clock_hz, row.moved_bytes / hbm_rate), 0.0
                elif row.kind == ELEMENTS:
                    if not is_all:
                        hbm_rate = min(share, ONE_CORE_HBM_FRACTION) * chip.hbm_rate
                    cycles = max(lane, row.moved_bytes / hbm_rate, row.moved_bytes / buffer_rate)
                cycles_mnc[m, n, c] = as_whole_ticks(as_whole_cycles(cycles))
                # What an operator moves is much the same on all chips: the first speaks for them.
                if c == 0 and m < 2:
                    uses_2n[HBM, n] = max(uses_2n[HBM, n], 1.0 if hbm_bytes > 0 else 0.0)
                    uses_2n[BUFFER, n] = max(uses_2n[BUFFER, n], 1.0 if buffer_bytes > 0 else 0.0)


@inner_in_place
def _fill_terms(row: Row, chip: Row, terms_6: Floats) -> None:
    """Array, buffer and HBM terms of a product on one core, then on all."""
    product = Product(row.batch, row.m, row.n, row.k)
    for is_all in range(2):
        core = Core(
            chip.num_cores if is_all else 1.0,
            chip.width,
            chip.depth,
            chip.scratchpad_words,
            chip.buffer_words,
            chip.scratchpad_rate,
            chip.multicast,
        )
        at = 3 * is_all
        terms_6[at], terms_6[at + 1], terms_6[at + 2] = bound_terms(product, core)


@inner_in_place
def _attention(
    row: Row, chip: Row, is_all: bool, lane: float, hbm_rate: float, buffer_rate: float
) -> tuple[float, float]:
    blocks = QueryBlocks(
        row.heads,
        row.query_len,
        row.keys,
        row.head_dim,
        row.value_dim,
        row.is_backward,
        row.moved_bytes,
        row.key_value_bytes,
    )
    num_cores, num_lanes = (chip.num_cores, chip.all_lanes) if is_all else (1.0, chip.lanes)
    core = AttentionCore(chip.width, chip.depth, chip.scratchpad_bytes, num_cores, hbm_rate, buffer_rate)
    softmax = np.ceil(row.num_scores / num_lanes) * row.ops_a_score
    return best_block(blocks, core, softmax + lane)
