"""Bounds of passes on chips, each found once: cuts of experts share all layers but theirs, boxes their corners.

Axis letters: c = chip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from enum import Enum, auto
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.estimator import Estimator, SomeChips
from rephaze.measure.pass_bounds import packing_bound_s, pass_bound_s
from rephaze.measure.pass_classes import CommonPass
from rephaze.recent import Recent
from rephaze.schedule.packing_bounds import KnownTeams
from rephaze.types.chip import ChipTable
from rephaze.types.latency import ModeBounds
from rephaze.types.schedule import Exclusion

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

MOST_KNOWN = 100_000
"""Kept, at some three hundred bytes each."""


class Means(Enum):
    """By what a pass with mapped products is bounded."""

    PATHS = auto()
    PACKING = auto()


class KnownPasses:
    """What was found of one model's passes, whose objects live as long as this."""

    def __init__(self) -> None:
        self._found: Recent[tuple[Means, int, bytes], float] = Recent(MOST_KNOWN)
        self.teams = KnownTeams()

    def bounds_s(
        self, means: Means, common: CommonPass, chips: list[bytes], find: Callable[[Ints], Floats]
    ) -> Floats:
        """Seconds, a value a chip.

        Args:
            means: What ``find`` goes by.
            common: The pass.
            chips: As ``chip_keys`` tells them apart.
            find: Positions among the chips to their values, each of which no other chip has a part in.
        """
        keys = [(means, id(common), chip) for chip in chips]
        known = [self._found.get(key) for key in keys]
        missing = np.array([c for c, value in enumerate(known) if value is None], dtype=np.intp)
        if len(missing):
            for c, value in zip(missing.tolist(), find(missing).tolist(), strict=True):
                known[c] = self._found[keys[c]] = value
        return np.array(known, dtype=np.float64)


def chip_keys(chips: ChipTable) -> list[bytes]:
    """Of each chip what no other has."""
    columns = [np.asarray(getattr(chips, item.name), dtype=np.float64) for item in fields(chips)]
    return [row.tobytes() for row in np.stack(columns, axis=1)]


class PassOnChips:
    """What the passes of a class have in common, on some chips.

    Args:
        common: What they have in common.
        estimator: Of the chips.
        chips: The chips.
        exclusion: What all-cores operators exclude.
        keys: Of the chips; only asked for with mapped products.
        known: Of the model.
    """

    def __init__(
        self,
        common: CommonPass,
        estimator: Estimator | SomeChips,
        chips: ChipTable,
        exclusion: Exclusion,
        keys: list[bytes],
        known: KnownPasses,
    ) -> None:
        self._common, self._estimator, self._chips, self._exclusion = common, estimator, chips, exclusion
        self._keys, self._known = keys, known

    def bound_s(self) -> Floats:
        """By paths and loads, operators in closed form."""
        table = self._common.bounds(self._estimator, is_mapped=False)
        return pass_bound_s(self._common, table, self._chips, self._exclusion)

    def mapped_bound_s(self) -> Floats:
        """The same with mapped products."""
        return self._known.bounds_s(Means.PATHS, self._common, self._keys, lambda at: self._of(pass_bound_s, at))

    def packing_bound_s(self, at: Ints) -> Floats:
        """By packing, on the chips at some positions."""
        return self._known.bounds_s(
            Means.PACKING,
            self._common,
            [self._keys[c] for c in at.tolist()],
            lambda missing: self._of(partial(packing_bound_s, known=self._known.teams), at[missing]),
        )

    def _of(self, bound_s: Callable[[CommonPass, ModeBounds, ChipTable, Exclusion], Floats], at: Ints) -> Floats:
        table = self._mapped
        own = replace(table, cycles_moc=table.cycles_moc[:, :, at])
        return bound_s(self._common, own, self._chips.take(at), self._exclusion)

    @cached_property
    def _mapped(self) -> ModeBounds:
        return self._common.bounds(self._estimator, is_mapped=True)
