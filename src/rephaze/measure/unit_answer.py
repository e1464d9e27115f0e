"""What solving one unit of one model on one chip gives."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.full import FullPrice
from rephaze.types.placement import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitAnswer:
    """One unit of one model on one chip."""

    batch_s: float
    """Of the best plan found; infinite if nothing fits or nothing beats the cutoff."""
    bound_s: float
    """No plan of the unit is faster."""
    plan: Plan | FullPrice | None
    """Under cost model ``full`` with its price."""
    energy_per_sample_j: float
