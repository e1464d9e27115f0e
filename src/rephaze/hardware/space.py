"""Design spaces enumerated as arrays, with a census of what each limit removes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import SpecError
from rephaze.hardware.area import chip_area
from rephaze.hardware.energy import full_power
from rephaze.hardware.template import build_chips
from rephaze.types.chip import ChipTable
from rephaze.types.space import Comparison, Constraint, DesignSpace

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

    @property
    def num_designs(self) -> int:
        """Designs kept."""
        return len(self.chips)


def enumerate_designs(space: DesignSpace) -> DesignCensus:
    """Every design of the space within its limits, ordered as the fields are listed."""
    grid = _grid(space)
    area_um2 = chip_area(grid, space.area_model).total_um2_c
    too_large = area_um2 > space.area_limit_um2
    single_core = (grid.num_tensor_cores == 1) | (grid.num_vector_cores == 1)
    too_small = (area_um2 < space.area_floor_um2) & ~single_core
    keep = ~too_large & ~too_small
    kept_by_area = int(keep.sum())
    if np.isfinite(space.power_limit_w):
        keep &= full_power(grid, space.area_model).total_w_c <= space.power_limit_w
    kept_by_power = int(keep.sum())
    for constraint in space.constraints:
        keep &= holds(constraint, grid, grid)
    return DesignCensus(
        chips=grid.take(keep),
        area_um2_c=area_um2[keep],
        num_grid_points=len(grid),
        num_above_area_limit=int(too_large.sum()),
        num_below_area_floor=int((too_small & ~too_large).sum()),
        num_above_power_limit=kept_by_area - kept_by_power,
        num_against_constraints=kept_by_power - int(keep.sum()),
    )


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


def holds(constraint: Constraint, of_left: ChipTable, of_right: ChipTable) -> NDArray[np.bool_]:
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
    held: NDArray[np.bool_] = compare[constraint.comparison](left, right)
    return held


def _product(fields: tuple[str, ...], chips: ChipTable) -> NDArray[np.float64]:
    product = np.ones(len(chips))
    for field in fields:
        product = product * getattr(chips, field)
    return product
