"""What one array can do with any scratchpad tile, or with a given one: the innermost boundary of model ``paper``.

Axis letters: d = dimension (0 rows n, 1 reduction c, 2 features k), f = column of what arrays do (``records``),
s = way to spread over the array.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import inner, kernel
from rephaze.estimate.arrays import Floats, Ints
from rephaze.estimate.gemm_paper.records import (
    CYCLES,
    ENERGY,
    FIRST,
    INPUT,
    KEPT,
    LANES,
    NUM_COLUMNS,
    NUM_MEASURES,
    OUTPUT,
    SECOND,
    TENSORS,
    WAY,
    WEIGHT,
    Array,
    ArrayOptions,
    C,
    K,
    N,
    Prospects,
    Traffic,
)
from rephaze.estimate.gemm_paper.tiles import divisors_of, largest_within, unrolls


@inner
def volume(sides_d: Ints) -> float:
    """Multiply-accumulates of a problem, or multipliers of a way to spread."""
    return float(float(sides_d[N]) * sides_d[C] * sides_d[K])


@inner
def num_outputs(dims_d: Ints) -> float:
    """Elements of a product's output."""
    return float(float(dims_d[N]) * dims_d[K])


@inner
def boundary_cost(
    macs: float, outputs: float, low_d: Ints, spatial_d: Ints, high_d: Ints, kept: int, words_per_cycle: float
) -> Traffic:
    """What crosses one boundary, and how long that takes.

    Args:
        macs: Multiply-accumulates of the problem.
        outputs: Elements of its output.
        low_d: Tile below the boundary.
        spatial_d: How often it is spread in space just above.
        high_d: Tile above the boundary.
        kept: The tensor that stays while the loops between the two tiles run.
        words_per_cycle: Bandwidth, for reads and for writes.
    """
    above_w = macs / (high_d[N] if kept == WEIGHT else low_d[N] * spatial_d[N])
    above_o = macs / (high_d[C] if kept == OUTPUT else low_d[C] * spatial_d[C])
    above_i = macs / (high_d[K] if kept == INPUT else low_d[K] * spatial_d[K])
    cycles = max(above_i + above_w + above_o - outputs, above_o) / words_per_cycle
    fills_w, fills_o, fills_i = above_w * spatial_d[N], above_o * spatial_d[C], above_i * spatial_d[K]
    return Traffic(cycles, fills_w, fills_o, fills_i, above_w, above_o, above_i)


@inner
def dims_of(tensor: int) -> tuple[int, int]:
    """The two dimensions a tensor has."""
    return (C if tensor == WEIGHT else N), (C if tensor == INPUT else K)


@kernel
def array_options(dims_d: Ints, array: Array) -> ArrayOptions:
    """Ways to spread over the array, the least of each, and a Pareto front over all.

    The scratchpad tile is free but for its capacity, so these are bounds of what any tile allows; they do not
    depend on the number of cores or on the global buffer.
    """
    register_words, scratchpad_words = array.register_words, array.scratchpad_words
    register_pj, scratchpad_pj = array.register_pj, array.scratchpad_pj
    macs, outputs = volume(dims_d), num_outputs(dims_d)
    unroll_sd = unrolls(dims_d, array.long_side, array.short_side)
    divisors_n, divisors_c, divisors_k = divisors_of(dims_d[N]), divisors_of(dims_d[C]), divisors_of(dims_d[K])
    least_sf = np.full((len(unroll_sd), NUM_MEASURES), np.inf)
    front_rf = np.empty((16, NUM_MEASURES))
    count = 0
    for s in range(len(unroll_sd)):
        unroll_d = unroll_sd[s]
        lanes = volume(unroll_d)
        least_sf[s, LANES] = lanes
        spatial_pj = scratchpad_pj * (macs / unroll_d[K] + (2.0 * macs - outputs) / unroll_d[C])
        for kept in TENSORS:
            y, z = dims_of(kept)
            x_i = divisors_n if kept == WEIGHT else (divisors_c if kept == OUTPUT else divisors_k)
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
                    moved_w = moved_x if kept == WEIGHT else moved_y
                    moved_o = moved_y if kept == WEIGHT else (moved_x if kept == OUTPUT else moved_z)
                    cycles = max(moved_x + moved_y + moved_z - outputs, moved_o) / array.words_per_cycle
                    energy_pj = spatial_pj + (register_pj * unroll_d[N] + scratchpad_pj) * moved_w
                    least_sf[s, ENERGY] = min(least_sf[s, ENERGY], energy_pj)
                    least_sf[s, CYCLES] = min(least_sf[s, CYCLES], cycles)
                    front_rf, count = _add(front_rf, count, energy_pj, cycles, lanes)
    return ArrayOptions(unroll_sd, least_sf, front_rf[:count].copy())


@inner
def _is_beaten(rows: Floats, count: int, energy_pj: float, cycles: float, lanes: float) -> bool:
    """Whether one of the first rows is as good in everything."""
    for j in range(count):
        if rows[j, ENERGY] <= energy_pj and rows[j, CYCLES] <= cycles and rows[j, LANES] >= lanes:
            return True
    return False


@inner
def _add(front_rf: Floats, count: int, energy_pj: float, cycles: float, lanes: float) -> tuple[Floats, int]:
    """The front with a point added, if none is as good, and without the points it beats."""
    if _is_beaten(front_rf, count, energy_pj, cycles, lanes):
        return front_rf, count
    kept = 0
    for j in range(count):
        point = front_rf[j]
        if not (energy_pj <= point[ENERGY] and cycles <= point[CYCLES] and lanes >= point[LANES]):
            for f in range(NUM_MEASURES):
                front_rf[kept, f] = point[f]
            kept += 1
    if kept == len(front_rf):
        front_rf = _longer(front_rf)
    front_rf[kept, ENERGY], front_rf[kept, CYCLES], front_rf[kept, LANES] = energy_pj, cycles, lanes
    return front_rf, kept + 1


@inner
def _longer(rows: Floats) -> Floats:
    """The rows with room for as many more."""
    longer = np.empty((2 * len(rows), rows.shape[1]))
    longer[: len(rows)] = rows
    return longer


@inner
def array_front(
    dims_d: Ints, tile_d: Ints, array: Array, options: ArrayOptions, prospects: Prospects, incumbent: float
) -> Floats:
    """What the array can do with a scratchpad tile: rows that no other beats in energy, cycles and lanes.

    Args:
        dims_d: The problem.
        tile_d: Scratchpad tile.
        array: The array.
        options: What it can do with any tile.
        prospects: What everything else takes at least.
        incumbent: Rows that cannot lead below this energy-delay product are left out.
    """
    register_words = array.register_words
    macs, outputs = volume(dims_d), num_outputs(dims_d)
    rows = np.empty((16, NUM_COLUMNS))
    count = 0
    register_d = np.ones(3, dtype=np.int64)
    for s in prospects.order_s:
        if prospects.promise_s[s] >= incumbent:
            break
        unroll_d = options.unroll_sd[s]
        if tile_d[N] % unroll_d[N] or tile_d[C] % unroll_d[C] or tile_d[K] % unroll_d[K]:
            continue
        lanes = options.least_sf[s, LANES]
        spatial_pj = array.scratchpad_pj * (macs / unroll_d[K] + (2.0 * macs - outputs) / unroll_d[C])
        least_cycles = max(prospects.rest_cycles, macs / (lanes * prospects.most_cores))
        for kept in TENSORS:
            y, z = dims_of(kept)
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
                moved = boundary_cost(macs, outputs, register_d, unroll_d, tile_d, kept, array.words_per_cycle)
                energy_pj = spatial_pj + array.register_pj * moved.fills_w + array.scratchpad_pj * moved.above_w
                if (energy_pj + prospects.rest_pj) * max(least_cycles, moved.cycles) >= incumbent:
                    continue
                if _is_beaten(rows, count, energy_pj, moved.cycles, lanes):
                    continue
                if count == len(rows):
                    rows = _longer(rows)
                rows[count, ENERGY], rows[count, CYCLES], rows[count, LANES] = energy_pj, moved.cycles, lanes
                rows[count, WAY], rows[count, KEPT] = s, kept
                rows[count, FIRST], rows[count, SECOND] = a, b
                count += 1
    return rows[:count]
