"""One number to maximise: what a plan on a chip is worth, and several models' values as one. The only formulas.

All are monotone in every throughput and fall with energy, so bounds on times and energies give bounds on the
objective (docs/proof.md, section 1).

Axis letters: m = model, c = chip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import SpecError
from rephaze.estimate.estimate_model import EstimateModel
from rephaze.hardware.area import chip_area
from rephaze.hardware.cost import chip_cost
from rephaze.hardware.space_terms import cluster_usd
from rephaze.measure.least_energy import least_energy_per_sample_j
from rephaze.measure.model_work import ModelWork
from rephaze.types.chip import ChipTable
from rephaze.types.energy import AccessEnergy
from rephaze.types.search import Aggregate, Objective, SearchSettings
from rephaze.types.space import AreaModel
from rephaze.units import UM2_PER_MM2

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
AmountT = TypeVar("AmountT", float, Floats)


MOST_WEIGHT = 1e12
"""Sums and quotients of weights stay finite, and no model is lost beside another."""


def check_weights(settings: SearchSettings) -> None:
    """Raise unless there is one positive weight for each model."""
    if len(settings.weights) != len(settings.models):
        rule = f"must list one weight for each of the {len(settings.models)} models"
        raise SpecError("weights", list(settings.weights), rule)
    for weight in settings.weights:
        if not 1 / MOST_WEIGHT <= weight <= MOST_WEIGHT:
            rule = f"must all be positive, from {1 / MOST_WEIGHT:g} to {MOST_WEIGHT:g}"
            raise SpecError("weights", list(settings.weights), rule)


def combine(values_mc: Floats, weights: tuple[float, ...], aggregate: Aggregate) -> Floats:
    """The objective of each chip from each model's value on it.

    Args:
        values_mc: Throughputs (per area, watt or dollar); zero where nothing fits.
        weights: One a model. Mean and geometric mean are weighted; the worst case is of value / weight.
        aggregate: How.

    Returns:
        One value a chip; zero as soon as one model does not fit.
    """
    weight_m = np.asarray(weights, dtype=np.float64)
    share_m = weight_m / weight_m.sum()
    fits_c = (values_mc > 0).all(axis=0)
    safe_mc = np.where(values_mc > 0, values_mc, 1.0)
    if aggregate is Aggregate.MEAN:
        combined = (safe_mc * share_m[:, None]).sum(axis=0)
    elif aggregate is Aggregate.GEOMEAN:
        combined = np.exp((np.log(safe_mc) * share_m[:, None]).sum(axis=0))
    else:
        combined = (safe_mc / weight_m[:, None]).min(axis=0)
    return np.where(fits_c, combined, 0.0)


def combine_on_chip(values: list[float], weights: tuple[float, ...], aggregate: Aggregate) -> float:
    """As ``combine``, of one chip."""
    return float(combine(np.array(values)[:, None], weights, aggregate)[0])


def needed_value(
    values: list[float], m: int, least: float, weights: tuple[float, ...], aggregate: Aggregate
) -> float:
    """What one model must be worth for all together to be worth ``least``, the others as given.

    Args:
        values: Of each model; that of ``m`` is not looked at.
        m: The model.
        least: Of all together, above zero.
        weights: One a model.
        aggregate: How they are combined.
    """
    share_m = np.asarray(weights, dtype=np.float64) / sum(weights)
    others = [at for at in range(len(values)) if at != m]
    if any(values[at] <= 0 for at in others):
        return math.inf
    if aggregate is Aggregate.MEAN:
        return float((least - sum(share_m[at] * values[at] for at in others)) / share_m[m])
    if aggregate is Aggregate.GEOMEAN:
        rest = math.log(least) - sum(share_m[at] * math.log(values[at]) for at in others)
        # More than a float holds is more than any plan is worth.
        return math.exp(min(rest / share_m[m], 700.0))
    return least * weights[m]


def idle_j_per_sample(cluster_idle_w: AmountT, batch_s: AmountT, global_batch: int) -> AmountT:
    """What idling chips of the whole cluster spend on each sample of a batch."""
    return cluster_idle_w * batch_s / global_batch


def chip_usd(chips: ChipTable, hbm_bytes_c: Ints) -> Floats:
    """Dollars of each chip with such a memory: at the 7 nm of the corrected model, whatever limits the area."""
    return chip_cost(chip_area(chips, AreaModel.CORRECTED).total_um2_c, hbm_bytes_c).total_usd_c


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipWorth:
    """What one model's plans on one chip with one memory are worth."""

    global_batch: int
    value_factor: float = 1.0
    """What a sample a second is worth: 1, or one over the area or the price of the cluster."""
    is_per_watt: bool = False
    cluster_idle_w: float = 0.0
    """Drawn by all chips of the cluster, whatever they do."""

    def of_plan(self, batch_s: float, energy_per_sample_j: float) -> float:
        """A plan's value; zero if there is none."""
        if not math.isfinite(batch_s):
            return 0.0
        if self.is_per_watt:
            return 1.0 / energy_per_sample_j
        return self.global_batch / batch_s * self.value_factor

    def at_best(self, batch_s: float, least_energy_per_sample_j: float) -> float:
        """No plan is worth more if none is faster than ``batch_s`` and none has less dynamic energy."""
        if not math.isfinite(batch_s):
            return 0.0
        idle_j = idle_j_per_sample(self.cluster_idle_w, batch_s, self.global_batch)
        return self.of_plan(batch_s, least_energy_per_sample_j + idle_j)

    def longest_s(self, value: float, least_energy_per_sample_j: float) -> float:
        """Batches that take longer are worth less than ``value``, if none has less dynamic energy."""
        if value <= 0:
            return math.inf
        if not self.is_per_watt:
            return self.global_batch * self.value_factor / value
        if self.cluster_idle_w <= 0:
            return math.inf
        idle_j = 1.0 / value - least_energy_per_sample_j
        return max(idle_j, 0.0) * self.global_batch / self.cluster_idle_w


class Valuation:
    """What plans on the chips of a table are worth under the objective of a search.

    Args:
        settings: The search.
        chips: The chips.
        area_um2_c: Their areas under the space's model.
        energy: Their energies.
        model: The estimate model, for the least energy of a sample.
    """

    def __init__(
        self,
        settings: SearchSettings,
        chips: ChipTable,
        area_um2_c: Floats,
        energy: AccessEnergy,
        model: EstimateModel,
    ) -> None:
        self.settings, self.chips, self.area_um2_c = settings, chips, area_um2_c
        self.energy, self.model = energy, model
        self.is_memory_priced = settings.objective is Objective.PER_USD
        """Smaller memories than the largest are worth trying."""
        self._least_j: dict[str, Floats] = {}
        self._factors: dict[int, Floats] = {}
        """By memory size, where it is priced."""

    def worth(self, c: int, hbm_bytes: int) -> ChipWorth:
        """What plans on one of the chips, with a memory of this size, are worth."""
        scenario = self.settings.scenario
        return ChipWorth(
            global_batch=scenario.training.global_batch,
            value_factor=float(self._factor_c(hbm_bytes)[c]),
            is_per_watt=self.settings.objective is Objective.PER_WATT,
            cluster_idle_w=float(self.energy.idle_w_c[c]) * scenario.cluster.num_devices,
        )

    def upper_bounds(self, works: list[ModelWork], batch_s_mc: Floats, index: NDArray[np.intp]) -> Floats:
        """The most some of the chips can be worth, if no model's batch is faster than given.

        Args:
            works: The models.
            batch_s_mc: Batch times no plan beats, a column for each of ``index``.
            index: Positions of the chips in the table.
        """
        settings = self.settings
        global_batch = settings.scenario.training.global_batch
        if settings.objective is Objective.PER_WATT:
            least_j_mc = np.stack([self._least_j_c(work)[index] for work in works])
            cluster_w_c = self.energy.idle_w_c[index] * settings.scenario.cluster.num_devices
            fits_mc = np.isfinite(batch_s_mc)
            idle_j_mc = idle_j_per_sample(cluster_w_c, np.where(fits_mc, batch_s_mc, 0.0), global_batch)
            value_mc = np.where(fits_mc, 1.0 / (least_j_mc + idle_j_mc), 0.0)
        else:
            value_mc = global_batch / batch_s_mc * self.largest_factor_c[index]
        return combine(value_mc, settings.weights, settings.aggregate)

    def least_j(self, work: ModelWork, c: int) -> float:
        """Dynamic energy no plan of the model goes below on a chip; zero where the objective knows no energy."""
        return float(self._least_j_c(work)[c]) if self.settings.objective is Objective.PER_WATT else 0.0

    def _least_j_c(self, work: ModelWork) -> Floats:
        if work.name not in self._least_j:
            self._least_j[work.name] = least_energy_per_sample_j(work, self.chips, self.energy, self.model)
        return self._least_j[work.name]

    def longest_s(
        self, works: Sequence[ModelWork], batch_s: Sequence[float], m: int, c: int, least: float
    ) -> float:
        """With longer batches of one model a chip is worth less than ``least``, however little memory it pays for.

        Args:
            works: The models.
            batch_s: Times no plan of each model beats.
            m: The model.
            c: The chip.
            least: What the chip must be worth, above zero.
        """
        options = self.settings.scenario.space.hbm_bytes_options
        worth = self.worth(c, min(options) if options else int(self.chips.hbm_bytes[c]))
        least_j = [self.least_j(work, c) for work in works]
        values = [worth.at_best(own_s, own_j) for own_s, own_j in zip(batch_s, least_j, strict=True)]
        return worth.longest_s(self.needed(values, m, least), least_j[m])

    def combined(self, values: list[float]) -> float:
        """The objective of one chip from each model's value on it."""
        return combine_on_chip(values, self.settings.weights, self.settings.aggregate)

    def needed(self, values: list[float], m: int, least: float) -> float:
        """What one model must be worth on a chip for the objective to be ``least``, the others as given."""
        return needed_value(values, m, least, self.settings.weights, self.settings.aggregate)

    @cached_property
    def largest_factor_c(self) -> Floats:
        """What a sample a second is worth on each chip, with the cheapest memory it may have."""
        options = self.settings.scenario.space.hbm_bytes_options
        return self._factor_c(min(options)) if options else self._factors_of(self.chips.hbm_bytes)

    def _factor_c(self, hbm_bytes: int) -> Floats:
        key = hbm_bytes if self.is_memory_priced else 0
        if key not in self._factors:
            self._factors[key] = self._factors_of(np.full(len(self.chips), hbm_bytes, dtype=np.int64))
        return self._factors[key]

    def _factors_of(self, hbm_bytes_c: Ints) -> Floats:
        """What a sample a second is worth on each chip with such a memory."""
        num_devices = self.settings.scenario.cluster.num_devices
        if self.settings.objective is Objective.PER_AREA:
            return UM2_PER_MM2 / (self.area_um2_c * num_devices)
        if self.settings.objective is Objective.PER_USD:
            return 1.0 / cluster_usd(self.chips, hbm_bytes_c, self.settings.scenario.space, num_devices)
        return np.ones(len(self.chips))
