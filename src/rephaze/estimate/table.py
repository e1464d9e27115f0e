"""Latency tables: every operator of a graph on every chip, exact or as lower bounds.

Axis letters: o = operator, c = chip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.context import EstimateContext
from rephaze.estimate.gemm_cache import GemmCache
from rephaze.estimate.modes import ModeCost, mode_cost
from rephaze.estimate.tensor_ops import attention_mode, gemm_mode
from rephaze.estimate.vector_ops import collective_mode, vector_mode
from rephaze.types.graph import Op, OpGraph, OpKind
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine, LatencyTable

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class OpCost:
    """One operator on every chip in both modes."""

    engine: Engine
    one_core: ModeCost
    all_cores: ModeCost


def estimate_table(graph: OpGraph, context: EstimateContext, cache: GemmCache) -> LatencyTable:
    """Estimates of every operator on every chip; mappings are searched once and kept in ``cache``."""
    return _table(graph, [op_cost(op, context, cache) for op in graph.ops])


def bound_table(graph: OpGraph, context: EstimateContext) -> LatencyTable:
    """Lower bounds of the same, in closed form: no entry is above that of ``estimate_table``."""
    return _table(graph, [op_cost(op, context, None) for op in graph.ops])


def op_cost(op: Op, context: EstimateContext, cache: GemmCache | None) -> OpCost:
    """Cost of one operator; without a cache, a lower bound for GEMMs."""
    engine = engine_of(op)
    if engine is Engine.NONE:
        nothing = mode_cost(len(context))
        return OpCost(engine=engine, one_core=nothing, all_cores=nothing)
    if engine is Engine.LINK:
        assert op.collective is not None
        either = collective_mode(op.collective, context)
        return OpCost(engine=engine, one_core=either, all_cores=either)
    both = []
    for all_cores in (False, True):
        if op.kind is OpKind.GEMM:
            both.append(gemm_mode(op, context, all_cores, cache))
        elif op.kind is OpKind.ATTENTION:
            both.append(attention_mode(op, context, all_cores, cache))
        else:
            both.append(vector_mode(op, context, all_cores))
    return OpCost(engine=engine, one_core=both[0], all_cores=both[1])


def engine_of(op: Op) -> Engine:
    """What an operator holds while it runs."""
    match op.kind:
        case OpKind.VIEW:
            return Engine.NONE
        case OpKind.COLLECTIVE:
            return Engine.LINK
        case OpKind.GEMM:
            return Engine.FUSED if op.vector else Engine.TENSOR
        case OpKind.ATTENTION:
            return Engine.FUSED
        case OpKind.VECTOR | OpKind.GATHER:
            return Engine.VECTOR


def whole_cycles(cycles: Floats) -> NDArray[np.int64]:
    """Cycles rounded up; modes that cannot run get ``IMPOSSIBLE_CYCLES``."""
    possible = np.isfinite(cycles) & (cycles < IMPOSSIBLE_CYCLES)
    return np.where(possible, np.ceil(np.where(possible, cycles, 0.0)), IMPOSSIBLE_CYCLES).astype(np.int64)


def _table(graph: OpGraph, costs: list[OpCost]) -> LatencyTable:
    one, every = [cost.one_core for cost in costs], [cost.all_cores for cost in costs]
    return LatencyTable(
        op_names=tuple(op.name for op in graph.ops),
        engines=tuple(cost.engine for cost in costs),
        one_core_cycles_oc=_stacked([whole_cycles(mode.cycles_c) for mode in one]),
        all_cores_cycles_oc=_stacked([whole_cycles(mode.cycles_c) for mode in every]),
        one_core_j_oc=_stacked([mode.energy_j_c for mode in one]),
        all_cores_j_oc=_stacked([mode.energy_j_c for mode in every]),
        one_core_hbm_share_oc=_stacked([_share(mode, mode.hbm_cycles_c) for mode in one]),
        all_cores_hbm_share_oc=_stacked([_share(mode, mode.hbm_cycles_c) for mode in every]),
        one_core_buffer_share_oc=_stacked([_share(mode, mode.buffer_cycles_c) for mode in one]),
        all_cores_buffer_share_oc=_stacked([_share(mode, mode.buffer_cycles_c) for mode in every]),
    )


def _share(mode: ModeCost, busy_cycles: Floats) -> Floats:
    """Part of a shared bandwidth an operator takes while it runs."""
    whole = whole_cycles(mode.cycles_c)
    can_run = (whole > 0) & (whole < IMPOSSIBLE_CYCLES)
    share = np.where(can_run, busy_cycles, 0.0) / np.maximum(whole, 1)
    return np.clip(share, 0.0, 1.0)


def _stacked(rows: list[NDArray[np.generic]]) -> NDArray:  # type: ignore[type-arg]
    return np.stack(rows) if rows else np.empty((0, 0))
