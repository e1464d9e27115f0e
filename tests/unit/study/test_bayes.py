"""The Bayesian optimiser: seeded, within its budget, and better than chance."""

import math

import numpy as np

from rephaze.study.bayes import minimise, unit_features

SIDE = 20
GRID = np.array([(x, y) for x in range(SIDE) for y in range(SIDE)]) / (SIDE - 1)


def bowl(k):
    x, y = GRID[k]
    return 1.0 + (x - 0.3) ** 2 + 2 * (y - 0.8) ** 2


def test_equal_seeds_try_equal_points_and_others_do_not():
    first, again, other = (list(minimise(GRID, bowl, 15, seed)[1]) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_budget_is_the_number_of_different_points_tried():
    asked = []

    def cost(k):
        asked.append(k)
        return bowl(k)

    _, tried = minimise(GRID, cost, 17, seed=0)
    assert len(asked) == len(set(asked)) == len(tried) == 17
    assert len(minimise(GRID[:6], bowl, 100, seed=0)[1]) == 6


def test_a_smooth_bowl_is_found_with_a_tenth_of_the_points():
    least = min(bowl(k) for k in range(len(GRID)))
    for seed in range(3):
        best, tried = minimise(GRID, bowl, 40, seed)
        assert tried[best] == least == min(tried.values())


def test_points_that_cannot_run_are_passed_over():
    best, tried = minimise(GRID, lambda k: math.inf if GRID[k][0] < 0.5 else bowl(k), 30, seed=3)
    assert math.isfinite(tried[best])
    assert minimise(GRID, lambda _: math.inf, 12, seed=0)[0] is None


def test_features_are_logarithms_from_nought_to_one():
    columns = [np.array([1, 2, 4]), np.array([7, 7, 7])]
    assert unit_features(columns).tolist() == [[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]]
