"""Design spaces: the paper's count exactly, and what users may add."""

import math
from dataclasses import replace

import numpy as np
import pytest

from rephaze.errors import SpecError
from rephaze.hardware.constraints import parse_constraint
from rephaze.hardware.scenarios import load_scenario, scenario_from_mapping
from rephaze.hardware.space import enumerate_designs
from rephaze.units import GIB, MIB


@pytest.fixture(scope="module")
def paper():
    return load_scenario("paper")


def small(space, **changes):
    listed = {
        "num_tensor_cores": (1, 8),
        "tensor_width": (64, 128),
        "tensor_depth": (128,),
        "num_vector_cores": (2,),
        "global_buffer_bytes": (32 * MIB, 128 * MIB),
    }
    return replace(space, **(listed | changes))


def test_the_papers_space_has_exactly_the_published_designs(paper):
    census = enumerate_designs(paper.space)
    assert census.num_grid_points == 75_712
    assert census.num_designs == 29_360
    assert (census.num_above_area_limit, census.num_below_area_floor) == (23_769, 22_583)
    assert paper.space.area_limit_um2 == pytest.approx(278_826_676.31, abs=0.01)
    assert paper.space.hbm_bytes_options == (32 * GIB, 64 * GIB, 80 * GIB)
    assert int(census.chips.num_macs.max()) == 262_144


def test_the_papers_space_has_the_published_distinct_cores(paper):
    chips = enumerate_designs(paper.space).chips
    tensor = np.stack([chips.num_tensor_cores, chips.tensor_width, chips.tensor_depth, chips.global_buffer_bytes])
    vector = np.stack([chips.num_vector_cores, chips.vector_lanes, chips.global_buffer_bytes])
    assert np.unique(tensor, axis=1).shape[1] == 4_186
    assert np.unique(vector, axis=1).shape[1] == 697


def test_the_default_space_is_at_least_as_large_and_holds_a_chip_like_tpuv4():
    census = enumerate_designs(load_scenario("coarse").space)
    assert census.num_designs >= 29_360
    chips = census.chips
    like = (chips.num_macs == 8 * 128 * 128) & (chips.num_lanes == 4096) & (chips.global_buffer_bytes == 128 * MIB)
    assert like.any()


def test_every_design_is_counted_once(paper):
    space = small(paper.space, power_limit_w=200.0, constraints=(parse_constraint("num_macs <= 65536"),))
    census = enumerate_designs(space)
    removed = census.num_above_area_limit + census.num_below_area_floor
    removed += census.num_above_power_limit + census.num_against_constraints
    assert census.num_designs + removed == census.num_grid_points == 8


def test_core_counts_and_buffers_need_not_be_powers_of_two(paper):
    space = small(paper.space, num_tensor_cores=(3, 7), global_buffer_bytes=(24 * MIB,), area_floor_um2=0.0)
    assert enumerate_designs(space).num_designs == 4


def test_a_constraint_keeps_only_what_it_allows(paper):
    rule = parse_constraint("2 * num_vector_cores * vector_lanes >= tensor_width * 3")
    space = small(paper.space, num_vector_cores=(1, 2), area_floor_um2=0.0, constraints=(rule,))
    chips = enumerate_designs(space).chips
    assert len(chips) == 8
    assert (2 * chips.num_lanes >= 3 * chips.tensor_width).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num_macs", "must compare two products"),
        ("1 <= num_macs <= 2", "must compare two products"),
        ("num_mac <= 5", "did you mean 'num_macs'"),
        ("__import__('os') <= 5", "neither a number nor a chip field"),
    ],
)
def test_a_constraint_that_is_none_is_refused(text, said):
    with pytest.raises(SpecError, match=said):
        parse_constraint(text)


def scenario_data(**space):
    listed = {
        "num_tensor_cores": {"from": 1, "to": 9, "times": 3},
        "tensor_width": {"from": 2, "to": 8, "step": 3},
        "tensor_depth": [4],
        "num_vector_cores": [1],
        "vector_lanes": [16],
        "global_buffer_mib": [2],
        "num_hbm_stacks": [1],
        "area_limit_um2": 1e8,
    }
    return {
        "title": "mine",
        "estimate_model": "default",
        "placement_model": "1f1b",
        "all_cores_excludes": "engine",
        "attention": "fused",
        "space": listed | space,
        "cluster": {"num_devices": 8, "levels": [{"num_devices": 8, "bytes_per_s": 1e9}]},
        "training": {
            "global_batch": 8,
            "microbatches": [1],
            "tp_degrees": [1],
            "recompute": ["none"],
            "optimizer": "adam",
            "precision": "mixed",
        },
    }


def test_ranges_grow_by_factor_or_step():
    space = scenario_from_mapping(scenario_data(), name="mine", source="mine.toml").space
    assert space.num_tensor_cores == (1, 3, 9)
    assert space.tensor_width == (2, 5, 8)
    assert math.isinf(space.power_limit_w)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_tensor_cores": []}, "num_tensor_cores is .*must list at least one value"),
        ({"num_tensor_cores": [0]}, "num_tensor_cores is 0: must be from 1"),
        ({"num_tensor_cores": [2, 2]}, "lists a value twice"),
        ({"vector_lanes": {"from": 1, "to": 4}}, "space.vector_lanes is .*: needs step or times"),
        ({"num_tensor_cores": [1, "2"]}, "space.num_tensor_cores.1 is '2': must be a whole number$"),
        ({"area_limit_chip": "tpuv4"}, "exactly one of area_limit_um2"),
        ({"area_limit_um2": -5.0}, "area_limit_um2 is -5.0"),
        ({"areal_limit": 1}, "areal_limit is 1: is not a known field"),
        ({"area_model": "mine"}, "area_model is 'mine': must be one of paper, corrected"),
        ({"hbm": "hbm9"}, "hbm is 'hbm9'"),
        ({"constraints": ["x < 1"]}, "'x' is neither"),
    ],
)
def test_a_bad_space_is_refused_by_field(changes, said):
    with pytest.raises(SpecError, match=said):
        scenario_from_mapping(scenario_data(**changes), name="mine", source="mine.toml")


def test_too_large_a_grid_is_refused_before_it_fills_memory(paper):
    space = replace(paper.space, num_tensor_cores=tuple(range(1, 2**15)), tensor_width=tuple(range(1, 100)))
    with pytest.raises(SpecError, match="grid points, too many for method list; search by method boxes"):
        enumerate_designs(space)
