"""A chip judged alone, as layer-by-layer searches judge it: latency or energy-delay of a model's layers.

No cluster, no plan, no memory limit: each layer's forward and backward pass of the smallest microbatch runs once
on one chip. What such a search overlooks is what the comparison is to show.
"""

from __future__ import annotations

import math
from enum import StrEnum

from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.model_work import ModelWork
from rephaze.measure.objective import combine_on_chip
from rephaze.search.evaluator import Preparation
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.search import Aggregate


class ChipMetric(StrEnum):
    """What is minimised."""

    LATENCY = "latency"
    """Seconds of all layers, one after the other."""
    ENERGY_DELAY = "EDP"
    """Energy-delay product: joules times seconds."""


def metric_of_chip(prepared: Preparation, solver: ChipSolver, metric: ChipMetric) -> float:
    """The metric of one chip, geometric mean over models; infinite if a layer cannot run."""
    costs = [_model_cost(solver, work, metric) for work in prepared.works]
    if not all(math.isfinite(cost) for cost in costs):
        return math.inf
    return combine_on_chip(costs, prepared.settings.weights, Aggregate.GEOMEAN)


def _model_cost(solver: ChipSolver, work: ModelWork, metric: ChipMetric) -> float:
    cut = min(work.base_cuts, key=lambda one: (one.tp, one.ep))
    microbatch = min(work.scenario.training.microbatches)
    num_cycles, energy_j = 0, 0.0
    for kind in work.layer_type_of:
        for direction in (0, 1):
            times = solver.pass_times(work, cut, microbatch, kind, direction)
            if times.cycles >= IMPOSSIBLE_CYCLES:
                return math.inf
            num_cycles += times.cycles
            energy_j += times.energy_j
    latency_s = num_cycles / solver.chip.clock_hz
    if metric is ChipMetric.LATENCY:
        return latency_s
    return latency_s * (energy_j + float(solver.energy.idle_w_c[0]) * latency_s)
