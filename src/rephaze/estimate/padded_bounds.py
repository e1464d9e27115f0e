"""Cycles no mapping of a GEMM can beat under model ``default``: closed form, all core shapes at once.

Each term is tested to be at most the mapper's (docs/how-it-works.md, eq. 7).

Axis letters: s = core shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rephaze.estimate.padded_gemm import CoreShapes

Floats = NDArray[np.float64]


def padded_bound_cycles(batch: int, m: int, n: int, k: int, shapes: CoreShapes) -> Floats:
    """Lower bound on the cycles of one GEMM on each core shape."""
    array = np.minimum.reduce(
        [
            _array_cycles(batch, k, n, m, k_side="width", shapes=shapes, sizes=(m, n, k)),
            _array_cycles(batch, k, m, n, k_side="width", shapes=shapes, sizes=(m, n, k)),
            _array_cycles(batch, m, n, k, k_side="stream", shapes=shapes, sizes=(m, n, k)),
            _array_cycles(batch, n, m, k, k_side="stream", shapes=shapes, sizes=(m, n, k)),
        ]
    )
    middle = _moved_bytes(batch, m, n, k, shapes.scratchpad_bytes / 4.0, shapes.num_cores, shapes.multicast)
    # What the buffer need not hold twice may stay in the scratchpads.
    words = np.maximum(shapes.global_buffer_bytes / 4.0, shapes.num_cores * shapes.scratchpad_bytes / 4.0)
    far = _moved_bytes(batch, m, n, k, words, np.ones_like(words), np.ones_like(words))
    return np.maximum.reduce(
        [array, middle / shapes.global_buffer_bytes_per_cycle, far / shapes.hbm_bytes_per_cycle]
    )


def _array_cycles(
    batch: int,
    along_width: int,
    along_depth: int,
    stream: int,
    *,
    k_side: str,
    shapes: CoreShapes,
    sizes: tuple[int, int, int],
) -> Floats:
    """Array time of one flow with every core busy: whole passes, and the scratchpad's rate."""
    m, n, k = (float(size) for size in sizes)
    passes_w = np.ceil(along_width / shapes.width)
    passes_d = np.ceil(along_depth / shapes.depth)
    compute = batch * passes_w * passes_d * stream / shapes.num_cores
    # Along the streamed dimension a tensor moves once, along the others once a pass.
    if k_side == "width":
        moved = 4.0 * m * n * (2.0 * passes_w - 1.0) + 2.0 * k * stream * passes_d + 2.0 * k * along_depth
    else:
        left, right = (passes_d, passes_w) if along_width == sizes[0] else (passes_w, passes_d)
        moved = 4.0 * m * n + 2.0 * m * k * left + 2.0 * k * n * right
    return np.maximum(compute, batch * moved / (shapes.num_cores * shapes.scratchpad_bytes_per_cycle))


def _moved_bytes(
    batch: int, m: int, n: int, k: int, words: Floats, num_cores: Floats, multicast: Floats
) -> Floats:
    """Least bytes over a boundary above tiles of ``words``, one tensor kept, reads shared by multicast."""
    macs = float(m) * n * k
    once = 2.0 * (float(m) * k + float(k) * n + float(m) * n)
    both_shared = np.sqrt(words * np.minimum(num_cores, multicast**2))
    one_shared = np.sqrt(words * np.minimum(num_cores, multicast))
    keep_output = 4.0 * macs / both_shared + 2.0 * m * n
    keep_input = 8.0 * macs / one_shared - 6.0 * m * n + 2.0 * min(m * k, k * n)
    return batch * np.maximum(once, np.minimum(keep_output, keep_input))
