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
    scenario: Scenario
