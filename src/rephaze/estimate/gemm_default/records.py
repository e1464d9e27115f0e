"""What the search of model ``default`` works on: a GEMM, a core shape, a branch of mappings, the best one so far.

Axis letters: a = candidate for the global-buffer blocks, d = dimension (0 m, 1 n, 2 k), r = rung of the ladder of
products worked on at once.
"""

from __future__ import annotations

from typing import NamedTuple, get_type_hints

import numpy as np

from rephaze.estimate.arrays import Floats, Ints

M, N, K = range(3)
"""The dimensions of a product: rows, columns, reduction."""
RIGHT, LEFT, OUTPUT = TENSORS = M, N, K
"""The tensors, each by the dimension it does not have."""
TENSOR_NAMES = ("right", "left", "output")

X, Y, Z = range(3)
"""The dimensions seen from the tensor kept in the scratchpads (``Job``)."""
Triple = tuple[int, int, int]
Quantities = tuple[float, float, float]


class Flow(NamedTuple):
    """The dimensions along the array's rows (width), along its columns (depth), and streamed through it."""

    rows: int
    columns: int
    stream: int


RIGHT_STAYS, LEFT_STAYS, OUTPUT_STAYS, OUTPUT_STAYS_TRANSPOSED = range(4)
FLOWS = (Flow(K, N, M), Flow(K, M, N), Flow(M, N, K), Flow(N, M, K))
FLOW_NAMES = ("right stays", "left stays", "output stays", "output stays, transposed")


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
    """Which of m, n, k they are. The first names the tensor kept."""
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


KEPT = 3


class Blocks(NamedTuple):
    """Candidates for the global-buffer blocks for all rungs, one after the other."""

    starts_r: Ints
    """Where each rung's begin, and the last one's end."""
    counts_ad: Ints
    """Blocks along m, n, k and (column ``KEPT``) the tensor kept in the global buffer."""
    bytes_a: Floats
    """Their HBM bytes, ascending within a rung."""


class Task(NamedTuple):
    """A GEMM to map onto a core shape."""

    gemm: Gemm
    shape: Shape
    blocks: Blocks


class Answer:
    """The best mapping so far: a row of answers as compiled functions see it, which write to its fields."""

    cycles: float
    """Infinite if no mapping fits."""
    compute_cycles: float
    near_cycles: float
    middle_cycles: float
    far_cycles: float
    traffic_j: float
    """Of moving bytes; multiply-accumulates and registers take the same in all mappings."""
    middle_bytes: float
    far_bytes: float
    flow: int
    split_b: int
    split_m: int
    split_n: int
    split_rung_b: int
    rows: int
    """Of the array in use, as ``columns``."""
    columns: int
    rounds_d: Ints
    blocks_d: Ints
    kept_near: int
    """The tensor kept in the scratchpads."""
    kept_far: int
    """The tensor kept in the global buffer."""


_FIELD_TYPES = {int: (np.int64,), float: (np.float64,), Ints: (np.int64, 3)}


def _row_type(record: type) -> np.dtype[np.void]:
    """Rows with the fields of a record."""
    return np.dtype([(name, *_FIELD_TYPES[kind]) for name, kind in get_type_hints(record).items()], align=True)


SHAPE_ROW = _row_type(Shape)
ANSWER_ROW = _row_type(Answer)
