"""The mapping of least energy-delay product over tiles that divide the problem: the search of model ``paper``.

A mapping is a chain of tiles per dimension, each dividing the next: registers r, array p = r * unroll,
scratchpad l, all cores q = l * split, global buffer g, problem. Over each of the three boundaries one tensor
is kept while the loops above it run; for that tensor only the next tile out counts, for the other two the tile
just below. So every cost falls as l and g grow along divisibility, and only maximal tiles need be tried:
maximal g, then for each split over the cores maximal l, then a Pareto front of what the array can do with l.
What the array can do with the best of all l bounds every branch.

Axis letters: d = dimension (0 rows n, 1 reduction c, 2 features k), i = divisor. The tensor kept is named by the
dimension it does not have: 0 weight, 1 output, 2 input.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner, kernel
from rephaze.estimate.gemm_paper.array import (
    CYCLES,
    ENERGY,
    FIRST,
    KEPT,
    LANES,
    SECOND,
    WAY,
    array_front,
    boundary_cost,
)
from rephaze.estimate.gemm_paper.tiles import divisors_of, maximal_tiles, unrolls


@kernel
def search_divisors(
    dims_d: NDArray[np.int64],
    cores_xy: NDArray[np.int64],
    capacities: NDArray[np.float64],
    words_per_cycle: NDArray[np.float64],
    access_pj: NDArray[np.float64],
    mac_pj: float,
    unroll_sd: NDArray[np.int64],
    least_sf: NDArray[np.float64],
    free_rf: NDArray[np.float64],
) -> tuple[float, float, NDArray[np.int64], NDArray[np.int64]]:
    """Cycles, energy in pJ, tiles (register, array, scratchpad, all cores, global buffer) and tensors kept.

    Cycles are infinite if nothing fits. The energy-delay product is the least there is.

    Args:
        dims_d: Rows, reduction, features.
        cores_xy: Sides of the grid of cores.
        capacities: Words of a register file, of each scratchpad (three a core), of the global buffer.
        words_per_cycle: Scratchpad to array, global buffer to scratchpads, DRAM to global buffer.
        access_pj: Register, scratchpad, global buffer, DRAM.
        mac_pj: One multiply-accumulate.
        unroll_sd: From ``array_options``, as the next two.
        least_sf: Least energy, least cycles and lanes of each way to spread.
        free_rf: Front of energy, cycles and lanes over all ways.
    """
    macs = float(dims_d[0]) * dims_d[1] * dims_d[2]
    outputs = float(dims_d[0]) * dims_d[2]
    register_pj, scratchpad_pj, buffer_pj, dram_pj = access_pj
    best_edp = np.inf
    best_cycles = np.inf
    best_pj = np.inf
    best_tiles = np.ones((5, 3), dtype=np.int64)
    best_kept = np.zeros(3, dtype=np.int64)
    if capacities[0] < 3 or capacities[1] < 1 or capacities[2] < 3:
        return best_cycles, best_pj, best_tiles, best_kept

    split_sd = unrolls(dims_d, cores_xy[0], cores_xy[1])
    most_split = float((split_sd[:, 0] * split_sd[:, 1] * split_sd[:, 2]).max())
    fixed_pj = (mac_pj + register_pj) * macs
    register_words = int(capacities[0])
    least_array_pj = np.min(free_rf[:, 0])

    # Level 2 for every maximal global-buffer tile; a bound on the rest for each of its splits over the cores.
    buffer_gd = maximal_tiles(dims_d, capacities[2], False)
    num_g, num_t = len(buffer_gd), len(split_sd)
    ones_d = np.ones(3, dtype=np.int64)
    far_pj_gx = np.empty((num_g, 3))
    far_cycles_gx = np.empty((num_g, 3))
    bound_gt = np.full((num_g, num_t), np.inf)
    least_rest_pj = np.inf
    for g in range(num_g):
        tile_g = buffer_gd[g]
        for kept in range(3):
            cycles, _, _, _, w, o, i = boundary_cost(dims_d, tile_g, ones_d, dims_d, kept, words_per_cycle[2])
            far_cycles_gx[g, kept] = cycles
            far_pj_gx[g, kept] = buffer_pj * (i + w + o - outputs) + dram_pj * (i + w + 2.0 * o - outputs)
    for t in range(num_t):
        split_d = split_sd[t]
        cores = float(split_d[0] * split_d[1] * split_d[2])
        near_rf = _with_cores(free_rf, macs / cores)
        for g in range(num_g):
            tile_g = buffer_gd[g]
            if tile_g[0] % split_d[0] or tile_g[1] % split_d[1] or tile_g[2] % split_d[2]:
                continue
            for kept_1 in range(3):
                near_pj, near_cycles = _least_near(
                    macs, outputs, tile_g, split_d, kept_1, capacities[1], words_per_cycle[1],
                    scratchpad_pj, buffer_pj,
                )  # fmt: skip
                for kept_2 in range(3):
                    rest_pj = fixed_pj + near_pj + far_pj_gx[g, kept_2]
                    least_rest_pj = min(least_rest_pj, rest_pj)
                    rest_cycles = max(near_cycles, far_cycles_gx[g, kept_2])
                    bound_gt[g, t] = min(bound_gt[g, t], _least_product(near_rf, rest_pj, rest_cycles))
    least_far_cycles = np.min(far_cycles_gx)

    promise_s = np.empty(len(unroll_sd))
    for s in range(len(unroll_sd)):
        least_cycles = max(least_sf[s, 1], macs / (least_sf[s, 2] * most_split), least_far_cycles)
        promise_s[s] = (least_sf[s, 0] + least_rest_pj) * least_cycles
    order_s = np.argsort(promise_s)

    n_i = divisors_of(dims_d[0])
    c_i = divisors_of(dims_d[1])
    k_i = divisors_of(dims_d[2])
    front_at = np.full((len(n_i), len(c_i), len(k_i)), -1, dtype=np.int64)
    fronts = [np.empty((0, 7))]
    inner_d = np.empty(3, dtype=np.int64)
    flat_bound = bound_gt.ravel()
    for branch in np.argsort(flat_bound):
        if flat_bound[branch] >= best_edp:
            break
        g, t = branch // num_t, branch % num_t
        tile_g = buffer_gd[g]
        split_d = split_sd[t]
        cores = float(split_d[0] * split_d[1] * split_d[2])
        near_rf = _with_cores(free_rf, macs / cores)
        inner_d[:] = tile_g // split_d
        scratchpad_ld = maximal_tiles(inner_d, capacities[1], True)
        for x in range(len(scratchpad_ld)):
            tile_l = scratchpad_ld[x]
            at_n = np.searchsorted(n_i, tile_l[0])
            at_c = np.searchsorted(c_i, tile_l[1])
            at_k = np.searchsorted(k_i, tile_l[2])
            for kept_1 in range(3):
                cycles_1, a_w, a_o, a_i, b_w, b_o, b_i = boundary_cost(
                    dims_d, tile_l, split_d, tile_g, kept_1, words_per_cycle[1]
                )
                pj_1 = scratchpad_pj * (a_i + a_w + a_o - outputs) + buffer_pj * (b_i + b_w + 2.0 * b_o - outputs)
                for kept_2 in range(3):
                    rest_pj = fixed_pj + pj_1 + far_pj_gx[g, kept_2]
                    rest_cycles = max(cycles_1, far_cycles_gx[g, kept_2])
                    if (rest_pj + least_array_pj) * rest_cycles >= best_edp:
                        continue
                    if _least_product(near_rf, rest_pj, rest_cycles) >= best_edp:
                        continue
                    if front_at[at_n, at_c, at_k] < 0:
                        front_at[at_n, at_c, at_k] = len(fronts)
                        fronts.append(
                            array_front(
                                dims_d, tile_l, unroll_sd, least_sf, promise_s, order_s, register_words,
                                words_per_cycle[0], register_pj, scratchpad_pj, least_rest_pj, least_far_cycles,
                                most_split, best_edp,
                            )
                        )  # fmt: skip
                    front = fronts[front_at[at_n, at_c, at_k]]
                    for j in range(len(front)):
                        energy_pj = rest_pj + front[j, ENERGY]
                        cycles = max(rest_cycles, front[j, CYCLES], macs / (front[j, LANES] * cores))
                        if energy_pj * cycles < best_edp:
                            best_edp = energy_pj * cycles
                            best_cycles = cycles
                            best_pj = energy_pj
                            kept_0 = int(front[j, KEPT])
                            best_tiles[0, :] = 1
                            best_tiles[0, 1 if kept_0 == 0 else 0] = int(front[j, FIRST])
                            best_tiles[0, 1 if kept_0 == 2 else 2] = int(front[j, SECOND])
                            best_tiles[1, :] = best_tiles[0] * unroll_sd[int(front[j, WAY])]
                            best_tiles[2, :] = tile_l
                            best_tiles[3, :] = tile_l * split_d
                            best_tiles[4, :] = tile_g
                            best_kept[0] = kept_0
                            best_kept[1] = kept_1
                            best_kept[2] = kept_2
    return best_cycles, best_pj, best_tiles, best_kept


@inner
def _with_cores(free_rf: NDArray[np.float64], macs_a_core: float) -> NDArray[np.float64]:
    """Rows of energy and cycles that no other beats, with so many multiply-accumulates on every core."""
    rows = np.empty((len(free_rf), 2))
    count = 0
    for r in range(len(free_rf)):
        energy_pj, cycles = free_rf[r, 0], max(free_rf[r, 1], macs_a_core / free_rf[r, 2])
        is_beaten = False
        for j in range(count):
            if rows[j, 0] <= energy_pj and rows[j, 1] <= cycles:
                is_beaten = True
                break
        if not is_beaten:
            rows[count, 0], rows[count, 1] = energy_pj, cycles
            count += 1
    return rows[:count]


@inner
def _least_product(rows_rf: NDArray[np.float64], rest_pj: float, rest_cycles: float) -> float:
    """The least energy-delay product of a row together with everything else."""
    least = np.inf
    for r in range(len(rows_rf)):
        least = min(least, (rest_pj + rows_rf[r, 0]) * max(rest_cycles, rows_rf[r, 1]))
    return least


@inner
def _least_near(
    macs: float,
    outputs: float,
    tile_d: NDArray[np.int64],
    split_d: NDArray[np.int64],
    kept: int,
    scratchpad_words: float,
    words_per_cycle: float,
    scratchpad_pj: float,
    buffer_pj: float,
) -> tuple[float, float]:
    """Least energy and cycles between scratchpads and global buffer, whatever the scratchpad tile.

    The tiles of the two tensors not kept obey l_y * l_z <= capacity, so 1/l_y + 1/l_z >= 2/sqrt(capacity);
    each is also at most what the global-buffer tile leaves.
    """
    y = 1 if kept == 0 else 0
    z = 1 if kept == 2 else 2
    fills_x = macs * split_d[kept] / tile_d[kept]
    fills_y = macs * split_d[y] / tile_d[y]
    fills_z = macs * split_d[z] / tile_d[z]
    fills = fills_x + max(fills_y + fills_z, 2.0 * macs / np.sqrt(scratchpad_words))
    above_yz = max(
        macs / tile_d[y] + macs / tile_d[z],
        2.0 * macs / np.sqrt(scratchpad_words * split_d[y] * split_d[z]),
    )
    above = macs / tile_d[kept] + above_yz
    pj = scratchpad_pj * (fills - outputs) + buffer_pj * (above + macs / tile_d[1] - outputs)
    return pj, (above - outputs) / words_per_cycle
