"""Design spaces enumerated as arrays, with a census of what each limit removes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import SpecError
from rephaze.hardware.space_terms import is_cool, space_area, space_budget_use
from rephaze.hardware.template import build_chips
from rephaze.types.chip import ChipTable
from rephaze.types.space import Comparison, Constraint, DesignSpace

Flags = NDArray[np.bool_]

MAX_GRID_POINTS = 20_000_000
"""More would not fit the memory; boxes of designs (``grid``) have no such limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DesignCensus:
    """The designs of a space that keep to its limits, and how many fell to each."""

    chips: ChipTable
    area_um2_c: NDArray[np.float64]
    num_grid_points: int
    num_above_area_limit: int
    num_below_area_floor: int
    num_above_power_limit: int
    num_against_constraints: int
    num_over_budget: int = 0
    """Whose cluster takes more than its budget; none where there is none."""

    @property
    def num_designs(self) -> int:
        """Designs kept."""
        return len(self.chips)


def enumerate_designs(space: DesignSpace) -> DesignCensus:
    """Every design of the space within its limits, ordered as the fields are listed."""
    return census_of(space, _grid(space))


def census_of(space: DesignSpace, grid: ChipTable) -> DesignCensus:
    """Those of some grid points that are designs of the space, in the same order."""
    kept = _kept(space, grid)
    num_by_area, num_by_power = int(kept.by_area_c.sum()), int(kept.by_power_c.sum())
    num_too_large = int(kept.is_too_large_c.sum())
    return DesignCensus(
        chips=grid.take(kept.by_all_c),
        area_um2_c=kept.area_um2_c[kept.by_all_c],
        num_grid_points=len(grid),
        num_above_area_limit=num_too_large,
        num_below_area_floor=len(grid) - num_too_large - num_by_area,
        num_above_power_limit=num_by_area - num_by_power,
        num_against_constraints=num_by_power - int(kept.by_rules_c.sum()),
        num_over_budget=int(kept.by_rules_c.sum()) - int(kept.by_all_c.sum()),
    )


def within_limits(space: DesignSpace, grid: ChipTable) -> Flags:
    """Which of some grid points are designs of the space."""
    return _kept(space, grid).by_all_c


class _Kept(NamedTuple):
    """What is left of some grid points after one limit after the other."""

    area_um2_c: NDArray[np.float64]
    is_too_large_c: Flags
    by_area_c: Flags
    by_power_c: Flags
    by_rules_c: Flags
    by_all_c: Flags


def _kept(space: DesignSpace, grid: ChipTable) -> _Kept:
    area_um2 = space_area(grid, space).total_um2_c
    too_large = area_um2 > space.area_limit_um2
    single_core = (grid.num_tensor_cores == 1) | (grid.num_vector_cores == 1)
    by_area = ~too_large & ~((area_um2 < space.area_floor_um2) & ~single_core)
    by_power = by_area
    if np.isfinite(space.power_limit_w):
        by_power = by_area & is_cool(grid, space)
    by_rules = by_power
    for constraint in space.constraints:
        by_rules = by_rules & holds(constraint, grid, grid)
    use = space_budget_use(grid, space)
    by_all = by_rules if use is None else by_rules & use.fits_c
    return _Kept(area_um2, too_large, by_area, by_power, by_rules, by_all)


def _grid(space: DesignSpace) -> ChipTable:
    lanes = space.vector_lanes if space.vector_lanes is not None else (0,)
    axes = (
        space.num_tensor_cores,
        space.num_vector_cores,
        space.tensor_width,
        space.tensor_depth,
        lanes,
        space.global_buffer_bytes,
        space.num_hbm_stacks,
    )
    num_points = int(np.prod([float(len(axis)) for axis in axes]))
    if num_points > MAX_GRID_POINTS:
        rule = f"has over {MAX_GRID_POINTS:,} grid points, too many for method list"
        raise SpecError("space", num_points, rule, "search by method boxes, or list fewer values per field")
    columns = [c.ravel() for c in np.meshgrid(*[np.array(a, dtype=np.int64) for a in axes], indexing="ij")]
    return build_chips(
        num_tensor_cores=columns[0],
        num_vector_cores=columns[1],
        tensor_width=columns[2],
        tensor_depth=columns[3],
        vector_lanes=columns[2] if space.vector_lanes is None else columns[4],
        global_buffer_bytes=columns[5],
        num_hbm_stacks=columns[6],
        template=space.template,
        hbm_bytes=max(space.hbm_bytes_options) if space.hbm_bytes_options else None,
    )


def holds(constraint: Constraint, of_left: ChipTable, of_right: ChipTable) -> Flags:
    """Whether a rule holds, its left side taken of one chip and its right side of another, or of the same."""
    left = constraint.left_factor * _product(constraint.left_fields, of_left)
    right = constraint.right_factor * _product(constraint.right_fields, of_right)
    compare = {
        Comparison.AT_MOST: np.less_equal,
        Comparison.BELOW: np.less,
        Comparison.AT_LEAST: np.greater_equal,
        Comparison.ABOVE: np.greater,
        Comparison.EQUAL: np.equal,
    }
    held: Flags = compare[constraint.comparison](left, right)
    return held


def _product(fields: tuple[str, ...], chips: ChipTable) -> NDArray[np.float64]:
    product = np.ones(len(chips))
    for field in fields:
        product = product * getattr(chips, field)
    return product
