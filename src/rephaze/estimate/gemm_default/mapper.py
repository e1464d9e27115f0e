"""The fastest mapping of a GEMM under model ``default``: on one core shape, or on each of many.

Axis letters: s = core shape.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

from rephaze.estimate.arrays import Rows
from rephaze.estimate.gemm_default.bounds import padded_bound_cycles
from rephaze.estimate.gemm_default.core_shapes import CoreShapes
from rephaze.estimate.gemm_default.records import ANSWER_ROW, FLOW_NAMES, TENSOR_NAMES, Gemm
from rephaze.types.checks import check_count, check_number
from rephaze.types.mapping import GemmEstimate

REGISTER_BYTES_PER_MAC = 8.0
"""A multiply reads its stored operand (2 B) and passes on a streamed operand (2 B) and a partial sum (4 B)."""
_SHAPES_AT_ONCE = 64
_LEAST_SHAPES_FOR_THREADS = 128
"""Fewer are mapped sooner than threads are started."""


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
    if not np.isfinite(answer["cycles"]):
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
        cycles=float(answer["cycles"]),
        energy_j=fixed_j + float(answer["traffic_j"]),
        bound_cycles=bound_cycles,
        mapping=mapping_of(answer),
    )


def map_shapes(batch: int, m: int, n: int, k: int, shapes: CoreShapes, side_bytes: float = 0.0) -> Rows:
    """Answers of one GEMM, one a core shape in the order given; ``records.Answer`` says what is in them.

    Args:
        batch: Independent products.
        m: Rows of each.
        n: Columns of each.
        k: Reduction of each.
        shapes: The core shapes.
        side_bytes: What absorbed work moves through HBM and global buffer meanwhile.
    """
    return map_rows(batch, m, n, k, shapes.rows(), side_bytes)


def map_rows(batch: int, m: int, n: int, k: int, rows_s: Rows, side_bytes: float = 0.0) -> Rows:
    """As ``map_shapes``, of ``CoreShapes.rows``: searches map one product after another on the same shapes."""
    from numba import get_num_threads

    from rephaze.estimate.gemm_default.branches import map_group

    gemm = Gemm(batch, m, n, k, float(side_bytes))
    order = np.argsort(rows_s["buffer_words"], kind="stable")
    sorted_s = rows_s[order]
    buffers = sorted_s["buffer_words"].tolist()
    # Groups of one buffer are cut up so that threads share the work evenly.
    cuts = [s for s, words in enumerate(buffers) if s % _SHAPES_AT_ONCE == 0 or words != buffers[s - 1]]
    cuts.append(len(buffers))
    found_s = np.zeros(len(buffers), ANSWER_ROW)
    found_s["cycles"] = found_s["compute_cycles"] = found_s["traffic_j"] = np.inf

    def map_between(start: int, end: int) -> None:
        map_group(gemm, sorted_s[start:end], found_s[start:end])

    num_threads = min(get_num_threads(), len(cuts) - 1)
    if num_threads > 1 and len(buffers) >= _LEAST_SHAPES_FOR_THREADS:
        with ThreadPoolExecutor(num_threads) as pool:
            list(pool.map(map_between, cuts[:-1], cuts[1:]))
    else:
        for start, end in pairwise(cuts):
            map_between(start, end)
    answers_s = np.empty_like(found_s)
    answers_s[order] = found_s
    return answers_s


def mapping_of(answer: np.void) -> dict[str, object]:
    """An answer's mapping under plain names."""
    if not np.isfinite(answer["cycles"]):
        return {}
    return {
        "flow": FLOW_NAMES[answer["flow"]],
        "cores": {"batch": int(answer["split_b"]), "m": int(answer["split_m"]), "n": int(answer["split_n"])},
        "array": {"rows": int(answer["rows"]), "columns": int(answer["columns"])},
        "scratchpad_rounds": dict(zip("mnk", answer["rounds_d"].tolist(), strict=True)),
        "global_buffer_blocks": dict(zip("mnk", answer["blocks_d"].tolist(), strict=True)),
        "kept_tensor": {
            "scratchpad": TENSOR_NAMES[answer["kept_near"]],
            "global_buffer": TENSOR_NAMES[answer["kept_far"]],
        },
        "cycles": {
            "compute": float(answer["compute_cycles"]),
            "scratchpad": float(answer["near_cycles"]),
            "global_buffer": float(answer["middle_cycles"]),
            "hbm": float(answer["far_cycles"]),
        },
    }
