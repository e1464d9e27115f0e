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
from rephaze.measure.layer_bounds import (
    EstimatorOf,
    FinerBounds,
    ModelBounds,
    is_for_later,
    no_bounds,
)
from rephaze.measure.model_work import Memory, ModelWork
from rephaze.measure.unit_time import device_time_s, unit_times_s
from rephaze.types.chip import ChipTable
from rephaze.types.schedule import Exclusion
from rephaze.types.stopping import UNSTOPPED, StopSignal

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MANY_OPEN = 100
"""Units of a chip that are worth a first look at all of them together."""


class OpenUnits:
    """One model on some chips, rung by rung.

    Args:
        work: The model.
        chips: The chips.
        memory_of_c: The largest memory each may have.
        exclusion: What all-cores operators exclude.
        estimator_of: Of some of the chips.
        batch_s_uc: Times known to be out of reach; infinite for units that are of no interest.
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

    def refine(self, longest_s_c: Floats, is_asked_c: Flags, *, is_mapped: bool) -> None:
        """Bound what may still be as fast as it must be, on the chips asked for."""
        finer = self._finer
        if is_for_later(self.work) and not is_mapped:
            self._by_unit_time(longest_s_c, is_asked_c)
        for k, units in enumerate(finer.units_of_k):
            is_open_uc = self._is_open(units, longest_s_c) & is_asked_c
            columns = np.flatnonzero(is_open_uc.any(axis=0))
            if not len(columns):
                continue
            estimator = finer.set_passes(k, columns, is_mapped=is_mapped)
            layer_s_ct = finer.bounds.forward_s_kct[k] + finer.bounds.backward_s_kct[k]
            for u, is_open_c in zip(units.tolist(), is_open_uc, strict=True):
                members = np.flatnonzero(is_open_c)
                if not len(members):
                    continue
                self._stop.check()
                found_s = device_time_s(self.work, self.work.units[u], layer_s_ct[members])
                self.batch_s_uc[u, members] = np.maximum(self.batch_s_uc[u, members], found_s)
                members = members[self.batch_s_uc[u, members] <= longest_s_c[members]]
                finer.set_unit(u, columns, estimator, members, is_mapped=is_mapped)
                placed_s = finer.bounds.batch_s_uc[u, members]
                self.batch_s_uc[u, members] = np.maximum(self.batch_s_uc[u, members], placed_s)

    def _by_unit_time(self, longest_s_c: Floats, is_asked_c: Flags) -> None:
        """All units of chips on which many are open, without a look at layers by themselves."""
        num_open_c = (self.batch_s_uc <= longest_s_c).sum(axis=0)
        columns = np.flatnonzero(is_asked_c & (num_open_c > MANY_OPEN))
        if len(columns):
            estimator = self._estimator_of(columns)
            assert isinstance(estimator, Estimator)
            found_s = unit_times_s(self.work, estimator, self._exclusion, self._stop)
            self.batch_s_uc[:, columns] = np.maximum(self.batch_s_uc[:, columns], found_s)

    def _is_open(self, units: NDArray[np.intp], longest_s_c: Floats) -> Flags:
        found: Flags = self.batch_s_uc[units] <= longest_s_c
        return found
