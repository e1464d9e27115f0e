"""Candidates for the global-buffer blocks of a GEMM: the fewest that fit, least HBM traffic first.

Axis letters: a = candidate, d = dimension (0 m, 1 n, 2 k), r = rung of the ladder of products worked on at once.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int64

from rephaze.compiled import compiled
from rephaze.estimate.arrays import Floats, Ints
from rephaze.estimate.gemm_default.equations import BLOCKS, GEMM, ROWS_AND_KEYS, cuts, far_bytes
from rephaze.estimate.gemm_default.ladders import BLOCK_STEPS, SPLIT_STEPS, ladder, ladder_at_least
from rephaze.estimate.gemm_default.records import KEPT, TENSORS, Blocks, Gemm, K, M, N


@compiled(int64[::1](float64[::1]))
def _ascending(keys: Floats) -> Ints:
    """Positions of the keys in ascending order, equal ones in the order given."""
    order = np.empty(len(keys), dtype=np.int64)
    for i in range(len(keys)):
        order[i] = i
    gap = len(keys) // 2
    while gap > 0:
        for i in range(gap, len(keys)):
            moving = order[i]
            at = i
            while at >= gap:
                other = order[at - gap]
                if keys[other] < keys[moving] or (keys[other] == keys[moving] and other < moving):
                    break
                order[at] = other
                at -= gap
            order[at] = moving
        gap = 1 if gap == 2 else gap * 5 // 11
    return order


@compiled(ROWS_AND_KEYS(float64[::1], int64[:, ::1]))
def sorted_by(keys: Floats, rows: Ints) -> tuple[Ints, Floats]:
    """Rows of four in the ascending order of their keys, and the keys."""
    order = _ascending(keys)
    sorted_rows = np.empty((len(keys), 4), dtype=np.int64)
    sorted_keys = np.empty(len(keys))
    for i in range(len(keys)):
        sorted_keys[i] = keys[order[i]]
        for j in range(4):
            sorted_rows[i, j] = rows[order[i], j]
    return sorted_rows, sorted_keys


@compiled(ROWS_AND_KEYS(GEMM, int64))
def block_candidates(gemm: Gemm, words: int) -> tuple[Ints, Floats]:
    """Minimal counts of blocks along m, n, k that fit, with the tensor kept, and their HBM bytes, ascending.

    Args:
        gemm: The products.
        words: Capacity for one of them in words of 4 B (an input of 2 B is held twice, an output once in 4 B).
    """
    rows_m = ladder(gemm.m, gemm.m, BLOCK_STEPS)
    rows_n = ladder(gemm.n, gemm.n, BLOCK_STEPS)
    found_ad = np.empty((len(rows_m) * len(rows_n), 4), dtype=np.int64)
    bytes_a = np.empty(len(found_ad))
    # Fewest blocks along k so far for each count along n: fewer along m came first, so what needs no fewer along k
    # than a candidate with fewer along n is no better in anything.
    fewest_k = np.full(len(rows_n), gemm.k + 1)
    count = 0
    for blocks_m in rows_m:
        g_m = cuts(gemm.m, blocks_m)
        least_k = gemm.k + 1
        for j in range(len(rows_n)):
            least_k = min(least_k, fewest_k[j])
            if least_k == 1:
                break
            blocks_n = rows_n[j]
            g_n = cuts(gemm.n, blocks_n)
            room = words - g_m * g_n
            if room < g_m + g_n:
                continue
            blocks_k = min(gemm.k, ladder_at_least(cuts(gemm.k, min(gemm.k, room // (g_m + g_n))), BLOCK_STEPS))
            if blocks_k >= least_k:
                continue
            least_k = fewest_k[j] = blocks_k
            bytes_a[count] = np.inf
            for kept in TENSORS:
                far = far_bytes(gemm, blocks_m, blocks_n, blocks_k, kept)
                if far < bytes_a[count]:
                    bytes_a[count] = far
                    found_ad[count, KEPT] = kept
            found_ad[count, M] = blocks_m
            found_ad[count, N] = blocks_n
            found_ad[count, K] = blocks_k
            count += 1
    return sorted_by(bytes_a[:count], found_ad)


@compiled(ROWS_AND_KEYS(int64[:, ::1], float64[::1], int64[:, ::1], float64[::1]))
def _joined(
    rows: Ints,
    keys: Floats,
    more_rows: Ints,
    more_keys: Floats,
) -> tuple[Ints, Floats]:
    # Element by element: numba takes seconds to compile an assignment to a slice.
    out = np.empty((len(keys) + len(more_keys), 4), dtype=np.int64)
    out_keys = np.empty(len(out))
    for i in range(len(out)):
        old = i < len(keys)
        out_keys[i] = keys[i] if old else more_keys[i - len(keys)]
        for j in range(4):
            out[i, j] = rows[i, j] if old else more_rows[i - len(keys), j]
    return out, out_keys


@compiled(BLOCKS(GEMM, int64, int64))
def blocks_by_rung(gemm: Gemm, words: int, cores: int) -> Blocks:
    """Candidates for each way to share the batch among this many cores."""
    rungs = ladder(cores, gemm.batch, SPLIT_STEPS)
    starts_r = np.zeros(len(rungs) + 1, dtype=np.int64)
    counts_ad = np.empty((0, 4), dtype=np.int64)
    bytes_a = np.empty(0)
    for r in range(len(rungs)):
        more_ad, more_a = block_candidates(gemm, words // rungs[r])
        counts_ad, bytes_a = _joined(counts_ad, bytes_a, more_ad, more_a)
        starts_r[r + 1] = len(bytes_a)
    return Blocks(starts_r, counts_ad, bytes_a)
