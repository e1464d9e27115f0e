"""What a unit must do at least, whatever the chip: the first time it is known to take.

Multiplications, lane operations, bytes from HBM and seconds on the links of every pass are numbers of the model.
A chip's rates make them a time that no schedule beats, for all units at once and at next to no cost: enough to say
which units are hopeless on a chip, and which of the others to look at first (docs/proof.md, 5.13).

Axis letters: c = chip, u = unit, q = pass of a layer type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import kernel_in_place
from rephaze.estimate.collectives import group_collective_s
from rephaze.estimate.least_work import least_moved_bytes, num_macs
from rephaze.estimate.vector import num_lane_ops
from rephaze.measure.model_work import ModelWork
from rephaze.measure.pass_classes import PassWork
from rephaze.measure.pass_times import BACKWARD, FORWARD
from rephaze.types.chip import ChipTable
from rephaze.types.cluster import Cluster
from rephaze.types.cut import GraphCut
from rephaze.types.graph import Op, OpGraph, OpKind
from rephaze.types.stopping import UNSTOPPED, StopSignal

Floats = NDArray[np.float64]

DIRECTIONS = (FORWARD, BACKWARD)
ROUNDING = 1e-9
"""Whole cycles may be this part of one below what they were rounded from; sums lose less."""


class PassNeeds(NamedTuple):
    """Least work of one pass of a layer on a microbatch."""

    macs: float
    lane_ops: float
    hbm_bytes: float
    link_s: float


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class UnitWork:
    """Least work of the passes of every unit, in one microbatch, and how often a batch needs each."""

    macs_uq: Floats
    lane_ops_uq: Floats
    hbm_bytes_uq: Floats
    link_s_uq: Floats
    times_uq: Floats
    """Chips that are held by all such passes of a batch, over the chips there are."""


def unit_work(work: ModelWork, stop: StopSignal = UNSTOPPED) -> UnitWork:
    """Least work of all units of a model; ``StoppedError`` when cut."""
    cluster, global_batch = work.scenario.cluster, work.scenario.training.global_batch
    counts = np.bincount(np.array(work.layer_type_of))
    known: dict[tuple[int, int], PassNeeds] = {}

    def needs(one_pass: PassWork, microbatch: int) -> PassNeeds:
        # Cuts share most of their layers, and the model keeps these: a number of one means no other.
        key = (id(one_pass), microbatch)
        if key not in known:
            known[key] = pass_needs(one_pass.graph, microbatch, cluster)
        return known[key]

    def rows(cut: GraphCut, microbatch: int) -> list[list[float]]:
        """Of every pass, the least of each over the forms it may have."""
        stop.check()
        forms = [form.passes for form in work.all_forms(cut)]
        return [
            [min(column) for column in zip(*(needs(form[kind][at], microbatch) for form in forms), strict=True)]
            for kind in range(len(counts))
            for at in DIRECTIONS
        ]

    found = {pair: rows(*pair) for pair in work.pairs}
    needs_uqx = np.array([found[unit.cut, unit.microbatch] for unit in work.units])
    times_uq = np.array(
        [
            [
                count * work.num_members(unit.cut, kind) * -(-global_batch // unit.microbatch)
                for kind, count in enumerate(counts.tolist())
                for _ in DIRECTIONS
            ]
            for unit in work.units
        ]
    )
    macs_uq, lane_ops_uq, hbm_bytes_uq, link_s_uq = np.ascontiguousarray(needs_uqx.transpose(2, 0, 1))
    return UnitWork(
        macs_uq=macs_uq,
        lane_ops_uq=lane_ops_uq,
        hbm_bytes_uq=hbm_bytes_uq,
        link_s_uq=link_s_uq,
        times_uq=times_uq / cluster.num_devices,
    )


def pass_needs(graph: OpGraph, microbatch: int, cluster: Cluster) -> PassNeeds:
    """Least work of one pass, operators added up."""
    return PassNeeds(
        macs=sum(num_macs(op, microbatch) for op in graph.ops),
        # Absorbed element work of a product is done while it runs.
        lane_ops=sum(num_lane_ops(op, microbatch) for op in graph.ops if op.kind is not OpKind.GEMM),
        hbm_bytes=sum(least_moved_bytes(op, microbatch) for op in graph.ops),
        link_s=sum(_link_s(op, microbatch, cluster) for op in graph.ops),
    )


def _link_s(op: Op, microbatch: int, cluster: Cluster) -> float:
    if op.collective is None:
        return 0.0
    return group_collective_s(op.collective, float(op.collective.payload_bytes.at(microbatch)), cluster)


def least_batches_s(work: UnitWork, chips: ChipTable) -> Floats:
    """Units x chips: a batch time no plan of the unit beats."""
    found_uc = np.empty((len(work.macs_uq), len(chips)))
    clock_hz = chips.clock_hz.astype(np.float64)
    _fill_batches(
        work.macs_uq,
        work.lane_ops_uq,
        work.hbm_bytes_uq,
        work.link_s_uq,
        work.times_uq,
        chips.num_macs * clock_hz,
        chips.num_lanes * clock_hz,
        chips.hbm_bytes_per_s.astype(np.float64),
        found_uc,
    )
    return found_uc


@kernel_in_place
def _fill_batches(
    macs_uq: Floats,
    lane_ops_uq: Floats,
    hbm_bytes_uq: Floats,
    link_s_uq: Floats,
    times_uq: Floats,
    macs_per_s_c: Floats,
    lane_ops_per_s_c: Floats,
    hbm_bytes_per_s_c: Floats,
    found_uc: Floats,
) -> None:
    """Each pass takes as long as the busiest of what it needs."""
    num_u, num_q = macs_uq.shape
    for u in range(num_u):
        for c in range(len(macs_per_s_c)):
            batch_s = 0.0
            for q in range(num_q):
                pass_s = max(
                    macs_uq[u, q] / macs_per_s_c[c],
                    lane_ops_uq[u, q] / lane_ops_per_s_c[c],
                    hbm_bytes_uq[u, q] / hbm_bytes_per_s_c[c],
                    link_s_uq[u, q],
                )
                batch_s += pass_s * times_uq[u, q]
            found_uc[u, c] = batch_s * (1.0 - ROUNDING)
