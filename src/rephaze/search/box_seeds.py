"""Designs worth a look before any box is split: drawn ones that use what limits allow, neighbours of the best."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.grid import Boxes
from rephaze.hardware.system_grid import AnyGrid
from rephaze.types.boxes import OpenBox, Position

Ints = NDArray[np.int64]

NUM_DRAWN = 1 << 17
NUM_SEEDS = 256
"""Drawn designs that are bounded before the first is solved: those that leave least of the area limit unused."""
STEPS = (-1, 1)


def drawn_designs(grid: AnyGrid, seed: int) -> Ints:
    """Positions of designs, those that leave least of the area limit, or of a budget, unused; none twice."""
    rng = np.random.default_rng(seed)
    num = min(NUM_DRAWN, 4 * grid.num_points)
    at_cf = np.stack([rng.integers(0, size, num) for size in grid.shape], axis=1)
    # The small end of the grid keeps to the limits if anything does.
    at_cf = np.unique(np.vstack([grid.roots().first_bf, at_cf]), axis=0)
    at_cf = at_cf[grid.is_design(at_cf)]
    order = np.argsort(-grid.fullness(at_cf), kind="stable")
    return at_cf[order[:NUM_SEEDS]] if len(at_cf) else at_cf


def neighbours(grid: AnyGrid, position: Position) -> Ints:
    """Designs with a little more or less of one field and as much of another as then fits."""
    found: set[Position] = set()
    ends = np.array(grid.shape) - 1
    for f in range(len(ends)):
        for step in STEPS:
            moved = np.array(position, dtype=np.int64)
            moved[f] += step
            if not 0 <= moved[f] <= ends[f]:
                continue
            if step < 0:
                found.add(_position(moved))
            for g in range(len(ends)):
                if g != f:
                    found.add(_position(_fitted(grid, moved, g)))
    found.discard(position)
    at_cf = np.array(sorted(found), dtype=np.int64).reshape(-1, len(ends))
    return at_cf[grid.is_design(at_cf)] if len(at_cf) else at_cf


def single_boxes(at_cf: Ints) -> list[OpenBox]:
    """Designs as boxes of one each, of which nothing is known."""
    return [
        OpenBox(first=_position(at_f), last=_position(at_f), upper=np.inf, bounded_by="", times=())
        for at_f in at_cf
    ]


def _fitted(grid: AnyGrid, at_f: Ints, g: int) -> Ints:
    """The same with as much of one field as fits, at least the first position."""
    first, last = at_f.copy(), at_f.copy()
    first[g], last[g] = 0, grid.shape[g] - 1
    tried = np.repeat(at_f[None], grid.shape[g], axis=0)
    tried[:, g] = np.arange(grid.shape[g])
    fits = np.flatnonzero(grid.corners(Boxes(tried, tried)).is_open_b)
    found = at_f.copy()
    found[g] = int(fits[-1]) if len(fits) else 0
    return found


def _position(at_f: Ints) -> Position:
    return tuple(int(at) for at in at_f)
