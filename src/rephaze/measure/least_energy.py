"""A bound on the energy of a sample: what no plan goes below on a chip.

Axis letters: c = chip.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.costs import ELEMENT_BYTES
from rephaze.estimate.estimate_model import EstimateModel, Tiling
from rephaze.estimate.gemm_default.mapper import REGISTER_BYTES_PER_MAC
from rephaze.estimate.least_work import least_gemm_bytes, least_hbm_bytes, least_macs
from rephaze.measure.model_work import ModelWork
from rephaze.types.chip import ChipTable
from rephaze.types.cut import GraphCut
from rephaze.types.energy import AccessEnergy
from rephaze.types.graph import OpGraph, OpKind
from rephaze.units import J_PER_PJ

Floats = NDArray[np.float64]


def least_energy_per_sample_j(
    work: ModelWork, chips: ChipTable, energy: AccessEnergy, model: EstimateModel
) -> Floats:
    """Dynamic energy no plan goes below: multiply-accumulates with their registers and compulsory HBM traffic.

    The least over the cuts, each with what all members of its groups spend.
    """
    least_c: Floats = np.minimum.reduce([_with_cut(work, cut, chips, energy, model) for cut in work.base_cuts])
    return least_c


def _with_cut(
    work: ModelWork, cut: GraphCut, chips: ChipTable, energy: AccessEnergy, model: EstimateModel
) -> Floats:
    graph = work.graph(cut)
    gemm_mac_j_c = _gemm_mac_j(energy, model)
    counts = np.bincount(np.array(graph.layer_type_of), minlength=len(graph.layer_types))
    total: Floats = np.zeros(len(chips))
    for number, (count, kind) in enumerate(zip(counts.tolist(), graph.layer_types, strict=True)):
        members = work.num_members(cut, number)
        for one_pass in (kind.forward, kind.backward):
            gemm_macs = least_macs(one_pass, work.microbatches, OpKind.GEMM)
            attention_macs = least_macs(one_pass, work.microbatches, OpKind.ATTENTION)
            least_j = gemm_macs * gemm_mac_j_c + attention_macs * energy.mac_j_c
            least_j = least_j + _hbm_bytes(one_pass, work, model) * energy.hbm_j_per_byte_c
            total += count * members * least_j
    return total


def _gemm_mac_j(energy: AccessEnergy, model: EstimateModel) -> Floats:
    """One multiply-accumulate of a GEMM with its registers, as each model's mapper counts it."""
    if model.tiling is Tiling.DIVISORS:
        return model.mac_pj * J_PER_PJ + ELEMENT_BYTES * energy.register_j_per_byte_c
    return energy.mac_j_c + REGISTER_BYTES_PER_MAC * energy.register_j_per_byte_c


def _hbm_bytes(graph: OpGraph, work: ModelWork, model: EstimateModel) -> float:
    if model.has_memory_terms:
        return least_hbm_bytes(graph, work.microbatches)
    # The paper's vector operators are charged for their lanes only.
    return least_gemm_bytes(graph, work.microbatches, is_batch_folded=True)
