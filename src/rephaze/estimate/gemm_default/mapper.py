"""GEMMs under model ``default``: one on one core shape, or one on the columns of many chiterms.

Axis letters: s = distinct core shape, c = chip.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.gemm_default.bounds import padded_bound_cycles
from rephaze.types.checks import check_count, check_number
from rephaze.types.mapping import GemmEstimate

Floats = NDArray[np.float64]

REGISTER_BYTES_PER_MAC = 8.0
"""A multiply reads its stored operand (2 B) and passes on a streamed operand (2 B) and a partial sum (4 B)."""
WORD_BYTES = 4.0
"""Buffers are counted in 4 B: an input element of 2 B is held twice (one in use, one on its way)."""
FLOW_NAMES = ("right stays", "left stays", "output stays", "output stays, transposed")
_SHAPES_AT_ONCE = 64
TENSOR_LACKING = ("right", "left", "output")
"""Names of the tensors by the dimension (m, n, k) they do not have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreShapes:
    """What the mapper needs of chips, one entry a shape; the columns of ``equations.Shape``."""

    num_cores: Floats
    width: Floats
    depth: Floats
    scratchpad_bytes: Floats
    global_buffer_bytes: Floats
    scratchpad_bytes_per_cycle: Floats
    global_buffer_bytes_per_cycle: Floats
    hbm_bytes_per_cycle: Floats
    multicast: Floats
    scratchpad_j_per_byte: Floats
    global_buffer_j_per_byte: Floats
    hbm_j_per_byte: Floats

    def rows(self) -> Floats:
        """One row a shape, capacities in words."""
        columns = [np.asarray(getattr(self, field.name), dtype=np.float64) for field in fields(self)]
        columns[3] = np.floor(columns[3] / WORD_BYTES)
        columns[4] = np.floor(columns[4] / WORD_BYTES)
        return np.ascontiguousarray(np.stack(columns, axis=1))


@dataclass(frozen=True, kw_only=True, slots=True)
class PaddedProblem:
    """``batch`` products of m x k by k x n on one core shape."""

    batch: int
    m: int
    n: int
    k: int
    num_tensor_cores: int
    width: int
    depth: int
    scratchpad_bytes: float
    global_buffer_bytes: float
    scratchpad_bytes_per_cycle: float
    global_buffer_bytes_per_cycle: float
    hbm_bytes_per_cycle: float
    global_buffer_multicast: int
    mac_j: float = 0.0
    register_j_per_byte: float = 0.0
    scratchpad_j_per_byte: float = 0.0
    global_buffer_j_per_byte: float = 0.0
    hbm_j_per_byte: float = 0.0
    side_bytes: float = 0.0
    """What absorbed work moves through HBM and global buffer meanwhile."""

    def __post_init__(self) -> None:
        for name in ("batch", "m", "n", "k"):
            check_count(name, getattr(self, name), at_most=2**31)
        for name in ("num_tensor_cores", "width", "depth", "global_buffer_multicast"):
            check_count(name, getattr(self, name), at_most=2**20)
        for field in fields(self):
            if "_bytes" in field.name or field.name.endswith("_j"):
                check_number(field.name, getattr(self, field.name), at_most=2.0**60)

    def shape(self) -> CoreShapes:
        """The core shape as columns of one entry."""
        return CoreShapes(
            num_cores=np.array([float(self.num_tensor_cores)]),
            width=np.array([float(self.width)]),
            depth=np.array([float(self.depth)]),
            scratchpad_bytes=np.array([self.scratchpad_bytes]),
            global_buffer_bytes=np.array([self.global_buffer_bytes]),
            scratchpad_bytes_per_cycle=np.array([self.scratchpad_bytes_per_cycle]),
            global_buffer_bytes_per_cycle=np.array([self.global_buffer_bytes_per_cycle]),
            hbm_bytes_per_cycle=np.array([self.hbm_bytes_per_cycle]),
            multicast=np.array([float(self.global_buffer_multicast)]),
            scratchpad_j_per_byte=np.array([self.scratchpad_j_per_byte]),
            global_buffer_j_per_byte=np.array([self.global_buffer_j_per_byte]),
            hbm_j_per_byte=np.array([self.hbm_j_per_byte]),
        )


def map_padded(problem: PaddedProblem) -> GemmEstimate:
    """The fastest mapping, and of the fastest ones of its split and flow the one that moves least energy."""
    dims = (problem.batch, problem.m, problem.n, problem.k)
    shapes = problem.shape()
    answer = map_shapes(*dims, shapes, problem.side_bytes)[0]
    bound_cycles = float(padded_bound_cycles(*dims, shapes, problem.side_bytes)[0])
    from rephaze.estimate.gemm_default import equations as terms

    if not np.isfinite(answer[terms.CYCLES]):
        return GemmEstimate(
            cycles=float("inf"),
            energy_j=float("inf"),
            bound_cycles=bound_cycles,
            reason="a tile of one element of each matrix fits neither "
            f"{problem.scratchpad_bytes:g} B of scratchpad nor {problem.global_buffer_bytes:g} B of global buffer",
        )
    macs = float(problem.batch) * problem.m * problem.n * problem.k
    fixed_j = macs * (problem.mac_j + REGISTER_BYTES_PER_MAC * problem.register_j_per_byte)
    return GemmEstimate(
        cycles=float(answer[terms.CYCLES]),
        energy_j=fixed_j + float(answer[terms.ENERGY]),
        bound_cycles=bound_cycles,
        mapping=mapping_of(answer),
    )


def map_shapes(batch: int, m: int, n: int, k: int, shapes: CoreShapes, side_bytes: float = 0.0) -> Floats:
    """Answer rows of one GEMM, a row a core shape, in the order given (columns: ``equations``).

    Args:
        batch: Independent products.
        m: Rows of each.
        n: Columns of each.
        k: Reduction of each.
        shapes: The core shapes.
        side_bytes: What absorbed work moves through HBM and global buffer meanwhile.
    """
    from numba import get_num_threads

    from rephaze.estimate.gemm_default.branches import map_group
    from rephaze.estimate.gemm_default.equations import BUFFER_WORDS, NUM_COLUMNS, Gemm

    gemm = Gemm(batch, m, n, k, float(side_bytes))
    rows = shapes.rows()
    order = np.argsort(rows[:, BUFFER_WORDS], kind="stable")
    sorted_rows = rows[order]
    buffers = sorted_rows[:, BUFFER_WORDS]
    starts = np.flatnonzero(np.concatenate(([True], buffers[1:] != buffers[:-1])))
    # Groups of one buffer are cut up so that threads share the work evenly.
    cuts = np.unique(np.concatenate((starts, np.arange(0, len(rows), _SHAPES_AT_ONCE), [len(rows)]))).tolist()
    found = np.empty((len(rows), NUM_COLUMNS))

    def map_between(start: int, end: int) -> None:
        map_group(gemm, sorted_rows[start:end], found[start:end])

    num_threads = min(get_num_threads(), len(cuts) - 1)
    if num_threads > 1:
        with ThreadPoolExecutor(num_threads) as pool:
            list(pool.map(map_between, cuts[:-1], cuts[1:]))
    else:
        for start, end in pairwise(cuts):
            map_between(start, end)
    answers = np.empty_like(found)
    answers[order] = found
    return answers


def mapping_of(answer: Floats) -> dict[str, object]:
    """An answer row's mapping under plain names."""
    from rephaze.estimate.gemm_default import equations as terms

    whole = answer.astype(np.int64).tolist() if np.isfinite(answer).all() else []
    if not whole:
        return {}
    return {
        "flow": FLOW_NAMES[whole[terms.FLOW]],
        "cores": {"batch": whole[terms.SPLIT_B], "m": whole[terms.SPLIT_M], "n": whole[terms.SPLIT_N]},
        "array": {"rows": whole[terms.ROWS_USED], "columns": whole[terms.COLUMNS_USED]},
        "scratchpad_rounds": dict(zip("mnk", whole[terms.ROUNDS_M : terms.ROUNDS_M + 3], strict=True)),
        "global_buffer_blocks": dict(zip("mnk", whole[terms.BLOCKS_M : terms.BLOCKS_M + 3], strict=True)),
        "kept_tensor": {
            "scratchpad": TENSOR_LACKING[whole[terms.KEPT_NEAR]],
            "global_buffer": TENSOR_LACKING[whole[terms.KEPT_FAR]],
        },
        "cycles": {
            "compute": float(answer[terms.COMPUTE]),
            "scratchpad": float(answer[terms.NEAR]),
            "global_buffer": float(answer[terms.MIDDLE]),
            "hbm": float(answer[terms.FAR]),
        },
    }
