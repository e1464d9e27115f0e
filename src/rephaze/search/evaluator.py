"""Designs of a space bounded and solved for all models of a search: what every worker process runs.

Axis letters: m = model, u = unit, c = chip of the chunk at hand, d = design of the space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.estimate_model import named_estimate_model
from rephaze.estimate.estimator import Estimator
from rephaze.hardware.space import DesignCensus, enumerate_designs
from rephaze.hardware.space_terms import space_energy
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.layer_bounds import FinerBounds, is_for_later, layer_bounds, unit_times
from rephaze.measure.model_bounds import ModelBounds, joined_bounds
from rephaze.measure.model_work import ModelWork, model_works
from rephaze.measure.objective import Valuation
from rephaze.measure.pass_solver import Memos
from rephaze.measure.unit_time import CHIPS_AT_ONCE, corner_time_batch_s
from rephaze.measure.unit_work import UnitWork, unit_work
from rephaze.measure.units import Memory, memory_options
from rephaze.schedule.parts import HURRIED_WORK
from rephaze.schedule.solve import ScheduleMemo
from rephaze.search.design_search import DesignSearch
from rephaze.search.device_time import device_time_batch_s
from rephaze.search.engine import RELATIVE_SLACK
from rephaze.types.chip import Chip
from rephaze.types.energy import AccessEnergy
from rephaze.types.search import Evaluation, SearchSettings, Unsettled
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Flags = NDArray[np.bool_]


class Preparation:
    """What does not depend on how a space is gone through.

    Args:
        settings: The search.
        stop: Ends the preparation of the models, and solvers that are given no other, with ``StoppedError``.
        prepared: Of the same search: its models and what it remembers are shared.
        alike: Of the same search with another system: graphs of its models and what it remembers are shared.
    """

    def __init__(
        self,
        settings: SearchSettings,
        stop: StopSignal = UNSTOPPED,
        prepared: Preparation | None = None,
        alike: Preparation | None = None,
    ) -> None:
        self.settings, self._stop = settings, stop
        scenario = settings.scenario
        others = alike.works if alike else [None] * len(settings.models)
        self.works: list[ModelWork] = (
            prepared.works if prepared else model_works(settings.models, scenario, stop, others)
        )
        self.model = named_estimate_model(scenario.estimate_model)
        self.exclusion = scenario.all_cores_excludes
        known = prepared or alike
        self.memos: Memos = known.memos if known else Memos()
        # What trials find of schedules is kept apart: it would depend on what else was solved where they are made.
        self._memos_of_trials: Memos = (
            known._memos_of_trials if known else replace(self.memos, schedules=ScheduleMemo())
        )

    @property
    def is_of_many(self) -> bool:
        """Whether one design is for several models."""
        return len(self.works) > 1

    @property
    def is_much(self) -> bool:
        """Whether a look at all that may matter of a design takes so long that the best of it must do first."""
        return self.is_of_many or any(is_for_later(work) for work in self.works)

    @cached_property
    def unit_works(self) -> list[UnitWork]:
        """The least work of the units of each model."""
        found: list[UnitWork] = []
        for first, work in zip(self.first_same, self.works, strict=True):
            found.append(found[first] if first < len(found) else unit_work(work, self._stop))
        return found

    @cached_property
    def first_same(self) -> list[int]:
        """Of each model the first that is the same but for its name: most often itself."""
        names = [work.same_as for work in self.works]
        return [names.index(name) for name in names]

    def chip_solver(
        self, chip: Chip, energy: AccessEnergy | None = None, stop: StopSignal | None = None
    ) -> ChipSolver:
        """The exact solver of any chip, of the space or not, with what is remembered of the others."""
        scenario = self.settings.scenario
        return ChipSolver(chip, scenario, energy=energy, memos=self.memos, stop=stop or self._stop)

    def trial_solver(self, chip: Chip, stop: StopSignal) -> ChipSolver:
        """One that finds plans with little work on each schedule, and proves little."""
        scenario, memos = self.settings.scenario, self._memos_of_trials
        return ChipSolver(chip, scenario, memos=memos, schedule_work=HURRIED_WORK, stop=stop)


class SpaceEvaluator(Preparation):
    """Bounds and exact answers for the designs of a space.

    Args:
        settings: The search.
        stop: Ends the preparation of the models, and solvers that are given no other, with ``StoppedError``.
        census: The designs it is about; by default all of the space.
        prepared: Of the same search: its models and what it remembers are shared.
    """

    def __init__(
        self,
        settings: SearchSettings,
        stop: StopSignal = UNSTOPPED,
        *,
        census: DesignCensus | None = None,
        prepared: Preparation | None = None,
    ) -> None:
        self.census = enumerate_designs(settings.scenario.space) if census is None else census
        super().__init__(settings, stop, prepared)

    @cached_property
    def energy(self) -> AccessEnergy:
        """Energies of all designs."""
        return space_energy(self.census.chips, self.settings.scenario.space)

    @cached_property
    def valuation(self) -> Valuation:
        """What plans on the designs are worth."""
        return Valuation(self.settings, self.census.chips, self.census.area_um2_c, self.energy, self.model)

    def coarse(self) -> Floats:
        """An upper bound of every design's objective, by device time; of mixtures also by ``unit_time``."""
        chips = self.census.chips
        batch_s_md = np.stack(
            [device_time_batch_s(work, chips, self.model, self.exclusion) for work in self.works]
        )
        for work, batch_s_d in zip(self.works, batch_s_md, strict=True):
            if is_for_later(work) and self.model.has_memory_terms and len(chips):
                corner_s_d = corner_time_batch_s(work, chips, self.model, self.exclusion)
                np.maximum(batch_s_d, corner_s_d, out=batch_s_d)
        return self.valuation.upper_bounds(self.works, batch_s_md, np.arange(len(chips)))

    def unit_bounds(self, designs: Sequence[int], stop: StopSignal = UNSTOPPED) -> list[ModelBounds]:
        """For each model, times no plan of a unit beats on these designs; ``StoppedError`` when cut."""
        # Of all operators of a mixture on all chips at once there would be gigabytes.
        size = CHIPS_AT_ONCE if any(is_for_later(work) for work in self.works) else max(len(designs), 1)
        pieces = [self._unit_bounds(designs[at : at + size], stop) for at in range(0, max(len(designs), 1), size)]
        return [joined_bounds([piece[model] for piece in pieces]) for model in range(len(self.works))]

    def _unit_bounds(self, designs: Sequence[int], stop: StopSignal) -> list[ModelBounds]:
        index = np.asarray(designs, dtype=np.intp)
        chips = self.census.chips.take(index)
        cluster = self.settings.scenario.cluster
        estimator = Estimator(chips, self._energy_of(index), cluster, self.model, self.memos.gemms)
        memory = [self.memory_options(design)[-1] for design in designs]
        return [
            unit_times(work, estimator, chips, self.exclusion, stop)
            if is_for_later(work)
            else layer_bounds(work, estimator, chips, memory, self.exclusion, stop)
            for work in self.works
        ]

    def sharpened(
        self, designs: Sequence[int], bounds: list[ModelBounds], cutoff: float, stop: StopSignal = UNSTOPPED
    ) -> list[ModelBounds]:
        """The bounds with mapped products wherever closed forms leave a chance to reach ``cutoff``.

        Without a cutoff only what is best of a design: until that is mapped; of mixtures nothing, since it would
        take as long as solving one of them, which gives a cutoff. ``StoppedError`` when cut.
        """
        if not np.isfinite(cutoff) and any(is_for_later(work) for work in self.works):
            return bounds
        return self._sharpened(designs, bounds, cutoff, stop)

    def _sharpened(
        self, designs: Sequence[int], bounds: list[ModelBounds], cutoff: float, stop: StopSignal
    ) -> list[ModelBounds]:
        index = np.asarray(designs, dtype=np.intp)
        chips, cluster = self.census.chips.take(index), self.settings.scenario.cluster
        memory = [self.memory_options(design)[-1] for design in designs]

        def estimator_of(columns: Ints) -> Estimator:
            own = index[columns]
            return Estimator(
                self.census.chips.take(own), self._energy_of(own), cluster, self.model, self.memos.gemms
            )

        finer = [
            FinerBounds(work, own, chips, memory, self.exclusion, estimator_of, stop)
            for work, own in zip(self.works, bounds, strict=True)
        ]
        for model in range(len(finer)):
            if is_for_later(self.works[model]):
                self._map_times(index, finer, model, cutoff)
            while (asked := self._to_map(index, finer, model, cutoff)) is not None:
                finer[model].map_class(*asked)
        return [one.bounds for one in finer]

    def _map_times(self, index: Ints, finer: Sequence[FinerBounds], model: int, cutoff: float) -> None:
        """All classes that may reach the cutoff at once, before any is looked at by itself."""
        own = finer[model]
        if np.isfinite(cutoff):
            own.map_times(self._may_reach(index, finer, model, cutoff))
        else:
            own.map_best_times()

    def _may_reach(self, index: Ints, finer: Sequence[FinerBounds], model: int, cutoff: float) -> Flags:
        """Classes of one model's passes with which a design may reach the cutoff."""
        least_s_mc = np.stack([one.bounds.batch_s_uc.min(axis=0) for one in finer])
        least_s_kc = finer[model].least_s_kc
        threshold = cutoff * (1 - RELATIVE_SLACK)
        found = []
        for least_s_c in least_s_kc:
            least_s_mc[model] = least_s_c
            found.append(self.valuation.upper_bounds(self.works, least_s_mc, index) >= threshold)
        return np.stack(found) & np.isfinite(least_s_kc)

    def _to_map(
        self, index: Ints, finer: Sequence[FinerBounds], model: int, cutoff: float
    ) -> tuple[int, Ints] | None:
        """The class of one model's passes to be mapped next, and on which designs; None if there is nothing to."""
        own = finer[model]
        least_s_kc = own.least_s_kc
        best_k_c = least_s_kc.argmin(axis=0)
        is_asked_kc = (own.bounds.is_mapped_kc == 0) & np.isfinite(least_s_kc)
        if np.isfinite(cutoff):
            is_asked_kc &= self._may_reach(index, finer, model, cutoff)
        else:
            is_asked_kc &= np.arange(len(is_asked_kc))[:, None] == best_k_c
        if not is_asked_kc.any():
            return None
        # What is best of most: the others may then be out without it.
        num_best_k = np.bincount(best_k_c[is_asked_kc.any(axis=0)], minlength=len(is_asked_kc))
        k = int(np.argmax(np.where(is_asked_kc.any(axis=1), 1 + num_best_k, 0)))
        return k, np.flatnonzero(is_asked_kc[k])

    def refined(self, designs: Sequence[int], bounds: list[ModelBounds]) -> Floats:
        """An upper bound of each design's objective, from its unit bounds."""
        batch_s_mc = np.stack([own.batch_s_uc.min(axis=0) for own in bounds])
        return self.valuation.upper_bounds(self.works, batch_s_mc, np.asarray(designs, dtype=np.intp))

    def memory_options(self, design: int) -> list[Memory]:
        """Memories a design may have, smallest first."""
        chips = self.census.chips
        hbm_bytes, bytes_per_s = int(chips.hbm_bytes[design]), float(chips.hbm_bytes_per_s[design])
        return memory_options(self.settings.scenario.space, hbm_bytes, bytes_per_s)

    def priced_memories(self, design: int) -> list[Memory]:
        """Memories a design must be tried with, smallest first.

        More memory never slows a plan: where its price is no part of the objective, the largest is enough.
        """
        options = self.memory_options(design)
        return options if self.valuation.is_memory_priced else options[-1:]

    def solver(self, design: int, stop: StopSignal | None = None) -> ChipSolver:
        """The exact solver of one design."""
        return self.chip_solver(self.census.chips.chip(design), self._energy_of(np.array([design])), stop)

    def evaluate(
        self, design: int, bounds: list[ModelBounds], cutoff: float, stop: StopSignal = UNSTOPPED
    ) -> Evaluation | Unsettled:
        """One design, solved exactly, or dropped as soon as a bound falls below ``cutoff``.

        Args:
            design: Position in the space.
            bounds: For each model, those of ``unit_bounds`` for this design alone.
            cutoff: The incumbent's objective.
            stop: Leaves the design unsettled, with the best bound known by then.
        """
        if any(
            is_for_later(work) and not own.is_mapped_kc.any() for work, own in zip(self.works, bounds, strict=True)
        ):
            try:
                bounds = self._sharpened([design], bounds, cutoff, stop)
            except StoppedError:
                return Unsettled(design=design, bound=float(self.refined([design], bounds)[0]))
        searches = [self.design_search(design, bounds, memory, stop) for memory in self.priced_memories(design)]
        found: list[Evaluation] = []
        try:
            for one in searches:
                stop.check()
                found.append(one.run(max([cutoff, *(item.objective for item in found)])))
        except StoppedError:
            return Unsettled(design=design, bound=max(one.bound() for one in searches))
        return of_best_memory(found)

    def design_search(
        self, design: int, bounds: list[ModelBounds], memory: Memory, stop: StopSignal
    ) -> DesignSearch:
        """The search for the plans of one design with one memory."""
        options = self.memory_options(design)
        return DesignSearch(
            design,
            self.solver(design, stop),
            self.works,
            bounds,
            memory,
            self.valuation,
            at=design,
            smaller=[] if len(self.priced_memories(design)) > 1 else options[:-1],
        )

    def _energy_of(self, index: NDArray[np.intp]) -> AccessEnergy:
        return AccessEnergy(**{item.name: getattr(self.energy, item.name)[index] for item in fields(AccessEnergy)})


def of_best_memory(found: list[Evaluation]) -> Evaluation:
    """What is known of a design from its evaluations with each memory; the smaller one where both are as good."""
    solved = [item for item in found if item.is_exact and item.objective > 0]
    if solved:
        # A memory that was dropped is no better than one that was solved before it, or than the cutoff.
        best = max(solved, key=lambda item: item.objective)
        return replace(best, bound=max(item.bound for item in solved))
    dropped = [item for item in found if not item.is_exact]
    return max(dropped, key=lambda item: item.bound) if dropped else found[-1]
