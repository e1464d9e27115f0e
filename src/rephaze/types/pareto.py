"""The trade-offs of a run: its non-dominated designs and the best chip per area budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from rephaze.types.chip import Chip


@dataclass(frozen=True, kw_only=True, slots=True)
class ParetoPoint:
    """A design solved exactly, with what it gives and takes."""

    design: int
    chip: Chip
    samples_per_s: float
    """Over several models, combined as the run's objective combines them."""
    area_um2: float
    full_power_w: float
    """Of the chip with every unit busy."""
    energy_per_sample_j: float
    chip_usd: float
    """Die and the memory its plans need."""
    is_proven: bool
    """No design of its own area or less, solved or not, has a higher throughput."""


ROUNDING = 1e-9
"""Relative: a bound above a value by less is rounding, not promise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AreaBudget:
    """The fastest solved chip within an area, and what any other within it could reach."""

    area_um2: float
    best: ParetoPoint | None
    """None if no solved chip is so small."""
    bound_samples_per_s: float
    """No design within the budget is faster, solved or not; 0 if none has a plan."""
    is_proven: bool
    """Nothing within the budget is faster than ``best``, or without one nothing has a plan."""

    @property
    def gap(self) -> float:
        """(bound - best) / best; 0 when proven, infinite while nothing is solved."""
        if self.is_proven:
            return 0.0
        return self.bound_samples_per_s / self.best.samples_per_s - 1.0 if self.best else math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class ParetoFront:
    """What a run shows of the trade-offs."""

    num_designs: int
    num_solved_exactly: int
    num_recorded: int
    """Of these, by the search itself; the others were solved for the budgets."""
    points: tuple[ParetoPoint, ...]
    """Non-dominated in throughput, area, energy per sample and cost, fastest first."""
    budgets: tuple[AreaBudget, ...]
    counts_grid_points: bool = False
    """Of a search by boxes: ``num_designs`` counts the points of its grid."""


class PointKind(StrEnum):
    """Where a chip in the picture of trade-offs comes from."""

    WINNER = "winner"
    SOLVED = "solved"
    """A design of the space that the search solved exactly."""
    CHANGED = "changed"
    """The winner with one field changed; it may break a limit."""
    KNOWN = "known"
    """A chip that exists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipPoint:
    """A chip with what it gives and takes."""

    kind: PointKind
    name: str
    """Of a known chip; what a design has, in words."""
    objective: float
    samples_per_s: float
    """Over several models, combined as the run's objective combines them."""
    area_um2: float
    energy_per_sample_j: float
    chip_usd: float
    """Die and the memory its plans need."""
    fits_limits: bool
    """It is within the limits of the space."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipPoints:
    """All chips that were measured for a run."""

    points: tuple[ChipPoint, ...]
    known_names: tuple[str, ...]
    """Known chips the run held then."""
    area_limit_um2: float
