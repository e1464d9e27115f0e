"""The paper's vector formulas on recorded work, by hand."""

import numpy as np

from rephaze.estimate.vector_paper import work_cycles

LANES = np.array([4, 16])


def test_elements_shared_among_the_lanes():
    assert work_cycles("tanh", 100, 1, LANES).tolist() == [25 * 27, 7 * 27]
    assert work_cycles("tanh_backward", 100, 1, LANES).tolist() == [25 * 2, 7 * 2]


def test_a_softmax_passes_along_its_rows_first():
    # Ten rows of ten: a pass of each, ten cycles to start, ten a round of elements (13 with the logarithm).
    assert work_cycles("softmax", 100, 10, LANES).tolist() == [10 * 3 + 10 + 25 * 10, 10 * 1 + 10 + 7 * 10]
    assert work_cycles("log_softmax", 100, 10, LANES).tolist() == [10 * 3 + 10 + 25 * 13, 10 * 1 + 10 + 7 * 13]


def test_a_mean_adds_up_its_rows_one_by_one():
    assert work_cycles("mean", 100, 10, LANES).tolist() == [10 * (3 + 10), 10 * (1 + 10)]
