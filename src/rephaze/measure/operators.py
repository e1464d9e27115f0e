"""A model's operators on one chip: workload, hardware and estimate joined for people to read."""

from __future__ import annotations

from dataclasses import replace

from rephaze.estimate.attention import attention_lane_cycles
from rephaze.estimate.costs import ModeCost
from rephaze.estimate.estimate_model import named_estimate_model
from rephaze.estimate.estimator import Estimator, engine_of
from rephaze.estimate.least_work import FLOPS_PER_MAC, num_macs
from rephaze.estimate.vector import lane_cycles
from rephaze.hardware.energy import access_energy
from rephaze.types.chip import Chip, chip_table
from rephaze.types.cluster import Cluster
from rephaze.types.graph import ModelGraph, Op, OpKind
from rephaze.types.latency import Engine
from rephaze.types.operator_estimate import OperatorEstimate
from rephaze.types.scenario import EstimateModelName
from rephaze.types.space import AreaModel

NEARLY = 0.999
"""A resource busy this part of the time is what binds."""


def estimate_operators(
    graph: ModelGraph, chip: Chip, microbatch: int, cluster: Cluster, model_name: str = "default"
) -> list[OperatorEstimate]:
    """Every operator of every layer type on the chip, forward then backward, views left out.

    Args:
        graph: The model as one chip of its group runs it (sharded, fused).
        chip: The chip.
        microbatch: Samples at once.
        cluster: The network of the collectives.
        model_name: ``default`` or ``paper``.
    """
    model = named_estimate_model(model_name)
    chips = chip_table([chip])
    area_model = AreaModel.PAPER if model_name == EstimateModelName.PAPER else AreaModel.CORRECTED
    estimator = Estimator(chips, access_energy(chips, area_model), cluster, model)
    found: list[OperatorEstimate] = []
    for number, layer in enumerate(graph.layer_types):
        num_times = graph.layer_type_of.count(number)
        for direction, passed in (("forward", layer.forward), ("backward", layer.backward)):
            where = (layer.name, direction, num_times)
            found.extend(
                _estimate(op, estimator, chip, microbatch, where)
                for op in passed.ops
                if engine_of(op) is not Engine.NONE
            )
    total_s = sum(one.time_s * one.num_times for one in found)
    return [replace(one, time_share=one.time_s * one.num_times / total_s if total_s else 0.0) for one in found]


def _estimate(
    op: Op, estimator: Estimator, chip: Chip, microbatch: int, where: tuple[str, str, int]
) -> OperatorEstimate:
    cost = estimator.op_cost(op, microbatch)
    mode = cost.all_cores
    cycles = float(mode.cycles_c[0])
    hbm = float(mode.hbm_bytes_c[0] / estimator.rates.hbm_bytes_per_cycle_c[0])
    buffer = float(mode.buffer_bytes_c[0] / estimator.rates.buffer_bytes_per_cycle_c[0])
    num_flops = FLOPS_PER_MAC * num_macs(op, microbatch)
    layer, direction, num_times = where
    return OperatorEstimate(
        layer=layer,
        direction=direction,
        name=op.name,
        target=op.target,
        engine=engine_of(op),
        num_times=num_times,
        time_s=cycles / chip.clock_hz,
        one_core_s=float(cost.one_core.cycles_c[0]) / chip.clock_hz,
        energy_j=float(mode.energy_j_c[0]),
        time_share=0.0,
        bound_by=_bound_by(op, mode, estimator, microbatch, hbm, buffer),
        num_flops=num_flops,
        num_model_flops=op.num_flops.at(microbatch),
        hbm_bytes=float(mode.hbm_bytes_c[0]),
        hbm_share=min(1.0, hbm / cycles) if cycles else 0.0,
        buffer_share=min(1.0, buffer / cycles) if cycles else 0.0,
        tensor_utilization=num_flops / (FLOPS_PER_MAC * chip.num_macs * cycles) if cycles else 0.0,
    )


def _bound_by(op: Op, mode: ModeCost, estimator: Estimator, microbatch: int, hbm: float, buffer: float) -> str:
    cycles = float(mode.cycles_c[0])
    engine = engine_of(op)
    if engine is Engine.LINK:
        return "link"
    if hbm >= NEARLY * cycles:
        return "hbm"
    if buffer >= NEARLY * cycles:
        return "buffer"
    count_lanes = attention_lane_cycles if op.kind is OpKind.ATTENTION else lane_cycles
    lanes = float(count_lanes(op, microbatch, estimator.rates.chips.num_lanes)[0])
    if engine is Engine.VECTOR or lanes >= NEARLY * cycles:
        return "lanes"
    return "array"
