"""Passes of layers on one chip solved exactly: mapped operators, proven schedules, the fastest form of a cut."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.estimate_model import named_estimate_model
from rephaze.estimate.estimator import Estimator
from rephaze.estimate.gemm_costs import GemmMemo
from rephaze.estimate.op_block import OpBlock
from rephaze.hardware.space_terms import space_energy
from rephaze.measure.cut_forms import CutForm
from rephaze.measure.model_work import ModelWork
from rephaze.measure.pass_classes import CommonPass, PassWork
from rephaze.measure.pass_times import (
    BACKWARD,
    FORWARD,
    FastestForm,
    OpTimes,
    PassTimes,
    Times,
    seconds_of,
)
from rephaze.schedule.needs import Cores
from rephaze.schedule.packing_bounds import packing_bounds
from rephaze.schedule.parts import HURRIED_WORK, SEARCH_WORK, SKETCH_WORK, WIDE_WORK, Effort
from rephaze.schedule.solve import LayerModes, LayerSchedule, ScheduleMemo, schedule_layer
from rephaze.schedule.structure import ScheduleStructure
from rephaze.types.chip import Chip, ChipTable, chip_table
from rephaze.types.cut import GraphCut
from rephaze.types.energy import AccessEnergy
from rephaze.types.latency import IMPOSSIBLE_CYCLES, ModeBounds, ModeTable
from rephaze.types.scenario import Scenario
from rephaze.types.stopping import UNSTOPPED, StopSignal

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Pass:
    """Which pass of which model."""

    model: str
    cut: GraphCut
    microbatch: int
    form: int
    kind: int
    direction: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Memos:
    """What was computed for one chip and may serve another."""

    gemms: GemmMemo = field(default_factory=GemmMemo)
    schedules: ScheduleMemo = field(default_factory=ScheduleMemo)
    """Solved parts of schedules."""


class PassSolver:
    """Exact times of passes of models on one chip.

    Args:
        chip: The chip.
        scenario: Models of cost and rules.
        energy: The chip's energies; by default those of the scenario's space.
        memos: Shared among chips.
        schedule_work: For one layer's schedule (``schedule.solve.schedule_layer``); past it a bound remains.
        stop: Ends any of the work below with ``StoppedError``.
    """

    def __init__(
        self,
        chip: Chip,
        scenario: Scenario,
        *,
        energy: AccessEnergy | None = None,
        memos: Memos | None = None,
        schedule_work: int = SEARCH_WORK,
        stop: StopSignal = UNSTOPPED,
    ) -> None:
        self.chip, self.stop = chip, stop
        self.table: ChipTable = chip_table([chip])
        self.energy = energy or space_energy(self.table, scenario.space)
        self.model = named_estimate_model(scenario.estimate_model)
        self.exclusion = scenario.all_cores_excludes
        self._memos, self._schedule_work = memos or Memos(), schedule_work
        self._estimators: dict[str, Estimator] = {}
        self._tables: dict[_Pass, ModeTable] = {}
        self._times: dict[_Pass, PassTimes] = {}
        self._hurried: dict[_Pass, PassTimes] = {}
        self._sketched: dict[_Pass, PassTimes] = {}
        self._op_times: dict[_Pass, OpTimes] = {}
        self._class_cycles: dict[tuple[str, int, int, int], int] = {}
        self._least_op_s: dict[int, tuple[OpBlock, Floats]] = {}
        self._fastest: dict[tuple[str, GraphCut, int, int], FastestForm] = {}

    def schedule(
        self, work: ModelWork, one_pass: PassWork, table: ModeTable, cutoff_cycles: int | None = None
    ) -> LayerSchedule:
        """The schedule of one pass, proven within the work limit.

        Args:
            work: The model.
            one_pass: Of a layer type.
            table: Its operators.
            cutoff_cycles: A bound that reaches this will do instead.
        """
        modes = LayerModes(
            cycles_om=table.cycles_om,
            all_cores_om=np.tile(table.all_cores_m, (len(table.op_names), 1)),
            hbm_share_om=table.hbm_share_om,
            buffer_share_om=table.buffer_share_om,
        )
        most_work = WIDE_WORK if work.has_many_classes else self._schedule_work
        return self._schedule(one_pass.structure, modes, most_work, cutoff_cycles)

    def _schedule(
        self,
        structure: ScheduleStructure,
        modes: LayerModes,
        most_work: int,
        cutoff_cycles: int | None = None,
    ) -> LayerSchedule:
        cores = Cores(
            num_tensor_cores=self.chip.num_tensor_cores,
            num_vector_cores=self.chip.num_vector_cores,
            exclusion=self.exclusion,
        )
        work_limit = min(self._schedule_work, most_work)
        effort = Effort(work_limit=work_limit, cutoff_cycles=cutoff_cycles, stop=self.stop)
        return schedule_layer(structure, modes, cores, effort, self._memos.schedules)

    def pass_table(
        self, work: ModelWork, cut: GraphCut, microbatch: int, kind: int, direction: int, form: int = 0
    ) -> ModeTable:
        """Mapped operators of one pass."""
        key = _Pass(work.same_as, cut, microbatch, form, kind, direction)
        if key not in self._tables:
            graph = _form(work, cut, form).passes[kind][direction].graph
            self._tables[key] = self.estimator(work).modes(graph, microbatch)
        return self._tables[key]

    def estimator(self, work: ModelWork) -> Estimator:
        """Of operators of a model."""
        if work.same_as not in self._estimators:
            self._estimators[work.same_as] = Estimator(
                self.table, self.energy, work.scenario.cluster, self.model, self._memos.gemms
            )
        return self._estimators[work.same_as]

    def pass_times(self, work: ModelWork, cut: GraphCut, microbatch: int, kind: int, direction: int) -> PassTimes:
        """The scheduled pass in the fastest form of the cut.

        Args:
            work: The model.
            cut: Of its layers.
            microbatch: In samples.
            kind: Layer type.
            direction: ``FORWARD``, ``BACKWARD`` or ``INPUT_PART``.
        """
        form = self.fastest_form(work, cut, microbatch, kind).form
        return self._form_times(work, _Pass(work.same_as, cut, microbatch, form, kind, direction))

    def fastest_form(self, work: ModelWork, cut: GraphCut, microbatch: int, kind: int) -> FastestForm:
        """The form of a cut sequence in which both passes of a layer type together take least."""
        if cut.cp == 1:
            return FastestForm(0, is_proven=True, possible=(0,))
        key = (work.same_as, cut, microbatch, kind)
        if key not in self._fastest:
            self._fastest[key] = self._find_fastest(work, cut, microbatch, kind)
        return self._fastest[key]

    def _find_fastest(self, work: ModelWork, cut: GraphCut, microbatch: int, kind: int) -> FastestForm:
        """Forms by what little work proves of them: those that are no faster even so need no more."""
        keys, least = self._hurried_forms(work, cut, microbatch, kind)
        # What is known to be as quick comes first in the list of forms, whatever was looked at first.
        best: tuple[float, int] = (math.inf, len(least))
        for form in sorted(range(len(least)), key=lambda form: (least[form], form)):
            if (least[form], form) < best:
                # Of as many cycles as the best so far, it is better only if it comes first in the list.
                cutoff = None if math.isinf(best[0]) else int(best[0]) + (form < best[1])
                cycles, least[form] = self._both_times(work, keys[form], cutoff)
                best = min(best, (cycles, form))
        possible = tuple(form for form, bound in enumerate(least) if form == best[1] or (bound, form) < best)
        return FastestForm(best[1], is_proven=all(bound >= best[0] for bound in least), possible=possible)

    def _hurried_forms(
        self, work: ModelWork, cut: GraphCut, microbatch: int, kind: int
    ) -> tuple[list[list[_Pass]], list[int]]:
        """Both passes of every form, and what little work proves of them together."""
        keys = [
            [_Pass(work.same_as, cut, microbatch, form, kind, one) for one in (FORWARD, BACKWARD)]
            for form in range(len(work.forms(cut)))
        ]
        return keys, [sum(self._form_times(work, key, Times.HURRIED).bound_cycles for key in own) for own in keys]

    def _sketched_forms(self, work: ModelWork, cut: GraphCut, microbatch: int, kind: int) -> Sequence[int]:
        """Forms that may be the fastest, by sketches of those that little work leaves a chance."""
        keys, least = self._hurried_forms(work, cut, microbatch, kind)
        best: float = math.inf
        for form in sorted(range(len(least)), key=lambda form: least[form]):
            if least[form] <= best:
                found = [self._form_times(work, key, Times.SKETCHED) for key in keys[form]]
                least[form] = max(least[form], sum(one.bound_cycles for one in found))
                best = min(best, sum(one.cycles for one in found))
        return [form for form, bound in enumerate(least) if bound <= best]

    def _both_times(self, work: ModelWork, keys: list[_Pass], cutoff: int | None) -> tuple[float, int]:
        """Cycles of both passes together, infinite if they are no less than the cutoff, and their bound."""
        if cutoff is not None:
            # The pass of which more is open first: it may answer for both.
            hurried = [self._form_times(work, key, Times.HURRIED) for key in keys]
            bounds = [one.bound_cycles for one in hurried]
            for k in sorted((0, 1), key=lambda k: bounds[k] - hurried[k].cycles):
                asked = self._asked_times(work, keys[k], cutoff - bounds[1 - k])
                bounds[k] = max(bounds[k], asked.bound_cycles)
                if sum(bounds) >= cutoff:
                    return math.inf, sum(bounds)
        found = [self._form_times(work, key) for key in keys]
        return sum(one.cycles for one in found), sum(one.bound_cycles for one in found)

    def _asked_times(self, work: ModelWork, key: _Pass, cutoff: int) -> PassTimes:
        """What is known of a pass once it is proven, or known to take no less than the cutoff."""
        if key in self._times:
            return self._times[key]
        times = self._scheduled_times(work, key, cutoff)
        if times.is_proven:
            self._times[key] = times
        else:
            # What a question has shown of a pass is more than what little work does.
            known = self._form_times(work, key, Times.HURRIED)
            times = replace(times, bound_cycles=max(times.bound_cycles, known.bound_cycles))
            self._hurried[key] = times
        return times

    def _form_times(self, work: ModelWork, key: _Pass, times: Times = Times.SCHEDULED) -> PassTimes:
        if key in self._times:
            return self._times[key]
        kept = {Times.HURRIED: self._hurried, Times.SKETCHED: self._sketched}.get(times, self._times)
        if key not in kept:
            is_cut = kept is not self._times
            kept[key] = self._cut_times(work, key, times) if is_cut else self._scheduled_times(work, key)
        return kept[key]

    def _scheduled_times(self, work: ModelWork, key: _Pass, cutoff_cycles: int | None = None) -> PassTimes:
        table = self.pass_table(work, key.cut, key.microbatch, key.kind, key.direction, key.form)
        one_pass = _form(work, key.cut, key.form).passes[key.kind][key.direction]
        found = self.schedule(work, one_pass, table, cutoff_cycles=cutoff_cycles)
        return PassTimes(cycles=found.makespan_cycles, bound_cycles=found.bound_cycles, energy_j=table.energy_j)

    def _cut_times(self, work: ModelWork, key: _Pass, times: Times) -> PassTimes:
        """What little work proves: energies, which take longer than the schedule, are not looked at."""
        is_sketch = times is Times.SKETCHED
        known = self._form_times(work, key, Times.HURRIED) if is_sketch else None
        if known is not None and known.is_proven:
            return known
        own = work.own_pass(key.cut, key.microbatch, key.form, key.kind, key.direction)
        table = own.in_modes(self.estimator(work))
        found = self._cut_schedule(own, table, SKETCH_WORK if is_sketch else HURRIED_WORK)
        cycles, bound_cycles = found.makespan_cycles, found.bound_cycles
        if known is not None:
            cycles, bound_cycles = min(cycles, known.cycles), max(bound_cycles, known.bound_cycles)
        elif work.is_full and bound_cycles < cycles < IMPOSSIBLE_CYCLES:
            # Of wide passes so little work does not come to what packing says at once.
            packed_c = packing_bounds(
                own.structure,
                table,
                num_tensor_cores_c=self.table.num_tensor_cores,
                num_vector_cores_c=self.table.num_vector_cores,
                exclusion=self.exclusion,
                known=work.known_passes.teams,
            )
            bound_cycles = max(bound_cycles, int(packed_c[0]))
        return PassTimes(cycles=cycles, bound_cycles=bound_cycles, energy_j=math.nan)

    def _cut_schedule(self, common: CommonPass, table: ModeBounds, most_work: int) -> LayerSchedule:
        modes = LayerModes(
            cycles_om=np.ascontiguousarray(table.cycles_moc[:, :, 0].T),
            all_cores_om=np.tile(table.all_cores_m, (table.cycles_moc.shape[1], 1)),
            hbm_share_om=table.hbm_share_om,
            buffer_share_om=table.buffer_share_om,
        )
        return self._schedule(common.structure, modes, most_work)

    def pass_seconds(
        self,
        work: ModelWork,
        cut: GraphCut,
        microbatch: int,
        direction: int,
        times: Times,
        kinds: Sequence[int] | None = None,
    ) -> Floats:
        """Seconds by layer type, of some or all; infinite where an operator cannot run.

        All but ``SCHEDULED`` are bounds: over the forms of a cut sequence the least.
        """
        cycles = []
        for kind in range(len(work.passes(cut))) if kinds is None else kinds:
            self.stop.check()
            if times is Times.OF_CLASS:
                cycles.append(self._least_of_class(work, work.class_of[cut, microbatch], kind, direction))
                continue
            if times is Times.SCHEDULED:
                cycles.append(self.pass_times(work, cut, microbatch, kind, direction).cycles)
                continue
            forms: Sequence[int] = range(len(work.forms(cut)) if cut.cp > 1 else 1)
            if times is Times.LEAST:
                # As much as is needed to know the fastest form; of the others what is known by then.
                self.pass_times(work, cut, microbatch, kind, direction)
                forms = self.fastest_form(work, cut, microbatch, kind).possible
            elif times is Times.SKETCHED and cut.cp > 1:
                forms = self._sketched_forms(work, cut, microbatch, kind)
            means = times if times is Times.SKETCHED else Times.HURRIED
            keys = [_Pass(work.same_as, cut, microbatch, form, kind, direction) for form in forms]
            cycles.append(min(self._form_times(work, key, means).bound_cycles for key in keys))
        return seconds_of(cycles, self.chip.clock_hz)

    def _least_of_class(self, work: ModelWork, k: int, kind: int, direction: int) -> int:
        """Cycles that no pass of a class takes less than, by what little work proves of its schedules."""
        key = (work.same_as, k, kind, direction)
        if key not in self._class_cycles:
            passes = work.schedulable_passes(k, kind, direction)
            estimator = self.estimator(work)
            tables = [one.in_modes(estimator) for one in passes]
            found = [
                self._cut_schedule(one, table, HURRIED_WORK).bound_cycles
                for one, table in zip(passes, tables, strict=True)
            ]
            self._class_cycles[key] = min(found)
        return self._class_cycles[key]

    def op_times(self, work: ModelWork, cut: GraphCut, microbatch: int, kind: int, form: int) -> OpTimes:
        """The operators a layer type may replay, each alone in its fastest mode."""
        key = _Pass(work.same_as, cut, microbatch, form, kind, FORWARD)
        if key not in self._op_times:
            sets = _form(work, cut, form).keep_sets(kind)
            tables = [self.pass_table(work, cut, microbatch, kind, FORWARD, form)]
            if sets.tails.ops:
                tables.append(self.estimator(work).modes(sets.tails, microbatch))
            cycles = np.concatenate([table.cycles_om.min(axis=1) for table in tables])
            energy_j_n = np.concatenate([table.energy_j_o for table in tables])
            self._op_times[key] = OpTimes(seconds_of(cycles.tolist(), self.chip.clock_hz), energy_j_n)
        return self._op_times[key]

    def least_op_s(self, work: ModelWork, ops: OpBlock) -> Floats:
        """Seconds that operators take at least, products mapped."""
        # The same operators are asked for by every rung: with them kept, their number means nothing else.
        if id(ops) not in self._least_op_s:
            cycles_n = self.estimator(work).fastest(ops, is_mapped=True)[:, 0]
            self._least_op_s[id(ops)] = ops, seconds_of(cycles_n.tolist(), self.chip.clock_hz)
        return self._least_op_s[id(ops)][1]


def _form(work: ModelWork, cut: GraphCut, form: int) -> CutForm:
    return work.first_form(cut) if form == 0 else work.forms(cut)[form]
