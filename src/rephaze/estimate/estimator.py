"""The estimates of a whole operator graph on many chips, as the scheduler takes them.

Axis letters: o = operator, c = chip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rephaze.compiled import kernel_in_place
from rephaze.estimate.arrays import Floats, Ints
from rephaze.estimate.attention import attention_cost
from rephaze.estimate.collectives import group_collective_s, paper_collective_s, sent_bytes
from rephaze.estimate.costs import ELEMENT_BYTES, ChipRates, ModeCost, OpCost, chip_rates, share_of, whole_cycles
from rephaze.estimate.estimate_model import EstimateModel
from rephaze.estimate.gemm_costs import Dims, GemmColumns, GemmMemo
from rephaze.estimate.op_at import OpAt, op_at
from rephaze.estimate.vector import lane_cycles, paper_vector_cost, vector_cost, vector_energy_j
from rephaze.estimate.vector_weights import paper_lane_cycles
from rephaze.types.chip import ChipTable
from rephaze.types.cluster import Cluster
from rephaze.types.energy import AccessEnergy
from rephaze.types.graph import CollectiveDims, Op, OpGraph, OpKind
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine, LatencyTable, ModeBounds, ModeTable

MapGemm = Callable[[GemmColumns, Dims, float], ModeCost]
"""Columns, dimensions, side bytes to cost."""


HALF = 0.5
"""The part of both bandwidths that an operator may do with instead of all, so that another runs beside it."""
TICK_CYCLES = 64
"""Operators take whole ticks: schedules that differ by less than a tick are not worth telling apart."""
SIGNIFICANT_BITS = 10
"""Nor are times that differ by less than their last bit, one part in 512 at most: a longer operator's tick is
longer. So twice a time is twice its ticks where that tick is the longer one, from 65,536 cycles on: what a
bandwidth binds takes at half of it exactly twice as long, and two of them abreast gain nothing by rounding."""


def engine_of(op: Op) -> Engine:
    """What an operator holds while it runs."""
    if op.kind is OpKind.VIEW:
        return Engine.NONE
    if op.kind is OpKind.COLLECTIVE:
        return Engine.LINK
    if op.kind is OpKind.ATTENTION or (op.kind is OpKind.GEMM and op.vector):
        return Engine.FUSED
    return Engine.TENSOR if op.kind is OpKind.GEMM else Engine.VECTOR


@dataclass(frozen=True, kw_only=True, slots=True)
class _ModeRows:
    """The operators of a graph in one mode."""

    cycles_oc: Ints
    energy_j_oc: Floats
    hbm_share_oc: Floats
    buffer_share_oc: Floats


class OpBound(NamedTuple):
    """One operator on many chips: no mode takes fewer cycles."""

    cycles_mc: Ints
    uses_hbm: bool
    uses_buffer: bool


class Estimator:
    """Operators on a set of chips under one cost model.

    Args:
        chips: The chips.
        energy: Their energy per operation and byte.
        cluster: The network collectives run over.
        model: The cost model.
        memo: Mapped GEMMs, shared among estimators; by default one of its own.
        bandwidth_share: The part of both bandwidths an operator gets.
        wider: One of the same chips with a larger part: what it mapped is used where it is the best here too.
    """

    def __init__(
        self,
        chips: ChipTable,
        energy: AccessEnergy,
        cluster: Cluster,
        model: EstimateModel,
        memo: GemmMemo | None = None,
        bandwidth_share: float = 1.0,
        wider: Estimator | None = None,
    ) -> None:
        self.rates = chip_rates(chips, energy, bandwidth_share)
        self.cluster, self.model = cluster, model
        self.memo = memo if memo is not None else GemmMemo()
        one = np.ones(len(chips), dtype=np.int64)
        wide_one, wide_all = (wider._one_core, wider._all_cores) if wider else (None, None)
        self._one_core: GemmColumns = GemmColumns(self.rates, one, model, self.memo, wide_one)
        self._all_cores: GemmColumns = GemmColumns(self.rates, chips.num_tensor_cores, model, self.memo, wide_all)
        self._costs: dict[tuple[object, ...], OpCost] = {}
        self._in_modes: dict[tuple[object, ...], OpBound] = {}
        self._least: dict[tuple[tuple[object, ...], bool], OpBound] = {}
        self._fastest: dict[tuple[tuple[object, ...], bool], Ints] = {}

    def exact(self, graph: OpGraph, microbatch: int) -> LatencyTable:
        """Every operator of the graph, GEMMs by the mapper."""
        return self._table(graph, microbatch)

    def bound(self, graph: OpGraph, microbatch: int) -> ModeBounds:
        """No more than any of ``modes`` in cycles; GEMMs in closed form."""
        found = [None if op.kind is OpKind.VIEW else self.least(op_at(op, microbatch)) for op in graph.ops]
        return self.mode_bounds(found)

    def least(self, op: OpAt, *, is_mapped: bool = False) -> OpBound:
        """Cycles that no mode of one operator goes below.

        Args:
            op: The operator.
            is_mapped: On all cores a GEMM takes what its mapping does: half the work of mapping all modes.
        """
        at = (op.key, is_mapped and op.op.kind is OpKind.GEMM)
        if at not in self._least:
            mappers = GemmColumns.bound, GemmColumns.exact if is_mapped else GemmColumns.bound
            costs = [one.op_cost(op.op, op.microbatch, *mappers) for one in self._by_share]
            cycles_mc = np.stack([mode.cycles_c for cost in costs for mode in (cost.one_core, cost.all_cores)])
            moved = costs[0].all_cores
            self._least[at] = OpBound(
                self._whole_ticks(whole_cycles(cycles_mc)),
                bool(moved.hbm_bytes_c[0] > 0),
                bool(moved.buffer_bytes_c[0] > 0),
            )
        return self._least[at]

    def in_modes(self, op: OpAt) -> OpBound:
        """Cycles that one operator takes in each mode, products mapped in all of them, as in ``modes``."""
        if op.key not in self._in_modes:
            costs = [one._cost(op) for one in self._by_share]
            both = [mode for cost in costs for mode in (cost.one_core, cost.all_cores)]
            cycles_mc = np.stack([mode.cycles_c for mode in both])
            self._in_modes[op.key] = OpBound(
                self._whole_ticks(whole_cycles(cycles_mc)),
                any(bool(mode.hbm_bytes_c[0] > 0) for mode in both[:2]),
                any(bool(mode.buffer_bytes_c[0] > 0) for mode in both[:2]),
            )
        return self._in_modes[op.key]

    def fastest(self, op: OpAt, *, is_mapped: bool = False) -> Ints:
        """Cycles that one operator takes at least on each chip, in whatever mode; as ``least``."""
        at = (op.key, is_mapped)
        if at not in self._fastest:
            self._fastest[at] = self.least(op, is_mapped=is_mapped).cycles_mc.min(axis=0)
        return self._fastest[at]

    def mode_bounds(self, found: Sequence[OpBound | None]) -> ModeBounds:
        """What was found of each operator as one table; None takes no time."""
        share_m = self._share_m
        num_chips = next((one.cycles_mc.shape[1] for one in found if one is not None), len(self.rates))
        cycles_moc = np.zeros((len(share_m), len(found), num_chips), dtype=np.int64)
        uses = np.zeros((2, len(found), 1))
        for o, one in enumerate(found):
            if one is not None:
                cycles_moc[:, o] = one.cycles_mc
                uses[:, o, 0] = one.uses_hbm, one.uses_buffer
        return ModeBounds(
            all_cores_m=np.tile([False, True], len(self._by_share)),
            cycles_moc=cycles_moc,
            hbm_share_om=uses[0] * share_m,
            buffer_share_om=uses[1] * share_m,
        )

    def modes(self, graph: OpGraph, microbatch: int) -> ModeTable:
        """Every operator of the graph on the one chip there is, in every way it may run (docs/how-it-works.md)."""
        assert len(self.rates) == 1
        tables = [one.exact(graph, microbatch) for one in self._by_share]
        full = tables[0]
        uses_hbm_o = np.maximum(full.one_core_hbm_share_oc, full.all_cores_hbm_share_oc) > 0
        uses_buffer_o = np.maximum(full.one_core_buffer_share_oc, full.all_cores_buffer_share_oc) > 0
        cycles_om = np.hstack(
            [c for table in tables for c in (table.one_core_cycles_oc, table.all_cores_cycles_oc)]
        )
        return ModeTable(
            op_names=full.op_names,
            engines=full.engines,
            all_cores_m=np.tile([False, True], len(tables)),
            cycles_om=self._whole_ticks(cycles_om),
            energy_j_om=np.hstack([j for table in tables for j in (table.one_core_j_oc, table.all_cores_j_oc)]),
            hbm_share_om=uses_hbm_o * self._share_m,
            buffer_share_om=uses_buffer_o * self._share_m,
        )

    @cached_property
    def _by_share(self) -> tuple[Estimator, ...]:
        """This one, and another for half of the bandwidths where operators share them."""
        if not self.model.has_memory_terms:
            return (self,)
        chips, energy = self.rates.chips, self.rates.energy
        return self, Estimator(chips, energy, self.cluster, self.model, self.memo, HALF, wider=self)

    @property
    def _share_m(self) -> Floats:
        return np.repeat([1.0, HALF][: len(self._by_share)], 2)

    def _whole_ticks(self, cycles: Ints) -> Ints:
        return whole_ticks(cycles) if self.model.has_memory_terms else cycles

    def op_cost(
        self,
        op: Op,
        microbatch: int,
        map_one_core: MapGemm = GemmColumns.exact,
        map_all_cores: MapGemm = GemmColumns.exact,
    ) -> OpCost:
        """One operator in both modes."""
        if op.kind is OpKind.GEMM:
            return self._gemm_cost(op, microbatch, map_one_core, map_all_cores)
        if op.kind is OpKind.ATTENTION:
            return attention_cost(op, microbatch, self.rates)
        if op.kind is OpKind.COLLECTIVE:
            return self._collective_cost(op, microbatch)
        if self.model.has_memory_terms:
            return vector_cost(op, microbatch, self.rates)
        return paper_vector_cost(op, microbatch, self.rates)

    def _table(self, graph: OpGraph, microbatch: int) -> LatencyTable:
        costs = [None if op.kind is OpKind.VIEW else self._cost(op_at(op, microbatch)) for op in graph.ops]
        one = _mode_rows([None if cost is None else cost.one_core for cost in costs], self.rates)
        all_ = _mode_rows([None if cost is None else cost.all_cores for cost in costs], self.rates)
        return LatencyTable(
            op_names=tuple(op.name for op in graph.ops),
            engines=tuple(engine_of(op) for op in graph.ops),
            one_core_cycles_oc=one.cycles_oc,
            all_cores_cycles_oc=all_.cycles_oc,
            one_core_j_oc=one.energy_j_oc,
            all_cores_j_oc=all_.energy_j_oc,
            one_core_hbm_share_oc=one.hbm_share_oc,
            all_cores_hbm_share_oc=all_.hbm_share_oc,
            one_core_buffer_share_oc=one.buffer_share_oc,
            all_cores_buffer_share_oc=all_.buffer_share_oc,
        )

    def _cost(self, op: OpAt) -> OpCost:
        # Layers repeat operators of one shape (three projections, two norms): each is costed once.
        if op.key not in self._costs:
            self._costs[op.key] = self.op_cost(op.op, op.microbatch)
        return self._costs[op.key]

    def _gemm_cost(self, op: Op, microbatch: int, map_one_core: MapGemm, map_all_cores: MapGemm) -> OpCost:
        assert op.gemm is not None
        gemm = op.gemm
        dims = (gemm.batch.at(microbatch), gemm.m.at(microbatch), gemm.n.at(microbatch), gemm.k.at(microbatch))
        side_bytes = self._side_bytes(op, microbatch, dims)
        one = map_one_core(self._one_core, dims, side_bytes)
        all_ = map_all_cores(self._all_cores, dims, side_bytes)
        if not op.vector:
            return OpCost(one_core=one, all_cores=all_)
        lanes = self.rates.chips
        return OpCost(
            one_core=self._fused(op, microbatch, one, lanes.vector_lanes),
            all_cores=self._fused(op, microbatch, all_, lanes.num_lanes),
        )

    def _side_bytes(self, op: Op, microbatch: int, dims: Dims) -> float:
        """Operands of absorbed work (a residual, a mask): what comes on top of the product's own matrices."""
        if not op.vector or not self.model.has_memory_terms:
            return 0.0
        batch, m, n, k = dims
        own_bytes = float(ELEMENT_BYTES) * batch * (float(m) * k + float(k) * n + float(m) * n)
        moved = float(op.input_bytes.at(microbatch) + op.output_bytes.at(microbatch))
        return max(0.0, moved - own_bytes)

    def _fused(self, op: Op, microbatch: int, product: ModeCost, lanes_c: Ints) -> ModeCost:
        """A GEMM with absorbed element work: both engines at once, element by element."""
        if self.model.has_memory_terms:
            return replace(
                product,
                cycles_c=np.maximum(product.cycles_c, lane_cycles(op, microbatch, lanes_c)),
                energy_of=lambda: product.energy_j_c + vector_energy_j(op, microbatch, self.rates),
            )
        # The paper adds each absorbed operator's constant once, whatever the size.
        return replace(
            product, cycles_c=product.cycles_c + sum(paper_lane_cycles(work.function) for work in op.vector)
        )

    def _collective_cost(self, op: Op, microbatch: int) -> OpCost:
        assert op.collective is not None
        payload = float(op.collective.payload_bytes.at(microbatch))
        mode = _link_cost(op.collective, payload, self)
        return OpCost(one_core=mode, all_cores=mode)


class SomeChips:
    """Some of an estimator's chips, with what it knows of operators on all of them.

    Args:
        whole: Of all the chips.
        columns: Positions among them.
    """

    def __init__(self, whole: Estimator, columns: Ints) -> None:
        self._whole, self._columns = whole, columns

    def least(self, op: OpAt, *, is_mapped: bool = False) -> OpBound:
        """As ``Estimator.least``."""
        found = self._whole.least(op, is_mapped=is_mapped)
        return found._replace(cycles_mc=found.cycles_mc[:, self._columns])

    def fastest(self, op: OpAt, *, is_mapped: bool = False) -> Ints:
        """As ``Estimator.fastest``."""
        return self._whole.fastest(op, is_mapped=is_mapped)[self._columns]

    def mode_bounds(self, found: Sequence[OpBound | None]) -> ModeBounds:
        """As ``Estimator.mode_bounds``."""
        return self._whole.mode_bounds(found)


def _mode_rows(costs: Sequence[ModeCost | None], rates: ChipRates) -> _ModeRows:
    """What operators take in one mode; views, which have no cost, take nothing."""
    shape = (len(costs), len(rates))
    time_oc, energy_j_oc, hbm_bytes_oc, buffer_bytes_oc = (np.zeros(shape) for _ in range(4))
    for o, cost in enumerate(costs):
        if cost is None:
            continue
        time_oc[o], energy_j_oc[o], hbm_bytes_oc[o] = cost.cycles_c, cost.energy_j_c, cost.hbm_bytes_c
        buffer_bytes_oc[o] = cost.buffer_bytes_c
    cycles_oc = whole_cycles(time_oc)
    return _ModeRows(
        cycles_oc=cycles_oc,
        energy_j_oc=energy_j_oc,
        hbm_share_oc=share_of(hbm_bytes_oc, cycles_oc, rates.hbm_bytes_per_cycle_c),
        buffer_share_oc=share_of(buffer_bytes_oc, cycles_oc, rates.buffer_bytes_per_cycle_c),
    )


def _link_cost(dims: CollectiveDims, payload: float, estimator: Estimator) -> ModeCost:
    rates, cluster = estimator.rates, estimator.cluster
    one = np.ones(len(rates))
    if not estimator.model.has_network_latency:
        seconds = paper_collective_s(dims, payload, cluster.levels[0].bytes_per_s)
        moved = 0.0
    else:
        seconds = group_collective_s(dims, payload, cluster)
        # Sent from and received into memory.
        moved = 2.0 * payload * dims.num_messages
    cycles = seconds * rates.chips.clock_hz
    energy = rates.energy
    return ModeCost(
        cycles_c=np.maximum(cycles, moved / rates.hbm_bytes_per_cycle_c),
        hbm_bytes_c=moved * one,
        buffer_bytes_c=0 * one,
        energy_of=lambda: sent_bytes(dims, payload) * energy.link_j_per_byte_c + moved * energy.hbm_j_per_byte_c,
    )


def whole_ticks(cycles: Ints) -> Ints:
    """Cycles rounded up to whole ticks, which keeps their order."""
    found = np.empty(cycles.shape, dtype=np.int64)
    _fill_whole_ticks(np.ascontiguousarray(cycles).ravel(), found.ravel())
    return found


@kernel_in_place
def _fill_whole_ticks(cycles_n: Ints, ticks_n: Ints) -> None:
    for n in range(len(cycles_n)):
        cycles = cycles_n[n]
        tick = TICK_CYCLES
        while cycles >> SIGNIFICANT_BITS >= tick:
            tick *= 2
        ticks_n[n] = cycles if cycles >= IMPOSSIBLE_CYCLES else -(-cycles // tick) * tick
