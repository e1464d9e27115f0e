"""The fastest mapping of a GEMM over padded tiles: the search of model ``default``.

A mapping says which tensor stays in the array (``flow``), how batch, m and n are split over the cores, the part
of the array in use, how many scratchpad tiles a core works through per dimension (``rounds``), how many
global-buffer tiles the chip does (``blocks``), and which tensor is kept while the loops above each level run.
Counts come from ladders that do not depend on the hardware and every cost falls as a resource grows, so more
hardware is never slower. Branches are tried in the order of a bound and cut by it; within the ladders the answer
is the fastest there is, for the product together with what absorbed work moves.

Axis letters: s = core shape, r = rung of the batch's ladder, a = candidate for the global-buffer blocks.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int64, void
from numpy.typing import NDArray

from rephaze.estimate.compiled import compiled, entry
from rephaze.estimate.ladders import SPLIT_STEPS, TILE_STEPS, array_parts, ladder, ladder_at_most, next_rung
from rephaze.estimate.padded_blocks import ROWS_AND_KEYS, blocks_by_rung, sorted_by
from rephaze.estimate.padded_terms import (
    CYCLES,
    ENERGY,
    FLOW,
    FLOWS,
    GEMM,
    QUANTITIES,
    SHAPE,
    Branch,
    Gemm,
    Quantities,
    Shape,
    bytes_from_kept,
    cuts,
    far_bytes,
    from_kept,
    least_near_bytes,
    pick,
    shape_of,
)
from rephaze.estimate.padded_tiles import improve

NO_BYTES = (0.0, 0.0, 0.0)


@compiled(float64(GEMM, SHAPE, int64, int64, int64, float64))
def _least_middle_bytes(gemm: Gemm, shape: Shape, split_m: int, split_n: int, kept: int, enough: float) -> float:
    """Least global-buffer bytes of a split that keeps a given tensor, whatever flow, part of the array and tiles.

    Args:
        gemm: The products.
        shape: The core shape.
        split_m: Cores along m.
        split_n: Cores along n.
        kept: The tensor kept in the scratchpads.
        enough: A bound of this much is not refined further.
    """
    batch, m, n, k = float(gemm.batch), float(gemm.m), float(gemm.n), float(gemm.k)
    right = 2.0 * batch * k * n * cuts(split_m, shape.multicast)
    left = 2.0 * batch * m * k * cuts(split_n, shape.multicast)
    sums = 8.0 * batch * m * n
    _, own_y, own_z = from_kept(kept, cuts(gemm.m, split_m), cuts(gemm.n, split_n), gemm.k)
    once, per_y, per_z = bytes_from_kept(kept, right, left, sums)
    fixed = once - 0.75 * sums + gemm.side_bytes
    words = shape.scratchpad_words
    # Tiles of the two tensors not kept share a product that must fit a scratchpad (eq. 6).
    rounds_yz = float(own_y) * own_z / words
    smooth = fixed + max(per_y + per_z, 2.0 * np.sqrt(per_y * per_z * rounds_yz)) * (1.0 - 1e-12)
    if smooth >= enough:
        return float(smooth)
    # Rounds along y are rungs of the ladder or the passes of some part of the array: from each rung to the next,
    # the traffic of the first and the tile of the last.
    least = np.inf
    y = ladder_at_most(min(max(1, 2 * own_y // words), own_y), TILE_STEPS)
    while y <= own_y:
        if fixed + per_y * y + per_z >= min(least, enough):
            break
        after = next_rung(y, TILE_STEPS)
        tile_y = cuts(own_y, min(own_y, after - 1))
        if words > 2 * tile_y:
            z = cuts(own_z, min(own_z, (words - tile_y) // (1 + tile_y)))
            least = min(least, fixed + per_y * y + per_z * z)
        y = after
    return float(max(smooth, min(least, enough)))


@compiled(ROWS_AND_KEYS(GEMM, SHAPE, float64[::1], float64))
def _splits(
    gemm: Gemm, shape: Shape, least_far_r: NDArray[np.float64], limit: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ways to split over the cores (rung of the batch ladder, b, m, n) with a bound on cycles, best first.

    Those that cannot take less than ``limit`` cycles are left out.
    """
    splits_b = ladder(shape.cores, gemm.batch, SPLIT_STEPS)
    most_m = ladder(shape.cores, gemm.m, SPLIT_STEPS)
    most_n = ladder(shape.cores, gemm.n, SPLIT_STEPS)
    ideal_alone = float(gemm.batch) * gemm.m * gemm.n * gemm.k / (float(shape.width) * shape.depth)
    compulsory = far_bytes(gemm, 1, 1, 1, 0) + gemm.side_bytes
    capacity = len(splits_b) * len(most_m) * len(most_n)
    rows = np.empty((capacity, 4), dtype=np.int64)
    bounds = np.empty(capacity)
    count = 0
    for r in range(len(splits_b)):
        split_b = splits_b[r]
        own_batch = float(cuts(gemm.batch, split_b))
        for split_m in ladder(shape.cores // split_b, gemm.m, SPLIT_STEPS):
            own_m = cuts(gemm.m, split_m)
            splits_n = ladder(shape.cores // (split_b * split_m), gemm.n, SPLIT_STEPS)
            for at in range(len(splits_n) - 1, -1, -1):
                split_n = splits_n[at]
                if ideal_alone >= limit * split_b * split_m * split_n:
                    break
                own_n = cuts(gemm.n, split_n)
                compute = np.inf
                for flow in range(4):
                    passes_w = float(cuts(pick(FLOWS[flow][0], own_m, own_n, gemm.k), shape.width))
                    passes_d = float(cuts(pick(FLOWS[flow][1], own_m, own_n, gemm.k), shape.depth))
                    length = pick(FLOWS[flow][2], own_m, own_n, gemm.k)
                    moved = least_near_bytes(flow, own_m, own_n, gemm.k, passes_w, passes_d)
                    alone = max(passes_w * passes_d * length, moved / shape.scratchpad_rate)
                    compute = min(compute, own_batch * alone)
                if compute >= limit:
                    continue
                middle = np.inf
                passing = np.inf
                for kept in range(3):
                    least = _least_middle_bytes(gemm, shape, split_m, split_n, kept, 0.0)
                    middle = min(middle, least)
                    # Of each pass-through read the buffer makes at most one a core along m and n.
                    passing = min(passing, least / max(split_m, split_n))
                far = max(compulsory, min(least_far_r[r], passing)) / shape.hbm_rate
                bound = max(compute, far, middle / shape.buffer_rate)
                if bound < limit:
                    rows[count, 0] = r
                    rows[count, 1] = split_b
                    rows[count, 2] = split_m
                    rows[count, 3] = split_n
                    bounds[count] = bound
                    count += 1
    return sorted_by(bounds[:count], rows)


@compiled(void(GEMM, SHAPE, int64, int64, int64, QUANTITIES, int64[:, ::1], float64[::1], float64[::1], boolean))
def _try_split(
    gemm: Gemm,
    shape: Shape,
    split_b: int,
    split_m: int,
    split_n: int,
    least_middle: Quantities,
    blocks_ad: NDArray[np.int64],
    bytes_a: NDArray[np.float64],
    answer: NDArray[np.float64],
    whole_array_only: bool,
) -> None:
    """Better ``answer`` over the flows and parts of the array for one split over the cores."""
    widths = array_parts(shape.width)
    depths = array_parts(shape.depth)
    num_widths = 1 if whole_array_only else len(widths)
    num_depths = 1 if whole_array_only else len(depths)
    own_batch = float(cuts(gemm.batch, split_b))
    own_m = cuts(gemm.m, split_m)
    own_n = cuts(gemm.n, split_n)
    for flow in range(4):
        side_w = pick(FLOWS[flow][0], own_m, own_n, gemm.k)
        side_d = pick(FLOWS[flow][1], own_m, own_n, gemm.k)
        length = pick(FLOWS[flow][2], own_m, own_n, gemm.k)
        last_w = 0
        for i in range(num_widths):
            passes_w = cuts(side_w, widths[i])
            if passes_w == last_w:
                continue
            last_w = passes_w
            rows = cuts(side_w, passes_w)
            last_d = 0
            for j in range(num_depths):
                passes_d = cuts(side_d, depths[j])
                if passes_d == last_d:
                    continue
                last_d = passes_d
                columns = cuts(side_d, passes_d)
                passes = own_batch * passes_w * passes_d
                # Smaller parts along the depth only take longer.
                if passes * length >= answer[CYCLES]:
                    break
                if passes * max(length, rows) + rows + columns >= answer[CYCLES]:
                    continue
                moved = least_near_bytes(flow, own_m, own_n, gemm.k, float(passes_w), float(passes_d))
                if own_batch * moved >= answer[CYCLES] * shape.scratchpad_rate:
                    continue
                branch = Branch(flow, split_b, split_m, split_n, rows, columns)
                improve(gemm, shape, branch, least_middle, blocks_ad, bytes_a, answer, False)


@compiled(void(GEMM, SHAPE, int64[::1], int64[:, ::1], float64[::1], float64[::1]))
def map_one(
    gemm: Gemm,
    shape: Shape,
    starts_r: NDArray[np.int64],
    blocks_ad: NDArray[np.int64],
    bytes_a: NDArray[np.float64],
    answer: NDArray[np.float64],
) -> None:
    """Fill ``answer`` with the fastest mapping of one GEMM on one core shape (cycles infinite if none fits)."""
    for column in range(len(answer)):
        answer[column] = 0.0
    answer[CYCLES] = np.inf
    answer[ENERGY] = np.inf
    # A first answer to cut by: all cores, along the batch first, then m or n first.
    splits_b = ladder(shape.cores, gemm.batch, SPLIT_STEPS)
    least_far_r = np.full(len(splits_b), np.inf)
    for r in range(len(splits_b)):
        if starts_r[r] < starts_r[r + 1]:
            least_far_r[r] = bytes_a[starts_r[r]] + gemm.side_bytes
    r = len(splits_b) - 1
    start, end = starts_r[r], starts_r[r + 1]
    cores = shape.cores // splits_b[r]
    for first in range(2):
        split_m = ladder_at_most(min(gemm.m, cores), SPLIT_STEPS)
        split_n = ladder_at_most(min(gemm.n, cores // split_m), SPLIT_STEPS)
        if first == 1:
            split_n = ladder_at_most(min(gemm.n, cores), SPLIT_STEPS)
            split_m = ladder_at_most(min(gemm.m, cores // split_n), SPLIT_STEPS)
        _try_split(
            gemm,
            shape,
            splits_b[r],
            split_m,
            split_n,
            NO_BYTES,
            blocks_ad[start:end],
            bytes_a[start:end],
            answer,
            True,
        )
    rows, bounds = _splits(gemm, shape, least_far_r, answer[CYCLES])
    for row in range(len(bounds)):
        if bounds[row] >= answer[CYCLES]:
            break
        split_b, split_m, split_n = rows[row, 1], rows[row, 2], rows[row, 3]
        enough = answer[CYCLES] * shape.buffer_rate
        least_middle = (
            _least_middle_bytes(gemm, shape, split_m, split_n, 0, enough),
            _least_middle_bytes(gemm, shape, split_m, split_n, 1, enough),
            _least_middle_bytes(gemm, shape, split_m, split_n, 2, enough),
        )
        if min(least_middle) >= enough:
            continue
        start, end = starts_r[rows[row, 0]], starts_r[rows[row, 0] + 1]
        _try_split(
            gemm,
            shape,
            split_b,
            split_m,
            split_n,
            least_middle,
            blocks_ad[start:end],
            bytes_a[start:end],
            answer,
            False,
        )
    if answer[CYCLES] < np.inf:
        branch = Branch(
            int(answer[FLOW]),
            int(answer[FLOW + 1]),
            int(answer[FLOW + 2]),
            int(answer[FLOW + 3]),
            int(answer[FLOW + 4]),
            int(answer[FLOW + 5]),
        )
        for r in range(len(splits_b)):
            if splits_b[r] == branch.split_b:
                start, end = starts_r[r], starts_r[r + 1]
                improve(gemm, shape, branch, NO_BYTES, blocks_ad[start:end], bytes_a[start:end], answer, True)


@entry(void(GEMM, float64[:, ::1], float64[:, ::1]))
def map_group(gemm: Gemm, shapes_s: NDArray[np.float64], answers_s: NDArray[np.float64]) -> None:
    """Fill the answer rows of one GEMM on core shapes that have the same global buffer."""
    most_cores = 1
    for s in range(len(shapes_s)):
        most_cores = max(most_cores, int(shapes_s[s, 0]))
    starts_r, blocks_ad, bytes_a = blocks_by_rung(gemm, shape_of(shapes_s[0]).buffer_words, most_cores)
    for s in range(len(shapes_s)):
        map_one(gemm, shape_of(shapes_s[s]), starts_r, blocks_ad, bytes_a, answers_s[s])
