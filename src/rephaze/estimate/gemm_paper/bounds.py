"""Cycles no mapping of model ``paper`` can beat, for many core shapes at once, without searching mappings.

Over each of the three boundaries (array, scratchpads, global buffer) one tensor is kept while the loops above
run; the other two move once for every tile side below the boundary, the kept one once for every tile side above.
Tile sides divide the problem and the tiles must fit: the least traffic is a minimum over pairs of divisors.
The sides are chosen for each boundary alone, which is what makes this a bound.

Axis letters: d = dimension (0 rows n, 1 reduction c, 2 features k), s = core shape.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rephaze.compiled import inner, kernel
from rephaze.estimate.arrays import Floats, Ints
from rephaze.estimate.estimate_model import EstimateModel
from rephaze.estimate.gemm_paper.records import INPUT, OUTPUT, TENSORS, WEIGHT, C, K, N
from rephaze.estimate.gemm_paper.tiles import divisors_of, largest_within, splits_over_grid


class Limits(NamedTuple):
    """What holds the tiles on both sides of a boundary."""

    pair_words: float
    """What two sides below may multiply to."""
    above_words: float
    long_side: int
    """Of the array below; 0 if none is."""
    short_side: int


class Divisors(NamedTuple):
    """Of the rows, the reduction and the features, ascending."""

    n: Ints
    c: Ints
    k: Ints


@inner
def _fits_array(side_y: int, side_z: int, register_words: int, x_size: int, y_size: int) -> bool:
    """Whether an array of these sides holds a tile: a register file has a small part of it."""
    for a in range(1, register_words // 2 + 1):
        if side_y % a:
            continue
        most = (register_words - a) // (a + 1)
        for b in range(min(most, side_z), 0, -1):
            if side_z % b == 0 and splits_over_grid((side_y // a) * (side_z // b), x_size, y_size):
                return True
    return False


@inner
def _least_words(
    dims_d: Ints, divisors: Divisors, limits: Limits, shares_room: bool, register_words: int
) -> float:
    """Least words over one boundary, in the slower direction, whatever tiles lie on both sides of it.

    Args:
        dims_d: The problem.
        divisors: Of its dimensions.
        limits: What holds the tiles.
        shares_room: The tensors share the words above; else each has as many.
        register_words: Capacity of a register file.
    """
    macs = float(dims_d[N]) * dims_d[C] * dims_d[K]
    outputs = float(dims_d[N]) * dims_d[K]
    pair_words, above_words = limits.pair_words, limits.above_words
    long_side, short_side = limits.long_side, limits.short_side
    least = np.inf
    for kept in TENSORS:
        y_i = divisors.c if kept == WEIGHT else divisors.n
        z_i = divisors.c if kept == INPUT else divisors.k
        x_i = divisors.n if kept == WEIGHT else (divisors.c if kept == OUTPUT else divisors.k)
        for y in y_i:
            if y > pair_words:
                break
            for z in z_i:
                if float(y) * z > pair_words:
                    break
                # What is above holds at least what is below.
                room = (above_words - float(y) * z) / (y + z) if shares_room else above_words / max(y, z)
                x = largest_within(x_i, room)
                if x == 0:
                    break
                moved_x, moved_y, moved_z = macs / x, macs / y, macs / z
                moved_o = moved_y if kept == WEIGHT else (moved_x if kept == OUTPUT else moved_z)
                words = max(moved_x + moved_y + moved_z - outputs, moved_o)
                if words < least and (long_side == 0 or _fits_array(y, z, register_words, long_side, short_side)):
                    least = words
    return least


@kernel
def _least_words_many(dims_d: Ints, limits_s: Floats, shares_room: bool, register_words: int) -> Floats:
    """``_least_words`` for many limits, each a row with the fields of ``Limits``."""
    divisors = Divisors(divisors_of(dims_d[N]), divisors_of(dims_d[C]), divisors_of(dims_d[K]))
    least_s = np.empty(len(limits_s))
    for s in range(len(limits_s)):
        pair_words, above_words, long_side, short_side = limits_s[s]
        limits = Limits(pair_words, above_words, int(long_side), int(short_side))
        least_s[s] = _least_words(dims_d, divisors, limits, shares_room, register_words)
    return least_s


class DivisorBounds:
    """Bounds for a set of core shapes; limits that many shapes share are looked at once.

    Args:
        num_cores_s: Cores in use.
        width_s: Sides of one array.
        depth_s: Sides of one array.
        scratchpad_words_s: Of each of the three scratchpads of a core.
        buffer_words_s: Of the global buffer.
        model: Rates of the three boundaries.
    """

    def __init__(
        self,
        *,
        num_cores_s: Floats,
        width_s: Floats,
        depth_s: Floats,
        scratchpad_words_s: Floats,
        buffer_words_s: Floats,
        model: EstimateModel,
    ) -> None:
        self.model = model
        self.num_macs_s = num_cores_s * width_s * depth_s
        none_s, endless_s = np.zeros_like(width_s), np.full_like(width_s, np.inf)
        short_s, long_s = np.minimum(width_s, depth_s), np.maximum(width_s, depth_s)
        rates = (model.array_words_per_cycle, model.buffer_words_per_cycle, model.dram_words_per_cycle)
        boundaries = (
            (scratchpad_words_s, scratchpad_words_s, long_s, short_s),
            (scratchpad_words_s * num_cores_s, buffer_words_s, none_s, none_s),
            (buffer_words_s, endless_s, none_s, none_s),
        )
        self._levels = []
        for level, (columns, rate) in enumerate(zip(boundaries, rates, strict=True)):
            limits, of_shape = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
            self._levels.append((limits, of_shape.reshape(-1), level == 1, rate))

    def cycles(self, rows_n: int, features_k: int, reduction_c: int) -> Floats:
        """Cycles no mapping beats, one entry a shape; infinite where nothing fits."""
        dims_d = np.array([rows_n, reduction_c, features_k], dtype=np.int64)
        cycles_s: Floats = float(rows_n) * reduction_c * features_k / self.num_macs_s
        for limits, of_shape, shares_room, rate in self._levels:
            words = _least_words_many(dims_d, limits, shares_room, self.model.register_words)
            cycles_s = np.maximum(cycles_s, words[of_shape] / rate)
        return cycles_s
