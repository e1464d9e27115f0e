"""Chips and systems together as one grid that nobody enumerates: the system first, then the fields of a chip.

What a plan takes depends on the cluster, and a cluster that differs may be faster or slower: so no box spans two
systems, and of each system the grid is that of its space (``grid``), under its own limits.

Axis letters: f = field, the system the first; b = box, c = chip, s = system.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.grid import Boxes, Corners, DesignGrid
from rephaze.types.chip import Chip, ChipTable, chip_table
from rephaze.types.space import DesignSpace

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SystemGrid:
    """The grids of all systems, which have the same fields."""

    grids: tuple[DesignGrid, ...]

    @property
    def values(self) -> tuple[Ints, ...]:
        """Of each field, by position; of the system its number."""
        return (np.arange(len(self.grids), dtype=np.int64), *self.grids[0].values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Positions of each field."""
        return (len(self.grids), *self.grids[0].shape)

    @property
    def num_points(self) -> int:
        """Designs, whether they keep to the limits or not."""
        return math.prod(self.shape)

    def roots(self) -> Boxes:
        """Boxes that cover the grid, each as large as a box may be."""
        inner = self.grids[0].roots()
        ends = [
            np.hstack([np.full((len(one), 1), s, dtype=np.int64), one])
            for s in range(len(self.grids))
            for one in (inner.first_bf, inner.last_bf)
        ]
        return Boxes(np.vstack(ends[::2]), np.vstack(ends[1::2]))

    def system_of(self, design: int) -> int:
        """The number of a design's system."""
        return design // self.grids[0].num_points

    def space_of(self, design: int) -> DesignSpace:
        """The space that a design is of."""
        return self.grids[self.system_of(design)].space

    def design_at(self, position: tuple[int, ...]) -> int:
        """The number of the design at a position."""
        return position[0] * self.grids[0].num_points + self.grids[0].design_at(position[1:])

    def position_of(self, design: int) -> tuple[int, ...]:
        """Where the design of a number is."""
        system, own = divmod(design, self.grids[0].num_points)
        return (system, *self.grids[0].position_of(own))

    def positions(self, designs: Ints) -> Ints:
        """Where designs of some numbers are."""
        system_c, own_c = np.divmod(designs, self.grids[0].num_points)
        return np.hstack([system_c[:, None], self.grids[0].positions(own_c)])

    def chip(self, design: int) -> Chip:
        """The chip of a number, named by it."""
        found = self.chips(np.array([self.position_of(design)], dtype=np.int64))
        return found.chip(0, name=f"design-{design}")

    def chips(self, at_cf: Ints) -> ChipTable:
        """The chips at some positions, with the clock and the stacks of their systems."""
        parts = [(index, self.grids[s].chips(at_cf[index, 1:])) for s, index in by_system(at_cf[:, 0])]
        if not parts:
            return chip_table([])
        names = ChipTable.__dataclass_fields__
        where = np.argsort(np.concatenate([index for index, _ in parts]))
        return ChipTable(
            **{name: np.concatenate([getattr(own, name) for _, own in parts])[where] for name in names}
        )

    def area_um2(self, at_cf: Ints) -> Floats:
        """Areas of the chips, with the interfaces of their systems."""
        return self._of_each(at_cf, DesignGrid.area_um2)

    def fullness(self, at_cf: Ints) -> Floats:
        """How much of what is limited designs take: the area of all chips, or the largest part of a budget."""
        systems = [grid.space.system for grid in self.grids]
        if any(system is not None and system.budget.is_limited for system in systems):
            return self._of_each(at_cf, DesignGrid.fullness)
        num_chips_s = np.array([1.0 if system is None else system.num_chips for system in systems])
        found: Floats = self.area_um2(at_cf) * num_chips_s[at_cf[:, 0]]
        return found

    def corners(self, boxes: Boxes) -> Corners:
        """What may be in each box, none of which spans two systems."""
        assert (boxes.first_bf[:, 0] == boxes.last_bf[:, 0]).all()
        large_bf, closed_by_b = boxes.last_bf.copy(), np.empty(len(boxes.first_bf), dtype=np.int64)
        for s, index in by_system(boxes.first_bf[:, 0]):
            found = self.grids[s].corners(Boxes(boxes.first_bf[index, 1:], boxes.last_bf[index, 1:]))
            large_bf[index, 1:], closed_by_b[index] = found.large_bf, found.closed_by_b
        return Corners(large_bf, closed_by_b)

    def is_design(self, at_cf: Ints) -> Flags:
        """Which positions keep to all limits."""
        return self.corners(Boxes(at_cf, at_cf)).is_open_b

    def _of_each(self, at_cf: Ints, asked: Callable[[DesignGrid, Ints], Floats]) -> Floats:
        found = np.empty(len(at_cf))
        for s, index in by_system(at_cf[:, 0]):
            found[index] = asked(self.grids[s], at_cf[index, 1:])
        return found


AnyGrid = DesignGrid | SystemGrid


def by_system(system_c: Ints | Sequence[int]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Numbers of systems, each with where it is."""
    column = np.asarray(system_c)
    for s in np.unique(column).tolist():
        yield int(s), np.flatnonzero(column == s)
