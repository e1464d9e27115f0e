"""Upper bounds of boxes of designs, many at once: by device time, by layers, by mapped products.

Whatever is asked of a box is asked of its large corner, a chip that no design in the box outdoes
(``hardware.grid``), valued by the area, price and idle power of its small corner (docs/proof.md, 7).

Axis letters: b = box, c = corner of a box that may hold a design, m = model, u = unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.estimator import Estimator
from rephaze.hardware.grid import LIMITS, Boxes, DesignGrid
from rephaze.hardware.space_terms import space_area, space_energy
from rephaze.measure.best_plan import STAGE_NAMES, Stage
from rephaze.measure.model_bounds import ModelBounds
from rephaze.measure.model_work import ModelWork
from rephaze.measure.objective import Valuation
from rephaze.measure.open_units import OpenUnits
from rephaze.measure.unit_work import least_batches_s
from rephaze.measure.units import Memory
from rephaze.search.evaluator import Preparation
from rephaze.types.boxes import NO_PLAN, Goal, UnitTimes
from rephaze.types.chip import ChipTable
from rephaze.types.energy import AccessEnergy
from rephaze.types.stopping import StopSignal

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

DEVICE_TIME = "device time"
LAYER_REACH = 2.2
"""Layers are bounded where device time is no further than this above what must be reached."""
MAP_REACH = 1.15
"""Products are mapped where layer bounds are no further than this above it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """How far above the goal a bound may be for the next, finer one to be asked for."""

    layers: float = LAYER_REACH
    mapped: float = MAP_REACH
    best_only: bool = False
    """Of each box the quickest units alone: all that its bound depends on, but little for boxes inside it."""


DEVICE_ONLY = Reach(layers=0.0, mapped=0.0)
ALL_RUNGS = Reach(layers=np.inf, mapped=np.inf)
BEST_UNITS = Reach(layers=np.inf, mapped=np.inf, best_only=True)
BEST_LAYERS = Reach(mapped=0.0, best_only=True)
"""For the halves of a box of several models: mapped, they would take ten times as long, and few would close."""


@dataclass(frozen=True, eq=False, slots=True)
class BoxBounds:
    """Boxes with what was found of them."""

    boxes: Boxes
    large_bf: Ints
    upper_b: Floats
    """No design of a box is worth more; 0 where none keeps to the limits or has a plan."""
    by_b: list[str]
    """The bound or limit behind ``upper_b``."""
    times: list[tuple[UnitTimes, ...]]
    """Units that may still reach the goal."""


class BoxBounding:
    """Boxes on their way from device time to mapped products.

    Args:
        models: Of the search.
        grid: Of its space.
        boxes: The boxes.
        times: What is known of the units in some box around each; empty for nothing.
        goal: What designs must reach.
        stop: Ends the work with ``StoppedError``.
    """

    def __init__(
        self,
        models: Preparation,
        grid: DesignGrid,
        boxes: Boxes,
        times: Sequence[tuple[UnitTimes, ...]],
        goal: Goal,
        stop: StopSignal,
    ) -> None:
        self._models, self._boxes, self._goal, self._stop = models, boxes, goal, stop
        self._works, self._scenario = models.works, models.settings.scenario
        corners = grid.corners(boxes)
        self._large_bf, self._box_c = corners.large_bf, np.flatnonzero(corners.is_open_b)
        self._by_b = [LIMITS[at] if at >= 0 else DEVICE_TIME for at in corners.closed_by_b.tolist()]
        self._given = times
        self._chips = grid.chips(corners.large_bf[self._box_c])
        self._valuation = corner_valuation(models, grid.chips(boxes.first_bf[self._box_c]))
        self._units: list[OpenUnits] = []
        self._first_s_muc: list[Floats] = []

    def run(self, reach: Reach) -> BoxBounds:
        """Bounds as fine as it takes to close a box, or as reach allows."""
        upper_b = np.zeros(len(self._large_bf))
        times = list(self._given)
        if len(self._box_c):
            upper_c = self._by_device_time()
            units = self._units
            for stage, own in ((Stage.BOUNDED, reach.layers), (Stage.MAPPED, reach.mapped)):
                is_asked_c = self._is_asked(upper_c, own, stage)
                if not is_asked_c.any():
                    continue
                if not units:
                    for m, first in enumerate(self._models.first_same):
                        units.append(units[first] if first < m else self._open_units(m))
                finer_c = self._refined(units, is_asked_c, stage is Stage.MAPPED, reach.best_only)
                for c in np.flatnonzero(finer_c < upper_c).tolist():
                    self._by_b[self._box_c[c]] = STAGE_NAMES[stage]
                upper_c = np.minimum(upper_c, finer_c)
            upper_b[self._box_c] = upper_c
            for c, b in enumerate(self._box_c.tolist()):
                if upper_c[c] <= 0:
                    self._by_b[b] = NO_PLAN
                elif units and upper_c[c] >= self._goal.matters_later:
                    times[b] = self._left(units, c)
        return BoxBounds(self._boxes, self._large_bf, upper_b, self._by_b, times)

    def layers(self, b: int) -> list[ModelBounds]:
        """Of each model, what was found of the layers on the corner of a box, if anything was."""
        (c,) = np.flatnonzero(self._box_c == b).tolist()
        return [own.bounds.chip(c) for own in self._units]

    def _is_asked(self, upper_c: Floats, reach: float, stage: Stage) -> Flags:
        threshold = self._goal.threshold
        if not np.isfinite(threshold):
            # Without anything to hold it against, closed forms must do.
            return np.full(len(upper_c), reach > 0 and stage is Stage.BOUNDED) & (upper_c > 0)
        asked_c: Flags = (upper_c >= threshold) & (upper_c > 0) & (upper_c <= threshold * reach)
        return asked_c

    def _by_device_time(self) -> Floats:
        for own, first in zip(self._models.unit_works, self._models.first_same, strict=True):
            known = self._first_s_muc[first] if first < len(self._first_s_muc) else None
            self._first_s_muc.append(least_batches_s(own, self._chips) if known is None else known)
        self._least_s_mc = np.stack([first_s_uc.min(axis=0) for first_s_uc in self._first_s_muc])
        return self._upper()

    def _upper(self) -> Floats:
        return self._valuation.upper_bounds(self._works, self._least_s_mc, np.arange(len(self._chips)))

    def _refined(self, units: Sequence[OpenUnits], is_asked_c: Flags, is_mapped: bool, best_only: bool) -> Floats:
        for m, own in enumerate(units):
            # What one model had to give up, the next must make good.
            longest_s_c = longest_batches(self._valuation, self._works, self._least_s_mc, m, self._goal.threshold)
            # Of models that are the same but for their names the first is looked at.
            if self._models.first_same[m] == m:
                own.refine(longest_s_c, is_asked_c, is_mapped=is_mapped, best_only=best_only)
            self._least_s_mc[m] = np.maximum(self._least_s_mc[m], own.least_s_c)
        return self._upper()

    def _open_units(self, m: int) -> OpenUnits:
        work, models = self._works[m], self._models
        shape_uc = (len(work.units), len(self._chips))
        batch_s_uc = self._first_s_muc[m].copy()
        for c, b in enumerate(self._box_c.tolist()):
            for known in [
                own for own, first in zip(self._given[b], models.first_same, strict=False) if first == m
            ]:
                # What could not reach an earlier goal keeps the time it has: a bound must hold for it too.
                known_s_u = np.full(shape_uc[0], known.others_s)
                known_s_u[list(known.unit_u)] = known.batch_s_u
                batch_s_uc[:, c] = np.maximum(batch_s_uc[:, c], known_s_u)
        energy = space_energy(self._chips, self._scenario.space)

        def estimator_of(columns: NDArray[np.intp]) -> Estimator:
            own = AccessEnergy(**{item.name: getattr(energy, item.name)[columns] for item in fields(energy)})
            chips, cluster = self._chips.take(columns), self._scenario.cluster
            return Estimator(chips, own, cluster, models.model, models.memos.gemms)

        memory_of_c = corner_memories(self._chips)
        return OpenUnits(work, self._chips, memory_of_c, models.exclusion, estimator_of, batch_s_uc, self._stop)

    def _left(self, units: Sequence[OpenUnits], c: int) -> tuple[UnitTimes, ...]:
        """The units of each model that may still reach the goal on a corner."""
        found = []
        for m, own in enumerate(units):
            longest_s = longest_batches(
                self._valuation, self._works, self._least_s_mc, m, self._goal.matters_later, only=c
            )[0]
            batch_s_u = own.batch_s_uc[:, c]
            is_left_u = (batch_s_u <= longest_s) & np.isfinite(batch_s_u)
            found.append(
                UnitTimes(
                    unit_u=tuple(np.flatnonzero(is_left_u).tolist()),
                    batch_s_u=tuple(batch_s_u[is_left_u].tolist()),
                    others_s=float(batch_s_u[~is_left_u].min(initial=np.inf)),
                )
            )
        return tuple(found)


def corner_valuation(models: Preparation, small: ChipTable) -> Valuation:
    """What plans in boxes are worth at most: by the area, price and idle power of the small corners."""
    space = models.settings.scenario.space
    area_um2_c = space_area(small, space).total_um2_c
    return Valuation(models.settings, small, area_um2_c, space_energy(small, space), models.model)


def corner_memories(chips: ChipTable) -> list[Memory]:
    """All the memory each chip may have."""
    pairs = zip(chips.hbm_bytes.tolist(), chips.hbm_bytes_per_s.tolist(), strict=True)
    return [Memory(int(hbm_bytes), float(bytes_per_s)) for hbm_bytes, bytes_per_s in pairs]


def longest_batches(
    valuation: Valuation,
    works: Sequence[ModelWork],
    least_s_mc: Floats,
    m: int,
    threshold: float,
    only: int | None = None,
) -> Floats:
    """With a longer batch of a model a chip is worth less than the threshold, however good the others are."""
    columns = range(least_s_mc.shape[1]) if only is None else (only,)
    if not np.isfinite(threshold):
        return np.full(len(columns), np.inf)
    return np.array([valuation.longest_s(works, least_s_mc[:, c].tolist(), m, c, threshold) for c in columns])
