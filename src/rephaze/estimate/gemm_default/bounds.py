"""Cycles no mapping of a GEMM can beat under model ``default``: closed form, all core shapes at once.

Each term is tested to be at most the mapper's (docs/how-it-works.md, eq. 7).

Axis letters: s = core shape, t = term.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rephaze.compiled import inner_in_place, kernel_in_place
from rephaze.estimate.arrays import Floats, Rows
from rephaze.estimate.gemm_default.core_shapes import CoreShapes

Terms = tuple[float, float, float]
"""Cycles of the array, bytes over the boundary of the global buffer, bytes over that of HBM."""


class Product(NamedTuple):
    """``batch`` products of m x k by k x n, as numbers to calculate with."""

    batch: float
    m: float
    n: float
    k: float


class Core(NamedTuple):
    """What of a core shape the bounds depend on."""

    num_cores: float
    width: float
    depth: float
    scratchpad_words: float
    buffer_words: float
    scratchpad_rate: float
    multicast: float


def padded_bound_cycles(batch: int, m: int, n: int, k: int, shapes: CoreShapes, side_bytes: float = 0.0) -> Floats:
    """Lower bound on the cycles of one GEMM on each core shape, ``side_bytes`` moved beside it."""
    return np.asarray(np.maximum.reduce(padded_bound_terms(batch, m, n, k, shapes, side_bytes)))


def padded_bound_terms(
    batch: int, m: int, n: int, k: int, shapes: CoreShapes, side_bytes: float = 0.0
) -> tuple[Floats, Floats, Floats]:
    """Lower bounds on the cycles of array, global buffer and HBM, each for itself."""
    terms_ts = np.empty((3, len(shapes)))
    _fill_terms(Product(float(batch), float(m), float(n), float(k)), shapes.rows(), terms_ts)
    array, middle, far = terms_ts
    return (
        array,
        (middle + side_bytes) / shapes.global_buffer_bytes_per_cycle,
        (far + side_bytes) / shapes.hbm_bytes_per_cycle,
    )


@kernel_in_place
def _fill_terms(product: Product, shapes_s: Rows, terms_ts: Floats) -> None:
    for s in range(len(shapes_s)):
        one = shapes_s[s]
        core = Core(
            float(one.cores),
            float(one.width),
            float(one.depth),
            float(one.scratchpad_words),
            float(one.buffer_words),
            one.scratchpad_rate,
            float(one.multicast),
        )
        terms_ts[0, s], terms_ts[1, s], terms_ts[2, s] = bound_terms(product, core)


@inner_in_place
def bound_terms(product: Product, core: Core) -> Terms:
    """Least cycles of the array, least bytes into the scratchpads, least bytes from HBM."""
    m, n = product.m, product.n
    array = min(
        _reduction_on_width(product, n, m, core),
        _reduction_on_width(product, m, n, core),
        _reduction_streamed(product, np.ceil(m / core.width), np.ceil(n / core.depth), core),
        _reduction_streamed(product, np.ceil(m / core.depth), np.ceil(n / core.width), core),
    )
    middle = _moved_bytes(product, core.scratchpad_words, core.num_cores, core.multicast)
    # The tensor kept in the scratchpads needs no room in the buffer.
    words = max(core.buffer_words, core.num_cores * core.scratchpad_words)
    return array, middle, _moved_bytes(product, words, 1.0, 1.0)


@inner_in_place
def _reduction_on_width(product: Product, along_depth: float, stream: float, core: Core) -> float:
    """Array time with k along the rows, every core busy: whole passes, and the scratchpad's rate."""
    m, n, k = product.m, product.n, product.k
    passes_w = np.ceil(k / core.width)
    passes_d = np.ceil(along_depth / core.depth)
    compute = passes_w * passes_d * stream
    # The tensor in the array moves once, the streamed one once a column pass, sums back and forth a row pass.
    moved = 2.0 * k * along_depth + 2.0 * k * stream * passes_d + 4.0 * m * n * (2.0 * passes_w - 1.0)
    return float(product.batch * max(compute, moved / core.scratchpad_rate) / core.num_cores)


@inner_in_place
def _reduction_streamed(product: Product, passes_m: float, passes_n: float, core: Core) -> float:
    """Array time with the output in the array and k streamed."""
    m, n, k = product.m, product.n, product.k
    compute = passes_m * passes_n * k
    moved = 4.0 * m * n + 2.0 * m * k * passes_n + 2.0 * k * n * passes_m
    return product.batch * max(compute, moved / core.scratchpad_rate) / core.num_cores


@inner_in_place
def _moved_bytes(product: Product, words: float, num_cores: float, multicast: float) -> float:
    """Least bytes over a boundary above tiles of ``words``, one tensor kept, reads shared by multicast."""
    m, n, k = product.m, product.n, product.k
    macs = m * n * k
    once = 2.0 * (m * k + k * n + m * n)
    room = max(words, 1.0)
    both_shared = np.sqrt(room * min(num_cores, multicast * multicast))
    one_shared = np.sqrt(room * min(num_cores, multicast))
    keep_output = 4.0 * macs / both_shared + 2.0 * m * n
    keep_input = 8.0 * macs / one_shared - 6.0 * m * n + 2.0 * k * min(m, n)
    return float(product.batch * max(once, min(keep_output, keep_input)))
