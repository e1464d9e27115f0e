"""Counts a length may be cut into: all whole numbers up to 16, then ever coarser, whatever the hardware.

The ladders of the mapper's splits, rounds, blocks and array parts do not depend on the chip: a larger chip can do
all a smaller one can.
"""

from __future__ import annotations

import numpy as np
from numba import int64

from rephaze.compiled import compiled
from rephaze.estimate.arrays import Ints

SPLIT_STEPS = 2
BLOCK_STEPS = 2
TILE_STEPS = 4
"""Rungs to each doubling above 16, powers of two up to 16. Every rung of the blocks is one of the tiles."""


@compiled(int64(int64, int64))
def next_rung(value: int, steps: int) -> int:
    """The member of the ladder after ``value``, itself a member or 0."""
    if value < 16:
        return value + 1
    power = 16
    while power * 2 <= value:
        power *= 2
    return value + power // steps


@compiled(int64(int64, int64))
def ladder_at_least(value: int, steps: int) -> int:
    """The smallest member of the ladder that is not below ``value``."""
    if value <= 16:
        return value
    power = 16
    while power * 2 <= value:
        power *= 2
    stride = power // steps
    return (value + stride - 1) // stride * stride


@compiled(int64(int64, int64))
def ladder_at_most(value: int, steps: int) -> int:
    """The largest member of the ladder that is not above ``value``."""
    if value <= 16:
        return value
    power = 16
    while power * 2 <= value:
        power *= 2
    stride = power // steps
    return value // stride * stride


@compiled(int64[::1](int64, int64, int64))
def ladder(most: int, whole: int, steps: int) -> Ints:
    """Counts to cut a length of ``whole`` into, ``whole`` itself included, none above ``most``."""
    out = np.empty(17 + 64 * steps, dtype=np.int64)
    count = 0
    value = 1
    while value <= most and value <= whole:
        out[count] = value
        count += 1
        value = next_rung(value, steps)
    if whole <= most and (count == 0 or out[count - 1] != whole):
        out[count] = whole
        count += 1
    return out[:count]


@compiled(int64[::1](int64))
def array_parts(side: int) -> Ints:
    """Parts of the array that may be used, descending: the side, its halves while whole, 2^i and 3 * 2^i below."""
    out = np.empty(200, dtype=np.int64)
    out[0] = side
    count = 1
    half = 0 if side % 2 else side // 2
    power, triple = 1, 3
    while power * 2 < side:
        power *= 2
    while triple * 2 < side:
        triple *= 2
    if triple >= side:
        triple = 0
    while power >= 1 and side > 1:
        part = max(half, power, triple)
        out[count] = part
        count += 1
        if half == part:
            half = 0 if half % 2 else half // 2
        if triple == part:
            triple = 0 if triple == 3 else triple // 2
        if power == part:
            power //= 2
    return out[:count]
