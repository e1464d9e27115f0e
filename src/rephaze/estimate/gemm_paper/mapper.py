"""One GEMM under model ``paper``: problem in, mapping of least energy-delay product out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rephaze.estimate.arrays import Ints
from rephaze.estimate.estimate_model import EstimateModel
from rephaze.estimate.gemm_paper.records import TENSOR_NAMES, Array, ArrayOptions, Found, Machine
from rephaze.types.checks import check_count, check_number
from rephaze.types.mapping import GemmEstimate
from rephaze.units import J_PER_PJ


@dataclass(frozen=True, kw_only=True, slots=True)
class DivisorProblem:
    """A GEMM of n rows, reduction c and k features on a core shape, in words and pJ as the paper counts."""

    rows_n: int
    features_k: int
    reduction_c: int
    num_tensor_cores: int
    width: int
    depth: int
    scratchpad_words: float
    global_buffer_words: float
    register_pj: float
    scratchpad_pj: float
    global_buffer_pj: float
    dram_pj: float

    def __post_init__(self) -> None:
        for name in ("rows_n", "features_k", "reduction_c"):
            check_count(name, getattr(self, name), at_most=2**31)
        for name in ("num_tensor_cores", "width", "depth"):
            check_count(name, getattr(self, name), at_most=2**20)
        for name in ("scratchpad_words", "global_buffer_words"):
            check_number(name, getattr(self, name), at_least=1, at_most=2.0**50)
        for name in ("register_pj", "scratchpad_pj", "global_buffer_pj", "dram_pj"):
            check_number(name, getattr(self, name), at_most=1e9)


def core_grid(num_cores: int) -> tuple[int, int]:
    """Sides of the grid the paper lays its cores out on, the longer first."""
    short = 2 ** ((num_cores.bit_length() - 1) // 2)
    other = num_cores // short
    return max(short, other), min(short, other)


def map_divisors(problem: DivisorProblem, model: EstimateModel) -> GemmEstimate:
    """The mapping of least energy-delay product, with its cycles and energy."""
    dims_d = np.array([problem.rows_n, problem.reduction_c, problem.features_k], dtype=np.int64)
    found = _search(problem, model, dims_d)
    bound_cycles = divisor_bound_cycles(problem, model)
    if not np.isfinite(found.cycles):
        return GemmEstimate(
            cycles=float("inf"),
            energy_j=float("inf"),
            bound_cycles=bound_cycles,
            reason=f"the smallest tile needs 3 words of global buffer, there are {problem.global_buffer_words:g}",
        )
    register, array, scratchpad, cores, buffer = found.tiles_ld
    mapping: dict[str, object] = {
        "register_tile": _named(register),
        "array_unroll": _named(array // register),
        "scratchpad_loops": _named(scratchpad // array),
        "core_unroll": _named(cores // scratchpad),
        "global_buffer_loops": _named(buffer // cores),
        "dram_loops": _named(dims_d // buffer),
        "kept_tensor": {
            level: TENSOR_NAMES[tensor]
            for level, tensor in zip(("array", "scratchpad", "global_buffer"), found.kept_b.tolist(), strict=True)
        },
    }
    return GemmEstimate(
        cycles=float(found.cycles),
        energy_j=float(found.energy_pj) * J_PER_PJ,
        bound_cycles=bound_cycles,
        mapping=mapping,
    )


def _search(problem: DivisorProblem, model: EstimateModel, dims_d: Ints) -> Found:
    from rephaze.estimate.gemm_paper.least_product import search_divisors

    machine = _machine(problem, model)
    return search_divisors(dims_d, machine, _array_options(tuple(dims_d.tolist()), machine.array))


def _machine(problem: DivisorProblem, model: EstimateModel) -> Machine:
    long_grid_side, short_grid_side = core_grid(problem.num_tensor_cores)
    return Machine(
        array=Array(
            # An array on its side does the same.
            long_side=max(problem.width, problem.depth),
            short_side=min(problem.width, problem.depth),
            register_words=model.register_words,
            scratchpad_words=float(problem.scratchpad_words),
            words_per_cycle=model.array_words_per_cycle,
            register_pj=float(problem.register_pj),
            scratchpad_pj=float(problem.scratchpad_pj),
        ),
        long_grid_side=long_grid_side,
        short_grid_side=short_grid_side,
        buffer_words=float(problem.global_buffer_words),
        buffer_words_per_cycle=model.buffer_words_per_cycle,
        dram_words_per_cycle=model.dram_words_per_cycle,
        buffer_pj=float(problem.global_buffer_pj),
        dram_pj=float(problem.dram_pj),
        mac_pj=model.mac_pj,
    )


@lru_cache(maxsize=512)
def _array_options(dims: tuple[int, int, int], array: Array) -> ArrayOptions:
    """What arrays can do with the problem: the same for any number of cores and any global buffer."""
    from rephaze.estimate.gemm_paper.array import array_options

    return array_options(np.array(dims, dtype=np.int64), array)


def divisor_bound_cycles(problem: DivisorProblem, model: EstimateModel) -> float:
    """Cycles no mapping can beat."""
    from rephaze.estimate.gemm_paper.bounds import DivisorBounds

    bounds = DivisorBounds(
        num_cores_s=np.array([float(np.prod(core_grid(problem.num_tensor_cores)))]),
        width_s=np.array([float(problem.width)]),
        depth_s=np.array([float(problem.depth)]),
        scratchpad_words_s=np.array([problem.scratchpad_words]),
        buffer_words_s=np.array([problem.global_buffer_words]),
        model=model,
    )
    return float(bounds.cycles(problem.rows_n, problem.features_k, problem.reduction_c)[0])


def _named(factors_d: Ints) -> dict[str, int]:
    n, c, k = (int(value) for value in factors_d)
    return {"n": n, "c": c, "k": k}
