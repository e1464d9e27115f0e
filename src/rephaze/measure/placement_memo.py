"""Placement problems made ready under cost model ``full``, by model, unit and memory: those asked for lately.

A search of several models and memories makes thousands of them; what is forgotten is made anew in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rephaze.measure.units import Memory, Unit
from rephaze.place.full.chip_bounds import FullChipBounds
from rephaze.place.full.solver import FullPlacer
from rephaze.recent import Recent

MOST_BOUNDS = 1200
"""Kept, an eighth of a megabyte each."""
MOST_PLACERS = 600
"""Kept, some tens of kilobytes each."""

Key = tuple[int, Unit, Memory]
"""Number of the model among those that share the memo."""


@dataclass(frozen=True, eq=False, slots=True)
class PlacementMemo:
    """Shared among models, so that all together keep no more than one alone."""

    bounds: Recent[Key, FullChipBounds] = field(default_factory=lambda: Recent(MOST_BOUNDS))
    placers: Recent[Key, FullPlacer] = field(default_factory=lambda: Recent(MOST_PLACERS))
