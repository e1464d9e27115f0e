"""GEMMs under model ``default``: one on one core shape, or one on the columns of many chips.

Axis letters: s = distinct core shape, c = chip.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.padded_bounds import padded_bound_cycles
from rephaze.types.checks import check_count, check_number
from rephaze.types.mapping import GemmEstimate

Floats = NDArray[np.float64]

REGISTER_BYTES_PER_MAC = 8.0
"""A multiply reads its stored operand (2 B) and passes on a streamed operand (2 B) and a partial sum (4 B)."""
WORD_BYTES = 4.0
"""Buffers are counted in 4 B: an input element of 2 B is held twice (one in use, one on its way)."""
FLOW_NAMES = ("right stays", "left stays", "output stays", "output stays, transposed")
TENSOR_LACKING = ("right", "left", "output")
"""Names of the tensors by the dimension (m, n, k) they do not have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreShapes:
    """What the mapper needs of chips, one entry a shape; the columns of ``padded_search``."""

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
    shapes = problem.shape()
    answer = map_shapes(problem.batch, problem.m, problem.n, problem.k, shapes)[0]
    bound_cycles = float(padded_bound_cycles(problem.batch, problem.m, problem.n, problem.k, shapes)[0])
    from rephaze.estimate import padded_search as ps

    if not np.isfinite(answer[ps.CYCLES]):
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
        cycles=float(answer[ps.CYCLES]),
        energy_j=fixed_j + float(answer[ps.ENERGY]),
        bound_cycles=bound_cycles,
        mapping=mapping_of(answer),
    )


def map_shapes(batch: int, m: int, n: int, k: int, shapes: CoreShapes) -> Floats:
    """Answer rows of one GEMM, a row a core shape, in the order given (columns: ``padded_search``)."""
    from rephaze.estimate import padded_search as ps

    rows = shapes.rows()
    order = np.argsort(rows[:, ps.BUFFER_WORDS], kind="stable")
    sorted_rows = rows[order]
    buffers = sorted_rows[:, ps.BUFFER_WORDS]
    starts = np.flatnonzero(np.concatenate(([True], buffers[1:] != buffers[:-1])))
    # Groups of one buffer are cut up so that threads share the work evenly.
    cuts = np.unique(np.concatenate((starts, np.arange(0, len(rows), 64), [len(rows)])))
    found = ps.map_many(batch, np.array([m, n, k], dtype=np.int64), sorted_rows, cuts.astype(np.int64))
    answers = np.empty_like(found)
    answers[order] = found
    return answers


def mapping_of(answer: Floats) -> dict[str, object]:
    """An answer row's mapping under plain names."""
    from rephaze.estimate import padded_search as ps

    whole = answer.astype(np.int64).tolist() if np.isfinite(answer).all() else []
    if not whole:
        return {}
    return {
        "flow": FLOW_NAMES[whole[ps.FLOW]],
        "cores": {"batch": whole[ps.SPLIT_B], "m": whole[ps.SPLIT_M], "n": whole[ps.SPLIT_N]},
        "array": {"rows": whole[ps.ROWS_USED], "columns": whole[ps.COLUMNS_USED]},
        "scratchpad_rounds": dict(zip("mnk", whole[ps.ROUNDS_M : ps.ROUNDS_M + 3], strict=True)),
        "global_buffer_blocks": dict(zip("mnk", whole[ps.BLOCKS_M : ps.BLOCKS_M + 3], strict=True)),
        "kept_tensor": {
            "scratchpad": TENSOR_LACKING[whole[ps.KEPT_NEAR]],
            "global_buffer": TENSOR_LACKING[whole[ps.KEPT_FAR]],
        },
        "cycles": {
            "compute": float(answer[ps.COMPUTE]),
            "scratchpad": float(answer[ps.NEAR]),
            "global_buffer": float(answer[ps.MIDDLE]),
            "hbm": float(answer[ps.FAR]),
        },
    }
