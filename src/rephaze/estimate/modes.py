"""What one operator costs in one mode (one core or all), term by term, on every chip.

Axis letters: c = chip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TERMS = ("compute", "scratchpad", "lanes", "buffer", "hbm", "link")
"""What can bind an operator, in the order of the terms of ``ModeCost``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeCost:
    """Cycles each resource needs for an operator; they overlap, so the slowest decides.

    Infinite cycles say that the operator cannot run in this mode.
    """

    compute_cycles_c: Floats
    scratchpad_cycles_c: Floats
    lane_cycles_c: Floats
    buffer_cycles_c: Floats
    hbm_cycles_c: Floats
    link_cycles_c: Floats
    energy_j_c: Floats
    added_cycles_c: Floats
    """On top of the slowest (the paper's charge for operators absorbed into a GEMM)."""

    @property
    def cycles_c(self) -> Floats:
        """Duration on each chip, not rounded."""
        return np.max(self.terms(), axis=0) + self.added_cycles_c

    def terms(self) -> Floats:
        """The overlapping terms as rows, in the order of ``TERMS``."""
        return np.stack(
            [
                self.compute_cycles_c,
                self.scratchpad_cycles_c,
                self.lane_cycles_c,
                self.buffer_cycles_c,
                self.hbm_cycles_c,
                self.link_cycles_c,
            ]
        )


def mode_cost(
    num_chips: int,
    *,
    compute: Floats | float = 0.0,
    scratchpad: Floats | float = 0.0,
    lanes: Floats | float = 0.0,
    buffer: Floats | float = 0.0,
    hbm: Floats | float = 0.0,
    link: Floats | float = 0.0,
    energy_j: Floats | float = 0.0,
    added: Floats | float = 0.0,
) -> ModeCost:
    """A cost with the terms given, zero for the rest; scalars hold for every chip."""

    def column(value: Floats | float) -> Floats:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (num_chips,))

    return ModeCost(
        compute_cycles_c=column(compute),
        scratchpad_cycles_c=column(scratchpad),
        lane_cycles_c=column(lanes),
        buffer_cycles_c=column(buffer),
        hbm_cycles_c=column(hbm),
        link_cycles_c=column(link),
        energy_j_c=column(energy_j),
        added_cycles_c=column(added),
    )
