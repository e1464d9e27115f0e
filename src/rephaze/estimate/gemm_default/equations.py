"""What a mapping of model ``default`` costs: the equations of docs/how-it-works.md."""

from __future__ import annotations

import numpy as np
from numba import float64, from_dtype, int64

from rephaze.compiled import compiled, type_like
from rephaze.estimate.arrays import Floats, Rows
from rephaze.estimate.gemm_default.records import (
    ANSWER_ROW,
    FLOWS,
    LEFT,
    LEFT_STAYS,
    OUTPUT,
    OUTPUT_STAYS,
    RIGHT,
    RIGHT_STAYS,
    SHAPE_ROW,
    Answer,
    Blocks,
    Branch,
    Gemm,
    Job,
    K,
    M,
    MiddleBounds,
    N,
    Quantities,
    Shape,
    Split,
    Task,
    Triple,
    X,
    Y,
    Z,
)

# The records as numba knows them.
_GEMM, _SHAPE = Gemm(1, 1, 1, 1, 1.0), Shape(1, 1, 1, 1, 1, 1.0, 1.0, 1.0, 1, 1.0, 1.0, 1.0)
GEMM, SHAPE = type_like(_GEMM), type_like(_SHAPE)
SPLIT = type_like(Split(1, 1, 1, 1))
BRANCH = type_like(Branch(1, Split(1, 1, 1, 1), 1, 1))
_TRIPLE, _QUANTITIES = (1, 1, 1), (1.0, 1.0, 1.0)
TRIPLE, QUANTITIES = type_like(_TRIPLE), type_like(_QUANTITIES)
MIDDLE_BOUNDS = type_like(MiddleBounds(_QUANTITIES, _QUANTITIES, _QUANTITIES))
JOB = type_like(Job(_TRIPLE, 1, *(_TRIPLE,) * 4, *(_QUANTITIES,) * 3, *(1.0,) * 5, 1))
_ROWS, _KEYS = np.empty((1, 4), dtype=np.int64), np.empty(1)
ROWS_AND_KEYS = type_like((_ROWS, _KEYS))
_BLOCKS = Blocks(_ROWS[0], _ROWS, _KEYS)
BLOCKS, TASK = type_like(_BLOCKS), type_like(Task(_GEMM, _SHAPE, _BLOCKS))
SHAPES, ANSWERS = from_dtype(SHAPE_ROW)[::1], from_dtype(ANSWER_ROW)[::1]
ANSWER = from_dtype(ANSWER_ROW)


def mapping_cycles(answers_s: Rows) -> Floats:
    """The time of mapped GEMMs: the array, the scratchpads, the global buffer or HBM, whichever is the slowest.

    The search (``tiles``) minimises the same maximum; infinite where no mapping fits.
    """
    on_chip_s = np.maximum(answers_s["compute_cycles"], answers_s["near_cycles"])
    cycles_s: Floats = np.maximum(on_chip_s, np.maximum(answers_s["middle_cycles"], answers_s["far_cycles"]))
    return cycles_s


@compiled(SHAPE(from_dtype(SHAPE_ROW)))
def shape_of(row: Shape) -> Shape:
    """A row of shapes as a record of its own: read once, not at every use."""
    return Shape(
        cores=row.cores,
        width=row.width,
        depth=row.depth,
        scratchpad_words=row.scratchpad_words,
        buffer_words=row.buffer_words,
        scratchpad_rate=row.scratchpad_rate,
        buffer_rate=row.buffer_rate,
        hbm_rate=row.hbm_rate,
        multicast=row.multicast,
        near_j=row.near_j,
        middle_j=row.middle_j,
        far_j=row.far_j,
    )


@compiled(BRANCH(ANSWER))
def branch_of(answer: Answer) -> Branch:
    """The branch an answer is in."""
    split = Split(answer.split_b, answer.split_m, answer.split_n, answer.split_rung_b)
    return Branch(answer.flow, split, answer.rows, answer.columns)


@compiled(int64(int64, int64))
def cuts(length: int, size: int) -> int:
    """How many pieces of ``size`` cover a length."""
    return (length + size - 1) // size


@compiled(int64(int64, int64, int64, int64))
def pick(d: int, m: int, n: int, k: int) -> int:
    """The one of three that belongs to dimension ``d``."""
    if d == M:
        return m
    return n if d == N else k


@compiled(TRIPLE(int64, int64, int64, int64))
def from_kept(kept: int, m: int, n: int, k: int) -> Triple:
    """Three of m, n, k in the order x, y, z of a job that keeps this tensor."""
    if kept == RIGHT:
        return m, n, k
    return (n, m, k) if kept == LEFT else (k, m, n)


@compiled(QUANTITIES(int64, float64, float64, float64))
def bytes_from_kept(kept: int, m: float, n: float, k: float) -> Quantities:
    """As ``from_kept``, for quantities."""
    if kept == RIGHT:
        return m, n, k
    return (n, m, k) if kept == LEFT else (k, m, n)


@compiled(float64(GEMM, int64, int64, int64, int64))
def far_bytes(gemm: Gemm, blocks_m: int, blocks_n: int, blocks_k: int, kept: int) -> float:
    """HBM bytes: each tensor moves once for every block along the dimension it lacks, the kept one once."""
    m, n, k = float(gemm.m), float(gemm.n), float(gemm.k)
    right = 2.0 * k * n * (1 if kept == RIGHT else blocks_m)
    left = 2.0 * m * k * (1 if kept == LEFT else blocks_n)
    # Partial sums go out and come back in 4 B, the last in 2 B.
    output = m * n * (8.0 * (1 if kept == OUTPUT else blocks_k) - 6.0)
    return float(gemm.batch * (right + left + output))


@compiled(float64(int64, int64, int64, int64, float64, float64))
def least_near_bytes(flow: int, m: int, n: int, k: int, passes_w: float, passes_d: float) -> float:
    """Least bytes between scratchpad and array for one product: the tensor in the array moves once."""
    if flow in (RIGHT_STAYS, LEFT_STAYS):
        stays = n if flow == RIGHT_STAYS else m
        streamed = m if flow == RIGHT_STAYS else n
        inputs = 2.0 * k * stays + 2.0 * k * streamed * passes_d
        return inputs + 4.0 * (2.0 * passes_w - 1.0) * m * n
    passes_m = passes_w if flow == OUTPUT_STAYS else passes_d
    passes_n = passes_d if flow == OUTPUT_STAYS else passes_w
    return 2.0 * m * k * passes_n + 2.0 * k * n * passes_m + 4.0 * float(m) * n


@compiled(JOB(GEMM, SHAPE, BRANCH, int64))
def job_of(gemm: Gemm, shape: Shape, branch: Branch, kept: int) -> Job:
    """A branch seen from the tensor it keeps in the scratchpads."""
    flow = FLOWS[branch.flow]
    own_m, own_n, own_k = cuts(gemm.m, branch.split.m), cuts(gemm.n, branch.split.n), gemm.k
    step_m = branch.rows if flow.rows == M else (branch.columns if flow.columns == M else 1)
    step_n = branch.rows if flow.rows == N else (branch.columns if flow.columns == N else 1)
    step_k = branch.rows if flow.rows == K else (branch.columns if flow.columns == K else 1)
    passes_m, passes_n, passes_k = cuts(own_m, step_m), cuts(own_n, step_n), cuts(own_k, step_k)
    own_batch = float(cuts(gemm.batch, branch.split.b))
    batch, m, n, k = float(gemm.batch), float(gemm.m), float(gemm.n), float(gemm.k)
    right, left, sums = 2.0 * batch * k * n, 2.0 * batch * m * k, 8.0 * batch * m * n
    reads_right, reads_left = cuts(branch.split.m, shape.multicast), cuts(branch.split.n, shape.multicast)
    # Bytes between one core's scratchpad and its array each time a tensor moves (eq. 4).
    near_m = own_batch * 2.0 * own_k * own_n
    near_n = own_batch * 2.0 * own_m * own_k
    near_k = own_batch * 8.0 * own_m * own_n
    all_near = near_m * passes_m + near_n * passes_n + near_k * passes_k - 0.5 * near_k
    near_per_load, streamed = near_k, passes_k
    if flow.stream == M:
        near_per_load, streamed = near_m, passes_m
    elif flow.stream == N:
        near_per_load, streamed = near_n, passes_n
    dims = from_kept(kept, M, N, K)
    stream = X if flow.stream == dims[X] else (Y if flow.stream == dims[Y] else Z)
    passes_w = pick(flow.rows, passes_m, passes_n, passes_k)
    passes_d = pick(flow.columns, passes_m, passes_n, passes_k)
    return Job(
        dims=dims,
        stream=stream,
        whole=from_kept(kept, gemm.m, gemm.n, gemm.k),
        own=from_kept(kept, own_m, own_n, own_k),
        step=from_kept(kept, step_m, step_n, step_k),
        passes=from_kept(kept, passes_m, passes_n, passes_k),
        middle=bytes_from_kept(kept, right * reads_right, left * reads_left, sums),
        far=bytes_from_kept(kept, right, left, sums),
        delivered=bytes_from_kept(kept, right * branch.split.m, left * branch.split.n, sums),
        first_sums=0.75 * sums,
        array_passes=own_batch * passes_w * passes_d,
        stream_length=float(streamed),
        near_fixed=all_near - near_per_load * streamed,
        near_per_load=near_per_load,
        buffer_words=shape.buffer_words // branch.split.b,
    )


@compiled(float64(JOB, BRANCH, float64))
def array_cycles(job: Job, branch: Branch, loads: float) -> float:
    """Cycles of one core's array that brings each tile of its tensor in ``loads`` times (eq. 3)."""
    # Bringing a tile in takes a cycle a row and hides behind the stream of the tile before.
    return float(job.array_passes * max(job.stream_length, loads * branch.rows) + branch.rows + branch.columns)
