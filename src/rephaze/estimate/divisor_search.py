"""The mapping of least energy-delay product over tiles that divide the problem: the search of model ``paper``.

A mapping is a chain of tiles per dimension, each dividing the next: registers r, array p = r * unroll,
scratchpad l, all cores q = l * split, global buffer g, problem. Over each of the three boundaries one tensor
is kept while the loops above it run; for that tensor only the next tile out counts, for the other two the tile
just below. So every cost falls as l and g grow along divisibility, and only maximal tiles need be tried:
maximal g, then for each split over the cores maximal l, then a Pareto front of what the array can do with l.

Axis letters: d = dimension (0 rows n, 1 reduction c, 2 features k), i = divisor. The tensor kept is named by the
dimension it does not have: 0 weight, 1 output, 2 input.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray


@njit(cache=True)
def divisors_of(value: int) -> NDArray[np.int64]:
    """All divisors of ``value``, ascending."""
    low = []
    high = []
    i = 1
    while i * i <= value:
        if value % i == 0:
            low.append(i)
            if i != value // i:
                high.append(value // i)
        i += 1
    out = np.empty(len(low) + len(high), dtype=np.int64)
    for j in range(len(low)):
        out[j] = low[j]
    for j in range(len(high)):
        out[len(low) + j] = high[len(high) - 1 - j]
    return out


@njit(cache=True)
def smallest_prime_factor(value: int) -> int:
    """The smallest prime that divides ``value``; 0 for 1."""
    if value == 1:
        return 0
    i = 2
    while i * i <= value:
        if value % i == 0:
            return i
        i += 1
    return value


@njit(cache=True)
def splits_over_grid(total: int, x_size: int, y_size: int) -> bool:
    """Whether ``total`` is a product of two whole numbers, one at most ``x_size``, the other ``y_size``."""
    x = min(total, x_size)
    while x >= 1 and (total + x - 1) // x <= y_size:
        if total % x == 0:
            return True
        x -= 1
    return False


@njit(cache=True)
def unrolls(dims_d: NDArray[np.int64], x_size: int, y_size: int) -> NDArray[np.int64]:
    """Every vector of factors of the dimensions that fits a grid of ``x_size`` by ``y_size``, largest first."""
    limit = x_size * y_size
    found = []
    n_i = divisors_of(dims_d[0])
    c_i = divisors_of(dims_d[1])
    k_i = divisors_of(dims_d[2])
    for n in n_i:
        if n > limit:
            break
        for c in c_i:
            if n * c > limit:
                break
            for k in k_i:
                if n * c * k > limit:
                    break
                if splits_over_grid(n * c * k, x_size, y_size):
                    found.append((-n * c * k, n, c, k))
    found.sort()
    out = np.empty((len(found), 3), dtype=np.int64)
    for j in range(len(found)):
        out[j, 0] = found[j][1]
        out[j, 1] = found[j][2]
        out[j, 2] = found[j][3]
    return out


@njit(cache=True)
def maximal_tiles(dims_d: NDArray[np.int64], limit: float, pairwise: bool) -> NDArray[np.int64]:
    """Tiles dividing ``dims_d`` that fit and of which no multiple (dividing ``dims_d``) fits.

    Args:
        dims_d: What the tiles divide.
        limit: Capacity in words.
        pairwise: Each of the three tensors alone must fit (three buffers), rather than their sum (one buffer).
    """
    found = []
    n_i = divisors_of(dims_d[0])
    c_i = divisors_of(dims_d[1])
    k_i = divisors_of(dims_d[2])
    for n in n_i:
        if not _fits(n, 1, 1, limit, pairwise):
            break
        up_n = n * smallest_prime_factor(dims_d[0] // n)
        for c in c_i:
            if not _fits(n, c, 1, limit, pairwise):
                break
            up_c = c * smallest_prime_factor(dims_d[1] // c)
            # Ascending, so the feasible k are a prefix; any of them may be maximal (2 and 3 of 6, say).
            for k in k_i:
                if not _fits(n, c, k, limit, pairwise):
                    break
                up_k = k * smallest_prime_factor(dims_d[2] // k)
                if (
                    (up_n == 0 or not _fits(up_n, c, k, limit, pairwise))
                    and (up_c == 0 or not _fits(n, up_c, k, limit, pairwise))
                    and (up_k == 0 or not _fits(n, c, up_k, limit, pairwise))
                ):
                    found.append((n, c, k))
    out = np.empty((len(found), 3), dtype=np.int64)
    for j in range(len(found)):
        out[j, 0] = found[j][0]
        out[j, 1] = found[j][1]
        out[j, 2] = found[j][2]
    return out


@njit(cache=True)
def _fits(n: int, c: int, k: int, limit: float, pairwise: bool) -> bool:
    if pairwise:
        return n * c <= limit and c * k <= limit and n * k <= limit
    return n * c + c * k + n * k <= limit


@njit(cache=True)
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


@njit(cache=True)
def _largest_at_most(divisors_i: NDArray[np.int64], limit: int) -> int:
    best = 1
    for value in divisors_i:
        if value > limit:
            break
        best = value
    return best


@njit(cache=True)
def array_front(
    dims_d: NDArray[np.int64],
    tile_d: NDArray[np.int64],
    unroll_sd: NDArray[np.int64],
    register_words: int,
    words_per_cycle: float,
    register_pj: float,
    scratchpad_pj: float,
    other_pj: float,
    other_cycles: float,
    most_split: float,
    incumbent: float,
) -> NDArray[np.float64]:
    """What the array can do with a scratchpad tile: Pareto rows of energy, cycles, lanes in use, and the choice.

    Args:
        dims_d: The problem.
        tile_d: Scratchpad tile.
        unroll_sd: Ways to spread over the array (s = way).
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
    rows = []
    register_d = np.ones(3, dtype=np.int64)
    for s in range(unroll_sd.shape[0]):
        unroll_d = unroll_sd[s]
        if tile_d[0] % unroll_d[0] or tile_d[1] % unroll_d[1] or tile_d[2] % unroll_d[2]:
            continue
        lanes = float(unroll_d[0]) * unroll_d[1] * unroll_d[2]
        spatial_pj = scratchpad_pj * (macs / unroll_d[2] + (2.0 * macs - outputs) / unroll_d[1])
        least_cycles = max(other_cycles, macs / (lanes * most_split))
        if (spatial_pj + other_pj) * least_cycles >= incumbent:
            continue
        for kept in range(3):
            first = 1 if kept == 0 else 0
            second = 1 if kept == 2 else 2
            first_i = _small_divisors(tile_d[first] // unroll_d[first], register_words)
            second_i = _small_divisors(tile_d[second] // unroll_d[second], register_words)
            for a in first_i:
                if a + 1 + a > register_words:
                    break
                b = _largest_at_most(second_i, (register_words - a) // (a + 1))
                register_d[:] = 1
                register_d[first] = a
                register_d[second] = b
                cycles, fills_w, _, _, above_w, _, _ = boundary_cost(
                    dims_d, register_d, unroll_d, tile_d, kept, words_per_cycle
                )
                energy_pj = spatial_pj + register_pj * fills_w + scratchpad_pj * above_w
                if (energy_pj + other_pj) * max(least_cycles, cycles) >= incumbent:
                    continue
                rows.append((energy_pj, cycles, -lanes, float(s), float(kept), float(a), float(b)))
    rows.sort()
    front = np.empty((len(rows), 7), dtype=np.float64)
    count = 0
    for row in rows:
        dominated = False
        for j in range(count):
            if front[j, 1] <= row[1] and front[j, 2] <= row[2]:
                dominated = True
                break
        if not dominated:
            for f in range(7):
                front[count, f] = row[f]
            count += 1
    return front[:count]


@njit(cache=True)
def _small_divisors(value: int, limit: int) -> NDArray[np.int64]:
    out = np.empty(min(value, limit), dtype=np.int64)
    count = 0
    for i in range(1, min(value, limit) + 1):
        if value % i == 0:
            out[count] = i
            count += 1
    return out[:count]


@njit(cache=True)
def search_divisors(
    dims_d: NDArray[np.int64],
    array_xy: NDArray[np.int64],
    cores_xy: NDArray[np.int64],
    capacities: NDArray[np.float64],
    words_per_cycle: NDArray[np.float64],
    access_pj: NDArray[np.float64],
    mac_pj: float,
) -> tuple[float, float, NDArray[np.int64], NDArray[np.int64]]:
    """Cycles, energy in pJ, tiles (register, array, scratchpad, all cores, global buffer) and tensors kept.

    Cycles are infinite if nothing fits. The energy-delay product is the least there is.

    Args:
        dims_d: Rows, reduction, features.
        array_xy: Sides of one array.
        cores_xy: Sides of the grid of cores.
        capacities: Words of a register file, of each scratchpad (three a core), of the global buffer.
        words_per_cycle: Scratchpad to array, global buffer to scratchpads, DRAM to global buffer.
        access_pj: Register, scratchpad, global buffer, DRAM.
        mac_pj: One multiply-accumulate.
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

    unroll_sd = unrolls(dims_d, array_xy[0], array_xy[1])
    split_sd = unrolls(dims_d, cores_xy[0], cores_xy[1])
    most_split = float(split_sd[0, 0] * split_sd[0, 1] * split_sd[0, 2])
    fixed_pj = (mac_pj + register_pj) * macs
    register_words = int(capacities[0])

    # The whole problem as scratchpad tile bounds what the array can do with any tile.
    relaxed = array_front(
        dims_d, dims_d, unroll_sd, register_words, words_per_cycle[0], register_pj, scratchpad_pj,
        fixed_pj, 0.0, most_split, np.inf,
    )  # fmt: skip
    least_array_pj = relaxed[0, 0]
    least_cycles_t = np.full(split_sd.shape[0], np.inf)
    for t in range(split_sd.shape[0]):
        cores = float(split_sd[t, 0] * split_sd[t, 1] * split_sd[t, 2])
        for j in range(relaxed.shape[0]):
            least_cycles_t[t] = min(least_cycles_t[t], max(relaxed[j, 1], macs / (-relaxed[j, 2] * cores)))

    # Level 2 for every maximal global-buffer tile; a bound on the rest for each of its splits over the cores.
    buffer_gd = maximal_tiles(dims_d, capacities[2], False)
    num_g = buffer_gd.shape[0]
    ones_d = np.ones(3, dtype=np.int64)
    far_pj_gx = np.empty((num_g, 3))
    far_cycles_gx = np.empty((num_g, 3))
    least_rest_pj = np.inf
    branches = []
    for g in range(num_g):
        tile_g = buffer_gd[g]
        for kept in range(3):
            cycles, _, _, _, w, o, i = boundary_cost(dims_d, tile_g, ones_d, dims_d, kept, words_per_cycle[2])
            far_cycles_gx[g, kept] = cycles
            far_pj_gx[g, kept] = buffer_pj * (i + w + o - outputs) + dram_pj * (i + w + 2.0 * o - outputs)
        for t in range(split_sd.shape[0]):
            split_d = split_sd[t]
            if tile_g[0] % split_d[0] or tile_g[1] % split_d[1] or tile_g[2] % split_d[2]:
                continue
            bound = np.inf
            for kept_1 in range(3):
                near_pj, near_cycles = _least_near(
                    macs, outputs, tile_g, split_d, kept_1, capacities[1], words_per_cycle[1],
                    scratchpad_pj, buffer_pj,
                )  # fmt: skip
                near_cycles = max(near_cycles, least_cycles_t[t])
                for kept_2 in range(3):
                    rest_pj = fixed_pj + near_pj + far_pj_gx[g, kept_2]
                    least_rest_pj = min(least_rest_pj, rest_pj)
                    bound = min(bound, (rest_pj + least_array_pj) * max(near_cycles, far_cycles_gx[g, kept_2]))
            branches.append((bound, g, t))
    branches.sort()
    least_far_cycles = np.min(far_cycles_gx)

    n_i = divisors_of(dims_d[0])
    c_i = divisors_of(dims_d[1])
    k_i = divisors_of(dims_d[2])
    front_at = np.full((len(n_i), len(c_i), len(k_i)), -1, dtype=np.int64)
    fronts = [relaxed]
    inner_d = np.empty(3, dtype=np.int64)
    for bound, g, t in branches:
        if bound >= best_edp:
            break
        tile_g = buffer_gd[g]
        split_d = split_sd[t]
        cores = float(split_d[0] * split_d[1] * split_d[2])
        least_cycles = least_cycles_t[t]
        inner_d[:] = tile_g // split_d
        scratchpad_ld = maximal_tiles(inner_d, capacities[1], True)
        for x in range(scratchpad_ld.shape[0]):
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
                    if (rest_pj + least_array_pj) * max(rest_cycles, least_cycles) >= best_edp:
                        continue
                    if front_at[at_n, at_c, at_k] < 0:
                        front_at[at_n, at_c, at_k] = len(fronts)
                        fronts.append(
                            array_front(
                                dims_d,
                                tile_l,
                                unroll_sd,
                                register_words,
                                words_per_cycle[0],
                                register_pj,
                                scratchpad_pj,
                                least_rest_pj,
                                least_far_cycles,
                                most_split,
                                best_edp,
                            )
                        )
                    front = fronts[front_at[at_n, at_c, at_k]]
                    for j in range(front.shape[0]):
                        energy_pj = rest_pj + front[j, 0]
                        if energy_pj * rest_cycles >= best_edp:
                            break
                        cycles = max(rest_cycles, front[j, 1], macs / (-front[j, 2] * cores))
                        if energy_pj * cycles < best_edp:
                            best_edp = energy_pj * cycles
                            best_cycles = cycles
                            best_pj = energy_pj
                            kept_0 = int(front[j, 4])
                            unroll_d = unroll_sd[int(front[j, 3])]
                            best_tiles[0, :] = 1
                            best_tiles[0, 1 if kept_0 == 0 else 0] = int(front[j, 5])
                            best_tiles[0, 1 if kept_0 == 2 else 2] = int(front[j, 6])
                            best_tiles[1, :] = best_tiles[0] * unroll_d
                            best_tiles[2, :] = tile_l
                            best_tiles[3, :] = tile_l * split_d
                            best_tiles[4, :] = tile_g
                            best_kept[0] = kept_0
                            best_kept[1] = kept_1
                            best_kept[2] = kept_2
    return best_cycles, best_pj, best_tiles, best_kept


@njit(cache=True, parallel=True)
def search_divisors_many(
    dims_d: NDArray[np.int64],
    array_sxy: NDArray[np.int64],
    cores_sxy: NDArray[np.int64],
    capacities_s: NDArray[np.float64],
    words_per_cycle: NDArray[np.float64],
    access_pj_s: NDArray[np.float64],
    mac_pj: float,
) -> NDArray[np.float64]:
    """Rows of cycles and energy in pJ of one GEMM on many core shapes (arguments as ``search_divisors``)."""
    found = np.empty((array_sxy.shape[0], 2))
    for s in prange(array_sxy.shape[0]):
        cycles, energy_pj, _, _ = search_divisors(
            dims_d, array_sxy[s], cores_sxy[s], capacities_s[s], words_per_cycle, access_pj_s[s], mac_pj
        )
        found[s, 0] = cycles
        found[s, 1] = energy_pj
    return found


@njit(cache=True)
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
