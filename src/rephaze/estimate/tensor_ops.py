"""GEMMs, with what they absorbed, and fused attention: costs over all chips.

Axis letters: c = chip.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.context import EstimateContext
from rephaze.estimate.gemm_cache import GemmCache
from rephaze.estimate.lane_costs import paper_fused_ops
from rephaze.estimate.models import Tiling
from rephaze.estimate.modes import ModeCost, mode_cost
from rephaze.estimate.padded_bounds import padded_bound_terms
from rephaze.estimate.padded_gemm import REGISTER_BYTES_PER_MAC
from rephaze.estimate.vector_ops import lane_cycles, lane_energy_j, moved_energy_j
from rephaze.types.graph import GemmDims, Op

Floats = NDArray[np.float64]

ELEMENT_BYTES = 2.0


def gemm_sizes(dims: GemmDims, microbatch: int) -> tuple[int, int, int, int]:
    """Batch, m, n, k of a GEMM at a microbatch size."""
    return dims.batch.at(microbatch), dims.m.at(microbatch), dims.n.at(microbatch), dims.k.at(microbatch)


def gemm_mode(op: Op, context: EstimateContext, all_cores: bool, cache: GemmCache | None) -> ModeCost:
    """Cost of a GEMM and the vector work it absorbed, which overlaps it (eq. 8).

    Args:
        op: A GEMM.
        context: Chips and model.
        all_cores: All tensor (and vector) cores, or one.
        cache: Where mappings are kept; None for the lower bound, which needs none.
    """
    assert op.gemm is not None
    batch, m, n, k = gemm_sizes(op.gemm, context.microbatch)
    if min(batch, m, n, k) <= 0:
        return mode_cost(len(context))
    if context.model.tiling is Tiling.DIVISORS:
        return _divisor_mode(op, (batch, m, n, k), context, all_cores, cache)
    shapes = context.core_shapes(all_cores)
    energy = context.energy
    macs = float(batch) * m * n * k
    once_bytes = ELEMENT_BYTES * batch * (float(m) * k + float(k) * n + float(m) * n)
    scratchpad: Floats | float = 0.0
    if cache is None:
        compute, buffer, hbm = padded_bound_terms(batch, m, n, k, shapes)
        moved_j = once_bytes * (energy.hbm_j_per_byte_c + 2.0 * energy.global_buffer_j_per_byte_c)
    else:
        compute, scratchpad, buffer, hbm, moved_j, _, _ = cache.padded(context.model, batch, m, n, k, shapes)
    # Tensors of the absorbed work (a residual, a mask, wider outputs) move beside those of the product.
    total_bytes = op.input_bytes.at(context.microbatch) + op.output_bytes.at(context.microbatch)
    extra_bytes = max(0.0, total_bytes - once_bytes) if op.vector else 0.0
    return mode_cost(
        len(context),
        compute=compute,
        scratchpad=scratchpad,
        lanes=lane_cycles(op.vector, context, all_cores),
        buffer=buffer + extra_bytes / context.chips.global_buffer_bytes_per_cycle,
        hbm=hbm + extra_bytes / context.hbm_bytes_per_cycle_c,
        energy_j=macs * (energy.mac_j_c + REGISTER_BYTES_PER_MAC * energy.register_j_per_byte_c)
        + moved_j
        + lane_energy_j(op.vector, context)
        + moved_energy_j(extra_bytes, context),
    )


def _divisor_mode(
    op: Op,
    sizes: tuple[int, int, int, int],
    context: EstimateContext,
    all_cores: bool,
    cache: GemmCache | None,
) -> ModeCost:
    cycles, energy_j = _divisor_product(sizes, context, all_cores, cache)
    return mode_cost(
        len(context),
        compute=cycles,
        added=sum(paper_fused_ops(work.function) for work in op.vector),
        energy_j=energy_j + lane_energy_j(op.vector, context),
    )


def _divisor_product(
    sizes: tuple[int, int, int, int], context: EstimateContext, all_cores: bool, cache: GemmCache | None
) -> tuple[Floats, Floats]:
    """Cycles and joules under ``paper``: independent products run one after the other."""
    batch, m, n, k = sizes
    if cache is not None:
        cycles, energy_j = cache.divisors(context.model, m, k, n, context.core_shapes(all_cores))
        return batch * cycles, batch * energy_j
    cores = context.num_tensor_cores(all_cores)
    macs = float(batch) * m * n * k
    array = macs / (cores * context.chips.tensor_width * context.chips.tensor_depth)
    once = batch * max(float(m) * k + float(k) * n, float(m) * n) / context.model.array_words_per_cycle
    return np.maximum(array, once), macs * context.energy.mac_j_c


def attention_mode(op: Op, context: EstimateContext, all_cores: bool, cache: GemmCache | None) -> ModeCost:
    """Cost of fused attention: products on the arrays, softmax on the lanes, Q, K, V and O to HBM (eq. 10)."""
    dims = op.attention
    assert dims is not None
    heads = dims.batch.at(context.microbatch) * dims.num_heads
    if heads <= 0:
        return mode_cost(len(context))
    query, key = dims.query_len, dims.key_len
    kept_fraction = _causal_fraction(query, key) if dims.causal else 1.0
    scores = float(heads) * query * key * kept_fraction
    products = _products(dims.head_dim, dims.value_dim, query, key, backward=dims.backward)
    model, energy = context.model, context.energy
    per_score = model.attention_backward_lane_ops if dims.backward else model.attention_lane_ops
    macs = kept_fraction * heads * sum(float(m) * n * k for m, n, k in products)
    hbm_bytes = float(op.input_bytes.at(context.microbatch) + op.output_bytes.at(context.microbatch))
    mac_j = macs * (energy.mac_j_c + REGISTER_BYTES_PER_MAC * energy.register_j_per_byte_c)
    lanes_j = scores * per_score * energy.lane_op_j_c
    lanes = per_score * np.ceil(scores / context.num_lanes(all_cores))
    if model.tiling is Tiling.DIVISORS:
        cycles, product_j = np.zeros(len(context)), np.zeros(len(context))
        for m, n, k in products:
            more, more_j = _divisor_product((heads, m, n, k), context, all_cores, cache)
            cycles, product_j = cycles + kept_fraction * more, product_j + kept_fraction * more_j
        return mode_cost(len(context), compute=cycles, lanes=lanes, energy_j=product_j + lanes_j)
    best: list[Floats] = []
    for cores in _core_counts(context.num_tensor_cores(all_cores)):
        compute, buffer_bytes, again_bytes = _attention_on(
            cores, heads, products, kept_fraction, (query, key, dims.head_dim, dims.value_dim), context
        )
        terms = np.stack(
            [
                compute,
                buffer_bytes / context.chips.global_buffer_bytes_per_cycle,
                (hbm_bytes + again_bytes) / context.hbm_bytes_per_cycle_c,
                buffer_bytes,
                hbm_bytes + again_bytes,
            ]
        )
        if not best:
            best = [terms]
            continue
        # More cores than this may crowd the buffer: take the faster of the two on each chip.
        faster = np.max(terms[:3], axis=0) < np.max(best[0][:3], axis=0)
        best = [np.where(faster, terms, best[0])]
    compute, buffer, hbm, buffer_bytes, far_bytes = best[0]
    moved_j = (
        far_bytes * (energy.hbm_j_per_byte_c + energy.global_buffer_j_per_byte_c)
        + buffer_bytes * energy.global_buffer_j_per_byte_c
        + 3.0 * buffer_bytes * energy.tensor_scratchpad_j_per_byte_c
    )
    return mode_cost(
        len(context),
        compute=compute,
        lanes=lanes,
        buffer=buffer,
        hbm=hbm,
        energy_j=mac_j + lanes_j + moved_j,
    )


CAUSAL_BLOCK = 128
"""Rows and columns a fused kernel skips as one: half of the blocks on the diagonal are wasted."""


def _causal_fraction(query: int, key: int) -> float:
    """Part of the scores a causal kernel computes, diagonal blocks whole."""
    block = min(CAUSAL_BLOCK, key)
    return min(
        1.0, 0.5 * (query + block) / query * min(1.0, key / query) + max(0.0, (key - query) / key) * 0.5
    )


def _products(head: int, value: int, query: int, key: int, *, backward: bool) -> list[tuple[int, int, int]]:
    """m, n, k of the products of one head."""
    if not backward:
        return [(query, key, head), (query, value, key)]
    return [
        (query, key, head),  # scores again
        (query, key, value),  # gradient of the probabilities
        (key, value, query),  # of V
        (query, head, key),  # of Q
        (key, head, query),  # of K
    ]


def _core_counts(cores_c: Floats) -> list[Floats]:
    """All cores, then powers of two below, as columns."""
    counts = [cores_c]
    power = 2.0 ** np.floor(np.log2(max(float(np.max(cores_c)), 1.0)))
    while power >= 1.0:
        counts.append(np.minimum(cores_c, power))
        power /= 2.0
    return counts


def _attention_on(
    cores: Floats,
    heads: int,
    products: list[tuple[int, int, int]],
    kept_fraction: float,
    sizes: tuple[int, int, int, int],
    context: EstimateContext,
) -> tuple[Floats, Floats, Floats]:
    """Array cycles, global-buffer bytes, and HBM bytes beyond the first read, with so many cores at work."""
    query, key, head, value = sizes
    chips = context.chips
    split_heads = np.minimum(cores, heads)
    split_rows = np.minimum(np.floor(cores / split_heads), query)
    own_heads = np.ceil(heads / split_heads)
    width, depth = chips.tensor_width, chips.tensor_depth
    compute = np.zeros(len(context))
    for m, n, k in products:
        own = np.ceil(m / split_rows)
        flows = [
            (k, n, own),
            (k, own, n),
            (own, n, k),
            (n, own, k),
        ]
        compute += np.minimum.reduce(
            [
                np.ceil(side_d / depth) * np.maximum(np.ceil(side_w / width) * stream, side_w)
                for side_w, side_d, stream in flows
            ]
        )
    # Queries and their output stay in a scratchpad a block of rows at a time, keys and values stream past.
    bytes_a_row = 2.0 * ELEMENT_BYTES * head + 4.0 * value
    block_rows = np.maximum(1.0, np.floor(chips.tensor_scratchpad_bytes / 2.0 / bytes_a_row))
    passes = np.ceil(np.ceil(query / split_rows) / block_rows)
    reads = np.ceil(split_rows / chips.global_buffer_multicast)
    stream_bytes = ELEMENT_BYTES * key * (head + value)
    tensors = len(products) / 2.0
    buffer_bytes = (
        heads
        * tensors
        * (ELEMENT_BYTES * query * (head + value) + kept_fraction * stream_bytes * passes * reads)
    )
    resident = split_heads * stream_bytes
    again = np.where(resident <= chips.global_buffer_bytes, 0.0, passes - 1.0)
    again_bytes = heads * tensors * kept_fraction * stream_bytes * again
    return kept_fraction * own_heads * compute + width + depth, buffer_bytes, again_bytes
