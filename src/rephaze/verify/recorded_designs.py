"""The designs a run has on record against its space: all of a list, or those that a search by boxes looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.system_evaluator import AnyBoxEvaluator
from rephaze.types.chip import Chip, ChipTable
from rephaze.types.search import Evaluation
from rephaze.verify.box_limits import limits_of
from rephaze.verify.findings import Wrong

Stored = tuple[ChipTable, NDArray[np.float64]]
"""Chips and their areas."""


class RecordedDesigns(Protocol):
    """What a run's design numbers stand for."""

    fine: str
    """Said if nothing is wrong."""

    def chip(self, design: int) -> Chip:
        """The chip of a number."""
        ...

    def wrong_records(
        self, stored: Stored | None, numbers: Sequence[int], evaluations: Mapping[int, Evaluation]
    ) -> Wrong:
        """What of the stored chips the space does not give again."""
        ...


class ListedDesigns:
    """Of a search through a list: by position in the enumerated space."""

    fine = "enumerated the same"

    def __init__(self, evaluator: SpaceEvaluator) -> None:
        self.census = evaluator.census

    def chip(self, design: int) -> Chip:
        """The chip of a number."""
        return self.census.chips.chip(design)

    def wrong_records(
        self, stored: Stored | None, numbers: Sequence[int], evaluations: Mapping[int, Evaluation]
    ) -> Wrong:
        """Designs left out, or that the space has another chip for; numbers are positions."""
        del evaluations
        if stored is None:
            if self.census.num_designs:
                yield "no designs are recorded"
            return
        if list(numbers) != list(range(self.census.num_designs)):
            yield f"{len(numbers)} designs recorded, or of other numbers; the space has {self.census.num_designs}"
            return
        is_other_c = _is_other(stored, (self.census.chips, self.census.area_um2_c))
        yield from (f"design {c} has another chip" for c in np.flatnonzero(is_other_c).tolist())


class GridDesigns:
    """Of a search by boxes: by position in the grid; only those that were looked at are stored."""

    fine = "designs of the space"

    def __init__(self, evaluator: AnyBoxEvaluator) -> None:
        self.grid = evaluator.grid
        self.limits = limits_of(self.grid, seed=0)

    def chip(self, design: int) -> Chip:
        """The chip of a number."""
        return self.grid.chip(design)

    def wrong_records(
        self, stored: Stored | None, numbers: Sequence[int], evaluations: Mapping[int, Evaluation]
    ) -> Wrong:
        """Designs that are none of the space, that it has another chip for, or solved ones that are not stored."""
        yield from (f"design {d} has no chip on record" for d in sorted(set(evaluations) - set(numbers)))
        outside = [d for d in numbers if not 0 <= d < self.grid.num_points]
        yield from (f"design {d} is none of {self.grid.num_points} grid points" for d in outside)
        if stored is None or outside or not numbers:
            return
        at_cf = np.array([self.grid.position_of(design) for design in numbers], dtype=np.int64)
        is_other_c = _is_other(stored, (self.grid.chips(at_cf), self.grid.area_um2(at_cf)))
        yield from (f"design {numbers[c]} has another chip" for c in np.flatnonzero(is_other_c).tolist())
        is_none_c = ~self.limits.is_design(at_cf)
        yield from (f"design {numbers[c]} breaks a limit" for c in np.flatnonzero(is_none_c).tolist())


def _is_other(stored: Stored, due: Stored) -> NDArray[np.bool_]:
    """Which chips differ in any field or in their area."""
    found: NDArray[np.bool_] = stored[1] != due[1]
    for field in fields(ChipTable):
        found = found | (getattr(stored[0], field.name) != getattr(due[0], field.name))
    return found
