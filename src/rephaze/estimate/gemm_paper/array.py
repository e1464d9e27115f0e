"""What one array can do with any scratchpad tile: the innermost boundary of model ``paper``.

Axis letters: d = dimension (0 rows n, 1 reduction c, 2 features k), s = way to spread over the array. The tensor
kept is named by the dimension it does not have: 0 weight, 1 output, 2 input.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner, kernel
from rephaze.estimate.gemm_paper.tiles import divisors_of, largest_within, unrolls

ENERGY, CYCLES, LANES, WAY, KEPT, FIRST, SECOND = range(7)
"""Columns of a front: pJ, cycles, multipliers in use, and the choice: spread, tensor kept, register sides."""


@inner
def boundary_cost(
    dims_d: NDArray[np.int64],
    low_d: NDArray[np.int64],
    spatial_d: NDArray[np.int64],
    high_d: NDArray[np.int64],
    kept: int,
    words_per_cycle: float,
) -> tuple[float, float, float, float, float, float, float]:
    """Cycles of one boundary and the words that cross it: fills below (w, o, i), traffic above (w, o, i).

    Args:
        dims_d: The problem.
        low_d: Tile below the boundary.
        spatial_d: How often it is spread in space just above.
        high_d: Tile above the boundary.
        kept: The dimension whose tensor stays while the loops between the two tiles run.
        words_per_cycle: Bandwidth, for reads and for writes.
    """
    macs = float(dims_d[0]) * dims_d[1] * dims_d[2]
    outputs = float(dims_d[0]) * dims_d[2]
    above_w = macs / (high_d[0] if kept == 0 else low_d[0] * spatial_d[0])
    above_o = macs / (high_d[1] if kept == 1 else low_d[1] * spatial_d[1])
    above_i = macs / (high_d[2] if kept == 2 else low_d[2] * spatial_d[2])
    cycles = max(above_i + above_w + above_o - outputs, above_o) / words_per_cycle
    return (
        cycles,
        above_w * spatial_d[0],
        above_o * spatial_d[1],
        above_i * spatial_d[2],
        above_w,
        above_o,
        above_i,
    )


@inner
def _others(kept: int) -> tuple[int, int]:
    """The two dimensions a tensor has."""
    return (1 if kept == 0 else 0), (1 if kept == 2 else 2)


@kernel
def array_options(
    dims_d: NDArray[np.int64],
    x_size: int,
    y_size: int,
    scratchpad_words: float,
    register_words: int,
    words_per_cycle: float,
    register_pj: float,
    scratchpad_pj: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Ways to spread over the array, the least (energy, cycles, lanes) of each, and a Pareto front over all.

    The scratchpad tile is free but for its capacity, so these are bounds of what any tile allows; they do not
    depend on the number of cores or on the global buffer.
    """
    macs = float(dims_d[0]) * dims_d[1] * dims_d[2]
    outputs = float(dims_d[0]) * dims_d[2]
    unroll_sd = unrolls(dims_d, x_size, y_size)
    divisors = (divisors_of(dims_d[0]), divisors_of(dims_d[1]), divisors_of(dims_d[2]))
    least_sf = np.full((len(unroll_sd), 3), np.inf)
    front = np.empty((16, 3))
    count = 0
    for s in range(len(unroll_sd)):
        unroll_d = unroll_sd[s]
        lanes = float(unroll_d[0]) * unroll_d[1] * unroll_d[2]
        least_sf[s, 2] = lanes
        spatial_pj = scratchpad_pj * (macs / unroll_d[2] + (2.0 * macs - outputs) / unroll_d[1])
        for kept in range(3):
            y, z = _others(kept)
            x_i = divisors[0] if kept == 0 else (divisors[1] if kept == 1 else divisors[2])
            left_y, left_z = dims_d[y] // unroll_d[y], dims_d[z] // unroll_d[z]
            for a in range(1, min(left_y, register_words) + 1):
                if left_y % a:
                    continue
                side_y = float(a * unroll_d[y])
                for b in range(1, min(left_z, (register_words - a) // (a + 1)) + 1):
                    if left_z % b:
                        continue
                    side_z = float(b * unroll_d[z])
                    if side_y * side_z > scratchpad_words:
                        break
                    side_x = largest_within(x_i, scratchpad_words / max(side_y, side_z))
                    if side_x < unroll_d[kept]:
                        break
                    moved_x, moved_y, moved_z = macs / side_x, macs / side_y, macs / side_z
                    moved_w = moved_x if kept == 0 else moved_y
                    moved_o = moved_y if kept == 0 else (moved_x if kept == 1 else moved_z)
                    cycles = max(moved_x + moved_y + moved_z - outputs, moved_o) / words_per_cycle
                    energy_pj = spatial_pj + (register_pj * unroll_d[0] + scratchpad_pj) * moved_w
                    least_sf[s, 0] = min(least_sf[s, 0], energy_pj)
                    least_sf[s, 1] = min(least_sf[s, 1], cycles)
                    front, count = _add(front, count, energy_pj, cycles, lanes)
    return unroll_sd, least_sf, front[:count].copy()


@inner
def _add(
    front: NDArray[np.float64], count: int, energy_pj: float, cycles: float, lanes: float
) -> tuple[NDArray[np.float64], int]:
    """The front with a point added, if none is as good, and without the points it beats."""
    for j in range(count):
        if front[j, 0] <= energy_pj and front[j, 1] <= cycles and front[j, 2] >= lanes:
            return front, count
    kept = 0
    for j in range(count):
        if not (energy_pj <= front[j, 0] and cycles <= front[j, 1] and lanes >= front[j, 2]):
            for f in range(3):
                front[kept, f] = front[j, f]
            kept += 1
    if kept == len(front):
        longer = np.empty((2 * len(front), 3))
        longer[:kept] = front
        front = longer
    front[kept, 0], front[kept, 1], front[kept, 2] = energy_pj, cycles, lanes
    return front, kept + 1


@inner
def array_front(
    dims_d: NDArray[np.int64],
    tile_d: NDArray[np.int64],
    unroll_sd: NDArray[np.int64],
    least_sf: NDArray[np.float64],
    promise_s: NDArray[np.float64],
    order_s: NDArray[np.int64],
    register_words: int,
    words_per_cycle: float,
    register_pj: float,
    scratchpad_pj: float,
    other_pj: float,
    other_cycles: float,
    most_split: float,
    incumbent: float,
) -> NDArray[np.float64]:
    """What the array can do with a scratchpad tile: rows that no other beats in energy, cycles and lanes.

    Args:
        dims_d: The problem.
        tile_d: Scratchpad tile.
        unroll_sd: Ways to spread over the array.
        least_sf: From ``array_options``.
        promise_s: No way leads below this energy-delay product.
        order_s: Ways by rising promise.
        register_words: Capacity of one register file.
        words_per_cycle: Bandwidth between scratchpad and array.
        register_pj: Energy of a register access.
        scratchpad_pj: Energy of a scratchpad access.
        other_pj: Least energy of everything else.
        other_cycles: Least cycles of everything else.
        most_split: Most cores in use.
        incumbent: Rows that cannot lead below this energy-delay product are left out.
    """
    macs = float(dims_d[0]) * dims_d[1] * dims_d[2]
    outputs = float(dims_d[0]) * dims_d[2]
    rows = np.empty((16, 7))
    count = 0
    register_d = np.ones(3, dtype=np.int64)
    for s in order_s:
        if promise_s[s] >= incumbent:
            break
        unroll_d = unroll_sd[s]
        if tile_d[0] % unroll_d[0] or tile_d[1] % unroll_d[1] or tile_d[2] % unroll_d[2]:
            continue
        lanes = least_sf[s, 2]
        spatial_pj = scratchpad_pj * (macs / unroll_d[2] + (2.0 * macs - outputs) / unroll_d[1])
        least_cycles = max(other_cycles, macs / (lanes * most_split))
        for kept in range(3):
            y, z = _others(kept)
            left_y, left_z = tile_d[y] // unroll_d[y], tile_d[z] // unroll_d[z]
            for a in range(1, min(left_y, (register_words - 1) // 2) + 1):
                if left_y % a:
                    continue
                b = min(left_z, (register_words - a) // (a + 1))
                while left_z % b:
                    b -= 1
                register_d[:] = 1
                register_d[y] = a
                register_d[z] = b
                cycles, fills_w, _, _, above_w, _, _ = boundary_cost(
                    dims_d, register_d, unroll_d, tile_d, kept, words_per_cycle
                )
                energy_pj = spatial_pj + register_pj * fills_w + scratchpad_pj * above_w
                if (energy_pj + other_pj) * max(least_cycles, cycles) >= incumbent:
                    continue
                is_beaten = False
                for j in range(count):
                    if rows[j, ENERGY] <= energy_pj and rows[j, CYCLES] <= cycles and rows[j, LANES] >= lanes:
                        is_beaten = True
                        break
                if is_beaten:
                    continue
                if count == len(rows):
                    longer = np.empty((2 * count, 7))
                    longer[:count] = rows
                    rows = longer
                rows[count, ENERGY], rows[count, CYCLES], rows[count, LANES] = energy_pj, cycles, lanes
                rows[count, WAY], rows[count, KEPT] = s, kept
                rows[count, FIRST], rows[count, SECOND] = a, b
                count += 1
    return rows[:count]
