"""The fastest mapping of a GEMM over padded tiles: the search of model ``default``.

A mapping says which tensor stays in the array (``flow``), how batch, m and n are split over the cores, the part
of the array in use, how many scratchpad tiles a core works through per dimension (``rounds``), how many
global-buffer tiles the chip does (``blocks``), and which tensor is kept while the loops above each level run.
Counts come from one ladder that does not depend on the hardware (all whole numbers up to 16, then ever coarser)
and every cost falls as a resource grows, so more hardware is never slower. Branches are tried in the order of
their compute time and cut by bounds; within the ladder the answer is the fastest there is.

Axis letters: d = dimension (0 m, 1 n, 2 k), s = core shape, r = branch, a = candidate for the global-buffer
blocks. A tensor is named by the dimension it does not have: 0 right operand, 1 left operand, 2 output.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

# Flow: dimension along the array's rows (width), along its columns (depth), and streamed through it.
FLOWS = np.array([[2, 1, 0], [2, 0, 1], [0, 1, 2], [1, 0, 2]], dtype=np.int64)
"""Right operand stays, left operand stays, output stays, output stays transposed."""

# Columns of a shape row, see core_shape_rows in gemm.py.
CORES, WIDTH, DEPTH, SCRATCHPAD_WORDS, BUFFER_WORDS = 0, 1, 2, 3, 4
SCRATCHPAD_RATE, BUFFER_RATE, HBM_RATE, MULTICAST = 5, 6, 7, 8
NEAR_J, MIDDLE_J, FAR_J = 9, 10, 11
NUM_SHAPE_COLUMNS = 12

# Columns of an answer row.
CYCLES, COMPUTE, NEAR, MIDDLE, FAR = 0, 1, 2, 3, 4
FLOW, SPLIT_B, SPLIT_M, SPLIT_N, ROWS_USED, COLUMNS_USED = 5, 6, 7, 8, 9, 10
ROUNDS_M, BLOCKS_M, KEPT_NEAR, KEPT_FAR = 11, 14, 17, 18
ENERGY, MIDDLE_BYTES, FAR_BYTES = 19, 20, 21
NUM_COLUMNS = 22


@njit(cache=True)
def ladder(most: int, whole: int, steps: int) -> NDArray[np.int64]:
    """Counts to cut a length of ``whole`` into: all up to 16, then ``steps`` to a doubling, and ``whole`` itself.

    Args:
        most: Larger counts are left out.
        whole: The length; its own count is a rung even where the ladder has none.
        steps: Rungs to each doubling above 16, a power of two up to 16.
    """
    out = np.empty(17 + 64 * steps, dtype=np.int64)
    count = 0
    value = next_rung(0, steps)
    while value <= most and value <= whole:
        out[count] = value
        count += 1
        value = next_rung(value, steps)
    if whole <= most and (count == 0 or out[count - 1] != whole):
        out[count] = whole
        count += 1
    return out[:count]


@njit(cache=True)
def next_rung(value: int, steps: int) -> int:
    """The member of the ladder after ``value``, itself a member or 0."""
    if value < 16:
        return value + 1
    power = 16
    while power * 2 <= value:
        power *= 2
    return value + power // steps


@njit(cache=True)
def ladder_at_least(value: int, steps: int) -> int:
    """The smallest member of the ladder that is not below ``value``."""
    if value <= 16:
        return value
    power = 16
    while power * 2 <= value:
        power *= 2
    stride = power // steps
    return (value + stride - 1) // stride * stride


@njit(cache=True)
def ladder_at_most(value: int, steps: int) -> int:
    """The largest member of the ladder that is not above ``value``."""
    if value <= 16:
        return value
    power = 16
    while power * 2 <= value:
        power *= 2
    stride = power // steps
    return value // stride * stride


SPLIT_STEPS = 2
BLOCK_STEPS = 2
TILE_STEPS = 4


@njit(cache=True)
def _output_bytes(times: float) -> float:
    """Bytes per output element written ``times``: partial sums go out and come back in 4 B, the last in 2 B."""
    return 8.0 * (times - 1.0) + 2.0


@njit(cache=True)
def block_candidates(
    batch: int, dims_d: NDArray[np.int64], words: float, together: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Minimal counts of global-buffer blocks that fit, with the HBM bytes and tensor kept, least bytes first.

    Args:
        batch: Independent products.
        dims_d: m, n, k of one product.
        words: Capacity in words of 4 B (an input of 2 B is held twice, an output once in 4 B).
        together: Products worked on at once.
    """
    m, n, k = dims_d
    rows_m = ladder(m, m, BLOCK_STEPS)
    rows_n = ladder(n, n, BLOCK_STEPS)
    found = []
    limit = words / together
    for blocks_m in rows_m:
        g_m = (m + blocks_m - 1) // blocks_m
        last_k = 0
        for blocks_n in rows_n:
            g_n = (n + blocks_n - 1) // blocks_n
            if float(g_m) * g_n + (g_m + g_n) > limit:
                continue
            g_k = min(k, int((limit - float(g_m) * g_n) / (g_m + g_n)))
            blocks_k = ladder_at_least((k + g_k - 1) // g_k, BLOCK_STEPS)
            if blocks_k > k:
                blocks_k = k
            # More blocks along n must buy fewer along k, else the pair before is as good.
            if last_k and blocks_k >= last_k:
                continue
            last_k = blocks_k
            least = np.inf
            least_kept = 0
            for kept in range(3):
                far = far_bytes(batch, dims_d, blocks_m, blocks_n, blocks_k, kept)
                if far < least:
                    least = far
                    least_kept = kept
            found.append((least, blocks_m, blocks_n, blocks_k, least_kept))
            if blocks_k == 1:
                break
    found.sort()
    blocks_ad = np.empty((len(found), 4), dtype=np.int64)
    bytes_a = np.empty(len(found))
    for a in range(len(found)):
        bytes_a[a] = found[a][0]
        blocks_ad[a, 0] = found[a][1]
        blocks_ad[a, 1] = found[a][2]
        blocks_ad[a, 2] = found[a][3]
        blocks_ad[a, 3] = found[a][4]
    return blocks_ad, bytes_a


@njit(cache=True)
def far_bytes(
    batch: int, dims_d: NDArray[np.int64], blocks_m: int, blocks_n: int, blocks_k: int, kept: int
) -> float:
    """HBM bytes: each tensor moves once for every block along the dimension it lacks, the kept one once."""
    m, n, k = float(dims_d[0]), float(dims_d[1]), float(dims_d[2])
    right = 2.0 * k * n * (1 if kept == 0 else blocks_m)
    left = 2.0 * m * k * (1 if kept == 1 else blocks_n)
    output = m * n * _output_bytes(1.0 if kept == 2 else float(blocks_k))
    return float(batch * (right + left + output))


@njit(cache=True)
def _array_parts(side: int) -> NDArray[np.int64]:
    """The side itself, then the powers of two below it, descending: parts of the array that may be used."""
    out = np.empty(66, dtype=np.int64)
    out[0] = side
    count = 1
    power = 1
    while power * 2 < side:
        power *= 2
    while power >= 1 and side > 1:
        out[count] = power
        count += 1
        power //= 2
    return out[:count]


@njit(cache=True)
def _least_middle_bytes(
    batch: int,
    dims_d: NDArray[np.int64],
    branch: NDArray[np.int64],
    shape: NDArray[np.float64],
    own_d: NDArray[np.int64],
    step_d: NDArray[np.int64],
    kept: int,
    enough: float,
) -> float:
    """Least global-buffer bytes of a branch that keeps a given tensor, whatever the tiles (eq. 6).

    Args:
        batch: Independent products.
        dims_d: m, n, k.
        branch: Flow, splits of batch, m and n over the cores, part of the array.
        shape: Columns of a core shape.
        own_d: One core's share of the dimensions.
        step_d: What one array pass covers of it (ones for a bound over all parts of the array).
        kept: The tensor kept in the scratchpads.
        enough: A bound of this much is not refined further.
    """
    m, n, k = float(dims_d[0]), float(dims_d[1]), float(dims_d[2])
    multicast = int(shape[MULTICAST])
    right = 2.0 * k * n * ((branch[2] + multicast - 1) // multicast)
    left = 2.0 * m * k * ((branch[3] + multicast - 1) // multicast)
    spill = 8.0 * m * n
    first = 1 if kept == 0 else 0
    second = 1 if kept == 2 else 2
    if kept == 2:
        fixed, per_first, per_second = 2.0 * m * n, right, left
    elif kept == 1:
        fixed, per_first, per_second = left - 6.0 * m * n, right, spill
    else:
        fixed, per_first, per_second = right - 6.0 * m * n, left, spill
    words = shape[SCRATCHPAD_WORDS]
    # The tiles of the two tensors not kept share a product that must fit a scratchpad.
    rounds_product = float(own_d[first]) * own_d[second] / words
    smooth = max(per_first + per_second, 2.0 * np.sqrt(per_first * per_second * rounds_product))
    if batch * (fixed + smooth) >= enough:
        return float(batch * (fixed + smooth))
    passes_y = (own_d[first] + step_d[first] - 1) // step_d[first]
    passes_z = (own_d[second] + step_d[second] - 1) // step_d[second]
    tile_x = min(own_d[kept], step_d[kept])
    least = np.inf
    rounds_y = 0
    while True:
        if rounds_y == passes_y:
            break
        rounds_y = min(passes_y, next_rung(rounds_y, TILE_STEPS))
        if per_first * rounds_y + per_second >= least:
            break
        tile_y = min(own_d[first], (passes_y + rounds_y - 1) // rounds_y * step_d[first])
        room = (words - float(tile_x) * tile_y) / (tile_x + tile_y)
        if room < min(own_d[second], step_d[second]):
            continue
        rounds_z = 1
        if room < own_d[second]:
            in_tile = int(room) // step_d[second]
            rounds_z = (passes_z + in_tile - 1) // in_tile
        least = min(least, per_first * rounds_y + per_second * rounds_z)
    return float(batch * (fixed + least))


@njit(cache=True)
def _refine(
    batch: int,
    dims_d: NDArray[np.int64],
    shape: NDArray[np.float64],
    branch: NDArray[np.int64],
    blocks_ad: NDArray[np.int64],
    bytes_a: NDArray[np.float64],
    answer: NDArray[np.float64],
    least_energy: bool,
) -> None:
    """Better ``answer`` by the tiles of one branch: a lower latency, or as low with less energy moved.

    Args:
        batch: Independent products.
        dims_d: m, n, k.
        shape: Columns of a core shape.
        branch: Flow, splits of batch, m and n, rows and columns of the array in use.
        blocks_ad: Candidates for the global-buffer blocks and the tensor they keep.
        bytes_a: Their HBM bytes, ascending.
        answer: Row to improve in place.
        least_energy: Keep the latency of ``answer`` and lower the energy of moving bytes.
    """
    stream = FLOWS[branch[0], 2]
    own_d, step_d, passes_d = _core_extents(dims_d, branch)
    for kept in range(3):
        enough = answer[CYCLES] * shape[BUFFER_RATE]
        least = _least_middle_bytes(batch, dims_d, branch, shape, own_d, step_d, kept, enough)
        if least > enough or (least == enough and not least_energy):
            continue
        # The dimension the kept tensor lacks is cut finest: that costs nothing, unless it is the streamed one
        # and the array's tensor changes with every tile.
        _scan_tiles(
            batch, dims_d, shape, branch, blocks_ad, bytes_a, answer, least_energy,
            own_d, step_d, passes_d, kept, passes_d[kept], kept == stream,
        )  # fmt: skip
        if kept != stream:
            continue
        # Finer cuts of the streamed dimension slow the array and speed up all else: meet in the middle.
        rungs = ladder(passes_d[kept], passes_d[kept], TILE_STEPS)
        low = 0
        high = len(rungs) - 1
        while low <= high:
            middle = (low + high) // 2
            near, rest = _scan_tiles(
                batch, dims_d, shape, branch, blocks_ad, bytes_a, answer, least_energy,
                own_d, step_d, passes_d, kept, rungs[middle], False,
            )  # fmt: skip
            if near < answer[CYCLES] and rest > near:
                low = middle + 1
            else:
                high = middle - 1


@njit(cache=True)
def _core_extents(
    dims_d: NDArray[np.int64], branch: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of one core: its share of each dimension, what one array pass covers of it, and the passes."""
    own_d = np.empty(3, dtype=np.int64)
    own_d[0] = (dims_d[0] + branch[2] - 1) // branch[2]
    own_d[1] = (dims_d[1] + branch[3] - 1) // branch[3]
    own_d[2] = dims_d[2]
    step_d = np.ones(3, dtype=np.int64)
    step_d[FLOWS[branch[0], 0]] = branch[4]
    step_d[FLOWS[branch[0], 1]] = branch[5]
    return own_d, step_d, (own_d + step_d - 1) // step_d


@njit(cache=True)
def _scan_tiles(
    batch: int,
    dims_d: NDArray[np.int64],
    shape: NDArray[np.float64],
    branch: NDArray[np.int64],
    blocks_ad: NDArray[np.int64],
    bytes_a: NDArray[np.float64],
    answer: NDArray[np.float64],
    least_energy: bool,
    own_d: NDArray[np.int64],
    step_d: NDArray[np.int64],
    passes_d: NDArray[np.int64],
    kept: int,
    rounds_x: int,
    held: bool,
) -> tuple[float, float]:
    """Better ``answer`` over the tiles with ``rounds_x`` along the dimension the kept tensor lacks.

    If ``held``, only the tile of one array pass whose tensor stays both in the scratchpad and in the array: it
    is loaded once a global-buffer block, however finely the streamed dimension is cut.

    Returns the least cycles of the array among the tiles tried, and of the levels above it (infinite when all
    were cut because they cannot beat the answer).
    """
    stream = FLOWS[branch[0], 2]
    multicast = int(shape[MULTICAST])
    own_batch = float((batch + branch[1] - 1) // branch[1])
    m, n, k = float(dims_d[0]), float(dims_d[1]), float(dims_d[2])
    reads_right = float((branch[2] + multicast - 1) // multicast)
    reads_left = float((branch[3] + multicast - 1) // multicast)
    words = shape[SCRATCHPAD_WORDS]
    first = 1 if kept == 0 else 0
    second = 1 if kept == 2 else 2
    rounds_d = np.empty(3, dtype=np.int64)
    blocks_d = np.empty(3, dtype=np.int64)
    rounds_d[kept] = rounds_x
    tile_x = min(own_d[kept], (passes_d[kept] + rounds_x - 1) // rounds_x * step_d[kept])
    best = answer[CYCLES]
    least_near = np.inf
    least_rest = np.inf
    rounds_y = 0
    while True:
        if rounds_y == passes_d[first]:
            break
        rounds_y = passes_d[first] if held else min(passes_d[first], next_rung(rounds_y, TILE_STEPS))
        tile_y = min(own_d[first], (passes_d[first] + rounds_y - 1) // rounds_y * step_d[first])
        room = (words - float(tile_x) * tile_y) / (tile_x + tile_y)
        if room < min(step_d[second], own_d[second]):
            continue
        if held:
            rounds_z = passes_d[second]
        elif room >= own_d[second]:
            rounds_z = 1
        else:
            in_tile = int(room) // step_d[second]
            rounds_z = ladder_at_least((passes_d[second] + in_tile - 1) // in_tile, TILE_STEPS)
            rounds_z = min(rounds_z, passes_d[second])
        rounds_d[first] = rounds_y
        while True:
            rounds_d[second] = rounds_z
            one_pass = rounds_y == passes_d[first] and rounds_z == passes_d[second]
            if kept == stream and one_pass and not held:
                break
            loads = 1 if held else rounds_d[stream]
            compute, near_bytes = _array_work(own_batch, own_d, passes_d, branch, loads)
            near = max(compute, near_bytes / shape[SCRATCHPAD_RATE])
            least_near = min(least_near, near)
            if near > best or (near == best and not least_energy):
                break
            others_bytes = 0.0
            if kept != 0:
                others_bytes += 2.0 * k * n * rounds_d[0] * reads_right
            if kept != 1:
                others_bytes += 2.0 * m * k * rounds_d[1] * reads_left
            if kept != 2:
                others_bytes += m * n * _output_bytes(float(rounds_d[2]))
            if batch * others_bytes / shape[BUFFER_RATE] > best:
                break
            waits_for_second = False
            for a in range(-1, len(bytes_a)):
                if a < 0:
                    # One block a round: the kept tensor stays in the scratchpads and needs no room above.
                    if not _passes_through(dims_d, branch, shape, rounds_d, kept, blocks_d):
                        continue
                    moved = far_bytes(batch, dims_d, rounds_d[0], rounds_d[1], rounds_d[2], kept)
                    kept_far = kept
                    again = 1.0
                else:
                    moved = bytes_a[a]
                    kept_far = blocks_ad[a, 3]
                    blocks_d[:] = blocks_ad[a, :3]
                    again = float(blocks_d[kept])
                far = moved / shape[HBM_RATE]
                if far > best or (far == best and not least_energy):
                    if a < 0:
                        continue
                    break
                if a >= 0:
                    if blocks_d[kept] > rounds_x or blocks_d[first] > rounds_y:
                        continue
                    if blocks_d[second] > rounds_z:
                        waits_for_second = True
                        continue
                    if kept_far == kept and blocks_d[first] == rounds_y and blocks_d[second] == rounds_z:
                        continue
                if kept == 0:
                    kept_bytes = 2.0 * k * n * again * reads_right
                elif kept == 1:
                    kept_bytes = 2.0 * m * k * again * reads_left
                else:
                    kept_bytes = m * n * _output_bytes(again)
                if held:
                    compute, near_bytes = _array_work(own_batch, own_d, passes_d, branch, int(again))
                    near = max(compute, near_bytes / shape[SCRATCHPAD_RATE])
                middle_bytes = batch * (others_bytes + kept_bytes)
                middle = middle_bytes / shape[BUFFER_RATE]
                least_rest = min(least_rest, max(middle, far))
                cycles = max(near, middle, far)
                if cycles > best:
                    continue
                delivered = _delivered_bytes(batch, dims_d, branch, rounds_d, kept, again)
                energy = (
                    (near_bytes * branch[1] * branch[2] * branch[3] + delivered) * shape[NEAR_J]
                    + (middle_bytes + moved) * shape[MIDDLE_J]
                    + moved * shape[FAR_J]
                )
                if cycles < best or energy < answer[ENERGY]:
                    best = cycles
                    answer[CYCLES] = cycles
                    answer[COMPUTE] = compute
                    answer[NEAR] = near_bytes / shape[SCRATCHPAD_RATE]
                    answer[MIDDLE] = middle
                    answer[FAR] = far
                    answer[ENERGY] = energy
                    for j in range(6):
                        answer[FLOW + j] = branch[j]
                    for d in range(3):
                        answer[ROUNDS_M + d] = rounds_d[d]
                        answer[BLOCKS_M + d] = blocks_d[d]
                    answer[KEPT_NEAR] = kept
                    answer[KEPT_FAR] = kept_far
                    answer[MIDDLE_BYTES] = middle_bytes
                    answer[FAR_BYTES] = moved
                # The candidates still to come move more bytes; in the last pass HBM bytes weigh most.
                if a >= 0 and (least_energy or middle <= max(near, far)):
                    break
            if not waits_for_second or rounds_z == passes_d[second]:
                break
            rounds_z = min(ladder_at_least(rounds_z + 1, TILE_STEPS), passes_d[second])
    return least_near, least_rest


@njit(cache=True)
def _passes_through(
    dims_d: NDArray[np.int64],
    branch: NDArray[np.int64],
    shape: NDArray[np.float64],
    rounds_d: NDArray[np.int64],
    kept: int,
    blocks_d: NDArray[np.int64],
) -> bool:
    """Whether a block a round fits the global buffer without the kept tensor; sets ``blocks_d``."""
    first = 1 if kept == 0 else 0
    second = 1 if kept == 2 else 2
    blocks_d[first] = rounds_d[first]
    blocks_d[second] = rounds_d[second]
    edge_y = (dims_d[first] + rounds_d[first] - 1) // rounds_d[first]
    edge_z = (dims_d[second] + rounds_d[second] - 1) // rounds_d[second]
    room = int(shape[BUFFER_WORDS] / branch[1]) // (edge_y + edge_z)
    if room < 1:
        return False
    blocks_d[kept] = (dims_d[kept] + room - 1) // room
    return True


@njit(cache=True)
def _array_work(
    own_batch: float,
    own_d: NDArray[np.int64],
    passes_d: NDArray[np.int64],
    branch: NDArray[np.int64],
    loads: int,
) -> tuple[float, float]:
    """Cycles of one core's array and bytes it exchanges with its scratchpad.

    Args:
        own_batch: Products of the core.
        own_d: Its share of the dimensions.
        passes_d: Array passes along each (the streamed one: elements).
        branch: Flow, splits, rows and columns of the array in use.
        loads: How often each tile of the tensor in the array is brought there.
    """
    flow = branch[0]
    stream = FLOWS[flow, 2]
    array_passes = own_batch * passes_d[FLOWS[flow, 0]] * passes_d[FLOWS[flow, 1]]
    # Bringing a tile into the array takes a cycle a row and hides behind the stream of the tile before.
    cycles = array_passes * max(own_d[stream], loads * branch[4]) + branch[4] + branch[5]
    right_loads = float(loads if stream == 0 else passes_d[0])
    left_loads = float(loads if stream == 1 else passes_d[1])
    sums = float(loads if stream == 2 else passes_d[2])
    moved = own_batch * (
        2.0 * own_d[2] * own_d[1] * right_loads
        + 2.0 * own_d[0] * own_d[2] * left_loads
        + 4.0 * (2.0 * sums - 1.0) * own_d[0] * own_d[1]
    )
    return cycles, moved


@njit(cache=True)
def _delivered_bytes(
    batch: int,
    dims_d: NDArray[np.int64],
    branch: NDArray[np.int64],
    rounds_d: NDArray[np.int64],
    kept: int,
    again: float,
) -> float:
    """Bytes written to or read from all scratchpads on the global buffer's side (a multicast counts each)."""
    m, n, k = float(dims_d[0]), float(dims_d[1]), float(dims_d[2])
    right = 2.0 * k * n * (again if kept == 0 else float(rounds_d[0])) * branch[2]
    left = 2.0 * m * k * (again if kept == 1 else float(rounds_d[1])) * branch[3]
    output = m * n * _output_bytes(again if kept == 2 else float(rounds_d[2]))
    return float(batch * (right + left + output))


@njit(cache=True)
def _least_near_bytes(flow: int, m: int, n: int, k: int, passes_w: float, passes_d: float) -> float:
    """Least bytes between scratchpad and array for one product: the tensor in the array moves once."""
    if flow < 2:
        stays = n if flow == 0 else m
        streamed = m if flow == 0 else n
        inputs = 2.0 * k * stays + 2.0 * k * streamed * passes_d
        return inputs + 4.0 * (2.0 * passes_w - 1.0) * m * n
    passes_m = passes_w if flow == 2 else passes_d
    passes_n = passes_d if flow == 2 else passes_w
    return 2.0 * m * k * passes_n + 2.0 * k * n * passes_m + 4.0 * float(m) * n


@njit(cache=True)
def _splits(
    batch: int,
    dims_d: NDArray[np.int64],
    shape: NDArray[np.float64],
    bytes_of: list[NDArray[np.float64]],
    limit: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ways to split over the cores (rung of the batch ladder, b, m, n) with a bound on cycles, best first.

    Those that cannot take less than ``limit`` cycles are left out.
    """
    cores, width, depth = int(shape[CORES]), int(shape[WIDTH]), int(shape[DEPTH])
    splits_b = ladder(cores, batch, SPLIT_STEPS)
    ideal_alone = float(batch) * dims_d[0] * dims_d[1] * dims_d[2] / (float(width) * depth)
    capacity = 256
    rows = np.empty((capacity, 4), dtype=np.int64)
    bounds = np.empty(capacity)
    count = 0
    branch = np.ones(6, dtype=np.int64)
    own_d = dims_d.copy()
    ones_d = np.ones(3, dtype=np.int64)
    for j in range(len(splits_b)):
        split_b = splits_b[j]
        blocked = bytes_of[j][0] if len(bytes_of[j]) else np.inf
        own_batch = float((batch + split_b - 1) // split_b)
        for split_m in ladder(cores // split_b, dims_d[0], SPLIT_STEPS):
            own_m = (dims_d[0] + split_m - 1) // split_m
            splits_n = ladder(cores // (split_b * split_m), dims_d[1], SPLIT_STEPS)
            for at in range(len(splits_n) - 1, -1, -1):
                split_n = splits_n[at]
                if ideal_alone >= limit * split_b * split_m * split_n:
                    break
                own_n = (dims_d[1] + split_n - 1) // split_n
                compute = np.inf
                for flow in range(4):
                    side_w = _own(FLOWS[flow, 0], own_m, own_n, dims_d[2])
                    side_d = _own(FLOWS[flow, 1], own_m, own_n, dims_d[2])
                    length = _own(FLOWS[flow, 2], own_m, own_n, dims_d[2])
                    passes_w = float((side_w + width - 1) // width)
                    passes_d = float((side_d + depth - 1) // depth)
                    moved = _least_near_bytes(flow, own_m, own_n, dims_d[2], passes_w, passes_d)
                    alone = max(passes_w * passes_d * length, moved / shape[SCRATCHPAD_RATE])
                    compute = min(compute, own_batch * alone)
                if compute >= limit:
                    continue
                if count == capacity:
                    capacity *= 2
                    more_rows = np.empty((capacity, 4), dtype=np.int64)
                    more_bounds = np.empty(capacity)
                    more_rows[:count] = rows
                    more_bounds[:count] = bounds
                    rows = more_rows
                    bounds = more_bounds
                rows[count, 0] = j
                rows[count, 1] = split_b
                rows[count, 2] = split_m
                rows[count, 3] = split_n
                branch[1] = split_b
                branch[2] = split_m
                branch[3] = split_n
                own_d[0] = own_m
                own_d[1] = own_n
                middle = np.inf
                passing = np.inf
                for kept in range(3):
                    least = _least_middle_bytes(batch, dims_d, branch, shape, own_d, ones_d, kept, 0.0)
                    middle = min(middle, least)
                    # Of each pass-through read the buffer makes at most one a core along m and n.
                    passing = min(passing, least / max(split_m, split_n))
                far = min(blocked, passing) / shape[HBM_RATE]
                bounds[count] = max(compute, far, middle / shape[BUFFER_RATE])
                if bounds[count] < limit:
                    count += 1
    order = np.argsort(bounds[:count], kind="mergesort")
    return rows[order], bounds[order]


@njit(cache=True)
def _try_split(
    batch: int,
    dims_d: NDArray[np.int64],
    shape: NDArray[np.float64],
    branch: NDArray[np.int64],
    blocks_ad: NDArray[np.int64],
    bytes_a: NDArray[np.float64],
    answer: NDArray[np.float64],
    whole_array_only: bool,
) -> None:
    """Better ``answer`` over the flows and parts of the array for the split in ``branch``."""
    widths = _array_parts(int(shape[WIDTH]))
    depths = _array_parts(int(shape[DEPTH]))
    if whole_array_only:
        widths = widths[:1]
        depths = depths[:1]
    own_batch = float((batch + branch[1] - 1) // branch[1])
    own_m = (dims_d[0] + branch[2] - 1) // branch[2]
    own_n = (dims_d[1] + branch[3] - 1) // branch[3]
    for flow in range(4):
        branch[0] = flow
        side_w = _own(FLOWS[flow, 0], own_m, own_n, dims_d[2])
        side_d = _own(FLOWS[flow, 1], own_m, own_n, dims_d[2])
        length = _own(FLOWS[flow, 2], own_m, own_n, dims_d[2])
        last_w = 0
        for part_w in widths:
            passes_w = (side_w + part_w - 1) // part_w
            if passes_w == last_w:
                continue
            last_w = passes_w
            branch[4] = (side_w + passes_w - 1) // passes_w
            last_d = 0
            for part_d in depths:
                passes_d = (side_d + part_d - 1) // part_d
                if passes_d == last_d:
                    continue
                last_d = passes_d
                branch[5] = (side_d + passes_d - 1) // passes_d
                passes = own_batch * passes_w * passes_d
                # Smaller parts along the depth only take longer.
                if passes * length >= answer[CYCLES]:
                    break
                if passes * max(length, branch[4]) + branch[4] + branch[5] >= answer[CYCLES]:
                    continue
                moved = _least_near_bytes(flow, own_m, own_n, dims_d[2], float(passes_w), float(passes_d))
                if own_batch * moved >= answer[CYCLES] * shape[SCRATCHPAD_RATE]:
                    continue
                _refine(batch, dims_d, shape, branch, blocks_ad, bytes_a, answer, False)


@njit(cache=True)
def map_one(
    batch: int,
    dims_d: NDArray[np.int64],
    shape: NDArray[np.float64],
    blocks_of: list[NDArray[np.int64]],
    bytes_of: list[NDArray[np.float64]],
    answer: NDArray[np.float64],
) -> None:
    """Fill ``answer`` with the fastest mapping of one GEMM on one core shape (cycles infinite if none fits)."""
    answer[:] = 0.0
    answer[CYCLES] = np.inf
    answer[ENERGY] = np.inf
    branch = np.empty(6, dtype=np.int64)
    # A first answer to cut by: all cores, along the batch first, then m or n first.
    cores = int(shape[CORES])
    splits_b = ladder(cores, batch, SPLIT_STEPS)
    rung = len(splits_b) - 1
    for first in range(2):
        branch[1] = splits_b[rung]
        branch[2 + first] = ladder_at_most(min(dims_d[first], cores // branch[1]), SPLIT_STEPS)
        left = cores // (branch[1] * branch[2 + first])
        branch[3 - first] = ladder_at_most(min(dims_d[1 - first], left), SPLIT_STEPS)
        _try_split(batch, dims_d, shape, branch, blocks_of[rung], bytes_of[rung], answer, True)
    rows, bounds = _splits(batch, dims_d, shape, bytes_of, answer[CYCLES])
    own_d = dims_d.copy()
    ones_d = np.ones(3, dtype=np.int64)
    for row in range(len(bounds)):
        if bounds[row] >= answer[CYCLES]:
            break
        branch[1:4] = rows[row, 1:4]
        own_d[0] = (dims_d[0] + branch[2] - 1) // branch[2]
        own_d[1] = (dims_d[1] + branch[3] - 1) // branch[3]
        enough = answer[CYCLES] * shape[BUFFER_RATE]
        least = np.inf
        for kept in range(3):
            least = min(least, _least_middle_bytes(batch, dims_d, branch, shape, own_d, ones_d, kept, enough))
        if least >= enough:
            continue
        rung = rows[row, 0]
        _try_split(batch, dims_d, shape, branch, blocks_of[rung], bytes_of[rung], answer, False)
    if answer[CYCLES] < np.inf:
        for j in range(6):
            branch[j] = int(answer[FLOW + j])
        rung = np.searchsorted(splits_b, branch[1])
        _refine(batch, dims_d, shape, branch, blocks_of[rung], bytes_of[rung], answer, True)


@njit(cache=True, parallel=True)
def map_many(
    batch: int,
    dims_d: NDArray[np.int64],
    shapes_s: NDArray[np.float64],
    first_of_group: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Answer rows of one GEMM on many core shapes; shapes of one group have the same global buffer.

    Args:
        batch: Independent products.
        dims_d: m, n, k.
        shapes_s: Core shapes, sorted by group.
        first_of_group: Start of each group, and the end of the last.
    """
    answers = np.empty((shapes_s.shape[0], NUM_COLUMNS))
    for group in prange(len(first_of_group) - 1):
        start = first_of_group[group]
        end = first_of_group[group + 1]
        most_cores = 1
        for s in range(start, end):
            most_cores = max(most_cores, int(shapes_s[s, CORES]))
        blocks_of = []
        bytes_of = []
        for split_b in ladder(most_cores, batch, SPLIT_STEPS):
            blocks_ad, bytes_a = block_candidates(batch, dims_d, shapes_s[start, BUFFER_WORDS], split_b)
            blocks_of.append(blocks_ad)
            bytes_of.append(bytes_a)
        for s in range(start, end):
            map_one(batch, dims_d, shapes_s[s], blocks_of, bytes_of, answers[s])
    return answers


@njit(cache=True)
def _own(dim: int, m: int, n: int, k: int) -> int:
    if dim == 0:
        return m
    return n if dim == 1 else k
