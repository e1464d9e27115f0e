"""Units of a model that may still win somewhere, bounded on many chips at once and on these alone.

As ``layer_bounds``, but whoever asks says for each chip the longest batch that is of any use, and which units may
be that fast. What is known to be slower is not looked at again: on the chips of a small part of a space few units
are left of hundreds.

Axis letters: c = chip, t = layer type, u = unit, k = class of passes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.estimator import Estimator
from rephaze.measure.layer_bounds import EstimatorOf, FinerBounds, is_for_later
from rephaze.measure.model_bounds import ModelBounds, no_bounds
from rephaze.measure.model_work import ModelWork
from rephaze.measure.unit_time import CHIPS_AT_ONCE, class_least_s, device_time_s, unit_times_s
from rephaze.measure.units import Memory
from rephaze.types.chip import ChipTable
from rephaze.types.schedule import Exclusion
from rephaze.types.stopping import UNSTOPPED, StopSignal

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.intp]

MANY_OPEN = 100
"""Units of a chip that are worth a first look at all of them together."""
MANY_CHIPS = 48
"""That are worth a look at every layer of many units."""


class OpenUnits:
    """One model on some chips, rung by rung.

    Args:
        work: The model.
        chips: The chips.
        memory_of_c: The largest memory each may have.
        exclusion: What all-cores operators exclude.
        estimator_of: Of some of the chips.
        batch_s_uc: What is known before: a time no plan of a unit beats.
        stop: Ends the work with ``StoppedError``.
    """

    def __init__(
        self,
        work: ModelWork,
        chips: ChipTable,
        memory_of_c: Sequence[Memory],
        exclusion: Exclusion,
        estimator_of: EstimatorOf,
        batch_s_uc: Floats,
        stop: StopSignal = UNSTOPPED,
    ) -> None:
        self.work, self._stop = work, stop
        self._estimator_of, self._exclusion = estimator_of, exclusion
        self._finer = FinerBounds(
            work, no_bounds(work, len(chips)), chips, memory_of_c, exclusion, estimator_of, stop
        )
        self.batch_s_uc = batch_s_uc.copy()
        """No plan of a unit is faster."""

    @property
    def bounds(self) -> ModelBounds:
        """The layer times behind the last rung, where they were looked at."""
        return self._finer.bounds

    @property
    def least_s_c(self) -> Floats:
        """No plan of any unit is faster."""
        least_s_c: Floats = self.batch_s_uc.min(axis=0)
        return least_s_c

    def refine(self, longest_s_c: Floats, is_asked_c: Flags, *, is_mapped: bool, best_only: bool = False) -> None:
        """Bound what may still be as fast as it must be, on the chips asked for.

        Args:
            longest_s_c: Longer batches are of no use.
            is_asked_c: The chips asked for.
            is_mapped: With mapped products.
            best_only: On each chip the quickest units alone, until one is bounded and still the quickest: says how
                good the chip may be, and leaves the others with the times they have.
        """
        if is_for_later(self.work) and not best_only:
            is_asked_c = self._by_unit_time(longest_s_c, is_asked_c, is_mapped=is_mapped)
        elif best_only and self.work.is_full and not is_mapped:
            # Layers by themselves would say a few percent more of the best units, and take ten times as long.
            self._charge(np.flatnonzero(is_asked_c))
            return
        if best_only:
            self._refine_best(longest_s_c, is_asked_c, is_mapped=is_mapped)
            return
        for k in range(len(self.work.classes)):
            is_open_c = (self.batch_s_uc[self._finer.units_of_k[k]] <= longest_s_c).any(axis=0)
            columns = np.flatnonzero(is_open_c & is_asked_c)
            if len(columns):
                self._refine_class(k, columns, longest_s_c, is_mapped=is_mapped)

    def _refine_best(self, longest_s_c: Floats, is_asked_c: Flags, *, is_mapped: bool) -> None:
        """Each class once, those first that are the quickest of most chips: few calls for many chips."""
        best_k_c = class_least_s(self.work, self.batch_s_uc)[:, is_asked_c].argmin(axis=0)
        num_best_k = np.bincount(best_k_c, minlength=len(self.work.classes))
        least_s_k = class_least_s(self.work, self.batch_s_uc)[:, is_asked_c].min(axis=1, initial=np.inf)
        found_s_c = np.full(len(is_asked_c), np.inf)
        for k in np.lexsort((least_s_k, -num_best_k)).tolist():
            units = self._finer.units_of_k[k]
            least_s_c = self.batch_s_uc[units].min(axis=0)
            # What takes no less than a unit that was bounded is not the quickest.
            columns = np.flatnonzero(is_asked_c & (least_s_c <= longest_s_c) & (least_s_c < found_s_c))
            if len(columns):
                self._refine_class(k, columns, longest_s_c, found_s_c, is_mapped=is_mapped)

    def _refine_class(
        self, k: int, columns: Ints, longest_s_c: Floats, found_s_c: Floats | None = None, *, is_mapped: bool
    ) -> None:
        """Bound the units of a class.

        Args:
            k: The class.
            columns: Chips.
            longest_s_c: Of all chips, batches that are of no use.
            found_s_c: Of all chips, the least batch of a unit that was bounded; changed. Plans of units that take
                no less are not looked at.
            is_mapped: With mapped products.
        """
        finer, known_s_uc, units = self._finer, self.batch_s_uc, self._finer.units_of_k[k]
        useful_s_c = longest_s_c if found_s_c is None else np.minimum(longest_s_c, found_s_c)
        estimator = finer.set_passes(k, columns, is_mapped=is_mapped, longest_s_c=useful_s_c[columns])
        layer_s_ct = (finer.bounds.forward_s_kct[k] + finer.bounds.backward_s_kct[k])[columns]
        for u in units.tolist():
            found_s = device_time_s(self.work, self.work.units[u], layer_s_ct)
            known_s_uc[u, columns] = np.maximum(known_s_uc[u, columns], found_s)
        if found_s_c is not None:  # the quicker first: they spare the others
            units = units[np.argsort(known_s_uc[np.ix_(units, columns)].min(axis=1), kind="stable")]
        for u in units.tolist():
            is_open = known_s_uc[u, columns] <= longest_s_c[columns]
            if found_s_c is not None:
                is_open &= known_s_uc[u, columns] < found_s_c[columns]
            members = columns[is_open]
            if not len(members):
                continue
            self._stop.check()
            finer.set_unit(u, columns, estimator, members, is_mapped=is_mapped, longest_s_c=longest_s_c)
            known_s_uc[u, members] = np.maximum(known_s_uc[u, members], finer.bounds.batch_s_uc[u, members])
            if found_s_c is not None:
                found_s_c[members] = np.minimum(found_s_c[members], known_s_uc[u, members])

    def _by_unit_time(self, longest_s_c: Floats, is_asked_c: Flags, *, is_mapped: bool) -> Flags:
        """All units of chips on which many are open, without a look at layers by themselves.

        Gives the chips on which layers are to be looked at: with closed forms only where few units are left, or
        for many chips at once, since one alone takes nearly as long, and it says little more than this.
        """
        is_many_c = is_asked_c & (self._num_open(longest_s_c) > MANY_OPEN)
        if is_many_c.any():
            if is_mapped:
                self._finer.bounds.batch_s_uc[:] = self.batch_s_uc
                self._finer.map_times((class_least_s(self.work, self.batch_s_uc) <= longest_s_c) & is_many_c)
                self.batch_s_uc[:] = self._finer.bounds.batch_s_uc
                return is_asked_c
            self._charge(np.flatnonzero(is_many_c))
        is_few_c: Flags = is_asked_c & (self._num_open(longest_s_c) <= MANY_OPEN)
        return is_asked_c if is_mapped or is_asked_c.sum() >= MANY_CHIPS else is_few_c

    def _charge(self, every: Ints) -> None:
        """Bound all units on some of the chips by ``unit_time``, products in closed form."""
        for columns in np.split(every, range(CHIPS_AT_ONCE, len(every), CHIPS_AT_ONCE)):
            if not len(columns):
                continue
            estimator = self._estimator_of(columns)
            assert isinstance(estimator, Estimator)
            found_s = unit_times_s(self.work, estimator, self._exclusion, self._stop)
            self.batch_s_uc[:, columns] = np.maximum(self.batch_s_uc[:, columns], found_s)

    def _num_open(self, longest_s_c: Floats) -> Ints:
        return np.asarray((self.batch_s_uc <= longest_s_c).sum(axis=0))
