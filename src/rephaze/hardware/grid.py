"""A design space as a grid that nobody enumerates: positions along its fields, and boxes of positions.

A box is a range of positions in every field. More of any field never slows a plan (docs/proof.md, 4.7), and never
makes a chip smaller, cheaper or cooler. So its small corner, the first position of every field, says whether
anything in the box keeps to the limits; and no design in it is faster than its large corner, each field at the
last position that still fits beside the small corner's others.

Axis letters: f = field, b = box, c = chip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.space import holds
from rephaze.hardware.space_terms import is_cool, space_area, space_budget_use
from rephaze.hardware.template import build_chips
from rephaze.types.chip import Chip, ChipTable
from rephaze.types.grid_order import is_regular_side as is_regular_side
from rephaze.types.grid_order import value_runs
from rephaze.types.space import FIELDS as FIELDS
from rephaze.types.space import Comparison, Constraint, DesignSpace

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

AREA_LIMIT, AREA_FLOOR, POWER_LIMIT, CONSTRAINTS = "area limit", "area floor", "power limit", "constraints"
SILICON_BUDGET, POWER_BUDGET, USD_BUDGET = "silicon budget", "power budget", "dollar budget"
BUDGETS = {"silicon": SILICON_BUDGET, "power": POWER_BUDGET, "usd": USD_BUDGET}
"""By what of a cluster is limited."""
LIMITS = (AREA_LIMIT, AREA_FLOOR, POWER_LIMIT, CONSTRAINTS, *BUDGETS.values())
"""What may leave no design in a box."""


class Boxes(NamedTuple):
    """Ranges of positions; first and last both belong to the box."""

    first_bf: Ints
    last_bf: Ints

    def take(self, index: NDArray[np.intp] | Flags) -> Boxes:
        """Some of the boxes."""
        return Boxes(self.first_bf[index], self.last_bf[index])


class Corners(NamedTuple):
    """Of boxes: the largest position of each field that fits, and what forbids every design, if something does."""

    large_bf: Ints
    closed_by_b: Ints
    """Position in ``LIMITS``, or -1."""

    @property
    def is_open_b(self) -> Flags:
        """Whether some design may keep to the limits."""
        return self.closed_by_b < 0


@dataclass(frozen=True, eq=False)
class DesignGrid:
    """The grid of a space."""

    space: DesignSpace

    @cached_property
    def values(self) -> tuple[Ints, ...]:
        """Of each field, by position: in order within every run a box may span."""
        return tuple(np.concatenate(self._runs(field)) for field in FIELDS)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Positions of each field."""
        return tuple(len(values) for values in self.values)

    @property
    def num_points(self) -> int:
        """Designs, whether they keep to the limits or not."""
        return math.prod(self.shape)

    def roots(self) -> Boxes:
        """Boxes that cover the grid, each as large as a box may be."""
        ranges = []
        for field in FIELDS:
            ends = np.cumsum([len(run) for run in self._runs(field)]).tolist()
            ranges.append([(start, end - 1) for start, end in zip([0, *ends], ends, strict=False)])
        boxes = np.array(list(product(*ranges)), dtype=np.int64)
        return Boxes(np.ascontiguousarray(boxes[:, :, 0]), np.ascontiguousarray(boxes[:, :, 1]))

    def design_at(self, position: tuple[int, ...]) -> int:
        """The number of the design at a position."""
        number = 0
        for at, size in zip(position, self.shape, strict=True):
            number = number * size + int(at)
        return number

    def position_of(self, design: int) -> tuple[int, ...]:
        """Where the design of a number is."""
        found = []
        for size in reversed(self.shape):
            design, at = divmod(design, size)
            found.append(at)
        return tuple(reversed(found))

    def chips(self, at_cf: Ints) -> ChipTable:
        """The chips at some positions."""
        columns = {field: self.values[f][at_cf[:, f]] for f, field in enumerate(FIELDS)}
        if self.space.vector_lanes is None:
            columns["vector_lanes"] = columns["tensor_width"]
        options = self.space.hbm_bytes_options
        return build_chips(**columns, template=self.space.template, hbm_bytes=max(options) if options else None)

    def positions(self, designs: Ints) -> Ints:
        """Where designs of some numbers are."""
        found = np.empty((len(designs), len(self.shape)), dtype=np.int64)
        for f in reversed(range(len(self.shape))):
            designs, found[:, f] = np.divmod(designs, self.shape[f])
        return found

    def chip(self, design: int) -> Chip:
        """The chip of a number, named by it."""
        found = self.chips(np.array([self.position_of(design)], dtype=np.int64))
        return found.chip(0, name=f"design-{design}")

    def area_um2(self, at_cf: Ints) -> Floats:
        """Areas under the space's model."""
        return space_area(self.chips(at_cf), self.space).total_um2_c

    def fullness(self, at_cf: Ints) -> Floats:
        """How much of what is limited designs take: the area of a chip, or the largest part of a budget."""
        use = space_budget_use(self.chips(at_cf), self.space)
        return self.area_um2(at_cf) if use is None else use.largest_c

    def corners(self, boxes: Boxes) -> Corners:
        """What may be in each box."""
        small = self.chips(boxes.first_bf)
        closed_by_b = np.full(len(boxes.first_bf), -1, dtype=np.int64)
        for limit, keeps_b in reversed(list(self._kept_to(small).items())):
            closed_by_b[~keeps_b] = LIMITS.index(limit)
        large_bf = boxes.last_bf.copy()
        fits_b = closed_by_b < 0
        if fits_b.any():
            # What fits lies between both corners: a rule that only larger chips keep, none of them does.
            inner = Boxes(boxes.first_bf[fits_b], self._largest(boxes.take(fits_b)))
            large_bf[fits_b] = inner.last_bf
            closed_by_b[fits_b] = np.where(
                self._is_below_floor(inner),
                LIMITS.index(AREA_FLOOR),
                np.where(self._may_hold(inner), -1, LIMITS.index(CONSTRAINTS)),
            )
        return Corners(large_bf, closed_by_b)

    def is_design(self, at_cf: Ints) -> Flags:
        """Which positions keep to all limits."""
        return self.corners(Boxes(at_cf, at_cf)).is_open_b

    def _largest(self, boxes: Boxes) -> Ints:
        """Of each field the last position that fits beside the small corner's others."""
        largest_bf = boxes.last_bf.copy()
        for f in range(len(FIELDS)):
            low_b, high_b = boxes.first_bf[:, f].copy(), boxes.last_bf[:, f].copy()
            while (is_sought_b := low_b < high_b).any():
                middle_b = (low_b + high_b + 1) // 2
                tried_bf = boxes.first_bf.copy()
                tried_bf[:, f] = middle_b
                fits_b = np.logical_and.reduce(list(self._kept_to(self.chips(tried_bf)).values()))
                low_b = np.where(is_sought_b & fits_b, middle_b, low_b)
                high_b = np.where(is_sought_b & ~fits_b, middle_b - 1, high_b)
            largest_bf[:, f] = low_b
        return largest_bf

    def _kept_to(self, chips: ChipTable) -> dict[str, Flags]:
        """By limit that rises with every field, which chips keep to it; the one to be named first comes first."""
        space = self.space
        found = {AREA_LIMIT: space_area(chips, space).total_um2_c <= space.area_limit_um2}
        if math.isfinite(space.power_limit_w):
            found[POWER_LIMIT] = is_cool(chips, space)
        use = space_budget_use(chips, space)
        if use is not None:
            for resource, limit in BUDGETS.items():
                found[limit] = getattr(use, f"{resource}_fraction_c") <= 1.0
        return found

    def _is_below_floor(self, boxes: Boxes) -> Flags:
        """Whether every chip is: but those with a single tensor or vector core may be as small as they like."""
        if not self.space.area_floor_um2:
            return np.zeros(len(boxes.first_bf), dtype=np.bool_)
        small, large = self.chips(boxes.first_bf), self.chips(boxes.last_bf)
        is_below_b = space_area(large, self.space).total_um2_c < self.space.area_floor_um2
        may_be_single_b = (small.num_tensor_cores == 1) | (small.num_vector_cores == 1)
        found: Flags = is_below_b & ~may_be_single_b
        return found

    def _may_hold(self, boxes: Boxes) -> Flags:
        found = np.ones(len(boxes.first_bf), dtype=np.bool_)
        if self.space.constraints:
            small, large = self.chips(boxes.first_bf), self.chips(boxes.last_bf)
            for rule in self.space.constraints:
                found &= may_hold(rule, small, large)
        return found

    def _runs(self, field: str) -> list[Ints]:
        """The values of a field, in runs of which a box may have any range."""
        return [np.array(run, dtype=np.int64) for run in value_runs(self.space, field)]


def may_hold(rule: Constraint, small: ChipTable, large: ChipTable) -> Flags:
    """Whether a rule may hold between two chips: a product of fields rises with every one of them."""
    least_left, most_left = (small, large) if rule.left_factor >= 0 else (large, small)
    least_right, most_right = (small, large) if rule.right_factor >= 0 else (large, small)
    if rule.comparison in (Comparison.AT_MOST, Comparison.BELOW):
        return holds(rule, least_left, most_right)
    if rule.comparison in (Comparison.AT_LEAST, Comparison.ABOVE):
        return holds(rule, most_left, least_right)
    at_most, at_least = (replace(rule, comparison=one) for one in (Comparison.AT_MOST, Comparison.AT_LEAST))
    return holds(at_most, least_left, most_right) & holds(at_least, most_left, least_right)
