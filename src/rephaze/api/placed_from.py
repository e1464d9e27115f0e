"""What a plan was placed for, where that is known."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.chip import Chip
from rephaze.types.scenario import Scenario


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedFrom:
    """A model on a chip under a scenario."""

    model: str
    """Zoo name or graph file."""
    chip: Chip
    """With its own figures."""
    scenario: Scenario

    @property
    def rates_sentence(self) -> str:
        """At which rates the chip and the links run, if not at those of their figures."""
        from rephaze.hardware.derating import losses_at

        losses = losses_at(self.chip.name, self.scenario)
        return "" if losses is None else losses.sentence()
