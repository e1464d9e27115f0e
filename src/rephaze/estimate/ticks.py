"""Cycles as schedules count them: whole, and in ticks."""

from __future__ import annotations

import numpy as np

from rephaze.compiled import inner_in_place, kernel_in_place
from rephaze.estimate.arrays import Floats, Ints
from rephaze.types.latency import IMPOSSIBLE_CYCLES

TICK_CYCLES = 64
"""Operators take whole ticks: schedules that differ by less than a tick are not worth telling apart."""
SIGNIFICANT_BITS = 10
"""Nor are times that differ by less than their last bit, one part in 512 at most: a longer operator's tick is
longer. So twice a time is twice its ticks where that tick is the longer one, from 65,536 cycles on: what a
bandwidth binds takes at half of it exactly twice as long, and two of them abreast gain nothing by rounding."""


def whole_cycles(cycles_c: Floats) -> Ints:
    """Cycles rounded up; ``IMPOSSIBLE_CYCLES`` where infinite."""
    found = np.empty(cycles_c.shape, dtype=np.int64)
    _fill_whole_cycles(np.ascontiguousarray(cycles_c, dtype=np.float64).ravel(), found.ravel())
    return found


def whole_ticks(cycles: Ints) -> Ints:
    """Cycles rounded up to whole ticks, which keeps their order."""
    found = np.empty(cycles.shape, dtype=np.int64)
    _fill_whole_ticks(np.ascontiguousarray(cycles).ravel(), found.ravel())
    return found


@inner_in_place
def as_whole_cycles(cycles: float) -> int:
    """As ``whole_cycles``, of one operator."""
    # Not so for infinity, nor for what is no number.
    if cycles < IMPOSSIBLE_CYCLES:
        return int(np.ceil(cycles - 1e-9))
    return IMPOSSIBLE_CYCLES


@inner_in_place
def as_whole_ticks(cycles: int) -> int:
    """As ``whole_ticks``, of one operator."""
    tick = TICK_CYCLES
    while cycles >> SIGNIFICANT_BITS >= tick:
        tick *= 2
    return cycles if cycles >= IMPOSSIBLE_CYCLES else -(-cycles // tick) * tick


@kernel_in_place
def _fill_whole_cycles(cycles_n: Floats, whole_n: Ints) -> None:
    for n in range(len(cycles_n)):
        whole_n[n] = as_whole_cycles(cycles_n[n])


@kernel_in_place
def _fill_whole_ticks(cycles_n: Ints, ticks_n: Ints) -> None:
    for n in range(len(cycles_n)):
        ticks_n[n] = as_whole_ticks(cycles_n[n])
