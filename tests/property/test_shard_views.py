"""Layouts through views against brute force: every element must stay on the chip that holds it."""

from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.workload.extract.tp_views import Shard, ShardingConflictError, through_view

TP = 2


def owners(shape, shard):
    """The chip of every element of a tensor laid out as ``shard``."""
    length = shape[shard.dim]
    unit = length // (shard.outer * shard.num_units)
    along = (np.arange(length) // unit) % shard.num_units * TP // shard.num_units
    view = [1] * len(shape)
    view[shard.dim] = length
    return np.broadcast_to(along.reshape(view), shape)


shapes = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=2, max_size=4)


@settings(deadline=None, max_examples=300)
@given(shapes, st.data())
def test_a_reshape_keeps_every_element_on_its_chip_or_is_refused(shape, data):
    dim = data.draw(st.integers(0, len(shape) - 1))
    shape[dim] *= TP
    shard = Shard(dim=dim, num_units=shape[dim])
    total = int(np.prod(shape))
    first = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    second = data.draw(st.sampled_from([d for d in range(1, total // first + 1) if total // first % d == 0]))
    out = (first, second, total // first // second)
    try:
        moved = through_view("view", (out,), shard, tuple(shape), out)
    except ShardingConflictError:
        return
    if moved.num_units % TP:
        return  # not a legal degree for this layout
    assert (owners(tuple(shape), shard).reshape(out) == owners(out, moved)).all()


@settings(deadline=None, max_examples=100)
@given(shapes, st.data())
def test_a_permutation_keeps_every_element_on_its_chip(shape, data):
    dim = data.draw(st.integers(0, len(shape) - 1))
    shape[dim] *= TP
    order = data.draw(st.sampled_from(list(permutations(range(len(shape))))))
    shard = Shard(dim=dim, num_units=shape[dim])
    out = tuple(shape[axis] for axis in order)
    moved = through_view("permute", (order,), shard, tuple(shape), out)
    assert (owners(tuple(shape), shard).transpose(order) == owners(out, moved)).all()
