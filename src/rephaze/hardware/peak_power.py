"""The most a chip can draw: no schedule of any workload takes more, by the energies that estimates charge.

``energy.full_power`` leaves out registers and scratchpads, so a chip with much arithmetic and little buffer can
draw more than it says. Here every unit and every byte a cycle is counted at once, which no workload does: an upper
end to keep to a budget with, far above what is measured. It never falls as a chip or its clock grows.

Axis letters: c = chip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.types.chip import ChipTable
from rephaze.types.energy import AccessEnergy

Floats = NDArray[np.float64]

# What estimates charge for an operation beside itself; a test holds them against the estimates' own.
REGISTER_BYTES_PER_MAC = 8.0
REGISTER_BYTES_PER_LANE_OP = 12.0
SCORE_BYTES_PER_LANE_OP = 4.0
"""Attention writes and reads a score of 2 B in a scratchpad, for no less than one operation of a lane."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PeakPower:
    """The most each part of a chip draws, and all of them at once."""

    arrays_w_c: Floats
    lanes_w_c: Floats
    scratchpads_w_c: Floats
    buffer_w_c: Floats
    hbm_w_c: Floats
    idle_w_c: Floats
    total_w_c: Floats


def peak_power(chips: ChipTable, energy: AccessEnergy) -> PeakPower:
    """The most each chip draws; its links are the cluster's.

    Args:
        chips: The chips.
        energy: Theirs, at their clocks.
    """
    register_j_c = energy.register_j_per_byte_c
    mac_j_c = energy.mac_j_c + REGISTER_BYTES_PER_MAC * register_j_c
    lane_j_c = energy.lane_op_j_c + REGISTER_BYTES_PER_LANE_OP * register_j_c
    arrays_w_c = chips.num_macs * mac_j_c * chips.clock_hz
    lanes_w_c = chips.num_lanes * lane_j_c * chips.clock_hz
    # Every array fed, and every byte of the buffer written to as many scratchpads as one read can serve.
    buffer_rate_c = chips.global_buffer_bytes_per_cycle
    served_c = np.minimum(chips.num_tensor_cores, chips.global_buffer_multicast)
    near_bytes_c = chips.num_tensor_cores * chips.scratchpad_bytes_per_cycle + buffer_rate_c * served_c
    near_bytes_c = near_bytes_c + chips.num_lanes * SCORE_BYTES_PER_LANE_OP
    near_j_c = near_bytes_c * energy.tensor_scratchpad_j_per_byte_c
    scratchpads_w_c = (near_j_c + buffer_rate_c * energy.vector_scratchpad_j_per_byte_c) * chips.clock_hz
    # What comes from HBM is written to the buffer besides what the buffer gives the cores.
    buffer_bytes_per_s_c = buffer_rate_c * chips.clock_hz + chips.hbm_bytes_per_s
    buffer_w_c = buffer_bytes_per_s_c * energy.global_buffer_j_per_byte_c
    hbm_w_c = chips.hbm_bytes_per_s * energy.hbm_j_per_byte_c
    return PeakPower(
        arrays_w_c=arrays_w_c,
        lanes_w_c=lanes_w_c,
        scratchpads_w_c=scratchpads_w_c,
        buffer_w_c=buffer_w_c,
        hbm_w_c=hbm_w_c,
        idle_w_c=energy.idle_w_c,
        total_w_c=arrays_w_c + lanes_w_c + scratchpads_w_c + buffer_w_c + hbm_w_c + energy.idle_w_c,
    )
