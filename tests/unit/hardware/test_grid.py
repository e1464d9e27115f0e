"""The grid of a space and its boxes: numbers, runs, corners, limits."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.hardware.constraints import parse_constraint
from rephaze.hardware.grid import (
    AREA_FLOOR,
    AREA_LIMIT,
    CONSTRAINTS,
    FIELDS,
    LIMITS,
    Boxes,
    DesignGrid,
    is_regular_side,
)
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.space import enumerate_designs
from rephaze.units import MIB
from tests.property.box_cases import box_settings, every_position, positions


def space_of(**fields):
    listed = {
        "num_tensor_cores": (1, 2, 3),
        "tensor_width": (32, 40, 64, 96),
        "tensor_depth": (64,),
        "num_vector_cores": (1, 2),
        "vector_lanes": (128, 200),
        "global_buffer_bytes": (2 * MIB, 3 * MIB, 5 * MIB),
        "num_hbm_stacks": (1, 2),
        "area_limit_um2": 1e12,
    }
    return replace(load_scenario("coarse").space, **(listed | fields))


def boxes_of(*ends):
    both = np.array(ends, dtype=np.int64)
    return Boxes(both[:, 0], both[:, 1])


def test_numbers_and_positions_are_the_same_both_ways():
    grid = DesignGrid(space_of())
    assert grid.num_points == 3 * 4 * 1 * 2 * 2 * 3 * 2
    for number in range(grid.num_points):
        assert grid.design_at(grid.position_of(number)) == number
    chips = [grid.chip(number) for number in range(grid.num_points)]
    assert len({tuple(getattr(chip, field) for field in FIELDS) for chip in chips}) == grid.num_points


def test_boxes_span_no_sides_but_those_of_which_every_longer_one_is_as_fast():
    grid = DesignGrid(space_of(tensor_width=(32, 40, 48, 56, 64, 80, 96, 100)))
    assert [side for side in range(1, 101) if is_regular_side(side)] == [
        1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96,
    ]  # fmt: skip
    assert grid.values[1].tolist() == [32, 48, 64, 96, 40, 56, 80, 100]
    roots = grid.roots()
    assert sorted(zip(roots.first_bf[:, 1].tolist(), roots.last_bf[:, 1].tolist(), strict=True)) == [
        (0, 3), (4, 4), (5, 5), (6, 6), (7, 7),
    ]  # fmt: skip
    points = np.concatenate([positions(*ends) for ends in zip(*roots, strict=True)])
    assert len(points) == len(np.unique(points, axis=0)) == grid.num_points


def test_lanes_as_wide_as_the_array_are_one_position():
    grid = DesignGrid(space_of(vector_lanes=None))
    assert grid.shape[FIELDS.index("vector_lanes")] == 1
    chips = grid.chips(every_position(grid))
    assert (chips.vector_lanes == chips.tensor_width).all()


@pytest.mark.parametrize("seed", range(12))
def test_the_designs_are_those_of_the_list(seed):
    space = box_settings(seed, most_points=200).scenario.space
    grid, census = DesignGrid(space), enumerate_designs(space)
    at_cf = every_position(grid)
    kept = grid.chips(at_cf[grid.is_design(at_cf)])

    def rows(chips):
        return sorted(zip(*(getattr(chips, field).tolist() for field in FIELDS), strict=True))

    assert rows(kept) == rows(census.chips)
    assert census.num_grid_points == grid.num_points


@given(seed=st.integers(0, 10**6), data=st.data())
@settings(max_examples=150, deadline=None)
def test_corners_leave_no_design_out(seed, data):
    grid = DesignGrid(box_settings(seed % 400, most_points=120).scenario.space)
    roots = grid.roots()
    root = data.draw(st.integers(0, len(roots.first_bf) - 1))
    pairs = [
        sorted(data.draw(st.tuples(st.integers(low, high), st.integers(low, high))))
        for low, high in zip(roots.first_bf[root].tolist(), roots.last_bf[root].tolist(), strict=True)
    ]
    box = boxes_of(([low for low, _ in pairs], [high for _, high in pairs]))
    corners = grid.corners(box)
    inside = positions(box.first_bf[0], box.last_bf[0])
    designs = inside[grid.is_design(inside)]
    if corners.closed_by_b[0] >= 0:
        assert not len(designs), LIMITS[corners.closed_by_b[0]]
    assert (designs <= corners.large_bf[0]).all()
    # As tight as is said: each field at its end fits beside the small corner, one more does not.
    if corners.is_open_b[0]:
        for f in range(len(FIELDS)):
            for at, fits in ((corners.large_bf[0, f], True), (corners.large_bf[0, f] + 1, False)):
                if at <= box.last_bf[0, f]:
                    tried = box.first_bf.copy()
                    tried[0, f] = at
                    broken = grid.corners(Boxes(tried, tried)).closed_by_b[0]
                    assert (broken not in (LIMITS.index("area limit"), LIMITS.index("power limit"))) is fits


def one_more_core_is_too_large(**fields):
    free = DesignGrid(space_of(num_tensor_cores=(1, 2), tensor_width=(64,), num_vector_cores=(2,), **fields))
    area_um2 = free.area_um2(np.zeros((1, len(FIELDS)), dtype=np.int64))[0]
    return replace(free.space, area_limit_um2=float(area_um2) * 1.001)


def test_a_rule_that_only_chips_too_large_would_keep_closes_a_box():
    # The only chip that fits has one core; a search once took it for a design, since the box goes on to two.
    space = one_more_core_is_too_large(vector_lanes=(128,), global_buffer_bytes=(2 * MIB,), num_hbm_stacks=(1,))
    grid = DesignGrid(replace(space, constraints=(parse_constraint("num_tensor_cores >= 2"),)))
    assert LIMITS[grid.corners(grid.roots()).closed_by_b[0]] == CONSTRAINTS
    grid = DesignGrid(replace(space, num_tensor_cores=(2, 3), area_limit_um2=1e12))
    area_um2 = grid.area_um2(np.array([[0] * 7, [1] + [0] * 6], dtype=np.int64))
    between = (float(area_um2[0]) * 1.001, float(area_um2[1]) * 0.999)
    grid = DesignGrid(replace(grid.space, area_limit_um2=between[1], area_floor_um2=between[0]))
    assert LIMITS[grid.corners(grid.roots()).closed_by_b[0]] == AREA_FLOOR
    assert LIMITS[grid.corners(boxes_of(([1] + [0] * 6, [1] + [0] * 6))).closed_by_b[0]] == AREA_LIMIT
