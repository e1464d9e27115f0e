"""The closed-form bound of model ``default``, term by term and by hand."""

from dataclasses import replace

import numpy as np
import pytest

from rephaze.estimate.gemm_default.bounds import padded_bound_cycles, padded_bound_terms
from rephaze.estimate.gemm_default.core_shapes import CoreShapes

SHAPE = CoreShapes(
    num_cores=np.array([1.0]),
    width=np.array([4.0]),
    depth=np.array([4.0]),
    scratchpad_bytes=np.array([2.0**20]),
    global_buffer_bytes=np.array([2.0**24]),
    scratchpad_bytes_per_cycle=np.array([1e6]),
    global_buffer_bytes_per_cycle=np.array([4.0]),
    hbm_bytes_per_cycle=np.array([2.0]),
    multicast=np.array([1.0]),
    scratchpad_j_per_byte=np.zeros(1),
    global_buffer_j_per_byte=np.zeros(1),
    hbm_j_per_byte=np.zeros(1),
)


def terms(shape, *sizes, side_bytes=0.0):
    return [term.item() for term in padded_bound_terms(*sizes, shape, side_bytes)]


def test_whole_passes_and_every_matrix_once():
    # 5 x 7 by 7 x 3: passes of 4, at best 2 along k, 1 along n and m's 5 streamed, for each of two products.
    once = 2 * 2 * (5 * 7 + 7 * 3 + 5 * 3)
    assert terms(SHAPE, 2, 5, 3, 7) == [2 * 2 * 1 * min(5, 2 * 3), once / 4, once / 2]
    assert padded_bound_cycles(2, 5, 3, 7, SHAPE).tolist() == [once / 2]


def test_side_bytes_pass_buffer_and_hbm():
    plain, more = terms(SHAPE, 1, 8, 8, 8), terms(SHAPE, 1, 8, 8, 8, side_bytes=100.0)
    assert more == [plain[0], plain[1] + 25, plain[2] + 50]


def test_a_slow_scratchpad_holds_the_array_up():
    slow = replace(SHAPE, scratchpad_bytes_per_cycle=np.array([0.5]))
    # One pass: both inputs in 2 B, sums in 4 B.
    assert terms(slow, 1, 4, 4, 4)[0] == (2 * 16 + 2 * 16 + 4 * 16) / 0.5


@pytest.mark.parametrize(("cores", "multicast", "shared"), [(1, 1, 1), (16, 1, 1), (16, 2, 4), (16, 8, 16)])
def test_small_scratchpads_read_again_what_multicast_does_not_share(cores, multicast, shared):
    small = replace(
        SHAPE,
        num_cores=np.array([float(cores)]),
        multicast=np.array([float(multicast)]),
        scratchpad_bytes=np.array([400.0]),
    )
    # Sums stay: the 64^3 products need two inputs of 2 B each, one a 10th of them for 100 words.
    assert terms(small, 1, 64, 64, 64)[1] == (4 * 64**3 / (10 * shared**0.5) + 2 * 64**2) / 4
