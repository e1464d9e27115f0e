"""GEMM problem files (``rephaze.gemm-problem/1``): a mapping in, the mapper's answer out."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rephaze.estimate.estimate_model import EstimateModel, Tiling, named_estimate_model
from rephaze.estimate.gemm_default.mapper import PaddedProblem, map_padded
from rephaze.estimate.gemm_paper.mapper import DivisorProblem, map_divisors
from rephaze.types.energy import PAPER_WORD_BYTES
from rephaze.types.files import check_format, validate
from rephaze.types.mapping import GemmEstimate
from rephaze.units import J_PER_PJ, MIB

FORMAT = "rephaze.gemm-problem/1"


MOST_PJ = 1e12
"""Of one access, a joule: what all of a product add up to stays finite."""


class AccessPj(BaseModel):
    """Energy of one access to a word, by level."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    register_: float = Field(ge=0, le=MOST_PJ, alias="register")
    scratchpad: float = Field(ge=0, le=MOST_PJ)
    global_buffer: float = Field(ge=0, le=MOST_PJ)
    dram: float = Field(ge=0, le=MOST_PJ)


class GemmProblemFile(BaseModel):
    """What a problem file states; rates left out follow the template of docs/hardware.md."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    format: str
    cost_model: str = "default"
    batch: int = Field(default=1, ge=1, le=2**31)
    rows_n: int = Field(ge=1, le=2**31)
    features_k: int = Field(ge=1, le=2**31)
    reduction_c: int = Field(ge=1, le=2**31)
    num_tensor_cores: int = Field(ge=1, le=2**20)
    width: int = Field(ge=1, le=2**16)
    depth: int = Field(ge=1, le=2**16)
    scratchpad_words: float = Field(ge=1, le=2**50)
    global_buffer_words: float = Field(ge=1, le=2**50)
    pj_per_access: AccessPj
    scratchpad_bytes_per_cycle: float | None = Field(default=None, ge=1)
    global_buffer_bytes_per_cycle: float | None = Field(default=None, ge=1)
    hbm_bytes_per_cycle: float = Field(default=1.2e12 / 1.05e9, gt=0)
    global_buffer_multicast: int = Field(default=8, ge=1, le=2**20)


def answer_gemm_problem(data: dict[str, Any]) -> dict[str, Any]:
    """The answer to one problem: cycles, energy_pj, mapping, bound_cycles, solve_s, status."""
    check_format(data, FORMAT, "problem")
    problem = validate(GemmProblemFile, data)
    model = named_estimate_model(problem.cost_model)
    _compile(model)
    started = time.perf_counter()
    found = _solve(problem, model)
    solve_s = time.perf_counter() - started
    if not found.is_feasible:
        return {"status": "infeasible", "reason": found.reason, "solve_s": solve_s}
    return {
        # Within its mapping space the search is exhaustive, up to what bounds rule out.
        "status": "optimal",
        "cost_model": model.name,
        "model_version": model.version,
        "cycles": found.cycles,
        "energy_pj": found.energy_j / J_PER_PJ,
        "bound_cycles": found.bound_cycles,
        "mapping": found.mapping,
        "solve_s": solve_s,
    }


@cache
def _compile(model: EstimateModel) -> None:
    """Have the search compiled (once a machine) or loaded, so that times are those of the search."""
    one = {"register": 1.0, "scratchpad": 1.0, "global_buffer": 1.0, "dram": 1.0}
    sizes = {"rows_n": 1, "features_k": 1, "reduction_c": 1, "num_tensor_cores": 1, "width": 1, "depth": 1}
    words = {"scratchpad_words": 64, "global_buffer_words": 64}
    _solve(GemmProblemFile.model_validate({"format": FORMAT, **sizes, **words, "pj_per_access": one}), model)


def _solve(problem: GemmProblemFile, model: EstimateModel) -> GemmEstimate:
    pj = problem.pj_per_access
    if model.tiling is Tiling.DIVISORS:
        return map_divisors(
            DivisorProblem(
                rows_n=problem.batch * problem.rows_n,
                features_k=problem.features_k,
                reduction_c=problem.reduction_c,
                num_tensor_cores=problem.num_tensor_cores,
                width=problem.width,
                depth=problem.depth,
                scratchpad_words=problem.scratchpad_words,
                global_buffer_words=problem.global_buffer_words,
                register_pj=pj.register_,
                scratchpad_pj=pj.scratchpad,
                global_buffer_pj=pj.global_buffer,
                dram_pj=pj.dram,
            ),
            model,
        )
    buffer_bytes = PAPER_WORD_BYTES * problem.global_buffer_words
    return map_padded(
        PaddedProblem(
            batch=problem.batch,
            m=problem.rows_n,
            n=problem.features_k,
            k=problem.reduction_c,
            num_tensor_cores=problem.num_tensor_cores,
            width=problem.width,
            depth=problem.depth,
            scratchpad_bytes=PAPER_WORD_BYTES * problem.scratchpad_words,
            global_buffer_bytes=buffer_bytes,
            scratchpad_bytes_per_cycle=problem.scratchpad_bytes_per_cycle
            or 4.0 * problem.width + 8.0 * problem.depth,
            global_buffer_bytes_per_cycle=problem.global_buffer_bytes_per_cycle
            or max(1.0, 32.0 * buffer_bytes / MIB),
            hbm_bytes_per_cycle=problem.hbm_bytes_per_cycle,
            global_buffer_multicast=problem.global_buffer_multicast,
            mac_j=model.mac_pj * J_PER_PJ,
            register_j_per_byte=pj.register_ * J_PER_PJ / PAPER_WORD_BYTES,
            scratchpad_j_per_byte=pj.scratchpad * J_PER_PJ / PAPER_WORD_BYTES,
            global_buffer_j_per_byte=pj.global_buffer * J_PER_PJ / PAPER_WORD_BYTES,
            hbm_j_per_byte=pj.dram * J_PER_PJ / PAPER_WORD_BYTES,
        )
    )
