"""Candidates for the global-buffer blocks against all counts of blocks there are."""

from itertools import product

import numba
import numpy as np
import pytest

from rephaze.estimate.gemm_default.blocks import block_candidates, blocks_by_rung
from rephaze.estimate.gemm_default.records import KEPT, OUTPUT, Gemm


@numba.njit
def candidates(gemm, words):
    return block_candidates(gemm, words)


@numba.njit
def by_rung(gemm, words, cores):
    return blocks_by_rung(gemm, words, cores)


def moved_bytes(gemm, blocks, kept):
    """Each tensor once a block along the dimension it lacks, sums in 4 B out and back but for the last in 2 B."""
    times = [1 if tensor == kept else count for tensor, count in enumerate(blocks)]
    right, left = 2 * gemm.k * gemm.n * times[0], 2 * gemm.m * gemm.k * times[1]
    return gemm.batch * (right + left + gemm.m * gemm.n * (8 * (times[2] - 1) + 2))


def fits(gemm, blocks, words):
    m, n, k = (-(-size // count) for size, count in zip((gemm.m, gemm.n, gemm.k), blocks, strict=True))
    return m * k + k * n + m * n <= words


def test_one_block_if_all_fits():
    counts, num_bytes = candidates(Gemm(3, 4, 4, 4, 0.0), 48)
    assert counts[0, :KEPT].tolist() == [1, 1, 1]
    assert num_bytes.tolist() == [3 * 2 * 48]


def test_single_elements_keep_their_sum():
    counts, num_bytes = candidates(Gemm(1, 4, 4, 4, 0.0), 3)
    assert counts.tolist() == [[4, 4, 4, OUTPUT]]
    assert num_bytes.tolist() == [2 * 4 * 16 + 2 * 4 * 16 + 2 * 16]
    assert len(candidates(Gemm(1, 4, 4, 4, 0.0), 2)[1]) == 0


@pytest.mark.parametrize("sizes", [(6, 5, 7), (12, 1, 9), (3, 16, 2)])
@pytest.mark.parametrize("words", [3, 11, 25, 60, 130])
def test_none_of_all_blocks_moves_less(sizes, words):
    gemm = Gemm(1, *sizes, 0.0)
    counts, num_bytes = candidates(gemm, words)
    assert (np.diff(num_bytes) >= 0).all()
    for row, moved in zip(counts.tolist(), num_bytes.tolist(), strict=True):
        assert fits(gemm, row[:KEPT], words)
        assert moved == moved_bytes(gemm, row[:KEPT], row[KEPT])
    every = [blocks for blocks in product(*(range(1, size + 1) for size in sizes)) if fits(gemm, blocks, words)]
    assert num_bytes[0] == min(moved_bytes(gemm, blocks, kept) for blocks in every for kept in range(3))


def test_products_worked_on_at_once_share_the_buffer():
    # One, two, three or four of the batch on four cores: each has that part of the 48 words.
    gemm = Gemm(4, 4, 4, 4, 0.0)
    found = by_rung(gemm, 48, 4)
    assert len(found.starts_r) == 5
    for rung, (start, end) in enumerate(zip(found.starts_r[:-1], found.starts_r[1:], strict=True)):
        counts, num_bytes = candidates(gemm, 48 // (rung + 1))
        assert found.counts_ad[start:end].tolist() == counts.tolist()
        assert found.bytes_a[start:end].tolist() == num_bytes.tolist()
