"""The first sieve: a batch time no plan beats on a chip, for the whole space at once, in closed form.

All samples pass all layers, and the devices of the cluster together have no more than the batch time each. What a
layer must take for a sample depends on what operators compete for:

* Where they share bandwidths (model ``default``), no layer beats its busiest of multipliers, lanes and HBM.
* Where each has the full rates whatever runs beside it (model ``paper``), only time on cores, precedence and the
  rule for all-cores operators hold a layer back: see ``unshared_time``.

docs/proof.md has the proofs. Axis letters: c = chip.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.estimate_model import EstimateModel
from rephaze.estimate.least_work import least_hbm_bytes, least_macs
from rephaze.estimate.vector_weights import lane_ops
from rephaze.measure.model_work import ModelWork
from rephaze.measure.pass_classes import PassWork
from rephaze.search.unshared_time import UnsharedTime
from rephaze.types.chip import ChipTable
from rephaze.types.cut import GraphCut
from rephaze.types.graph import OpGraph, OpKind
from rephaze.types.schedule import Exclusion

Floats = NDArray[np.float64]


def device_time_batch_s(work: ModelWork, chips: ChipTable, model: EstimateModel, exclusion: Exclusion) -> Floats:
    """A batch time no plan beats, whatever its degrees, depth and microbatch size."""
    least_c: Floats = np.minimum.reduce(
        [_per_sample_s(work, cut, chips, model, exclusion) for cut in work.base_cuts]
    )
    return least_c * (work.scenario.training.global_batch / work.scenario.cluster.num_devices)


def _per_sample_s(
    work: ModelWork, cut: GraphCut, chips: ChipTable, model: EstimateModel, exclusion: Exclusion
) -> Floats:
    """Seconds of one device that a sample takes, cut one way."""
    graph = work.graph(cut)
    unshared = None
    if not model.has_memory_terms:
        unshared = UnsharedTime(chips, model, work.scenario.cluster, work.microbatches, exclusion)
    per_sample_s = np.zeros(len(chips))
    counts = np.bincount(np.array(graph.layer_type_of), minlength=len(graph.layer_types))
    for kind, (count, passes) in enumerate(zip(counts.tolist(), work.passes(cut), strict=True)):
        # Each member of a group does its share, the group together all of it.
        members = work.num_members(cut, kind)
        for one_pass in passes[:2]:
            least_s = unshared.pass_s(one_pass) if unshared else _shared_pass_s(one_pass, chips, work)
            per_sample_s += count * members * least_s
    return per_sample_s


def _shared_pass_s(one_pass: PassWork, chips: ChipTable, work: ModelWork) -> Floats:
    """The busiest of multipliers, lanes and HBM for one sample."""
    graph = one_pass.graph
    array_s = least_macs(graph, work.microbatches) / (chips.num_macs * chips.clock_hz)
    lanes_s = _lane_ops(graph) / (chips.num_lanes * chips.clock_hz)
    hbm_s = least_hbm_bytes(graph, work.microbatches) / chips.hbm_bytes_per_s
    return np.maximum(array_s, np.maximum(lanes_s, hbm_s))


def _lane_ops(graph: OpGraph) -> float:
    return sum(
        lane_ops(item.function) * item.num_elements.per_sample
        for op in graph.ops
        if op.kind is not OpKind.GEMM
        for item in op.vector
    )
