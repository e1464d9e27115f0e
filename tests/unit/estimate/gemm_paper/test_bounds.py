"""Bounds of model ``paper`` by hand: words a cycle are 64, 256 and 128 at array, scratchpads and buffer."""

import numpy as np

from rephaze.estimate.estimate_model import PAPER
from rephaze.estimate.gemm_paper.bounds import DivisorBounds


def cycles(sizes, *, cores=1, side=1, scratchpad=2.0**20, buffer=2.0**24):
    columns = (float(value) for value in (cores, side, side, scratchpad, buffer))
    names = ("num_cores_s", "width_s", "depth_s", "scratchpad_words_s", "buffer_words_s")
    bounds = DivisorBounds(**{n: np.array([value]) for n, value in zip(names, columns, strict=True)}, model=PAPER)
    return bounds.cycles(*sizes).item()


def test_few_multipliers_decide():
    assert cycles((8, 8, 8), cores=2, side=2) == 512 / 8


def test_the_rate_of_the_array_decides_where_multipliers_abound():
    # All sides of 8 fit: each of three matrices of 64 words once, outputs are not read.
    assert cycles((8, 8, 8), cores=64, side=64) == (3 * 64 - 64) / 64


def test_a_small_buffer_reads_again():
    # Two sides multiply to at most 3 words, so they are 2 and 1; the kept tensor moves once.
    words = 512 / 2 + 512 / 1 + 512 / 8 - 64
    assert cycles((8, 8, 8), cores=64, side=64, buffer=3.0) == words / 128


def test_dims_may_change_places_only_with_their_tensors():
    # Outputs are written and not read: a reduction of 64 with one row moves less than 64 rows reduced over one.
    assert cycles((1, 64, 64), cores=64, side=64) == (64 * 64 + 64 + 64 - 64) / 64
    assert cycles((64, 64, 1), cores=64, side=64) == 64 * 64 / 64


def test_nothing_fits_an_empty_buffer():
    assert cycles((8, 8, 8), buffer=0.5) == np.inf


def test_shapes_keep_their_places():
    bounds = DivisorBounds(
        num_cores_s=np.array([2.0, 1.0, 2.0]),
        width_s=np.full(3, 2.0),
        depth_s=np.full(3, 2.0),
        scratchpad_words_s=np.full(3, 2.0**20),
        buffer_words_s=np.full(3, 2.0**24),
        model=PAPER,
    )
    assert bounds.cycles(8, 8, 8).tolist() == [64, 128, 64]
