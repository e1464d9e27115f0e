"""The trade-offs of a run: its non-dominated designs and the best chip per area budget."""

from __future__ import annotations

from dataclasses import dataclass

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
    """No design of this area or less, solved or not, has a higher throughput."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AreaBudget:
    """The fastest solved chip within an area; None if no solved chip is so small."""

    area_um2: float
    best: ParetoPoint | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ParetoFront:
    """What a run shows of the trade-offs."""

    num_designs: int
    num_solved_exactly: int
    points: tuple[ParetoPoint, ...]
    """Non-dominated in throughput, area, energy per sample and cost, fastest first."""
    budgets: tuple[AreaBudget, ...]
