"""Ladders of counts: what a smaller length, count or array may use, a larger one may too."""

import pytest

from rephaze.estimate.gemm_default import ladders

ladder_at_least, ladder_at_most, next_rung, array_parts = (
    function.py_func
    for function in (ladders.ladder_at_least, ladders.ladder_at_most, ladders.next_rung, ladders.array_parts)
)


@pytest.mark.parametrize("steps", [2, 4])
def test_neighbours_on_a_ladder_agree(steps):
    rungs = [1]
    while rungs[-1] < 3000:
        rungs.append(next_rung(rungs[-1], steps))
    assert rungs[:16] == list(range(1, 17))
    for value in range(1, 2049):
        assert ladder_at_least(value, steps) == min(rung for rung in rungs if rung >= value)
        assert ladder_at_most(value, steps) == max(rung for rung in rungs if rung <= value)


def test_every_rung_of_the_blocks_is_one_of_the_tiles():
    for value in range(1, 5000):
        rung = ladder_at_least(value, ladders.BLOCK_STEPS)
        assert ladder_at_least(rung, ladders.TILE_STEPS) == rung


@pytest.mark.parametrize("side", [1, 2, 3, 5, 8, 11, 12, 20, 96, 100, 160, 256])
def test_a_doubled_array_may_use_all_parts_of_the_array(side):
    parts = array_parts(side).tolist()
    assert parts == sorted(set(parts), reverse=True)
    assert parts[0] == side
    assert set(parts) <= set(array_parts(2 * side).tolist())


@pytest.mark.parametrize("side", [1, 2, 3, 4, 6, 8, 12, 24, 64, 96])
def test_any_larger_array_may_use_a_part_of_two_or_three_times_a_power_of_two(side):
    for larger in range(side, 4 * side + 2):
        assert set(array_parts(side).tolist()) <= set(array_parts(larger).tolist())
