"""Model ``paper`` on GEMMs small enough to add up its cost function by hand."""

from dataclasses import replace

import pytest

from rephaze.errors import SpecError
from rephaze.estimate.estimate_model import PAPER
from rephaze.estimate.gemm_paper.mapper import DivisorProblem, core_grid, map_divisors
from rephaze.units import J_PER_PJ

ONE = DivisorProblem(
    rows_n=1,
    features_k=1,
    reduction_c=1,
    num_tensor_cores=4,
    width=2,
    depth=2,
    scratchpad_words=64.0,
    global_buffer_words=64.0,
    register_pj=1.0,
    scratchpad_pj=10.0,
    global_buffer_pj=100.0,
    dram_pj=1000.0,
)


@pytest.mark.parametrize(
    ("num_cores", "grid"), [(1, (1, 1)), (2, (2, 1)), (7, (3, 2)), (8, (4, 2)), (12, (6, 2)), (64, (8, 8))]
)
def test_the_grid_of_cores(num_cores, grid):
    assert core_grid(num_cores) == grid


def test_one_multiply_accumulate():
    found = map_divisors(ONE, PAPER)
    assert found.cycles == 1
    # The bound has all 16 multipliers at work.
    assert found.bound_cycles == 1 / 16
    operation = 2.2 + 1
    # The input and the sum (out, not back) between scratchpad and array; the weight also into its register.
    array = 10 * 2 + 1 + 10
    # Three words into the scratchpads and the buffer, the sum not; three out of what is above, sums both ways.
    scratchpads = 10 * 2 + 100 * 3
    buffer = 100 * 2 + 1000 * 3
    assert found.energy_j / J_PER_PJ == pytest.approx(operation + array + scratchpads + buffer)
    assert all(set(found.mapping[name].values()) == {1} for name in ("register_tile", "core_unroll", "dram_loops"))


def test_tiles_multiply_to_the_problem_and_cores_are_used():
    found = map_divisors(replace(ONE, rows_n=8, features_k=12, reduction_c=6), PAPER)
    levels = [value for name, value in found.mapping.items() if name != "kept_tensor"]
    for dim, size in {"n": 8, "k": 12, "c": 6}.items():
        product = 1
        for level in levels:
            product *= level[dim]
        assert product == size
    assert found.cycles == 8 * 12 * 6 / 16


def test_an_array_on_its_side_does_the_same():
    wide = replace(ONE, rows_n=8, features_k=12, reduction_c=6, width=4, depth=1)
    assert map_divisors(wide, PAPER) == map_divisors(replace(wide, width=1, depth=4), PAPER)


def test_a_buffer_too_small_for_a_word_of_each_matrix_says_so():
    found = map_divisors(replace(ONE, global_buffer_words=2.0), PAPER)
    assert not found.is_feasible
    assert found.reason == "the smallest tile needs 3 words of global buffer, there are 2"


@pytest.mark.parametrize("changes", [{"rows_n": 0}, {"scratchpad_words": 0.5}, {"dram_pj": -1.0}])
def test_sizes_out_of_range_are_refused(changes):
    with pytest.raises(SpecError, match=next(iter(changes))):
        replace(ONE, **changes)
