"""The best tiles of one branch: rounds of the scratchpads and blocks of the global buffer.

Every cost falls when a tile grows, so for given rounds along x and y the fewest along z that fit are best, or as
many as a candidate for the blocks has along z. See docs/how-it-works.md.

Axis letters: a = candidate for the global-buffer blocks, d = dimension (0 m, 1 n, 2 k).
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int64, void

from rephaze.compiled import compiled
from rephaze.estimate.gemm_default.equations import (
    ANSWER,
    BRANCH,
    JOB,
    MIDDLE_BOUNDS,
    SHAPE,
    TASK,
    array_cycles,
    cuts,
    job_of,
)
from rephaze.estimate.gemm_default.ladders import TILE_STEPS, ladder, ladder_at_least, next_rung
from rephaze.estimate.gemm_default.records import (
    FLOWS,
    KEPT,
    TENSORS,
    Answer,
    Branch,
    Job,
    MiddleBounds,
    Shape,
    Task,
    X,
    Y,
    Z,
)


@compiled(float64(JOB, SHAPE, BRANCH, float64))
def _near_cycles(job: Job, shape: Shape, branch: Branch, loads: float) -> float:
    """Cycles of the array and its scratchpad, if each tile of the array's tensor is brought in ``loads`` times."""
    moved = job.near_fixed + job.near_per_load * loads
    return max(array_cycles(job, branch, loads), moved / shape.scratchpad_rate)


@compiled(int64(JOB, SHAPE, int64, int64))
def _fewest_z(job: Job, shape: Shape, tile_x: int, tile_y: int) -> int:
    """Fewest rounds along z that fit the scratchpad beside tiles of these sides; 0 if none do."""
    left = shape.scratchpad_words - tile_x * tile_y
    if left < job.step[Z] * (tile_x + tile_y):
        return 0
    room = left // (tile_x + tile_y)
    if room >= job.own[Z]:
        return 1
    return min(ladder_at_least(cuts(job.passes[Z], room // job.step[Z]), TILE_STEPS), job.passes[Z])


@compiled(int64(JOB, SHAPE, int64))
def _fewest_y(job: Job, shape: Shape, tile_x: int) -> int:
    """Fewest rounds along y that leave room for one step along z; 0 if none do."""
    left = shape.scratchpad_words - tile_x * job.step[Z]
    if left < job.step[Y] * (tile_x + job.step[Z]):
        return 0
    room = left // (tile_x + job.step[Z])
    if room >= job.own[Y]:
        return 1
    return min(ladder_at_least(cuts(job.passes[Y], room // job.step[Y]), TILE_STEPS), job.passes[Y])


@compiled(float64(TASK, BRANCH, JOB, int64, boolean, ANSWER, boolean))
def _scan(task: Task, branch: Branch, job: Job, x: int, held: bool, answer: Answer, least_energy: bool) -> float:
    """Better ``answer`` over the tiles with ``x`` rounds along the dimension the kept tensor lacks.

    If ``held``, only the tile of one array pass whose tensor stays both in the scratchpad and in the array: it
    is loaded once a global-buffer block, however finely the streamed dimension is cut.

    Returns the least cycles of buffer and HBM among the tiles tried (infinite when all were cut because they
    cannot beat the answer).
    """
    gemm, shape, blocks = task
    least_rest = np.inf
    start, end = blocks.starts_r[branch.split.rung_b], blocks.starts_r[branch.split.rung_b + 1]
    tile_x = min(job.own[X], cuts(job.passes[X], x) * job.step[X])
    y = _fewest_y(job, shape, tile_x)
    if y == 0:
        return least_rest
    if held:
        y = job.passes[Y]
    fewest_z = job.passes[Z] if held else _fewest_z(job, shape, tile_x, job.step[Y])
    fixed = job.middle[X] - job.first_sums + gemm.side_bytes
    near = 0.0
    if held:
        near = _near_cycles(job, shape, branch, 1.0)
    elif job.stream == X:
        near = _near_cycles(job, shape, branch, float(x))
    while True:
        best = answer.cycles
        if job.stream == Y:
            near = _near_cycles(job, shape, branch, float(y))
        least_middle = (fixed + job.middle[Y] * y + job.middle[Z] * fewest_z) / shape.buffer_rate
        least = max(near, least_middle)
        # All that is left moves more.
        if least > best or (least == best and not least_energy):
            return least_rest
        tile_y = min(job.own[Y], cuts(job.passes[Y], y) * job.step[Y])
        fits_z = job.passes[Z] if held else _fewest_z(job, shape, tile_x, tile_y)
        near_z = _near_cycles(job, shape, branch, float(fits_z)) if job.stream == Z else near
        least = max(near_z, (fixed + job.middle[Y] * y + job.middle[Z] * fits_z) / shape.buffer_rate)
        first = start - 1 if least < best or (least == best and least_energy) else end
        for a in range(first, end):
            z = fits_z
            if a < start:
                # One block a round: the kept tensor stays in the scratchpads and needs no room above.
                edge_y = cuts(job.whole[Y], y)
                room = job.buffer_words - edge_y
                if room < 1:
                    continue
                z = max(z, min(ladder_at_least(cuts(job.whole[Z], room), TILE_STEPS), job.passes[Z]))
                room = job.buffer_words // (edge_y + cuts(job.whole[Z], z))
                if room < 1:
                    continue
                blocks_x, blocks_y, blocks_z = cuts(job.whole[X], room), y, z
                moved = job.far[X] + job.far[Y] * y + job.far[Z] * z - job.first_sums
                kept_far = job.dims[X]
                again = 1.0
            else:
                moved = blocks.bytes_a[a]
                kept_far = blocks.counts_ad[a, KEPT]
                blocks_x, blocks_y, blocks_z = (
                    blocks.counts_ad[a, job.dims[X]],
                    blocks.counts_ad[a, job.dims[Y]],
                    blocks.counts_ad[a, job.dims[Z]],
                )
                again = float(blocks_x)
            far = (moved + gemm.side_bytes) / shape.hbm_rate
            if far > best or (far == best and not least_energy):
                if a < start:
                    continue
                break
            if a >= start:
                if blocks_x > x or blocks_y > y or blocks_z > job.passes[Z]:
                    continue
                z = max(z, blocks_z)
                # As a block a round, which was tried.
                if kept_far == job.dims[X] and blocks_y == y and blocks_z == z:
                    continue
            # One array pass a tile is what ``held`` does better.
            if job.stream == X and not held and y == job.passes[Y] and z == job.passes[Z]:
                continue
            loads = again if held else float(x if job.stream == X else (y if job.stream == Y else z))
            near_bytes = job.near_fixed + job.near_per_load * loads
            compute = array_cycles(job, branch, loads)
            middle_bytes = (
                job.middle[X] * again + job.middle[Y] * y + job.middle[Z] * z - job.first_sums + gemm.side_bytes
            )
            middle = middle_bytes / shape.buffer_rate
            least_rest = min(least_rest, max(middle, far))
            cycles = max(compute, near_bytes / shape.scratchpad_rate, middle, far)
            if cycles > best:
                continue
            num_cores = branch.split.b * branch.split.m * branch.split.n
            delivered = job.delivered[X] * again + job.delivered[Y] * y + job.delivered[Z] * z - job.first_sums
            energy = (
                (near_bytes * num_cores + delivered) * shape.near_j
                + (middle_bytes + moved) * shape.middle_j
                + (moved + gemm.side_bytes) * shape.far_j
            )
            if cycles < best or energy < answer.traffic_j:
                best = cycles
                answer.cycles = cycles
                answer.compute_cycles = compute
                answer.near_cycles = near_bytes / shape.scratchpad_rate
                answer.middle_cycles = middle
                answer.far_cycles = far
                answer.traffic_j = energy
                answer.middle_bytes = middle_bytes
                answer.far_bytes = moved + gemm.side_bytes
                answer.flow = branch.flow
                answer.split_b = branch.split.b
                answer.split_m = branch.split.m
                answer.split_n = branch.split.n
                answer.split_rung_b = branch.split.rung_b
                answer.rows = branch.rows
                answer.columns = branch.columns
                answer.rounds_d[job.dims[X]] = x
                answer.rounds_d[job.dims[Y]] = y
                answer.rounds_d[job.dims[Z]] = z
                answer.blocks_d[job.dims[X]] = blocks_x
                answer.blocks_d[job.dims[Y]] = blocks_y
                answer.blocks_d[job.dims[Z]] = blocks_z
                answer.kept_near = job.dims[X]
                answer.kept_far = kept_far
            # The candidates still to come move more bytes; in the last pass HBM bytes weigh most.
            if a >= start and (least_energy or cycles <= max(near_z, far)):
                break
        if y == job.passes[Y]:
            return least_rest
        y = min(job.passes[Y], next_rung(y, TILE_STEPS))


@compiled(void(TASK, BRANCH, MIDDLE_BOUNDS, ANSWER, boolean))
def improve(task: Task, branch: Branch, bounds: MiddleBounds, answer: Answer, least_energy: bool) -> None:
    """Better ``answer`` by the tiles of one branch: a lower latency, or as low with less energy moved.

    Args:
        task: The products and the core shape.
        branch: Flow, split and part of the array.
        bounds: On the global-buffer bytes of its split.
        answer: To improve in place.
        least_energy: Keep the latency of ``answer`` and lower the energy of moving bytes.
    """
    shape, flow = task.shape, FLOWS[branch.flow]
    for kept in TENSORS:
        best = answer.cycles
        # A tile of sides x, y, z has room for yz + x (y + z) <= words, hence a product of y and z of at most p^2.
        step_x = 1
        if flow.rows == kept:
            step_x = branch.rows
        elif flow.columns == kept:
            step_x = branch.columns
        side = np.sqrt(float(shape.scratchpad_words) + float(step_x) * step_x) - step_x
        least = (
            max(bounds.least[kept], bounds.fixed[kept] + bounds.spread[kept] / side * (1.0 - 1e-9))
            / shape.buffer_rate
        )
        if least > best or (least == best and not least_energy):
            continue
        job = job_of(task.gemm, shape, branch, kept)
        streams_x = job.stream == X
        # The dimension the kept tensor lacks is cut finest: that costs nothing, unless it is the streamed one
        # and the array's tensor changes with every tile.
        _scan(task, branch, job, job.passes[X], streams_x, answer, least_energy)
        if not streams_x:
            continue
        # Finer cuts of the streamed dimension slow the array and speed up all else: meet in the middle, from the
        # finest the array has time for.
        rungs = ladder(job.passes[X], job.passes[X], TILE_STEPS)
        low = 0
        high = len(rungs) - 1
        while low <= high:
            middle = (low + high) // 2
            near = _near_cycles(job, shape, branch, float(rungs[middle]))
            if near < answer.cycles or (near == answer.cycles and least_energy):
                low = middle + 1
            else:
                high = middle - 1
        low = 0
        middle = high
        while low <= high:
            near = _near_cycles(job, shape, branch, float(rungs[middle]))
            rest = _scan(task, branch, job, rungs[middle], False, answer, least_energy)
            if near < answer.cycles and rest > near:
                low = middle + 1
            else:
                high = middle - 1
            middle = (low + high) // 2
