"""What the slow way finds: the time of a pass, the best plan of a unit."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.cut import GraphCut
from rephaze.types.placement import RecomputePolicy


class AttackError(AssertionError):
    """The rooms contradict each other: a plan is priced otherwise than the solver said, or does not fit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassTime:
    """One direction of one layer on one chip."""

    cycles: int
    """Of a schedule that exists."""
    bound_cycles: int
    energy_j: float

    @property
    def is_proven(self) -> bool:
        """Nothing is faster."""
        return self.bound_cycles == self.cycles


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitWorth:
    """The fastest plan of one (cut, microbatch, recompute policy, memory size)."""

    cut: GraphCut
    microbatch: int
    policy: RecomputePolicy
    hbm_bytes: int
    batch_s: float
    """Infinite if nothing fits."""
    energy_per_sample_j: float
    is_proven: bool
