"""Plans on the large corner of one box of designs: which units may still reach the goal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.grid import DesignGrid
from rephaze.measure.best_plan import STAGE_NAMES, Stage
from rephaze.measure.full_planner import FullPlanner
from rephaze.measure.model_bounds import ModelBounds
from rephaze.measure.pass_times import LayerSeconds
from rephaze.measure.units import Unit
from rephaze.search.box_bounds import corner_memories, corner_valuation, longest_batches
from rephaze.search.evaluator import Preparation
from rephaze.types.boxes import Goal, OpenBox, Position, UnitTimes
from rephaze.types.stopping import StopSignal

Floats = NDArray[np.float64]

QUICKEST_REACH = 1.15
"""A model's quickest unit is asked how much longer it takes up to this."""


class Rung(Enum):
    """What plans are bounded with."""

    PLACED = STAGE_NAMES[Stage.PLACED]
    """Mapped products."""
    OF_CLASS = "schedules of classes"
    """What little work proves of schedules: of a cut sequence those of what its class has in common."""
    HURRIED = STAGE_NAMES[Stage.HURRIED]
    """The same of every pass by itself."""

    @property
    def says(self) -> str:
        """As it is recorded of a box."""
        return STAGE_NAMES[Stage.PLACED if self is Rung.PLACED else Stage.HURRIED]


class Bounded(NamedTuple):
    """What plans say of a box."""

    box: OpenBox | None
    """With what is known of its units; None if none can matter, at whatever margin."""
    is_closed: bool = False
    """It falls below what was asked, which may be a margin above what matters."""


class CornerPlans:
    """Plans on the large corner of one box, unit by unit.

    Args:
        models: Of the search.
        grid: Of its space.
        small: The small corner.
        large: The large one.
        layers: Of each model, what is known of the layers on the large corner.
        stop: Ends the work with ``StoppedError``.
    """

    def __init__(
        self,
        models: Preparation,
        grid: DesignGrid,
        small: Position,
        large: Position,
        layers: Sequence[ModelBounds],
        stop: StopSignal,
    ) -> None:
        self.works, self._is_much = models.works, models.is_much
        chips = grid.chips(np.array([small, large], dtype=np.int64))
        self.valuation = corner_valuation(models, chips.take(slice(0, 1)))
        self.memory = corner_memories(chips)[1]
        self.solver = models.chip_solver(chips.chip(1), stop=stop)
        self._is_one_design = small == large
        self._quickest_s: dict[tuple[Rung, int], float] = {}
        """By model, what the quickest unit takes."""
        self._first_same = models.first_same
        self._layers = [
            self.solver.finer_bounds(work, self.memory, own) for work, own in zip(self.works, layers, strict=True)
        ]
        self._found_s: dict[tuple[Rung, int, Unit], tuple[float, float]] = {}
        """By model, the longest batch that was asked about, and what was found."""

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """To be asked one after the other.

        Of several models, and of mixtures, schedules come first: they say three times as much as plans on mapped
        products, and with what is known of them a quick bound of plans is mostly enough.
        """
        return (Rung.OF_CLASS if self._is_much and self.works[0].is_full else Rung.PLACED, Rung.HURRIED)

    def bounded(self, box: OpenBox, rung: Rung, goal: Goal) -> Bounded:
        """The box without the units whose plans are all too slow to matter at any margin."""
        threshold = goal.threshold
        works, order = self.works, list(range(len(self.works)))
        if self._is_much and not self._is_one_design:
            before = [own.least_s for own in box.times]
            box = self._with_quickest(box, rung)
            if self._at_best(box, rung) >= threshold:
                return Bounded(box)  # whatever is found of the other units
            # Models of which most is to be gained first: they may be enough.
            order.sort(key=lambda m: -self._quickest_s.get((rung, m), 0.0) / before[m])
        least_s_mc = np.array([[own.least_s] for own in box.times])
        times = list(box.times)
        for m in order:
            work = works[m]
            longest_s, later_s = (
                float(longest_batches(self.valuation, works, least_s_mc, m, asked)[0])
                for asked in (threshold, goal.matters_later)
            )
            # One unit that stays keeps a box open: of several designs, of which schedules are looked at, the rest
            # can wait. With other models the least of all units counts: of those that take no less than one that
            # was looked at no more is asked.
            one_is_enough = rung is Rung.HURRIED and not self._is_one_design and not self._is_much
            kept: list[int] = []
            found_s: list[float] = []
            later: dict[int, float] = {}
            others_s = times[m].others_s
            for known_s, u in sorted(zip(times[m].batch_s_u, times[m].unit_u, strict=True)):
                if known_s > longest_s:
                    if known_s > later_s:
                        others_s = min(others_s, known_s)
                    else:
                        later[u] = known_s
                    continue
                bound_s = 0.0
                asked_s = min((longest_s, *found_s)) if self._is_much else longest_s
                if not ((kept and one_is_enough) or (found_s and self._is_much and known_s >= asked_s)):
                    bound_s = self._bound_s(m, work.units[u], rung, asked_s)
                if bound_s < longest_s:
                    kept.append(u)
                    found_s.append(max(bound_s, known_s))
                else:
                    # A hair more: what takes just as long is of no use either, and need not be asked again.
                    too_long_s = math.nextafter(longest_s, math.inf)
                    if too_long_s > later_s:
                        others_s = min(others_s, too_long_s)
                    else:
                        later[u] = too_long_s
            times[m] = UnitTimes(unit_u=(*kept, *later), batch_s_u=(*found_s, *later.values()), others_s=others_s)
            if not kept:
                return self._below(self._with_times(box, rung, times), goal, may_matter_later=bool(later))
            least_s_mc[m] = np.maximum(least_s_mc[m], times[m].least_s)
        found = self._with_times(box, rung, times)
        if self._upper(least_s_mc) >= threshold:
            return Bounded(found)
        return self._below(found, goal, may_matter_later=found.upper >= goal.matters_later)

    def _below(self, box: OpenBox, goal: Goal, *, may_matter_later: bool) -> Bounded:
        """A box that no unit keeps open: it is worth no more than what was asked."""
        found = replace(box, upper=min(box.upper, goal.threshold)) if may_matter_later else None
        return Bounded(found, is_closed=True)

    def _with_quickest(self, box: OpenBox, rung: Rung) -> OpenBox:
        """The box with what plans of each model's quickest unit take: if that is too little, all is."""
        times = []
        for m, own in enumerate(box.times):
            if not own.unit_u:
                times.append(own)
                continue
            at = int(np.argmin(own.batch_s_u))
            known_s, unit = own.batch_s_u[at], self.works[m].units[own.unit_u[at]]
            found_s = max(known_s, self._bound_s(m, unit, rung, QUICKEST_REACH * known_s))
            self._quickest_s[rung, m] = found_s
            batch_s_u = (*own.batch_s_u[:at], found_s, *own.batch_s_u[at + 1 :])
            times.append(replace(own, batch_s_u=batch_s_u))
        return self._with_times(box, rung, times)

    def _at_best(self, box: OpenBox, rung: Rung) -> float:
        """What the box is worth at least, by all that can be found of the other units: they only make it more."""
        longest_s = [self._quickest_s.get((rung, m), own.others_s) for m, own in enumerate(box.times)]
        return self._upper(np.array(longest_s)[:, None])

    def _upper(self, least_s_mc: Floats) -> float:
        return float(self.valuation.upper_bounds(self.works, least_s_mc, np.arange(1))[0])

    def _with_times(self, box: OpenBox, rung: Rung, times: Sequence[UnitTimes]) -> OpenBox:
        """The box with these times, and what they say of it."""
        upper = self._upper(np.array([[own.least_s] for own in times]))
        is_finer = upper < box.upper
        return replace(
            box,
            upper=min(upper, box.upper),
            bounded_by=rung.says if is_finer else box.bounded_by,
            times=tuple(times),
        )

    def _bound_s(self, m: int, unit: Unit, rung: Rung, longest_s: float) -> float:
        """A batch time no plan of a unit beats; as good as ``longest_s`` if it is no less."""
        m = self._first_same[m]
        asked_s, found_s = self._found_s.get((rung, m, unit), (0.0, 0.0))
        # Asked how much slower than some time it is, a unit below that has been told all there is to tell.
        if not asked_s or asked_s <= found_s < longest_s:
            found_s = max(found_s, self._new_bound_s(m, unit, rung, longest_s))
            self._found_s[rung, m, unit] = longest_s, found_s
        return found_s

    def _new_bound_s(self, m: int, unit: Unit, rung: Rung, longest_s: float) -> float:
        work, layers = self.works[m], self._layers[m]
        k = work.class_of[unit.cut, unit.microbatch]
        if not layers.bounds.is_mapped_kc[k, 0]:
            layers.set_passes(k, np.array([0]), is_mapped=True)
        own = layers.bounds
        layer_s = LayerSeconds(own.forward_s_kct[k, 0], own.backward_s_kct[k, 0], own.input_s_kct[k, 0])
        if rung is Rung.PLACED:
            is_told = self._is_much
            return self.solver.placed_bound_s(work, unit, self.memory, layer_s, longest_s, is_told=is_told)
        if rung is Rung.OF_CLASS:
            planner = self.solver.planner(work, unit, self.memory)
            assert isinstance(planner, FullPlanner)
            return planner.scheduled_bound_s(layer_s, longest_s)
        if Rung.OF_CLASS in self.rungs and unit.cut.cp == 1:
            return 0.0  # all that schedules say of a whole sequence is known
        return self.solver.hurried_bound_s(work, unit, self.memory, longest_s, layer_s)
