"""Upper bounds on the throughput of many chips at once, coarse to fine, before anything is solved.

Two sieves, each tested to be an upper bound of what the exact evaluation finds:

1. *Device time*: all samples pass all layers, and no layer beats its busiest resource (multipliers, lanes, HBM).
   One closed form for all microbatch sizes and degrees.
2. *Layer bounds*: for each unit (degree, microbatch, policy), the schedule bound of every layer on closed-form
   operator bounds, then the placement bound over all depths and degrees that fit in memory.

Axis letters: c = chip, t = layer type, u = unit, k = pair of degree and microbatch size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.models import CostModel
from rephaze.estimate.table import Estimator
from rephaze.estimate.weights import lane_ops
from rephaze.schedule.bounds import lower_bounds
from rephaze.search.work import Memory, ModelWork, PassWork, Unit
from rephaze.types.chip import ChipTable
from rephaze.types.energy import AccessEnergy
from rephaze.types.graph import Op, OpGraph, OpKind
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.schedule import Exclusion
from rephaze.types.stopping import UNSTOPPED, StopSignal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FLOPS_PER_MAC = 2
CHUNK = 4096
"""Chips bounded at a time: keeps the tables within tens of megabytes."""


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class ModelBounds:
    """Lower bounds of one model on some chips: batch times by unit, and the layer times they come from."""

    batch_s_uc: Floats
    forward_s_kct: Floats
    backward_s_kct: Floats

    def chip(self, c: int) -> ModelBounds:
        """Those of one chip."""
        only = slice(c, c + 1)
        return ModelBounds(
            batch_s_uc=self.batch_s_uc[:, only],
            forward_s_kct=self.forward_s_kct[:, only],
            backward_s_kct=self.backward_s_kct[:, only],
        )


def joined_bounds(pieces: Sequence[ModelBounds]) -> ModelBounds:
    """Bounds of several sets of chips as one, in the order given."""
    return ModelBounds(
        batch_s_uc=np.concatenate([piece.batch_s_uc for piece in pieces], axis=1),
        forward_s_kct=np.concatenate([piece.forward_s_kct for piece in pieces], axis=1),
        backward_s_kct=np.concatenate([piece.backward_s_kct for piece in pieces], axis=1),
    )


def device_time_batch_s(work: ModelWork, chips: ChipTable, model: CostModel) -> Floats:
    """A batch time no plan beats, by the busiest resource of each layer.

    Per sample only: what a layer reads once a microbatch (its weights) is left out, so that the bound holds for
    every microbatch size.
    """
    least_c: Floats = np.minimum.reduce([_per_sample_s(work, tp, chips, model) for tp in work.tp_degrees])
    return least_c * (work.scenario.training.global_batch / work.scenario.cluster.num_devices)


def _per_sample_s(work: ModelWork, tp: int, chips: ChipTable, model: CostModel) -> Floats:
    """Seconds of one device that a sample takes at a degree."""
    graph = work.graphs[tp]
    per_sample_s = np.zeros(len(chips))
    counts = np.bincount(np.array(graph.layer_type_of), minlength=len(graph.layer_types))
    for count, kind in zip(counts.tolist(), graph.layer_types, strict=True):
        # Each member of a group does its share, the group together all of it; a layer that is not sharded may
        # have a stage, and so a device, of its own.
        members = graph.tp if kind.is_sharded else 1
        for one_pass in (kind.forward, kind.backward):
            per_sample_s += count * members * _pass_per_sample_s(one_pass, chips, model)
    return per_sample_s


def _pass_per_sample_s(graph: OpGraph, chips: ChipTable, model: CostModel) -> Floats:
    macs = float(sum(_least_macs(op) for op in graph.ops))
    array_s = macs / (chips.num_macs * chips.clock_hz)
    if not model.has_memory_terms:
        return np.maximum(array_s, _least_words_s(graph, chips, model))
    lanes = sum(
        lane_ops(item.function) * item.num_elements.per_sample
        for op in graph.ops
        if op.kind is not OpKind.GEMM
        for item in op.vector
    )
    lanes_s = lanes / (chips.num_lanes * chips.clock_hz)
    return np.maximum(array_s, np.maximum(lanes_s, _least_hbm_bytes(graph) / chips.hbm_bytes_per_s))


def _least_words_s(graph: OpGraph, chips: ChipTable, model: CostModel) -> Floats:
    """Time per sample of what GEMMs must move between scratchpads and arrays under the paper's rates.

    Two tensors move once for every side of the array's tile, the third for the scratchpad tile's; any two sides
    multiply to at most the scratchpad, so 1/x + 1/y + 1/z is no less than 3 / sqrt(scratchpad).
    """
    words_c = np.zeros(len(chips))
    a_mac_c = 3.0 / np.sqrt(chips.tensor_scratchpad_bytes / 2.0)
    for op in graph.ops:
        if op.gemm is None:
            continue
        sizes = (op.gemm.batch, op.gemm.m, op.gemm.n, op.gemm.k)
        one, two = (np.array([size.at(b) for size in sizes], dtype=np.float64) for b in (1, 2))
        # Outputs are not read back before they are written. Where they do not grow with the samples (gradients of
        # weights), that is spared once a microbatch: most a sample in the smallest.
        words_c += np.maximum((two.prod() - one.prod()) * a_mac_c - one[:3].prod(), 0.0)
    return words_c / (model.array_words_per_cycle * chips.clock_hz)


def least_energy_per_sample_j(work: ModelWork, chips: ChipTable, energy: AccessEnergy) -> Floats:
    """Dynamic energy no plan goes below: multiply-accumulates and compulsory HBM traffic of every layer."""
    graph = work.graphs[min(work.tp_degrees)]
    counts = np.bincount(np.array(graph.layer_type_of), minlength=len(graph.layer_types))
    total: Floats = np.zeros(len(chips))
    for count, kind in zip(counts.tolist(), graph.layer_types, strict=True):
        for one_pass in (kind.forward, kind.backward):
            macs = sum(_least_macs(op) for op in one_pass.ops)
            total += count * (macs * energy.mac_j_c + _least_hbm_bytes(one_pass) * energy.hbm_j_per_byte_c)
    return total


def _least_hbm_bytes(graph: OpGraph) -> float:
    """Bytes per sample that vector operators and GEMMs must move, whatever the microbatch."""
    return float(
        sum(
            op.input_bytes.per_sample + op.output_bytes.per_sample
            for op in graph.ops
            if op.kind in (OpKind.VECTOR, OpKind.GATHER)
        )
        + sum(_least_gemm_bytes(op) for op in graph.ops if op.kind is OpKind.GEMM)
    )


def _least_macs(op: Op) -> float:
    """Multiply-accumulates per sample that must be done; causal attention skips up to half of its scores."""
    share = 0.5 if op.attention is not None and op.attention.causal else 1.0
    return share * op.num_flops.per_sample / FLOPS_PER_MAC


def _least_gemm_bytes(op: Op) -> float:
    """Bytes per sample of a GEMM's matrices at two bytes an element, each over HBM once."""
    gemm = op.gemm
    assert gemm is not None
    at_two, at_one = (_matrix_bytes(op, b) for b in (2, 1))
    return max(0.0, at_two - at_one)


def _matrix_bytes(op: Op, microbatch: int) -> float:
    gemm = op.gemm
    assert gemm is not None
    batch, m, n, k = (float(size.at(microbatch)) for size in (gemm.batch, gemm.m, gemm.n, gemm.k))
    return 2.0 * batch * (m * k + k * n + m * n)


def layer_bounds(
    work: ModelWork,
    estimator: Estimator,
    chips: ChipTable,
    memory_of_c: list[Memory],
    exclusion: Exclusion,
    stop: StopSignal = UNSTOPPED,
) -> ModelBounds:
    """For each unit and chip, a batch time no plan of that unit beats; infinite where nothing fits.

    Args:
        work: The model.
        estimator: Of these chips.
        chips: The chips.
        memory_of_c: The largest memory each may have.
        exclusion: What all-cores operators exclude.
        stop: Ends the work with ``StoppedError``.
    """
    groups: dict[Memory, Ints] = {
        memory: np.flatnonzero([own == memory for own in memory_of_c]) for memory in dict.fromkeys(memory_of_c)
    }
    times = [layer_bound_times(work, estimator, chips, tp, mb, exclusion, stop) for tp, mb in work.pairs]
    batch_s_uc = np.full((len(work.units), len(chips)), np.inf)
    for u, unit in enumerate(work.units):
        forward_ct, backward_ct = times[work.pairs.index((unit.tp, unit.microbatch))]
        for memory, members in groups.items():
            stop.check()
            bounds = work.chip_bounds(unit, memory)
            batch_s_uc[u, members] = bounds.batch_s([(forward_ct[members], backward_ct[members])])
        batch_s_uc[u] = np.maximum(batch_s_uc[u], _unit_device_time_s(work, unit, forward_ct + backward_ct))
    return ModelBounds(
        batch_s_uc=batch_s_uc,
        forward_s_kct=np.stack([forward_ct for forward_ct, _ in times]),
        backward_s_kct=np.stack([backward_ct for _, backward_ct in times]),
    )


def _unit_device_time_s(work: ModelWork, unit: Unit, work_s_ct: Floats) -> Floats:
    """Every microbatch holds each layer's devices for its time; all devices together have the batch time."""
    graph = work.graphs[unit.tp]
    counts = np.bincount(np.array(graph.layer_type_of), minlength=len(graph.layer_types))
    members_t = np.array([unit.tp if kind.is_sharded else 1 for kind in graph.layer_types])
    training = work.scenario.training
    num_microbatches = -(-training.global_batch // unit.microbatch)
    device_s_c: Floats = (work_s_ct * (counts * members_t)).sum(axis=1)
    return device_s_c * (num_microbatches / work.scenario.cluster.num_devices)


def layer_bound_times(
    work: ModelWork,
    estimator: Estimator,
    chips: ChipTable,
    tp: int,
    microbatch: int,
    exclusion: Exclusion,
    stop: StopSignal = UNSTOPPED,
) -> tuple[Floats, Floats]:
    """Lower bounds on forward and backward seconds, chips x layer types."""

    def bound_s(one_pass: PassWork) -> Floats:
        stop.check()
        return pass_bound_s(one_pass, estimator, chips, microbatch, exclusion)

    columns = [[bound_s(one_pass) for one_pass in both] for both in work.passes[tp]]
    forward_ct = np.stack([forward for forward, _ in columns], axis=1)
    backward_ct = np.stack([backward for _, backward in columns], axis=1)
    return forward_ct, backward_ct


def pass_bound_s(
    one_pass: PassWork, estimator: Estimator, chips: ChipTable, microbatch: int, exclusion: Exclusion
) -> Floats:
    """Lower bounds on one pass of one layer type, a value a chip; infinite where it cannot run."""
    table = estimator.bound(one_pass.graph, microbatch)
    cycles = lower_bounds(
        one_pass.structure,
        table,
        num_tensor_cores_c=chips.num_tensor_cores,
        num_vector_cores_c=chips.num_vector_cores,
        exclusion=exclusion,
    )
    return np.where(cycles >= IMPOSSIBLE_CYCLES, np.inf, cycles / chips.clock_hz)
