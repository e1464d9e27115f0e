"""Spaces counted without enumeration: the numbers enumeration gives, and those it cannot."""

import random
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from rephaze.hardware import space_count
from rephaze.hardware.constraints import parse_constraint
from rephaze.hardware.pair_count import PairSums, num_both_up_to
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.space import enumerate_designs
from rephaze.hardware.space_census import count_space
from rephaze.types.space import AreaModel
from rephaze.units import MIB

COUNTS = (
    "num_grid_points",
    "num_designs",
    "num_above_area_limit",
    "num_below_area_floor",
    "num_above_power_limit",
    "num_against_constraints",
)
RULES = (
    "num_macs <= 65536",
    "num_lanes >= 512",
    "num_macs <= 16 * num_lanes",
    "num_lanes == tensor_width",
    "tensor_width >= tensor_depth",
    "global_buffer_bytes > 1048576 * num_tensor_cores",
    "-1 * num_macs < -4096",
    "hbm_bytes_per_s * num_vector_cores < 5e12",
    "clock_hz > 1e6",
    "num_macs * num_hbm_stacks <= 300 * num_lanes * num_vector_cores",
)


def drawn_space(seed):
    """A space of some thousand points, its limit often the exact area of one of them."""
    rng = random.Random(seed)

    def some(values, most):
        return tuple(rng.sample(values, rng.randint(1, most)))

    scenario = load_scenario(rng.choice(["paper", "coarse"]))
    space = replace(
        scenario.space,
        num_tensor_cores=some([1, 2, 3, 4, 7, 8, 16, 32, 64], 5),
        tensor_width=some([4, 16, 24, 32, 64, 128, 256], 3),
        tensor_depth=some([4, 16, 24, 32, 64, 128, 256], 3),
        num_vector_cores=some([1, 2, 3, 4, 8], 3),
        vector_lanes=rng.choice([None, some([16, 128, 200, 256, 512, 1024], 3)]),
        global_buffer_bytes=tuple(mib * MIB for mib in some([1, 2, 8, 13, 32, 64, 128], 4)),
        num_hbm_stacks=some([1, 2, 3, 4, 6, 8], 3),
        area_model=rng.choice(list(AreaModel)),
        area_floor_um2=0.0,
        area_limit_um2=1e15,
    )
    areas = np.sort(enumerate_designs(space).area_um2_c)
    limit_um2 = float(rng.choice(areas)) * rng.choice([1.0, 1.0, 1.05])
    return replace(
        space,
        area_limit_um2=limit_um2,
        area_floor_um2=rng.choice([0.0, 0.0, min(float(areas[len(areas) // 4]), limit_um2)]),
        power_limit_w=rng.choice([float("inf"), 50.0, 150.0, 300.0]),
        constraints=tuple(parse_constraint(text) for text in rng.sample(RULES, rng.randint(0, 3))),
    )


@pytest.mark.parametrize("seed", range(60))
def test_a_count_is_what_enumeration_finds(seed, monkeypatch):
    if seed % 3 == 0:  # boxes must be split
        monkeypatch.setattr(space_count, "MOST_ENTRIES", 40)
    space = drawn_space(seed)
    found, listed = count_space(space), enumerate_designs(space)
    assert {name: getattr(found, name) for name in COUNTS} == {name: getattr(listed, name) for name in COUNTS}
    if listed.num_designs:
        counts, ends_um2 = found.histogram(7)
        want, want_ends_um2 = np.histogram(listed.area_um2_c, bins=7)
        assert counts.tolist() == want.tolist()
        assert ends_um2.tolist() == want_ends_um2.tolist()


def test_the_papers_space_is_counted_by_exact_equality():
    found = count_space(load_scenario("paper").space)
    assert (found.num_grid_points, found.num_designs) == (75_712, 29_360)
    assert (found.num_above_area_limit, found.num_below_area_floor) == (23_769, 22_583)


@pytest.mark.parametrize("rules", [(), ("num_macs <= 32 * num_lanes",)])
def test_a_thousand_million_points_take_seconds_and_little_memory(rules):
    space = replace(
        load_scenario("default").space,
        num_tensor_cores=tuple(range(1, 129)),
        num_vector_cores=tuple(range(1, 17)),
        global_buffer_bytes=tuple(mib * MIB for mib in range(4, 260, 2)),
        vector_lanes=tuple(range(64, 2049, 64)),
        power_limit_w=300.0,
        constraints=tuple(parse_constraint(text) for text in rules),
    )
    tracemalloc.start()
    began = time.process_time()
    found = count_space(space)
    counts, _ = found.histogram(10)
    assert found.num_grid_points > 1_000_000_000
    assert counts.sum() == found.num_designs > 0
    assert time.process_time() - began < 60
    assert tracemalloc.get_traced_memory()[1] < 1 << 30
    tracemalloc.stop()


def test_nothing_that_fits_is_counted_as_nothing():
    found = count_space(replace(load_scenario("coarse").space, area_limit_um2=1e6, area_floor_um2=0.0))
    assert (found.num_designs, found.num_above_area_limit) == (0, found.num_grid_points)
    assert found.histogram(3)[0].tolist() == [0, 0, 0]


def test_pairs_within_two_limits_are_those_one_by_one():
    rng = np.random.default_rng(3)
    for num_k, num_j in ((1, 1), (7, 5), (64, 33), (100, 1)):
        a_k, b_k, a_j, b_j = (rng.integers(0, 20, num).astype(float) for num in (num_k, num_k, num_j, num_j))
        one, other = PairSums(a_k, a_j), PairSums(b_k, b_j)
        both = (a_k[:, None] + a_j <= 18) & (b_k[:, None] + b_j <= 21)
        assert num_both_up_to(one, other, 18, 21) == both.sum()
        k_p, j_p = one.between(9, 14)
        assert sorted(zip(k_p, j_p, strict=True)) == [
            (k, j) for k in range(num_k) for j in range(num_j) if 9 < a_k[k] + a_j[j] <= 14
        ]
        assert one.num_between(9, 14) == len(k_p)
