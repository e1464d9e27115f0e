import itertools

import numpy as np
import pytest

from rephaze.schedule.relaxation import NEVER, ceil_safely, cliques, relax, tails
from rephaze.schedule.tables import Preds

# Operators 0 -> 2, 1 -> 2 and 3 alone; two resources of capacity 1.
PREDS = Preds(start_i=np.array([0, 0, 0, 2, 2], dtype=np.int64), pred=np.array([0, 1], dtype=np.int64))
ANCESTORS = np.array([[0], [0], [0b11], [0]], dtype=np.uint64)


def fractions(seed):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.05, 1.0, (4, 2, 2)), rng.integers(1, 50, (4, 2))


def alone(dur, exclusive):
    return np.array([[False, exclusive]] * len(dur))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_no_set_that_can_run_together_weighs_more_than_one(seed, exclusive):
    frac, dur = fractions(seed)
    weight, pick = np.zeros((4, 2)), np.zeros(4, dtype=np.int64)
    bound = relax(dur, frac, alone(dur, exclusive), PREDS, 50, 1e-9, weight, pick)
    assert bound == pytest.approx((weight * dur).min(axis=1).sum())
    for together in ((0, 1, 3), (2, 3)):
        for size in range(1, len(together) + 1):
            for ops in itertools.combinations(together, size):
                for modes in itertools.product((0, 1), repeat=size):
                    use = sum(frac[i, m] for i, m in zip(ops, modes, strict=True))
                    stops_chip = exclusive and 1 in modes
                    if (use <= 1).all() and not (stops_chip and size > 1):
                        assert sum(weight[i, m] for i, m in zip(ops, modes, strict=True)) <= 1 + 1e-9


def test_more_rounds_never_lower_the_bound():
    frac, dur = fractions(3)
    weight, pick = np.zeros((4, 2)), np.zeros(4, dtype=np.int64)
    bounds = [
        relax(dur, frac, alone(dur, True), PREDS, rounds, 1e-12, weight, pick) for rounds in (1, 10, 100, 1000)
    ]
    assert bounds == sorted(bounds)


def test_an_impossible_mode_is_never_picked():
    dur = np.array([[NEVER, 5], [4, NEVER], [3, NEVER], [NEVER, 2]], dtype=np.int64)
    weight, pick = np.zeros((4, 2)), np.zeros(4, dtype=np.int64)
    relax(dur, np.ones((4, 2, 1)), alone(dur, False), PREDS, 20, 1e-9, weight, pick)
    assert pick.tolist() == [1, 0, 0, 1]


def test_tails_are_longest_paths_in_the_faster_modes():
    dur = np.array([[5, 9], [7, 6], [4, NEVER], [NEVER, 3]], dtype=np.int64)
    tail = np.zeros(4, dtype=np.int64)
    assert tails(dur, PREDS, tail) == 10
    assert tail.tolist() == [9, 10, 4, 3]


def test_cliques_hold_only_ops_that_never_overlap():
    dur = np.array([[5, NEVER], [6, NEVER], [4, NEVER], [3, NEVER]], dtype=np.int64)
    need = np.array([[[6]], [[5]], [[1]], [[4]]]).repeat(2, axis=1)  # capacity 9: only 0 clashes, with 1 and 3
    member = np.zeros((3, 4), dtype=np.bool_)
    order = np.argsort(-dur.min(axis=1), kind="stable")
    count = cliques(dur, need, np.array([9]), ANCESTORS, order, member)
    found = {tuple(np.flatnonzero(row)) for row in member[:count]}
    assert (0, 1, 2) in found
    assert all(set(ops) <= {0, 1, 2} or set(ops) <= {0, 3} for ops in found)


@pytest.mark.parametrize(("value", "whole"), [(7.0, 7), (7.0 + 1e-9, 7), (6.9999999999, 7), (7.01, 8), (0.0, 0)])
def test_rounding_up_forgives_only_float_error(value, whole):
    assert ceil_safely(value) == whole
