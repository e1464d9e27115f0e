"""Weights of vector functions come from the data file; what it lacks is named or, for the paper, one cycle."""

import pytest

from rephaze.errors import UnsupportedError
from rephaze.estimate.vector_weights import lane_ops, paper_lane_cycles


def test_weights_of_both_models():
    assert (lane_ops("add"), lane_ops("dropout"), lane_ops("dropout_backward")) == (1, 6, 1)
    assert (paper_lane_cycles("tanh"), paper_lane_cycles("tanh_backward")) == (27, 2)


def test_a_function_without_weight_is_named_among_the_known_ones():
    with pytest.raises(UnsupportedError, match=r"'juggle' has no weight; known are .*gelu.*softmax"):
        lane_ops("juggle")


def test_the_paper_charges_a_cycle_for_what_its_tables_lack():
    assert paper_lane_cycles("cast") == paper_lane_cycles("cast_backward") == 1
