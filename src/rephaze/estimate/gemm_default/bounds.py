"""Cycles no mapping of a GEMM can beat under model ``default``: closed form, all core shapes at once.

Each term is tested to be at most the mapper's (docs/how-it-works.md, eq. 7).

Axis letters: s = core shape.
"""

from __future__ import annotations

import numpy as np

from rephaze.estimate.arrays import Floats
from rephaze.estimate.gemm_default.core_shapes import CoreShapes


def padded_bound_cycles(batch: int, m: int, n: int, k: int, shapes: CoreShapes, side_bytes: float = 0.0) -> Floats:
    """Lower bound on the cycles of one GEMM on each core shape, ``side_bytes`` moved beside it."""
    return np.asarray(np.maximum.reduce(padded_bound_terms(batch, m, n, k, shapes, side_bytes)))


def padded_bound_terms(
    batch: int, m: int, n: int, k: int, shapes: CoreShapes, side_bytes: float = 0.0
) -> tuple[Floats, Floats, Floats]:
    """Lower bounds on the cycles of array, global buffer and HBM, each for itself."""
    sizes = (m, n, k)
    array = np.minimum.reduce(
        [
            _reduction_on_width(batch, sizes, n, m, shapes),
            _reduction_on_width(batch, sizes, m, n, shapes),
            _reduction_streamed(batch, sizes, np.ceil(m / shapes.width), np.ceil(n / shapes.depth), shapes),
            _reduction_streamed(batch, sizes, np.ceil(m / shapes.depth), np.ceil(n / shapes.width), shapes),
        ]
    )
    middle = _moved_bytes(batch, sizes, shapes.scratchpad_words, shapes.num_cores, shapes.multicast)
    # The tensor kept in the scratchpads needs no room in the buffer.
    words = np.maximum(shapes.buffer_words, shapes.num_cores * shapes.scratchpad_words)
    one = np.ones_like(words)
    far = _moved_bytes(batch, sizes, words, one, one)
    return (
        array,
        (middle + side_bytes) / shapes.global_buffer_bytes_per_cycle,
        (far + side_bytes) / shapes.hbm_bytes_per_cycle,
    )


def _reduction_on_width(
    batch: int, sizes: tuple[int, int, int], along_depth: int, stream: int, shapes: CoreShapes
) -> Floats:
    """Array time with k along the rows, every core busy: whole passes, and the scratchpad's rate."""
    m, n, k = (float(size) for size in sizes)
    passes_w = np.ceil(k / shapes.width)
    passes_d = np.ceil(along_depth / shapes.depth)
    compute = passes_w * passes_d * stream
    # The tensor in the array moves once, the streamed one once a column pass, sums back and forth a row pass.
    moved = 2.0 * k * along_depth + 2.0 * k * stream * passes_d + 4.0 * m * n * (2.0 * passes_w - 1.0)
    return np.asarray(batch * np.maximum(compute, moved / shapes.scratchpad_bytes_per_cycle) / shapes.num_cores)


def _reduction_streamed(
    batch: int, sizes: tuple[int, int, int], passes_m: Floats, passes_n: Floats, shapes: CoreShapes
) -> Floats:
    """Array time with the output in the array and k streamed."""
    m, n, k = (float(size) for size in sizes)
    compute = passes_m * passes_n * k
    moved = 4.0 * m * n + 2.0 * m * k * passes_n + 2.0 * k * n * passes_m
    return np.asarray(batch * np.maximum(compute, moved / shapes.scratchpad_bytes_per_cycle) / shapes.num_cores)


def _moved_bytes(
    batch: int, sizes: tuple[int, int, int], words: Floats, num_cores: Floats, multicast: Floats
) -> Floats:
    """Least bytes over a boundary above tiles of ``words``, one tensor kept, reads shared by multicast."""
    m, n, k = (float(size) for size in sizes)
    macs = m * n * k
    once = 2.0 * (m * k + k * n + m * n)
    room = np.maximum(words, 1.0)
    both_shared = np.sqrt(room * np.minimum(num_cores, multicast**2))
    one_shared = np.sqrt(room * np.minimum(num_cores, multicast))
    keep_output = 4.0 * macs / both_shared + 2.0 * m * n
    keep_input = 8.0 * macs / one_shared - 6.0 * m * n + 2.0 * k * min(m, n)
    return np.asarray(batch * np.maximum(once, np.minimum(keep_output, keep_input)))
