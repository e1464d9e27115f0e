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

from rephaze.compiled import compiled, entry
from rephaze.estimate.arrays import Floats, Ints, Rows
from rephaze.estimate.gemm_default.blocks import blocks_by_rung, sorted_by
from rephaze.estimate.gemm_default.equations import (
    ANSWER,
    ANSWERS,
    GEMM,
    MIDDLE_BOUNDS,
    QUANTITIES,
    ROWS_AND_KEYS,
    SHAPE,
    SHAPES,
    SPLIT,
    TASK,
    branch_of,
    bytes_from_kept,
    cuts,
    far_bytes,
    from_kept,
    least_near_bytes,
    pick,
    shape_of,
)
from rephaze.estimate.gemm_default.ladders import (
    SPLIT_STEPS,
    TILE_STEPS,
    array_parts,
    ladder,
    ladder_at_most,
    next_rung,
)
from rephaze.estimate.gemm_default.records import (
    FLOWS,
    LEFT,
    OUTPUT,
    RIGHT,
    Answer,
    Branch,
    Gemm,
    MiddleBounds,
    Quantities,
    Shape,
    Split,
    Task,
)
from rephaze.estimate.gemm_default.tiles import improve

_NO_BYTES = (0.0, 0.0, 0.0)
_NO_BOUNDS = MiddleBounds(_NO_BYTES, _NO_BYTES, _NO_BYTES)


@compiled(QUANTITIES(GEMM, SHAPE, SPLIT, int64, float64))
def _kept_bounds(gemm: Gemm, shape: Shape, split: Split, kept: int, enough: float) -> Quantities:
    """``least``, ``fixed`` and ``spread`` of the middle bounds for one kept tensor.

    Args:
        gemm: The products.
        shape: The core shape.
        split: How the cores share it.
        kept: The tensor kept in the scratchpads.
        enough: A bound of this much is not refined further.
    """
    batch, m, n, k = float(gemm.batch), float(gemm.m), float(gemm.n), float(gemm.k)
    right = 2.0 * batch * k * n * cuts(split.m, shape.multicast)
    left = 2.0 * batch * m * k * cuts(split.n, shape.multicast)
    sums = 8.0 * batch * m * n
    _, own_y, own_z = from_kept(kept, cuts(gemm.m, split.m), cuts(gemm.n, split.n), gemm.k)
    once, per_y, per_z = bytes_from_kept(kept, right, left, sums)
    fixed = once - 0.75 * sums + gemm.side_bytes
    spread = 2.0 * np.sqrt(per_y * per_z * own_y * own_z)
    words = shape.scratchpad_words
    smooth = fixed + max(per_y + per_z, spread / (np.sqrt(words + 1.0) - 1.0) * (1.0 - 1e-9))
    if smooth >= enough:
        return smooth, fixed, spread
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
    return max(smooth, min(least, enough)), fixed, spread


@compiled(MIDDLE_BOUNDS(GEMM, SHAPE, SPLIT, float64))
def _middle_bounds(gemm: Gemm, shape: Shape, split: Split, enough: float) -> MiddleBounds:
    """Bounds on the global-buffer bytes of a split, whatever flow, part of the array and tiles."""
    right = _kept_bounds(gemm, shape, split, RIGHT, enough)
    left = _kept_bounds(gemm, shape, split, LEFT, enough)
    output = _kept_bounds(gemm, shape, split, OUTPUT, enough)
    return MiddleBounds(
        (right[0], left[0], output[0]), (right[1], left[1], output[1]), (right[2], left[2], output[2])
    )


@compiled(float64(GEMM, SHAPE, SPLIT))
def _least_array_cycles(gemm: Gemm, shape: Shape, split: Split) -> float:
    """Least cycles of the array and its scratchpad, whatever the flow."""
    own_m, own_n = cuts(gemm.m, split.m), cuts(gemm.n, split.n)
    least = np.inf
    for flow in range(len(FLOWS)):
        passes_w = float(cuts(pick(FLOWS[flow].rows, own_m, own_n, gemm.k), shape.width))
        passes_d = float(cuts(pick(FLOWS[flow].columns, own_m, own_n, gemm.k), shape.depth))
        length = pick(FLOWS[flow].stream, own_m, own_n, gemm.k)
        moved = least_near_bytes(flow, own_m, own_n, gemm.k, passes_w, passes_d)
        least = min(least, max(passes_w * passes_d * length, moved / shape.scratchpad_rate))
    return float(cuts(gemm.batch, split.b) * least)


@compiled(void(int64[::1], SPLIT))
def _write(row: Ints, split: Split) -> None:
    """Make a row of splits this one: its columns are the fields."""
    for j in range(len(split)):
        row[j] = split[j]


@compiled(SPLIT(int64[::1]))
def _split_of(row: Ints) -> Split:
    b, m, n, rung_b = row[0], row[1], row[2], row[3]
    return Split(b, m, n, rung_b)


@compiled(ROWS_AND_KEYS(GEMM, SHAPE))
def _first_splits(gemm: Gemm, shape: Shape) -> tuple[Ints, Floats]:
    """Two splits for a first answer to cut by, as ``_splits``: all cores, along the batch, then m or n first."""
    splits_b = ladder(shape.cores, gemm.batch, SPLIT_STEPS)
    b, rung_b = splits_b[-1], len(splits_b) - 1
    cores = shape.cores // b
    rows = np.empty((2, 4), dtype=np.int64)
    most_m = ladder_at_most(min(gemm.m, cores), SPLIT_STEPS)
    _write(rows[0], Split(b, most_m, ladder_at_most(min(gemm.n, cores // most_m), SPLIT_STEPS), rung_b))
    most_n = ladder_at_most(min(gemm.n, cores), SPLIT_STEPS)
    _write(rows[1], Split(b, ladder_at_most(min(gemm.m, cores // most_n), SPLIT_STEPS), most_n, rung_b))
    return rows, np.zeros(2)


@compiled(ROWS_AND_KEYS(TASK, float64))
def _splits(task: Task, limit: float) -> tuple[Ints, Floats]:
    """Ways to split over the cores (rows as ``Split``) with a bound on cycles, best first.

    Those that cannot take less than ``limit`` cycles are left out.
    """
    gemm, shape, blocks = task
    splits_b = ladder(shape.cores, gemm.batch, SPLIT_STEPS)
    most_m = ladder(shape.cores, gemm.m, SPLIT_STEPS)
    most_n = ladder(shape.cores, gemm.n, SPLIT_STEPS)
    ideal_alone = float(gemm.batch) * gemm.m * gemm.n * gemm.k / (float(shape.width) * shape.depth)
    compulsory = far_bytes(gemm, 1, 1, 1, RIGHT)
    capacity = len(splits_b) * len(most_m) * len(most_n)
    rows = np.empty((capacity, 4), dtype=np.int64)
    bounds = np.empty(capacity)
    count = 0
    for r in range(len(splits_b)):
        start = blocks.starts_r[r]
        blocked = blocks.bytes_a[start] if start < blocks.starts_r[r + 1] else np.inf
        for split_m in ladder(shape.cores // splits_b[r], gemm.m, SPLIT_STEPS):
            splits_n = ladder(shape.cores // (splits_b[r] * split_m), gemm.n, SPLIT_STEPS)
            for at in range(len(splits_n) - 1, -1, -1):
                split = Split(splits_b[r], split_m, splits_n[at], r)
                if ideal_alone >= limit * split.b * split.m * split.n:
                    break
                bound = _least_array_cycles(gemm, shape, split)
                if bound >= limit:
                    continue
                middle = min(_middle_bounds(gemm, shape, split, 0.0).least)
                # Of each pass-through read the buffer makes at most one a core along m and n.
                passing = (middle - gemm.side_bytes) / max(split.m, split.n)
                far = max(compulsory, min(blocked, passing)) + gemm.side_bytes
                bound = max(bound, far / shape.hbm_rate, middle / shape.buffer_rate)
                if bound < limit:
                    _write(rows[count], split)
                    bounds[count] = bound
                    count += 1
    return sorted_by(bounds[:count], rows)


@compiled(void(TASK, SPLIT, MIDDLE_BOUNDS, ANSWER, boolean))
def _try_split(task: Task, split: Split, middle: MiddleBounds, answer: Answer, whole_array_only: bool) -> None:
    """Better ``answer`` over the flows and parts of the array for one split over the cores."""
    gemm, shape = task.gemm, task.shape
    widths = array_parts(shape.width)
    depths = array_parts(shape.depth)
    num_widths = 1 if whole_array_only else len(widths)
    num_depths = 1 if whole_array_only else len(depths)
    own_batch = float(cuts(gemm.batch, split.b))
    own_m, own_n = cuts(gemm.m, split.m), cuts(gemm.n, split.n)
    for flow in range(len(FLOWS)):
        side_w = pick(FLOWS[flow].rows, own_m, own_n, gemm.k)
        side_d = pick(FLOWS[flow].columns, own_m, own_n, gemm.k)
        length = pick(FLOWS[flow].stream, own_m, own_n, gemm.k)
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
                if passes * length >= answer.cycles:
                    break
                if passes * max(length, rows) + rows + columns >= answer.cycles:
                    continue
                moved = least_near_bytes(flow, own_m, own_n, gemm.k, float(passes_w), float(passes_d))
                if own_batch * moved >= answer.cycles * shape.scratchpad_rate:
                    continue
                improve(task, Branch(flow, split, rows, columns), middle, answer, False)


@entry(void(GEMM, SHAPES, ANSWERS))
def map_group(gemm: Gemm, shapes_s: Rows, answers_s: Rows) -> None:
    """Put the fastest mapping of one GEMM into the answers, for core shapes that have the same global buffer.

    Answers come with infinite cycles and energy, and keep them where no mapping fits.
    """
    most_cores = 1
    for s in range(len(shapes_s)):
        most_cores = max(most_cores, shape_of(shapes_s[s]).cores)
    blocks = blocks_by_rung(gemm, shape_of(shapes_s[0]).buffer_words, most_cores)
    for s in range(len(shapes_s)):
        shape, answer = shape_of(shapes_s[s]), answers_s[s]
        task = Task(gemm, shape, blocks)
        # The two first splits give an answer to cut the others by.
        rows, bounds = _first_splits(gemm, shape)
        for search_round in range(2):
            if search_round == 1:
                rows, bounds = _splits(task, answer.cycles)
            for row in range(len(bounds)):
                if bounds[row] >= answer.cycles:
                    break
                split = _split_of(rows[row])
                enough = answer.cycles * shape.buffer_rate
                middle = _middle_bounds(gemm, shape, split, enough)
                if min(middle.least) < enough:
                    _try_split(task, split, middle, answer, search_round == 0)
        if answer.cycles < np.inf:
            improve(task, branch_of(answer), _NO_BOUNDS, answer, True)
