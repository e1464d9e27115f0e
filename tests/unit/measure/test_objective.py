"""Aggregates by hand, and what they must never do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rephaze.measure.objective import combine
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
