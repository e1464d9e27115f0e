"""Limits of a space over boxes of its designs, looked at afresh: by corners that are scanned, and by the designs.

Axis letters: f = field, c = chip.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.grid import AREA_FLOOR, AREA_LIMIT, BUDGETS, CONSTRAINTS, FIELDS, POWER_LIMIT, DesignGrid
from rephaze.hardware.space import holds
from rephaze.hardware.space_terms import space_area, space_budget_use, space_power_w
from rephaze.hardware.system_grid import AnyGrid, SystemGrid, by_system
from rephaze.types.boxes import Position
from rephaze.verify.cover import Box, said
from rephaze.verify.findings import Wrong

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

RISING = (AREA_LIMIT, POWER_LIMIT, *BUDGETS.values())
"""Limits of what never falls as a chip grows."""
MOST_POINTS = 20_000
"""Of a box: if it has no more, every one is looked at, else as many random ones."""


class BoxLimits:
    """The limits of one space.

    Args:
        grid: What positions mean; none of what it says of boxes is asked for.
        seed: Of random points.
    """

    def __init__(self, grid: DesignGrid, seed: int) -> None:
        self.grid, self.space, self.seed = grid, grid.space, seed

    def broken(self, at_cf: Ints) -> dict[str, Flags]:
        """By limit, which positions break it."""
        chips, space = self.grid.chips(at_cf), self.space
        area_um2_c = space_area(chips, space).total_um2_c
        is_single_c = (chips.num_tensor_cores == 1) | (chips.num_vector_cores == 1)
        keeps_c = np.ones(len(chips), dtype=np.bool_)
        for rule in space.constraints:
            keeps_c &= holds(rule, chips, chips)
        is_hot_c = np.zeros(len(chips), dtype=np.bool_)
        if math.isfinite(space.power_limit_w):
            is_hot_c = space_power_w(chips, space) > space.power_limit_w
        found = {
            AREA_LIMIT: area_um2_c > space.area_limit_um2,
            AREA_FLOOR: (area_um2_c < space.area_floor_um2) & ~is_single_c,
            POWER_LIMIT: is_hot_c,
            CONSTRAINTS: ~keeps_c,
        }
        use = space_budget_use(chips, space)
        if use is not None:
            found |= {limit: getattr(use, f"{resource}_fraction_c") > 1.0 for resource, limit in BUDGETS.items()}
        return found

    def is_design(self, at_cf: Ints) -> Flags:
        """Which positions keep to all of them."""
        found: Flags = ~np.logical_or.reduce(list(self.broken(at_cf).values()))
        return found

    def points(self, box: Box, at_most: int = MOST_POINTS) -> Ints:
        """Every position of a small box; of a large one both corners and random ones."""
        if box.num_points <= at_most:
            axes = [np.arange(low, high + 1) for low, high in zip(box.first, box.last, strict=True)]
            return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1).astype(np.int64)
        rng = np.random.default_rng([self.seed, *box.first, *box.last])
        drawn = [rng.integers(low, high + 1, at_most) for low, high in zip(box.first, box.last, strict=True)]
        return np.vstack([[box.first, box.last], np.stack(drawn, axis=1)]).astype(np.int64)

    def wrong_limit(self, box: Box, limit: str) -> Wrong:
        """Whether a box that a limit is said to close has a design, or is closed by another one."""
        if limit in RISING:
            # They rise with every field: if the smallest chip breaks one, all do.
            broken = self.broken(np.array([box.first], dtype=np.int64))
            if limit not in broken or not broken[limit][0]:
                yield f"{said(box)}: the smallest chip keeps to the {limit}"
            return
        broken = self.broken(self.points(box))
        if (_fits(broken) & ~broken[limit]).any():
            yield f"{said(box)}: not every chip that fits breaks the {limit}"

    def large_corner(self, box: Box) -> Position:
        """Each field at its last position that fits beside the first ones of the others: by trying them all."""
        found = []
        for f in range(len(FIELDS)):
            tried = np.repeat(np.array([box.first], dtype=np.int64), box.last[f] - box.first[f] + 1, axis=0)
            tried[:, f] = np.arange(box.first[f], box.last[f] + 1)
            broken = self.broken(tried)
            fits = np.flatnonzero(_fits(broken))
            found.append(int(tried[fits[-1], f]) if len(fits) else box.first[f])
        return tuple(found)

    def some_design(self, box: Box, chooser: random.Random) -> Position | None:
        """A random design of a box; None if none was met."""
        at_cf = self.points(box)
        found = np.flatnonzero(self.is_design(at_cf))
        if not len(found):
            return None
        return tuple(int(at) for at in at_cf[chooser.choice(found.tolist())])


class SystemLimits:
    """The limits of every system of a search, each looked at as those of one space.

    Args:
        grid: Of all systems.
        seed: Of random points.
    """

    def __init__(self, grid: SystemGrid, seed: int) -> None:
        self._own = [BoxLimits(one, seed) for one in grid.grids]

    def is_design(self, at_cf: Ints) -> Flags:
        """Which positions keep to all limits of their system."""
        found = np.zeros(len(at_cf), dtype=np.bool_)
        for s, index in by_system(at_cf[:, 0]):
            found[index] = self._own[s].is_design(at_cf[index, 1:])
        return found

    def wrong_limit(self, box: Box, limit: str) -> Wrong:
        """As ``BoxLimits.wrong_limit``."""
        for what in self._own[box.first[0]].wrong_limit(inside(box), limit):
            yield f"system {box.first[0]}: {what}"

    def large_corner(self, box: Box) -> Position:
        """As ``BoxLimits.large_corner``."""
        return (box.first[0], *self._own[box.first[0]].large_corner(inside(box)))

    def some_design(self, box: Box, chooser: random.Random) -> Position | None:
        """As ``BoxLimits.some_design``."""
        found = self._own[box.first[0]].some_design(inside(box), chooser)
        return None if found is None else (box.first[0], *found)


AnyLimits = BoxLimits | SystemLimits


def limits_of(grid: AnyGrid, seed: int) -> AnyLimits:
    """The limits of a search by boxes."""
    return SystemLimits(grid, seed) if isinstance(grid, SystemGrid) else BoxLimits(grid, seed)


def inside(box: Box) -> Box:
    """A box of one system as a box of its chips."""
    return replace(box, first=box.first[1:], last=box.last[1:])


def _fits(broken: dict[str, Flags]) -> Flags:
    """Which positions keep to all limits of what never falls as a chip grows."""
    found: Flags = ~np.logical_or.reduce([broken[limit] for limit in RISING if limit in broken])
    return found
