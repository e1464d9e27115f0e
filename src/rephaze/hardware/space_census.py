"""A space in numbers: its designs, what each limit removes, how large they are. Nothing is enumerated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.grid import DesignGrid
from rephaze.hardware.space_count import RuledGrid, bounds_of
from rephaze.types.space import DesignSpace

Floats = NDArray[np.float64]

FEW_CHIPS = 100_000
"""Looked at one by one for the smallest or largest among them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpaceCensus:
    """How many designs a space has, and how many points of its grid fell to each limit.

    A point is counted with the first limit it breaks, in the order below.
    """

    num_grid_points: int
    num_designs: int
    num_above_area_limit: int
    num_below_area_floor: int
    num_above_power_limit: int
    num_against_constraints: int
    _kept: _Kept = field(repr=False, compare=False)

    def histogram(self, num_bins: int) -> tuple[NDArray[np.int64], Floats]:
        """How many designs lie in each of so many ranges of area, and the ends of the ranges in um2."""
        if not self.num_designs:
            return np.zeros(num_bins, dtype=np.int64), np.linspace(0.0, 1.0, num_bins + 1)
        least, most = self._kept.smallest_um2(), self._kept.largest_um2(self.num_designs)
        if least == most:  # as numpy does where there is no range
            least, most = least - 0.5, most + 0.5
        ends_um2 = np.linspace(least, most, num_bins + 1)
        below = [self._kept.num_below(float(end)) for end in ends_um2[1:-1]]
        return np.diff([0, *below, self.num_designs]).astype(np.int64), ends_um2


class _Kept:
    """Points of a grid within its area limits, and within the others if asked."""

    def __init__(self, space: DesignSpace, *, power_limited: bool, ruled: bool) -> None:
        self.space, self._power_limited = space, power_limited
        rules = space.constraints if ruled else ()
        self._all = RuledGrid(space, rules)
        self._several = RuledGrid(space, rules, only_several=True) if space.area_floor_um2 else None

    @property
    def num(self) -> int:
        """All of them."""
        return self._num(self.space.area_limit_um2, is_included=True)

    def num_below_floor(self) -> int:
        """Chips of several cores below the floor; nothing below it is above the limit."""
        return self._num_low(self.space.area_floor_um2, is_included=False)

    def num_below(self, area_um2: float) -> int:
        """Those smaller than an area."""
        return self._num(area_um2, is_included=False)

    def smallest_um2(self) -> float:
        """The least area of any; there must be one."""
        low_um2, high_um2 = self._around(0, 1)
        return float(self._areas_between(low_um2, high_um2).min())

    def largest_um2(self, num: int) -> float:
        """The largest area of so many."""
        low_um2, high_um2 = self._around(num - 1, num)
        return float(self._areas_between(low_um2, high_um2).max())

    def _around(self, fewer: int, more: int) -> tuple[float, float]:
        """Areas close together: up to the one no more chips than given, up to the other at least so many."""
        low_um2, high_um2 = 0.0, self.space.area_limit_um2
        num_low, num_high = 0, self._num(high_um2, is_included=True)
        while num_high - num_low > FEW_CHIPS and high_um2 - low_um2 > 1e-9 * high_um2:
            middle_um2 = (low_um2 + high_um2) / 2
            num = self._num(middle_um2, is_included=True)
            if num <= fewer:
                low_um2, num_low = middle_um2, num
            else:
                high_um2, num_high = middle_um2, num
        assert num_low <= fewer < more <= num_high
        return low_um2, high_um2

    def _areas_between(self, low_um2: float, high_um2: float) -> Floats:
        found = self._all.areas_between(low_um2, high_um2, self._power_w)
        if self._several is None or low_um2 >= self.space.area_floor_um2:
            return found
        # Of several cores and below the floor: as often among all of that area as here, and to be taken out.
        floor_um2 = math.nextafter(min(high_um2, self.space.area_floor_um2), 0.0)
        out = self._several.areas_between(low_um2, floor_um2, self._power_w)
        values, num_found = np.unique(found, return_counts=True)
        taken, num_out = np.unique(out, return_counts=True)
        num_found[np.searchsorted(values, taken)] -= num_out
        return values[num_found > 0]

    @property
    def _power_w(self) -> float:
        return self.space.power_limit_w if self._power_limited else math.inf

    def _num(self, area_um2: float, *, is_included: bool) -> int:
        bounds = bounds_of(self.space, area_um2, is_area_included=is_included, power_limited=self._power_limited)
        num = self._all.num_within(bounds)
        if area_um2 < self.space.area_floor_um2:
            return num - self._num_low(area_um2, is_included=is_included)
        return num - self._num_low(self.space.area_floor_um2, is_included=False)

    def _num_low(self, area_um2: float, *, is_included: bool) -> int:
        if self._several is None:
            return 0
        return self._several.num_within(
            bounds_of(self.space, area_um2, is_area_included=is_included, power_limited=self._power_limited)
        )


def count_space(space: DesignSpace) -> SpaceCensus:
    """The space in numbers: the same that enumeration gives, in time and memory that hardly grow with it."""
    num_points = DesignGrid(space).num_points
    by_area = _Kept(space, power_limited=False, ruled=False)
    is_power_limited = math.isfinite(space.power_limit_w)
    by_power = _Kept(space, power_limited=True, ruled=False) if is_power_limited else by_area
    by_all = _Kept(space, power_limited=is_power_limited, ruled=True) if space.constraints else by_power
    num_by_area, num_by_power = by_area.num, by_power.num
    num_low, num_left = by_area.num_below_floor(), by_all.num
    return SpaceCensus(
        num_grid_points=num_points,
        num_designs=num_left,
        num_above_area_limit=num_points - num_by_area - num_low,
        num_below_area_floor=num_low,
        num_above_power_limit=num_by_area - num_by_power,
        num_against_constraints=num_by_power - num_left,
        _kept=by_all,
    )
