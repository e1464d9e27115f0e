"""The estimates of a whole operator graph on many chips, as the scheduler takes them.

Axis letters: o = operator, c = chip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.arrays import Floats, Ints, Rows
from rephaze.estimate.attention import attention_cost
from rephaze.estimate.block_cycles import HALF, BlockBounds, MappedProducts, block_bounds, chip_rows
from rephaze.estimate.collectives import group_collective_s, paper_collective_s, sent_bytes
from rephaze.estimate.costs import ChipRates, ModeCost, OpCost, chip_rates, share_of
from rephaze.estimate.estimate_model import EstimateModel
from rephaze.estimate.gemm_costs import GemmColumns, GemmMemo
from rephaze.estimate.op_at import OpAt, op_at
from rephaze.estimate.op_block import Dims, OpBlock, message_bytes, none_mapped, product_dims, side_bytes
from rephaze.estimate.ticks import whole_cycles, whole_ticks
from rephaze.estimate.vector import lane_cycles, paper_vector_cost, vector_cost, vector_energy_j
from rephaze.estimate.vector_weights import paper_lane_cycles
from rephaze.types.chip import ChipTable
from rephaze.types.cluster import Cluster
from rephaze.types.energy import AccessEnergy
from rephaze.types.graph import Op, OpGraph, OpKind
from rephaze.types.latency import Engine, LatencyTable, ModeBounds, ModeTable
from rephaze.types.stopping import UNSTOPPED, StopSignal

Flags = NDArray[np.bool_]
MapGemm = Callable[[GemmColumns, Dims, float], ModeCost]
"""Columns, dimensions, side bytes to cost."""


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
        # Blocks are kept beside what was found of them, so that no other takes their numbers.
        self._kept: dict[tuple[int, bool], tuple[OpBlock, BlockBounds]] = {}
        self._fastest: dict[tuple[int, bool], tuple[OpBlock, Ints]] = {}

    def exact(self, graph: OpGraph, microbatch: int) -> LatencyTable:
        """Every operator of the graph, GEMMs by the mapper."""
        return self._table(graph, microbatch)

    def bound(self, graph: OpGraph, microbatch: int) -> ModeBounds:
        """No more than any of ``modes`` in cycles; GEMMs in closed form."""
        found = self._op_by_op(OpBlock([_timed(op, microbatch) for op in graph.ops]), GemmColumns.bound)
        return self.mode_bounds(found)

    def least(
        self, block: OpBlock, *, is_mapped: bool | Flags = False, stop: StopSignal = UNSTOPPED
    ) -> BlockBounds:
        """Cycles that no mode of any operator goes below.

        Args:
            block: The operators.
            is_mapped: On all cores a GEMM takes what its mapping does: half the work of mapping all modes. Flags
                say it of each operator.
            stop: Ends the mapping with ``StoppedError``.
        """
        is_mapped_n = np.broadcast_to(is_mapped, len(block))
        if not self._has_blocks:
            return self._op_by_op(block, GemmColumns.bound, is_mapped_n)
        return self._whole_block(block, self._mapped_products(block, is_mapped_n, (1, 3), stop))

    def kept_least(self, block: OpBlock, *, is_mapped: bool) -> BlockBounds:
        """As ``least``, found once: for those who ask for some of the chips at a time."""
        key = id(block), is_mapped
        if key not in self._kept:
            self._kept[key] = block, self.least(block, is_mapped=is_mapped)
        return self._kept[key][1]

    def in_modes(self, block: OpBlock) -> BlockBounds:
        """Cycles that operators take in each mode, products mapped in all of them, as in ``modes``."""
        if not self._has_blocks:
            return self._op_by_op(block, GemmColumns.exact)
        every = np.ones(len(block), dtype=np.bool_)
        return self._whole_block(block, self._mapped_products(block, every, (0, 1, 2, 3)))

    def fastest(self, block: OpBlock, *, is_mapped: bool = False) -> Ints:
        """Cycles that operators take at least on each chip, in whatever mode; as ``least``, n x c."""
        key = id(block), is_mapped
        if key not in self._fastest:
            self._fastest[key] = block, self.least(block, is_mapped=is_mapped).cycles_mnc.min(axis=0)
        return self._fastest[key][1]

    def mode_bounds(self, found: BlockBounds) -> ModeBounds:
        """What was found of operators as the scheduler takes it."""
        return ModeBounds(
            all_cores_m=np.tile([False, True], len(self._by_share)),
            cycles_moc=found.cycles_mnc,
            hbm_share_om=found.uses_hbm_n[:, None] * self._share_m,
            buffer_share_om=found.uses_buffer_n[:, None] * self._share_m,
        )

    @property
    def _has_blocks(self) -> bool:
        """Whether blocks of operators are costed by one compiled call: in model ``default``."""
        return self.model.has_memory_terms

    @cached_property
    def _rows_c(self) -> Rows:
        return chip_rows(self.rates)

    def _whole_block(self, block: OpBlock, mapped: MappedProducts) -> BlockBounds:
        return block_bounds(block, self._rows_c, self._all_cores.shape_of_c, self.cluster, mapped)

    def _mapped_products(
        self, block: OpBlock, is_mapped_n: Flags, modes: tuple[int, ...], stop: StopSignal = UNSTOPPED
    ) -> MappedProducts:
        """The products of a block that are to be mapped, in some of the modes."""
        number_mn = none_mapped(block, 2 * len(self._by_share))
        cycles: list[Floats] = []
        for m in modes:
            by_share = self._by_share[m // 2]
            columns = by_share._all_cores if m % 2 else by_share._one_core
            for product in block.products:
                if is_mapped_n[product.at]:
                    stop.check()
                    number_mn[m, product.at] = len(cycles)
                    cycles.append(columns.mapped_cycles(product.dims, product.side_bytes))
        if not cycles:
            return MappedProducts(number_mn, np.zeros((0, len(self.rates))))
        return MappedProducts(number_mn, np.stack(cycles))

    def _op_by_op(self, block: OpBlock, map_gemm: MapGemm, is_mapped_n: Flags | None = None) -> BlockBounds:
        """The same with a look at each operator by itself; GEMMs mapped where asked are so on all cores."""
        by_share = self._by_share
        cycles_mnc = np.zeros((2 * len(by_share), len(block), len(self.rates)), dtype=np.int64)
        uses_2n = np.zeros((2, len(block)))
        for n, one in enumerate(block.ops):
            if one is None:
                continue
            on_all = GemmColumns.exact if is_mapped_n is not None and is_mapped_n[n] else map_gemm
            costs = [own.op_cost(one.op, one.microbatch, map_gemm, on_all) for own in by_share]
            both = [mode for cost in costs for mode in (cost.one_core, cost.all_cores)]
            cycles_mnc[:, n] = self._whole_ticks(whole_cycles(np.stack([mode.cycles_c for mode in both])))
            uses_2n[0, n] = any(mode.hbm_bytes_c[0] > 0 for mode in both[:2])
            uses_2n[1, n] = any(mode.buffer_bytes_c[0] > 0 for mode in both[:2])
        return BlockBounds(cycles_mnc, *uses_2n)

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
        dims = product_dims(op, microbatch)
        beside = side_bytes(op, microbatch) if self.model.has_memory_terms else 0.0
        one = map_one_core(self._one_core, dims, beside)
        all_ = map_all_cores(self._all_cores, dims, beside)
        if not op.vector:
            return OpCost(one_core=one, all_cores=all_)
        lanes = self.rates.chips
        return OpCost(
            one_core=self._fused(op, microbatch, one, lanes.vector_lanes),
            all_cores=self._fused(op, microbatch, all_, lanes.num_lanes),
        )

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
        mode = _link_cost(op, microbatch, self)
        return OpCost(one_core=mode, all_cores=mode)


class SomeChips:
    """Some of an estimator's chips, with what it knows of operators on all of them.

    Args:
        whole: Of all the chips.
        columns: Positions among them.
    """

    def __init__(self, whole: Estimator, columns: Ints) -> None:
        self._whole, self._columns = whole, columns

    def least(self, block: OpBlock, *, is_mapped: bool = False) -> BlockBounds:
        """As ``Estimator.least``."""
        found = self._whole.kept_least(block, is_mapped=is_mapped)
        return found._replace(cycles_mnc=found.cycles_mnc[:, :, self._columns])

    def fastest(self, block: OpBlock, *, is_mapped: bool = False) -> Ints:
        """As ``Estimator.fastest``."""
        return self._whole.fastest(block, is_mapped=is_mapped)[:, self._columns]

    def mode_bounds(self, found: BlockBounds) -> ModeBounds:
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


def _timed(op: Op, microbatch: int) -> OpAt | None:
    return None if op.kind is OpKind.VIEW else op_at(op, microbatch)


def _link_cost(op: Op, microbatch: int, estimator: Estimator) -> ModeCost:
    dims = op.collective
    assert dims is not None
    payload = float(dims.payload_bytes.at(microbatch))
    rates, cluster = estimator.rates, estimator.cluster
    one = np.ones(len(rates))
    if not estimator.model.has_network_latency:
        seconds = paper_collective_s(dims, payload, cluster.levels[0].bytes_per_s)
        moved = 0.0
    else:
        seconds = group_collective_s(dims, payload, cluster)
        moved = message_bytes(op, microbatch)
    cycles = seconds * rates.chips.clock_hz
    energy = rates.energy
    return ModeCost(
        cycles_c=np.maximum(cycles, moved / rates.hbm_bytes_per_cycle_c),
        hbm_bytes_c=moved * one,
        buffer_bytes_c=0 * one,
        energy_of=lambda: sent_bytes(dims, payload) * energy.link_j_per_byte_c + moved * energy.hbm_j_per_byte_c,
    )
