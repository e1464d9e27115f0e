"""Energy of one access to each level of a chip's memory and of one operation.

Axis letters: c = chip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatColumn = NDArray[np.float64]

PAPER_WORD_BYTES = 2
"""A word as the paper counts capacities, rates and accesses: one element."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessEnergy:
    """Joules per operation and per byte moved, one entry a chip."""

    mac_j_c: FloatColumn
    """One multiply-accumulate in a tensor core."""
    lane_op_j_c: FloatColumn
    """One element-operation of a vector lane."""
    register_j_per_byte_c: FloatColumn
    tensor_scratchpad_j_per_byte_c: FloatColumn
    vector_scratchpad_j_per_byte_c: FloatColumn
    global_buffer_j_per_byte_c: FloatColumn
    hbm_j_per_byte_c: FloatColumn
    link_j_per_byte_c: FloatColumn
    """One byte sent over the network, both ends."""
    idle_w_c: FloatColumn
    """Leakage of the whole chip: power drawn whatever runs."""

    def __len__(self) -> int:
        return len(self.mac_j_c)
