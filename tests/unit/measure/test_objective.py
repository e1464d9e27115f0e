"""Aggregates by hand, and what they must never do."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rephaze.measure.objective import ChipWorth, combine, combine_on_chip, needed_value
from rephaze.types.search import Aggregate

VALUES = np.array([[2.0, 8.0, 3.0], [8.0, 2.0, 0.0]])


def test_by_hand():
    assert combine(VALUES, (1, 1), Aggregate.MEAN).tolist() == [5.0, 5.0, 0.0]
    assert combine(VALUES, (1, 1), Aggregate.GEOMEAN) == pytest.approx([4.0, 4.0, 0.0])
    assert combine(VALUES, (1, 1), Aggregate.WORST).tolist() == [2.0, 2.0, 0.0]
    assert combine(VALUES, (3, 1), Aggregate.MEAN).tolist() == [3.5, 6.5, 0.0]


@given(
    st.lists(st.tuples(st.floats(1e-3, 1e6), st.floats(1.0, 5.0)), min_size=1, max_size=5),
    st.sampled_from(list(Aggregate)),
)
def test_more_throughput_never_lowers_the_objective(pairs, aggregate):
    low = np.array([[value] for value, _ in pairs])
    high = np.array([[value * factor] for value, factor in pairs])
    weights = tuple(1.0 + i for i in range(len(pairs)))
    assert combine(high, weights, aggregate)[0] >= combine(low, weights, aggregate)[0] * (1 - 1e-12)


@pytest.mark.parametrize("aggregate", list(Aggregate))
def test_what_a_model_must_be_worth_gives_the_objective_back(aggregate):
    values, weights = [3.0, 5.0, 8.0], (1.0, 2.0, 0.5)
    for m in range(3):
        needed = needed_value(values, m, combine_on_chip(values, weights, aggregate), weights, aggregate)
        with_it = [needed if at == m else value for at, value in enumerate(values)]
        assert combine_on_chip(with_it, weights, aggregate) == pytest.approx(
            combine_on_chip(values, weights, aggregate)
        )
        worse = [0.999 * needed if at == m else value for at, value in enumerate(values)]
        assert combine_on_chip(worse, weights, aggregate) < combine_on_chip(with_it, weights, aggregate)


def test_nothing_helps_a_design_on_which_another_model_does_not_fit():
    for aggregate in Aggregate:
        assert needed_value([0.0, 5.0], 1, 1.0, (1.0, 1.0), aggregate) == math.inf


@pytest.mark.parametrize("is_per_watt", [False, True])
def test_longer_batches_than_the_longest_are_worth_less(is_per_watt):
    worth = ChipWorth(global_batch=64, value_factor=0.25, is_per_watt=is_per_watt, cluster_idle_w=100.0)
    value = worth.at_best(2.0, 3.0)
    assert worth.longest_s(value, 3.0) == pytest.approx(2.0)
    assert worth.at_best(2.001, 3.0) < value
    # So good that no batch, however short, is worth it.
    assert worth.longest_s(1e9, 3.0) == pytest.approx(0.0, abs=1e-7)
    assert worth.longest_s(0.0, 3.0) == math.inf
