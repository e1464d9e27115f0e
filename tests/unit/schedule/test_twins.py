import numpy as np

from rephaze.schedule.twins import exchanges, twins
from rephaze.types.latency import Engine

T, V = Engine.TENSOR, Engine.VECTOR


def pairs(engines, edges):
    """(earlier, later) of every exchange, as groups of operators; edges lead from lower numbers to higher."""
    before = np.zeros((len(engines), len(engines)), dtype=bool)
    for src, dst in sorted(edges, key=lambda edge: edge[1]):
        before[dst] |= before[src]
        before[dst, src] = True
    kinds = np.array([list(Engine).index(engine) for engine in engines])
    return {(tuple(earlier.tolist()), tuple(later.tolist())) for earlier, later in exchanges(before, kinds)}


def test_equal_places_are_exchanged_but_not_different_engines():
    assert pairs([T, T, V, T, V], [(0, 2), (1, 2)]) >= {((0,), (1,))}
    assert ((0,), (4,)) not in pairs([T, T, V, T, V], [(0, 2), (1, 2)])


def test_leaves_that_wait_for_ever_more_are_exchanged_in_that_order():
    # A line 0, 1, 2 with a leaf behind each: weight gradients behind input gradients.
    found = pairs([T, T, T, V, V, V], [(0, 1), (1, 2), (0, 3), (1, 4), (2, 5)])
    assert found == {((3,), (4,)), ((3,), (5,)), ((4,), (5,))}


def test_what_follows_only_one_changes_places_with_it():
    # Behind 0 and behind 1 hangs a line of two.
    found = pairs([T, T, V, V, V, V], [(0, 1), (0, 2), (2, 3), (1, 4), (4, 5)])
    assert ((2, 3), (4, 5)) in found
    assert ((2,), (5,)) not in found


def test_what_waits_for_something_else_too_does_not():
    edges = [(0, 1), (0, 2), (2, 3), (1, 4), (4, 5), (1, 3)]
    assert not any(earlier[0] == 2 for earlier, _ in pairs([T, T, V, V, V, V], edges))


def test_what_follows_both_must_follow_alike():
    # 6 waits for all four in the first, for 2, 3 and 4 only in the second: 3 and 5 are no longer alike.
    edges = [(0, 2), (2, 3), (1, 4), (4, 5), (2, 6), (4, 6)]
    engines = [T, V, V, V, V, V, V]
    assert not any(exchange == ((2, 3), (4, 5)) for exchange in pairs(engines, [*edges, (0, 1), (3, 6)]))
    assert ((2, 3), (4, 5)) in pairs(engines, [*edges, (0, 1), (3, 6), (5, 6)])


def test_of_those_with_equal_times_the_nearest_is_the_twin():
    before = np.zeros((4, 4), dtype=bool)
    every = exchanges(before, np.zeros(4, dtype=np.int64))
    dur_im = np.array([[5, 3], [4, 4], [5, 3], [5, 3]])
    need_imr = np.ones((4, 2, 1), dtype=np.int64)
    assert twins(4, every, dur_im, need_imr).tolist() == [-1, -1, 0, 2]
    need_imr[2] = 2
    assert twins(4, every, dur_im, need_imr).tolist() == [-1, -1, -1, 0]
