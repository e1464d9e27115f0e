"""Divisors, factors on a grid and maximal tiles, against trying all."""

from itertools import product

import numba
import numpy as np
import pytest

from rephaze.estimate.gemm_paper import tiles

divisors_of, largest_within, smallest_prime_factor, splits_over_grid = (
    function.py_func
    for function in (
        tiles.divisors_of,
        tiles.largest_within,
        tiles.smallest_prime_factor,
        tiles.splits_over_grid,
    )
)


@numba.njit
def unrolls(dims_d, x_size, y_size):
    return tiles.unrolls(dims_d, x_size, y_size)


@numba.njit
def maximal_tiles(dims_d, limit, pairwise):
    return tiles.maximal_tiles(dims_d, limit, pairwise)


@pytest.mark.parametrize("value", [1, 2, 12, 16, 97, 1600])
def test_divisors(value):
    assert divisors_of(value).tolist() == [i for i in range(1, value + 1) if value % i == 0]


def test_the_largest_divisor_within_a_limit():
    found = [largest_within(np.array([1, 2, 3, 4, 6, 12]), limit) for limit in (0.5, 1.0, 5.9, 6.0, 100.0)]
    assert found == [0, 1, 4, 6, 12]


def test_smallest_prime_factors():
    assert [smallest_prime_factor(value) for value in (1, 2, 9, 35, 97)] == [0, 2, 3, 5, 97]


@pytest.mark.parametrize(("x_size", "y_size"), [(1, 1), (4, 2), (6, 4), (16, 3)])
def test_what_factors_into_the_sides_of_a_grid(x_size, y_size):
    products = {x * y for x in range(1, x_size + 1) for y in range(1, y_size + 1)}
    assert {total for total in range(1, 80) if splits_over_grid(total, x_size, y_size)} == products


def divisor_triples(dims):
    return product(*([i for i in range(1, size + 1) if size % i == 0] for size in dims))


def test_every_way_to_spread_over_a_grid():
    dims = (6, 4, 10)
    expected = [t for t in divisor_triples(dims) if splits_over_grid(t[0] * t[1] * t[2], 4, 3)]
    assert [tuple(row) for row in unrolls(np.array(dims), 4, 3).tolist()] == expected


def fits(tile, limit, pairwise):
    n, c, k = tile
    areas = (n * c, c * k, n * k)
    return max(areas) <= limit if pairwise else sum(areas) <= limit


def is_multiple(large, small):
    return all(side % part == 0 for side, part in zip(large, small, strict=True))


@pytest.mark.parametrize("pairwise", [True, False])
@pytest.mark.parametrize("limit", [3.0, 12.0, 50.0, 1000.0])
def test_maximal_tiles_fit_and_no_multiple_of_them_does(limit, pairwise):
    dims = (12, 8, 18)
    fitting = [tile for tile in divisor_triples(dims) if fits(tile, limit, pairwise)]
    expected = {
        tile for tile in fitting if not any(other != tile and is_multiple(other, tile) for other in fitting)
    }
    found = [tuple(row) for row in maximal_tiles(np.array(dims), limit, pairwise).tolist()]
    assert len(found) == len(set(found))
    assert set(found) == expected
