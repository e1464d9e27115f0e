"""A bound on the energy of a sample: what no plan goes below on a chip.

Axis letters: c = chip.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.models import CostModel, Tiling
from rephaze.search.least_work import least_gemm_bytes, least_hbm_bytes, least_macs
from rephaze.search.work import ModelWork
from rephaze.types.chip import ChipTable
from rephaze.types.energy import AccessEnergy
from rephaze.types.graph import OpGraph
from rephaze.units import J_PER_PJ

Floats = NDArray[np.float64]


def least_energy_per_sample_j(
    work: ModelWork, chips: ChipTable, energy: AccessEnergy, model: CostModel
) -> Floats:
    """Dynamic energy no plan goes below: multiply-accumulates and compulsory HBM traffic of every layer.

    The least over the degrees, each with what all members of its groups spend.
    """
    least_c: Floats = np.minimum.reduce([_at_degree(work, tp, chips, energy, model) for tp in work.tp_degrees])
    return least_c


def _at_degree(work: ModelWork, tp: int, chips: ChipTable, energy: AccessEnergy, model: CostModel) -> Floats:
    graph = work.graphs[tp]
    is_paper = model.tiling is Tiling.DIVISORS
    # The paper's mapper has an energy of its own for a multiply-accumulate; fused attention has the chip's.
    mac_j_c = np.minimum(energy.mac_j_c, model.mac_pj * J_PER_PJ) if is_paper else energy.mac_j_c
    counts = np.bincount(np.array(graph.layer_type_of), minlength=len(graph.layer_types))
    total: Floats = np.zeros(len(chips))
    for count, kind in zip(counts.tolist(), graph.layer_types, strict=True):
        members = tp if kind.is_sharded else 1
        for one_pass in (kind.forward, kind.backward):
            macs = least_macs(one_pass, work.microbatches)
            hbm_bytes = _hbm_bytes(one_pass, work, model)
            total += count * members * (macs * mac_j_c + hbm_bytes * energy.hbm_j_per_byte_c)
    return total


def _hbm_bytes(graph: OpGraph, work: ModelWork, model: CostModel) -> float:
    if model.has_memory_terms:
        return least_hbm_bytes(graph, work.microbatches)
    # The paper's vector operators are charged for their lanes only.
    return least_gemm_bytes(graph, work.microbatches, is_batch_folded=True)
