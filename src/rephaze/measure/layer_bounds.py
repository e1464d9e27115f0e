"""Batch times no plan of a unit beats, for many chips at once, before anything is solved.

For each class of passes (``pass_classes``) the schedule bound of every layer on bounds of its operators, then for
each unit the placement bound over all depths and degrees that fit in memory. Operators are bounded in closed form
first, and where that leaves a chance with mapped products. The coarser sieves before are ``device_time`` and,
where units are many, ``unit_time``; docs/proof.md says why all are bounds.

Axis letters: c = chip, t = layer type, u = unit, k = class of passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.estimator import Estimator, SomeChips
from rephaze.estimate.op_block import OpBlock
from rephaze.measure.full_times import least_replays, may_replay
from rephaze.measure.known_passes import PassOnChips, chip_keys
from rephaze.measure.model_bounds import ModelBounds, no_bounds
from rephaze.measure.model_work import ModelWork
from rephaze.measure.pass_times import BACKWARD, FORWARD, INPUT_PART
from rephaze.measure.unit_time import class_least_s, device_time_s, groups_to_map, mapped_times_s, unit_times_s
from rephaze.measure.units import Memory, Unit
from rephaze.place.full.chip_bounds import LeastReplays
from rephaze.types.chip import ChipTable
from rephaze.types.graph import OpKind
from rephaze.types.schedule import Exclusion
from rephaze.types.stopping import UNSTOPPED, StopSignal

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Flags = NDArray[np.bool_]
EstimatorOf = Callable[[Ints], Estimator | SomeChips]
"""Positions among the chips at hand to the estimator of these alone."""

GROUP_SIZE, MAX_GROUPS = 64, 8
"""Chips whose replays are bounded together."""
CHUNK = 4096
"""Chips bounded at a time: keeps the tables within tens of megabytes."""
TOLD_APART = 1.011
"""Batches that are longer than what is of use by more than this count as this long: so what is near the best can
still be counted by its bounds."""


def layer_bounds(
    work: ModelWork,
    estimator: Estimator,
    chips: ChipTable,
    memory_of_c: Sequence[Memory],
    exclusion: Exclusion,
    stop: StopSignal = UNSTOPPED,
    longest_s_c: Floats | None = None,
) -> ModelBounds:
    """For each unit and chip, a batch time no plan of that unit beats; infinite where nothing fits.

    Args:
        work: The model.
        estimator: Of these chips.
        chips: The chips.
        memory_of_c: The largest memory each may have.
        exclusion: What all-cores operators exclude.
        stop: Ends the work with ``StoppedError``.
        longest_s_c: Look at layers only where it matters: of units that cannot be the best of their chip, or take
            longer than this, ``unit_time`` is enough. Where a chip has a unit below it, the least over its units
            is no less than it is without this.
    """

    def estimator_of(columns: Ints) -> Estimator | SomeChips:
        return estimator if len(columns) == len(chips) else SomeChips(estimator, columns)

    is_lazy = longest_s_c is not None
    known = unit_times(work, estimator, chips, exclusion, stop) if is_lazy else no_bounds(work, len(chips))
    found = FinerBounds(work, known, chips, memory_of_c, exclusion, estimator_of, stop)
    if longest_s_c is not None:
        found.bound_best(longest_s_c)
    else:
        for k in range(len(work.classes)):
            found.bound_class(k, np.arange(len(chips)))
    return found.bounds


def unit_times(
    work: ModelWork, estimator: Estimator, chips: ChipTable, exclusion: Exclusion, stop: StopSignal = UNSTOPPED
) -> ModelBounds:
    """Bounds of all units by ``unit_time``, which looks at no layer by itself: see ``layer_bounds``."""
    found = no_bounds(work, len(chips))
    found.batch_s_uc[:] = unit_times_s(work, estimator, exclusion, stop)
    return found


def is_for_later(work: ModelWork) -> bool:
    """Whether there is so much to bound of a model that ``unit_times`` should do until there is an incumbent."""
    return work.is_full and work.has_many_classes


class FinerBounds:
    """Bounds of one model on some chips while they are made finer, a class of passes at a time.

    Args:
        work: The model.
        bounds: What is known; not changed.
        chips: The chips.
        memory_of_c: The largest memory each may have.
        exclusion: What all-cores operators exclude.
        estimator_of: Of some of the chips.
        stop: Ends the work with ``StoppedError``.
    """

    def __init__(
        self,
        work: ModelWork,
        bounds: ModelBounds,
        chips: ChipTable,
        memory_of_c: Sequence[Memory],
        exclusion: Exclusion,
        estimator_of: EstimatorOf,
        stop: StopSignal = UNSTOPPED,
    ) -> None:
        self.work, self._chips = work, chips
        self._memories = tuple(dict.fromkeys(memory_of_c))
        self._which_memory_c = np.array([self._memories.index(memory) for memory in memory_of_c])
        self._exclusion, self._estimator_of, self._stop = exclusion, estimator_of, stop
        self.bounds = ModelBounds(**{item.name: getattr(bounds, item.name).copy() for item in fields(bounds)})
        self._num_t = np.bincount(np.array(work.layer_type_of))
        self.units_of_k = work.units_of_k

    @property
    def least_s_kc(self) -> Floats:
        """The least over the units of each class."""
        return class_least_s(self.work, self.bounds.batch_s_uc)

    def bound_best(self, longest_s_c: Floats) -> None:
        """Bound classes in closed form until the best of each chip is bounded, or takes longer than this.

        What is left has times that are no less. Which classes of a chip are bounded does not depend on the others.
        """
        while True:
            least_s_kc = self.least_s_kc
            best_k_c, columns = least_s_kc.argmin(axis=0), np.arange(len(self._chips))
            least_s_c = least_s_kc[best_k_c, columns]
            is_asked_c = ~self.bounds.is_bounded_kc[best_k_c, columns]
            is_asked_c &= np.isfinite(least_s_c) & (least_s_c <= longest_s_c)
            if not is_asked_c.any():
                return
            for k in np.unique(best_k_c[is_asked_c]).tolist():
                self.bound_class(k, np.flatnonzero(is_asked_c & (best_k_c == k)))

    def map_times(self, is_asked_kc: Flags) -> None:
        """Raise the times of units by ``unit_time`` with mapped products.

        Args:
            is_asked_kc: Classes of chips that are worth it; of the others nothing changes, whatever is mapped.
        """
        known = self.bounds.batch_s_uc
        for columns in groups_to_map(is_asked_kc):
            estimator = self._estimator_of(columns)
            assert isinstance(estimator, Estimator)
            known[:, columns] = mapped_times_s(
                self.work, estimator, self._exclusion, known[:, columns], is_asked_kc[:, columns], self._stop
            )

    def map_best_times(self) -> None:
        """Raise the times of units that may be the best of their chip by ``unit_time`` with mapped products."""
        columns = np.arange(len(self._chips))
        estimator = self._estimator_of(columns)
        assert isinstance(estimator, Estimator)
        known = self.bounds.batch_s_uc
        known[:] = np.maximum(known, unit_times_s(self.work, estimator, self._exclusion, self._stop))
        # What the best class takes with mapped products is what the others are held against.
        least_s_kc = self.least_s_kc
        best_k_c = least_s_kc.argmin(axis=0)
        self.map_times(np.arange(len(least_s_kc))[:, None] == best_k_c)
        self.map_times(least_s_kc <= self.least_s_kc[best_k_c, columns])

    def bound_class(self, k: int, columns: Ints) -> None:
        """Bound the units of a class on some of the chips, operators in closed form."""
        self._set_class(k, columns, is_mapped=False)

    def map_class(self, k: int, columns: Ints) -> None:
        """Bound the units of a class on some of the chips with mapped products."""
        self._set_class(k, columns, is_mapped=True)

    def _set_class(self, k: int, columns: Ints, *, is_mapped: bool) -> None:
        estimator = self.set_passes(k, columns, is_mapped=is_mapped)
        for u in self.units_of_k[k].tolist():
            self._stop.check()
            self.set_unit(u, columns, estimator, columns, is_mapped=is_mapped)

    def set_passes(
        self, k: int, columns: Ints, *, is_mapped: bool, longest_s_c: Floats | None = None
    ) -> Estimator | SomeChips:
        """Bound the passes of a class on some of the chips; gives the estimator of these.

        Args:
            k: The class.
            columns: The chips.
            is_mapped: With mapped products.
            longest_s_c: Batches of no use on these chips: passes of units that slow need be known no better.
        """
        work, bounds = self.work, self.bounds
        estimator, chips = self._estimator_of(columns), self._chips.take(columns)
        directions = [(FORWARD, bounds.forward_s_kct), (BACKWARD, bounds.backward_s_kct)]
        if is_mapped and work.has_split_backward:
            directions.append((INPUT_PART, bounds.input_s_kct))
        keys = chip_keys(chips) if is_mapped else []
        to_pack: list[tuple[PassOnChips, Floats]] = []
        for direction, times_kct in directions:
            for kind in range(times_kct.shape[2]):
                self._stop.check()
                common = work.common_pass(k, kind, direction)
                one = PassOnChips(common, estimator, chips, self._exclusion, keys, work.known_passes)
                found_c = one.mapped_bound_s() if is_mapped else one.bound_s()
                # A mix of paths and loads is found only nearly: the one before may have been better.
                times_kct[k, columns, kind] = np.maximum(times_kct[k, columns, kind], found_c)
                if is_mapped and work.is_full and self._num_t[kind] > 1 and direction != INPUT_PART:
                    to_pack.append((one, times_kct[k, :, kind]))
        if to_pack:
            useful = np.arange(len(columns))
            if longest_s_c is not None:
                both_s_ct = (bounds.forward_s_kct[k] + bounds.backward_s_kct[k])[columns]
                units = [work.units[u] for u in self.units_of_k[k].tolist()]
                least_s_c = np.minimum.reduce([device_time_s(work, unit, both_s_ct) for unit in units])
                useful = np.flatnonzero(least_s_c <= longest_s_c)
            # Raised to what packing proves of them.
            for one, times_c in to_pack if len(useful) else ():
                self._stop.check()
                times_c[columns[useful]] = np.maximum(times_c[columns[useful]], one.packing_bound_s(useful))
        bounds.is_mapped_kc[k, columns] = is_mapped
        return estimator

    def set_unit(
        self,
        u: int,
        columns: Ints,
        estimator: Estimator | SomeChips,
        members: Ints,
        *,
        is_mapped: bool,
        longest_s_c: Floats | None = None,
    ) -> None:
        """Bound the batches of a unit on some of the chips whose passes were bounded.

        Args:
            u: The unit.
            columns: Chips on which the passes of its class were bounded.
            estimator: Of these.
            members: Some of them.
            is_mapped: With mapped products.
            longest_s_c: Of all chips, batches that are of no use, where that is known.
        """
        bounds, unit = self.bounds, self.work.units[u]
        k = self.work.class_of[unit.cut, unit.microbatch]
        for which, memory in enumerate(self._memories):
            own = members[self._which_memory_c[members] == which]
            if not len(own):
                continue
            for group, replays in self._replay_groups(unit, k, columns, own, estimator, is_mapped):
                longest_s = None if longest_s_c is None else TOLD_APART * longest_s_c[group]
                found_s_c = self._batch_s(unit, k, memory, group, replays, longest_s)
                bounds.batch_s_uc[u, group] = np.maximum(bounds.batch_s_uc[u, group], found_s_c)

    def _replay_groups(
        self, unit: Unit, k: int, columns: Ints, members: Ints, estimator: Estimator | SomeChips, is_mapped: bool
    ) -> Iterator[tuple[Ints, LeastReplays | None]]:
        """Chips on which replays weigh alike, each group with the least they take on any of it.

        Args:
            unit: The unit.
            k: Its class.
            columns: The chips of the estimator.
            members: Those of them with one memory.
            estimator: Of operators.
            is_mapped: With mapped products.
        """
        work, counts = self.work, self._num_t
        of_type = int(counts.argmax())
        both_c = (self.bounds.forward_s_kct[k, :, of_type] + self.bounds.backward_s_kct[k, :, of_type])[columns]
        own = np.searchsorted(columns, members)
        own = own[np.isfinite(both_c[own]) & (both_c[own] > 0)]
        if not (work.is_full and may_replay(work)) or not len(own):
            yield members, None
            return
        if len(own) < len(members):
            yield np.setdiff1d(members, columns[own]), None

        def parts(ops: OpBlock) -> Floats:
            """Of both passes, that each operator takes on each chip."""
            cycles_nc = estimator.fastest(ops, is_mapped=is_mapped)
            return np.asarray(cycles_nc / (self._chips.clock_hz[columns] * both_c))

        # What is replayed first is what moves bytes and multiplies nothing.
        replayable = work.first_form(unit.cut).replayable(of_type, unit.microbatch)
        is_cheap_n = [op is not None and op.op.kind is OpKind.VECTOR for op in replayable.ops]
        weight_c = parts(replayable)[is_cheap_n].sum(axis=0)
        num_groups = min(MAX_GROUPS, -(-len(own) // GROUP_SIZE))
        for group in np.array_split(own[np.argsort(weight_c[own], kind="stable")], num_groups):
            ratio_tk = np.zeros((len(counts), len(work.keep_budgets(unit, of_type))))
            for kind in np.flatnonzero(counts > 1).tolist():
                forward_c = self.bounds.forward_s_kct[k, columns[group], kind] / both_c[group]

                def least_parts(ops: OpBlock, group: Ints = group) -> Floats:
                    found: Floats = parts(ops)[:, group].min(axis=1)
                    return found

                ratio_tk[kind] = least_replays(work, unit, kind, float(forward_c.min()), least_parts)
            yield columns[group], LeastReplays(of_type, ratio_tk)

    def _batch_s(
        self,
        unit: Unit,
        k: int,
        memory: Memory,
        members: Ints,
        replays: LeastReplays | None,
        longest_s: Floats | None,
    ) -> Floats:
        forward_ct, backward_ct, input_ct = (
            times[k, members]
            for times in (self.bounds.forward_s_kct, self.bounds.backward_s_kct, self.bounds.input_s_kct)
        )
        placed_s_c = self.work.batch_bounds_s(unit, memory, forward_ct, backward_ct, input_ct, replays, longest_s)
        return np.maximum(placed_s_c, device_time_s(self.work, unit, forward_ct + backward_ct))
