"""Boxes of designs on their way through a search: open, closed by a bound or a limit, or to be solved.

Axis letters: u = unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rephaze.types.comparison import ChipAnswer

Position = tuple[int, ...]
"""Of a design in the grid of its space, field by field."""

SOLVED = "solved exactly"
"""What closes a design that was solved; none of the bounds that drop one meanwhile is called so."""
NO_PLAN = "no plan fits"
"""What closes designs on which some model has no plan."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitTimes:
    """Units of one model that may still win in a box, each with a time no plan of it beats there."""

    unit_u: tuple[int, ...]
    batch_s_u: tuple[float, ...]
    others_s: float
    """Nor is any plan of a unit that is not among them faster than this; infinite if none of these has a plan."""

    @property
    def least_s(self) -> float:
        """No plan of the model is faster."""
        return min((*self.batch_s_u, self.others_s))


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenBox:
    """Designs of which some may be better than the answer."""

    first: Position
    last: Position
    """Both ends belong to the box."""
    upper: float
    """None of its designs is worth more."""
    bounded_by: str
    """The bound that says so; empty if nothing does yet."""
    times: tuple[UnitTimes, ...]
    """Of each model; empty if nothing is known."""
    is_ready: bool = False
    """One design alone, which bounds do not drop: to be solved."""

    @property
    def num_points(self) -> int:
        """Grid points, whether they keep to the limits or not."""
        return math.prod(high - low + 1 for low, high in zip(self.first, self.last, strict=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class ClosedBox:
    """Designs of which none is better than the answer, or none keeps to the limits."""

    first: Position
    last: Position
    bound: float
    """None of its designs is worth more; 0 where a limit or memory leaves none."""
    closed_by: str
    """A bound, or the limit that every design breaks."""

    @property
    def num_points(self) -> int:
        """Grid points, whether they keep to the limits or not."""
        return math.prod(high - low + 1 for low, high in zip(self.first, self.last, strict=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class Expansion:
    """What became of an open box: disjoint boxes that cover it."""

    closed: tuple[ClosedBox, ...]
    open: tuple[OpenBox, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One design with what a climb goes by."""

    box: OpenBox
    objective: float
    """Of plans that little work found; of several models what bounds leave of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What a design must reach to matter."""

    threshold: float
    """Designs worth less can neither win nor tie; minus infinity before there is an answer."""
    objective: float
    """Of the answer."""
    area_um2: float
    """Of the answer: a design that only ties and is larger does not win."""
    cutoff: float
    """What a design being solved is dropped below, but for rounding."""
    later_threshold: float = math.inf
    """Where the threshold is a margin above it, what designs must reach to matter later."""

    @property
    def matters_later(self) -> float:
        """Designs worth less matter at no margin."""
        return min(self.threshold, self.later_threshold)

    @property
    def has_answer(self) -> bool:
        """Whether there is one to hold bounds against."""
        return bool(np.isfinite(self.threshold))


NO_GOAL = Goal(threshold=-np.inf, objective=-np.inf, area_um2=np.inf, cutoff=-np.inf)


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldReach:
    """How near to the answer designs come with each value of one field."""

    field: str
    values: tuple[int, ...]
    """Ascending."""
    bound: tuple[float, ...]
    """Of each value, the best bound of a box with it when the search closed it or stopped; 0 where limits leave
    nothing, or nothing has a plan."""
    solved: tuple[float, ...]
    """Of each value, the best objective of a design that was solved; 0 if none was."""
    changed: tuple[float | None, ...]
    """Of each value, the objective of the winner with this one field changed; None if it was not measured."""
    fits: tuple[bool, ...]
    """Of each value, whether the winner so changed keeps to the limits."""
    position: int
    """Of the winner's value among them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldReaches:
    """Of every field that a run by boxes varies; none of a run through a list."""

    fields: tuple[FieldReach, ...]
    changed: tuple[ChipAnswer, ...]
    """The chips measured for it: the winner with one field changed; their plans without stages."""
