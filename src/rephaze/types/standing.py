"""How far something given is from the best there can be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """A chip or a plan beside a bound that nothing of a space beats."""

    label: str
    objective: float
    """What it reaches; zero if nothing fits."""
    bound: float
    """What nothing of the space exceeds, proven."""
    reason: str = ""
    """Why it reaches nothing."""

    @property
    def loss(self) -> float:
        """What it lacks of the bound, as a part of that: of the best of the space it lacks no more."""
        return max(0.0, 1.0 - self.objective / self.bound) if self.bound > 0 else 0.0

    @property
    def distance(self) -> str:
        """How far it is from the best of the space, in words; both ways to say it are proven."""
        if not self.objective:
            return f"nothing fits: {self.reason}"
        if self.objective > self.bound:
            return f"{self.objective / self.bound - 1:.1%} better than the best"
        return f"within {self.loss:.1%} of the best"
