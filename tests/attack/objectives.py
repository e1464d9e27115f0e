"""The objectives as docs/search.md states them, written afresh: one model's, then several models' as one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rephaze.hardware.area import chip_area
from rephaze.hardware.cost import chip_cost
from rephaze.types.chip import Chip, chip_table
from rephaze.types.search import Aggregate, Objective, SearchSettings
from rephaze.types.space import AreaModel
from tests.attack.system_terms import system_bill

if TYPE_CHECKING:
    from tests.attack.slow import UnitWorth

UM2_PER_MM2 = 1e6


@dataclass(frozen=True, kw_only=True, slots=True)
class DesignWorth:
    """A design's objective, reached by plans that exist."""

    value: float
    """0 if a model has no plan."""
    is_proven: bool
    """No plan of the design does better; otherwise ``value`` is only reached, and may be exceeded."""


def model_value(settings: SearchSettings, chip: Chip, area_um2: float, unit: UnitWorth) -> float:
    """The objective of one model with one plan."""
    if not math.isfinite(unit.batch_s):
        return 0.0
    num_devices = settings.scenario.cluster.num_devices
    samples_per_s = settings.scenario.training.global_batch / unit.batch_s
    if settings.objective is Objective.THROUGHPUT:
        return samples_per_s
    if settings.objective is Objective.PER_AREA:
        return samples_per_s / (num_devices * area_um2 / UM2_PER_MM2)
    if settings.objective is Objective.PER_USD and settings.scenario.space.system is not None:
        return samples_per_s / float(system_bill(chip, unit.hbm_bytes, settings.scenario.space).usd_c[0])
    if settings.objective is Objective.PER_USD:
        return samples_per_s / (num_devices * chip_usd(chip, unit.hbm_bytes))
    return 1.0 / unit.energy_per_sample_j


def chip_usd(chip: Chip, hbm_bytes: int) -> float:
    """Die at 7 nm by the corrected area model, and its memory."""
    area_um2_c = chip_area(chip_table([chip]), AreaModel.CORRECTED).total_um2_c
    return float(chip_cost(area_um2_c, np.array([hbm_bytes])).total_usd_c[0])


def aggregated(values: list[float], weights: tuple[float, ...], aggregate: Aggregate) -> float:
    """Several models' values as one; 0 as soon as one is."""
    if min(values) <= 0:
        return 0.0
    total = math.fsum(weights)
    if aggregate is Aggregate.MEAN:
        return math.fsum(weight * value for weight, value in zip(weights, values, strict=True)) / total
    if aggregate is Aggregate.GEOMEAN:
        logs = math.fsum(weight * math.log(value) for weight, value in zip(weights, values, strict=True))
        return math.exp(logs / total)
    return min(value / weight for weight, value in zip(weights, values, strict=True))


def combined(settings: SearchSettings, chip: Chip, area_um2: float, units_m: list[list[UnitWorth]]) -> DesignWorth:
    """The best over every unit of every model; with a price on memory, one size for all models."""
    sizes = sorted({unit.hbm_bytes for units in units_m for unit in units})
    # More memory is free elsewhere: every size may be used by every plan. A watt counts each unit's fastest plan,
    # and that is the one with the most memory.
    choices = [{size} for size in sizes] if settings.objective is Objective.PER_USD else [set(sizes)]
    if settings.objective is Objective.PER_WATT:
        choices = [{sizes[-1]}]
    best = 0.0
    for choice in choices:
        values = [
            max((model_value(settings, chip, area_um2, u) for u in units if u.hbm_bytes in choice), default=0.0)
            for units in units_m
        ]
        best = max(best, aggregated(values, settings.weights, settings.aggregate))
    return DesignWorth(value=best, is_proven=all(unit.is_proven for units in units_m for unit in units))
