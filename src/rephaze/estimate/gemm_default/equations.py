"""What a padded mapping costs: the records the search works on, and the equations of docs/how-it-works.md.

Axis letters: d = dimension (0 m, 1 n, 2 k). A tensor is named by the dimension it does not have: 0 right operand,
1 left operand, 2 output.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int64
from numpy.typing import NDArray

from rephaze.compiled import compiled, type_like

# Flow: dimension along the array's rows (width), along its columns (depth), and streamed through it.
FLOWS = ((2, 1, 0), (2, 0, 1), (0, 1, 2), (1, 0, 2))
"""Right operand stays, left operand stays, output stays, output stays transposed."""

# Columns of a shape row, see CoreShapes in padded_gemm.py.
BUFFER_WORDS = 4

# Columns of an answer row.
CYCLES, COMPUTE, NEAR, MIDDLE, FAR = 0, 1, 2, 3, 4
FLOW, SPLIT_B, SPLIT_M, SPLIT_N, SPLIT_RUNG_B, ROWS_USED, COLUMNS_USED = 5, 6, 7, 8, 9, 10, 11
ROUNDS_M, BLOCKS_M, KEPT_NEAR, KEPT_FAR = 12, 15, 18, 19
ENERGY, MIDDLE_BYTES, FAR_BYTES = 20, 21, 22
NUM_COLUMNS = 23


X, Y, Z = 0, 1, 2
Triple = tuple[int, int, int]
Quantities = tuple[float, float, float]


class Gemm(NamedTuple):
    """``batch`` products of m x k by k x n, and what absorbed work moves through HBM and buffer beside them."""

    batch: int
    m: int
    n: int
    k: int
    side_bytes: float


class Shape(NamedTuple):
    """A core shape: capacities in words of 4 B, rates in bytes a cycle, energies in joules a byte."""

    cores: int
    width: int
    depth: int
    scratchpad_words: int
    buffer_words: int
    scratchpad_rate: float
    buffer_rate: float
    hbm_rate: float
    multicast: int
    near_j: float
    middle_j: float
    far_j: float


class Split(NamedTuple):
    """How many cores share the batch, m and n; how far down the ladder the first is."""

    b: int
    m: int
    n: int
    rung_b: int


class Branch(NamedTuple):
    """What is fixed before tiles are chosen: flow, split over the cores, part of the array in use."""

    flow: int
    split: Split
    rows: int
    columns: int


class MiddleBounds(NamedTuple):
    """What bounds the global-buffer bytes of a split, by the tensor kept in the scratchpads.

    They are no less than ``least``, nor than ``fixed + spread / p`` where p^2 is the product of the two sides of a
    scratchpad tile that the kept tensor has (eq. 6).
    """

    least: Quantities
    fixed: Quantities
    spread: Quantities


class Job(NamedTuple):
    """A branch that keeps one tensor in the scratchpads; triples are in the order x, y, z.

    x is the dimension the kept tensor lacks, y and z are the other two: one of the tensors not kept moves once a
    round along y, the other once a round along z. ``middle``, ``far`` and ``delivered`` are the bytes of the three
    tensors each time they move over the lower boundary, the upper one, and into all scratchpads.
    """

    dims: Triple
    """Which of m, n, k they are: 0, 1 or 2. The first names the tensor kept."""
    stream: int
    """Which of x, y, z is streamed through the array."""
    whole: Triple
    own: Triple
    step: Triple
    passes: Triple
    middle: Quantities
    far: Quantities
    delivered: Quantities
    first_sums: float
    """Bytes to take off each: the first partial sums are not read, the last go out in 2 B."""
    array_passes: float
    stream_length: float
    near_fixed: float
    near_per_load: float
    buffer_words: int
    """Of the global buffer, for one of the products worked on at once."""


# The records as numba knows them.
GEMM = type_like(Gemm(1, 1, 1, 1, 1.0))
SHAPE = type_like(Shape(1, 1, 1, 1, 1, 1.0, 1.0, 1.0, 1, 1.0, 1.0, 1.0))
SPLIT = type_like(Split(1, 1, 1, 1))
BRANCH = type_like(Branch(1, Split(1, 1, 1, 1), 1, 1))
_TRIPLE, _QUANTITIES = (1, 1, 1), (1.0, 1.0, 1.0)
TRIPLE, QUANTITIES = type_like(_TRIPLE), type_like(_QUANTITIES)
MIDDLE_BOUNDS = type_like(MiddleBounds(_QUANTITIES, _QUANTITIES, _QUANTITIES))
JOB = type_like(Job(_TRIPLE, 1, *(_TRIPLE,) * 4, *(_QUANTITIES,) * 3, *(1.0,) * 5, 1))


@compiled(SHAPE(float64[::1]))
def shape_of(row: NDArray[np.float64]) -> Shape:
    """The columns of a shape row under their names."""
    return Shape(
        cores=int(row[0]),
        width=int(row[1]),
        depth=int(row[2]),
        scratchpad_words=int(row[3]),
        buffer_words=int(row[4]),
        scratchpad_rate=row[5],
        buffer_rate=row[6],
        hbm_rate=row[7],
        multicast=int(row[8]),
        near_j=row[9],
        middle_j=row[10],
        far_j=row[11],
    )


@compiled(BRANCH(float64[::1]))
def branch_of(answer: NDArray[np.float64]) -> Branch:
    """The branch an answer row is in."""
    split = Split(
        b=int(answer[SPLIT_B]),
        m=int(answer[SPLIT_M]),
        n=int(answer[SPLIT_N]),
        rung_b=int(answer[SPLIT_RUNG_B]),
    )
    return Branch(int(answer[FLOW]), split, int(answer[ROWS_USED]), int(answer[COLUMNS_USED]))


@compiled(int64(int64, int64))
def cuts(length: int, size: int) -> int:
    """How many pieces of ``size`` cover a length."""
    return (length + size - 1) // size


@compiled(int64(int64, int64, int64, int64))
def pick(d: int, m: int, n: int, k: int) -> int:
    """The one of three that belongs to dimension ``d``."""
    if d == 0:
        return m
    return n if d == 1 else k


@compiled(TRIPLE(int64, int64, int64, int64))
def from_kept(kept: int, m: int, n: int, k: int) -> Triple:
    """Three of m, n, k in the order x, y, z of a job that keeps this tensor."""
    if kept == 0:
        return m, n, k
    return (n, m, k) if kept == 1 else (k, m, n)


@compiled(QUANTITIES(int64, float64, float64, float64))
def bytes_from_kept(kept: int, m: float, n: float, k: float) -> Quantities:
    """As ``from_kept``, for quantities."""
    if kept == 0:
        return m, n, k
    return (n, m, k) if kept == 1 else (k, m, n)


@compiled(float64(GEMM, int64, int64, int64, int64))
def far_bytes(gemm: Gemm, blocks_m: int, blocks_n: int, blocks_k: int, kept: int) -> float:
    """HBM bytes: each tensor moves once for every block along the dimension it lacks, the kept one once."""
    m, n, k = float(gemm.m), float(gemm.n), float(gemm.k)
    right = 2.0 * k * n * (1 if kept == 0 else blocks_m)
    left = 2.0 * m * k * (1 if kept == 1 else blocks_n)
    # Partial sums go out and come back in 4 B, the last in 2 B.
    output = m * n * (8.0 * (1 if kept == 2 else blocks_k) - 6.0)
    return float(gemm.batch * (right + left + output))


@compiled(float64(int64, int64, int64, int64, float64, float64))
def least_near_bytes(flow: int, m: int, n: int, k: int, passes_w: float, passes_d: float) -> float:
    """Least bytes between scratchpad and array for one product: the tensor in the array moves once."""
    if flow < 2:
        stays = n if flow == 0 else m
        streamed = m if flow == 0 else n
        inputs = 2.0 * k * stays + 2.0 * k * streamed * passes_d
        return inputs + 4.0 * (2.0 * passes_w - 1.0) * m * n
    passes_m = passes_w if flow == 2 else passes_d
    passes_n = passes_d if flow == 2 else passes_w
    return 2.0 * m * k * passes_n + 2.0 * k * n * passes_m + 4.0 * float(m) * n


@compiled(JOB(GEMM, SHAPE, BRANCH, int64))
def job_of(gemm: Gemm, shape: Shape, branch: Branch, kept: int) -> Job:
    """A branch seen from the tensor it keeps in the scratchpads."""
    row_d, column_d, stream_d = FLOWS[branch.flow]
    own_m, own_n, own_k = cuts(gemm.m, branch.split.m), cuts(gemm.n, branch.split.n), gemm.k
    step_m = branch.rows if row_d == 0 else (branch.columns if column_d == 0 else 1)
    step_n = branch.rows if row_d == 1 else (branch.columns if column_d == 1 else 1)
    step_k = branch.rows if row_d == 2 else (branch.columns if column_d == 2 else 1)
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
    if stream_d == 0:
        near_per_load, streamed = near_m, passes_m
    elif stream_d == 1:
        near_per_load, streamed = near_n, passes_n
    dims = from_kept(kept, 0, 1, 2)
    stream = X if stream_d == dims[X] else (Y if stream_d == dims[Y] else Z)
    passes_w = pick(row_d, passes_m, passes_n, passes_k)
    passes_d = pick(column_d, passes_m, passes_n, passes_k)
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
