"""The mapping of least energy-delay product over tiles that divide the problem: the search of model ``paper``.

A mapping is a chain of tiles per dimension, each dividing the next: registers r, array p = r * unroll,
scratchpad l, all cores q = l * split, global buffer g, problem. Over each of the three boundaries one tensor
is kept while the loops above it run; for that tensor only the next tile out counts, for the other two the tile
just below. So every cost falls as l and g grow along divisibility, and only maximal tiles need be tried:
maximal g, then for each split over the cores maximal l, then a Pareto front of what the array can do with l.
What the array can do with the best of all l bounds every branch.

Axis letters: d = dimension (0 rows n, 1 reduction c, 2 features k), g = maximal global-buffer tile, i = divisor,
l = maximal scratchpad tile, r = point of a Pareto front, s = way to spread over the array, t = split over the
cores, x = tensor kept.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import inner, kernel
from rephaze.estimate.arrays import Floats, Ints
from rephaze.estimate.gemm_paper.array import array_front, boundary_cost, dims_of, num_outputs, volume
from rephaze.estimate.gemm_paper.records import (
    CYCLES,
    ENERGY,
    FIRST,
    KEPT,
    LANES,
    NUM_COLUMNS,
    SECOND,
    TENSORS,
    WAY,
    ArrayOptions,
    C,
    Found,
    K,
    Machine,
    N,
    Prospects,
)
from rephaze.estimate.gemm_paper.tiles import divisors_of, maximal_tiles, unrolls

_REGISTER, _ARRAY, _SCRATCHPAD, _CORES, _BUFFER = range(5)
"""Tiles of ``Found``."""
_LEAST_WORDS = 3
"""A tile of one element of each tensor."""


@kernel
def search_divisors(dims_d: Ints, machine: Machine, options: ArrayOptions) -> Found:
    """The mapping of a product whose energy-delay product is the least there is.

    Args:
        dims_d: Rows, reduction, features.
        machine: The chip.
        options: What its arrays can do with the product.
    """
    array = machine.array
    macs, outputs = volume(dims_d), num_outputs(dims_d)
    scratchpad_pj, buffer_pj, dram_pj = array.scratchpad_pj, machine.buffer_pj, machine.dram_pj
    best_edp = np.inf
    best_cycles = np.inf
    best_pj = np.inf
    best_tiles = np.ones((5, 3), dtype=np.int64)
    best_kept = np.zeros(3, dtype=np.int64)
    # Each tensor has a scratchpad of its own; registers and the global buffer hold all three.
    if array.register_words < _LEAST_WORDS or array.scratchpad_words < 1 or machine.buffer_words < _LEAST_WORDS:
        return Found(best_cycles, best_pj, best_tiles, best_kept)

    split_td = unrolls(dims_d, machine.long_grid_side, machine.short_grid_side)
    most_cores = float((split_td[:, N] * split_td[:, C] * split_td[:, K]).max())
    fixed_pj = (machine.mac_pj + array.register_pj) * macs
    least_array_pj = np.min(options.front_rf[:, ENERGY])

    # The outermost boundary for every maximal global-buffer tile; a bound on the rest for each of its splits over
    # the cores.
    buffer_gd = maximal_tiles(dims_d, machine.buffer_words, False)
    num_g, num_t = len(buffer_gd), len(split_td)
    ones_d = np.ones(3, dtype=np.int64)
    far_pj_gx = np.empty((num_g, 3))
    far_cycles_gx = np.empty((num_g, 3))
    bound_gt = np.full((num_g, num_t), np.inf)
    least_rest_pj = np.inf
    for g in range(num_g):
        tile_g = buffer_gd[g]
        for kept in TENSORS:
            far = boundary_cost(macs, outputs, tile_g, ones_d, dims_d, kept, machine.dram_words_per_cycle)
            far_cycles_gx[g, kept] = far.cycles
            w, o, i = far.above_w, far.above_o, far.above_i
            far_pj_gx[g, kept] = buffer_pj * (i + w + o - outputs) + dram_pj * (i + w + 2.0 * o - outputs)
    for t in range(num_t):
        split_d = split_td[t]
        cores = volume(split_d)
        near_rf = _with_cores(options.front_rf, macs / cores)
        for g in range(num_g):
            tile_g = buffer_gd[g]
            if tile_g[N] % split_d[N] or tile_g[C] % split_d[C] or tile_g[K] % split_d[K]:
                continue
            for kept_near in TENSORS:
                near_pj, near_cycles = _least_near(macs, outputs, tile_g, split_d, kept_near, machine)
                for kept_far in TENSORS:
                    rest_pj = fixed_pj + near_pj + far_pj_gx[g, kept_far]
                    least_rest_pj = min(least_rest_pj, rest_pj)
                    rest_cycles = max(near_cycles, far_cycles_gx[g, kept_far])
                    bound_gt[g, t] = min(bound_gt[g, t], _least_product(near_rf, rest_pj, rest_cycles))
    least_far_cycles = np.min(far_cycles_gx)

    promise_s = np.empty(len(options.unroll_sd))
    for s in range(len(promise_s)):
        compute_cycles = macs / (options.least_sf[s, LANES] * most_cores)
        least_cycles = max(options.least_sf[s, CYCLES], compute_cycles, least_far_cycles)
        promise_s[s] = (options.least_sf[s, ENERGY] + least_rest_pj) * least_cycles
    prospects = Prospects(promise_s, np.argsort(promise_s), least_rest_pj, least_far_cycles, most_cores)

    n_i, c_i, k_i = divisors_of(dims_d[N]), divisors_of(dims_d[C]), divisors_of(dims_d[K])
    front_at = np.full((len(n_i), len(c_i), len(k_i)), -1, dtype=np.int64)
    fronts = [np.empty((0, NUM_COLUMNS))]
    inner_d = np.empty(3, dtype=np.int64)
    flat_bound = bound_gt.ravel()
    for branch in np.argsort(flat_bound):
        if flat_bound[branch] >= best_edp:
            break
        g, t = branch // num_t, branch % num_t
        tile_g = buffer_gd[g]
        split_d = split_td[t]
        cores = volume(split_d)
        near_rf = _with_cores(options.front_rf, macs / cores)
        inner_d[:] = tile_g // split_d
        scratchpad_ld = maximal_tiles(inner_d, array.scratchpad_words, True)
        for tile_l in scratchpad_ld:
            at_n = np.searchsorted(n_i, tile_l[N])
            at_c = np.searchsorted(c_i, tile_l[C])
            at_k = np.searchsorted(k_i, tile_l[K])
            for kept_near in TENSORS:
                near = boundary_cost(
                    macs, outputs, tile_l, split_d, tile_g, kept_near, machine.buffer_words_per_cycle
                )
                near_pj = scratchpad_pj * (near.fills_i + near.fills_w + near.fills_o - outputs) + buffer_pj * (
                    near.above_i + near.above_w + 2.0 * near.above_o - outputs
                )
                for kept_far in TENSORS:
                    rest_pj = fixed_pj + near_pj + far_pj_gx[g, kept_far]
                    rest_cycles = max(near.cycles, far_cycles_gx[g, kept_far])
                    if (rest_pj + least_array_pj) * rest_cycles >= best_edp:
                        continue
                    if _least_product(near_rf, rest_pj, rest_cycles) >= best_edp:
                        continue
                    if front_at[at_n, at_c, at_k] < 0:
                        front_at[at_n, at_c, at_k] = len(fronts)
                        fronts.append(array_front(dims_d, tile_l, array, options, prospects, best_edp))
                    front = fronts[front_at[at_n, at_c, at_k]]
                    for j in range(len(front)):
                        energy_pj = rest_pj + front[j, ENERGY]
                        cycles = max(rest_cycles, front[j, CYCLES], macs / (front[j, LANES] * cores))
                        if energy_pj * cycles < best_edp:
                            best_edp = energy_pj * cycles
                            best_cycles = cycles
                            best_pj = energy_pj
                            kept_array = int(front[j, KEPT])
                            first, second = dims_of(kept_array)
                            best_tiles[_REGISTER, :] = 1
                            best_tiles[_REGISTER, first] = int(front[j, FIRST])
                            best_tiles[_REGISTER, second] = int(front[j, SECOND])
                            unroll_d = options.unroll_sd[int(front[j, WAY])]
                            best_tiles[_ARRAY, :] = best_tiles[_REGISTER] * unroll_d
                            best_tiles[_SCRATCHPAD, :] = tile_l
                            best_tiles[_CORES, :] = tile_l * split_d
                            best_tiles[_BUFFER, :] = tile_g
                            best_kept[0], best_kept[1], best_kept[2] = kept_array, kept_near, kept_far
    return Found(best_cycles, best_pj, best_tiles, best_kept)


@inner
def _with_cores(front_rf: Floats, macs_a_core: float) -> Floats:
    """Rows of energy and cycles that no other beats, with so many multiply-accumulates on every core."""
    rows = np.empty((len(front_rf), 2))
    count = 0
    for r in range(len(front_rf)):
        energy_pj = front_rf[r, ENERGY]
        cycles = max(front_rf[r, CYCLES], macs_a_core / front_rf[r, LANES])
        is_beaten = False
        for j in range(count):
            if rows[j, ENERGY] <= energy_pj and rows[j, CYCLES] <= cycles:
                is_beaten = True
                break
        if not is_beaten:
            rows[count, ENERGY], rows[count, CYCLES] = energy_pj, cycles
            count += 1
    return rows[:count]


@inner
def _least_product(rows_rf: Floats, rest_pj: float, rest_cycles: float) -> float:
    """The least energy-delay product of a row together with everything else."""
    least = np.inf
    for r in range(len(rows_rf)):
        least = min(least, (rest_pj + rows_rf[r, ENERGY]) * max(rest_cycles, rows_rf[r, CYCLES]))
    return least


@inner
def _least_near(
    macs: float, outputs: float, tile_d: Ints, split_d: Ints, kept: int, machine: Machine
) -> tuple[float, float]:
    """Least energy and cycles between scratchpads and global buffer, whatever the scratchpad tile.

    The tiles of the two tensors not kept obey l_y * l_z <= capacity, so 1/l_y + 1/l_z >= 2/sqrt(capacity);
    each is also at most what the global-buffer tile leaves.
    """
    scratchpad_words, scratchpad_pj = machine.array.scratchpad_words, machine.array.scratchpad_pj
    y, z = dims_of(kept)
    fills_x = macs * split_d[kept] / tile_d[kept]
    fills_y = macs * split_d[y] / tile_d[y]
    fills_z = macs * split_d[z] / tile_d[z]
    fills = fills_x + max(fills_y + fills_z, 2.0 * macs / np.sqrt(scratchpad_words))
    above_yz = max(
        macs / tile_d[y] + macs / tile_d[z],
        2.0 * macs / np.sqrt(scratchpad_words * split_d[y] * split_d[z]),
    )
    above = macs / tile_d[kept] + above_yz
    pj = scratchpad_pj * (fills - outputs) + machine.buffer_pj * (above + macs / tile_d[C] - outputs)
    return pj, (above - outputs) / machine.buffer_words_per_cycle
