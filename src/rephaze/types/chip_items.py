"""The silicon of a chip, item by item."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.chip import Chip


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipItems:
    """Area of one chip by what it is for; items an area model does not know are zero."""

    chip: Chip
    arrays_um2: float
    tensor_scratchpads_um2: float
    lanes_um2: float
    vector_scratchpads_um2: float
    buffer_um2: float
    hbm_um2: float
    """Interfaces and controllers of the memory stacks."""
    links_um2: float

    @property
    def total_um2(self) -> float:
        """All of it."""
        return (
            self.arrays_um2
            + self.tensor_scratchpads_um2
            + self.lanes_um2
            + self.vector_scratchpads_um2
            + self.buffer_um2
            + self.hbm_um2
            + self.links_um2
        )
