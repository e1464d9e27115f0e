"""Energy per operation and per byte of every chip, and what a chip draws at full use.

Axis letters: c = chip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.area import chip_area
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.sourced_data import component_value, data_file
from rephaze.hardware.sram import sram_read_pj
from rephaze.types.chip import ChipTable, chip_table
from rephaze.types.energy import PAPER_WORD_BYTES, AccessEnergy
from rephaze.types.space import AreaModel
from rephaze.units import J_PER_PJ, MIB

Floats = NDArray[np.float64]

BITS_PER_BYTE = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class FullPower:
    """Power of each chip with every unit busy every cycle, by part."""

    arrays_w_c: Floats
    lanes_w_c: Floats
    buffer_w_c: Floats
    hbm_w_c: Floats
    idle_w_c: Floats
    total_w_c: Floats


def access_energy(chips: ChipTable, model: AreaModel) -> AccessEnergy:
    """Joules per operation and per byte under the energy table that goes with an area model."""
    return _paper(chips) if model is AreaModel.PAPER else _corrected(chips)


def full_power(chips: ChipTable, model: AreaModel) -> FullPower:
    """What chips draw at full use, without registers and scratchpads; ``peak_power`` is what nothing passes."""
    return drawn_power(chips, access_energy(chips, model))


def drawn_power(chips: ChipTable, energy: AccessEnergy) -> FullPower:
    """The same for energies that are known, such as those at another voltage."""
    arrays = chips.num_macs * energy.mac_j_c * chips.clock_hz
    lanes = chips.num_lanes * energy.lane_op_j_c * chips.clock_hz
    buffer = chips.global_buffer_bytes_per_cycle * energy.global_buffer_j_per_byte_c * chips.clock_hz
    hbm = chips.hbm_bytes_per_s * energy.hbm_j_per_byte_c
    return FullPower(
        arrays_w_c=arrays,
        lanes_w_c=lanes,
        buffer_w_c=buffer,
        hbm_w_c=hbm,
        idle_w_c=energy.idle_w_c,
        total_w_c=arrays + lanes + buffer + hbm + energy.idle_w_c,
    )


def paper_sram_pj(num_bytes: NDArray[np.int64]) -> Floats:
    """Accelergy's average energy of one access, as the paper's mapper takes it."""
    factor, offset = component_value("paper", "sram_read_factor"), component_value("paper", "sram_read_offset_pj")
    return factor * sram_read_pj(num_bytes) + offset


def idle_w(area_um2_c: Floats) -> Floats:
    """TPUv4's least measured power, scaled by area."""
    anchor_um2 = chip_area(chip_table([preset_chip("tpuv4")]), AreaModel.CORRECTED).total_um2_c[0]
    return area_um2_c * np.float64(float(component_value("corrected", "idle_anchor_w")) / float(anchor_um2))


def _paper(chips: ChipTable) -> AccessEnergy:
    access_bytes = float(data_file("components.toml")["sram"]["access_bytes"])
    one = np.ones(len(chips))

    def sram_j_per_byte(num_bytes: NDArray[np.int64]) -> Floats:
        return paper_sram_pj(num_bytes) * J_PER_PJ / access_bytes

    return AccessEnergy(
        mac_j_c=one * component_value("paper", "mac_pj") * J_PER_PJ,
        lane_op_j_c=one * component_value("paper", "mac_pj") * J_PER_PJ,
        register_j_per_byte_c=one * component_value("paper", "tensor_register_pj") * J_PER_PJ / PAPER_WORD_BYTES,
        tensor_scratchpad_j_per_byte_c=sram_j_per_byte(chips.tensor_scratchpad_bytes),
        vector_scratchpad_j_per_byte_c=sram_j_per_byte(chips.vector_scratchpad_bytes),
        global_buffer_j_per_byte_c=sram_j_per_byte(chips.global_buffer_bytes),
        hbm_j_per_byte_c=one * component_value("paper", "dram_pj_per_bit") * BITS_PER_BYTE * J_PER_PJ,
        # The paper gives neither: communication and leakage cost it no energy.
        link_j_per_byte_c=0 * one,
        idle_w_c=0 * one,
    )


def _corrected(chips: ChipTable) -> AccessEnergy:
    access_bytes = float(data_file("components.toml")["sram"]["access_bytes"])
    one = np.ones(len(chips))
    one_mib = np.array([float(MIB)])
    sram_factor = component_value("corrected", "sram_1mb_pj") / float(sram_read_pj(one_mib)[0])

    def sram_j_per_byte(num_bytes: NDArray[np.int64]) -> Floats:
        return sram_read_pj(num_bytes) * sram_factor * J_PER_PJ / access_bytes

    return AccessEnergy(
        mac_j_c=one * component_value("corrected", "mac_pj") * J_PER_PJ,
        lane_op_j_c=one * component_value("corrected", "lane_op_pj") * J_PER_PJ,
        register_j_per_byte_c=one * component_value("corrected", "register_pj_per_byte") * J_PER_PJ,
        tensor_scratchpad_j_per_byte_c=sram_j_per_byte(chips.tensor_scratchpad_bytes),
        vector_scratchpad_j_per_byte_c=sram_j_per_byte(chips.vector_scratchpad_bytes),
        global_buffer_j_per_byte_c=sram_j_per_byte(chips.global_buffer_bytes),
        hbm_j_per_byte_c=one * component_value("corrected", "hbm_pj_per_bit") * BITS_PER_BYTE * J_PER_PJ,
        link_j_per_byte_c=one * component_value("corrected", "link_pj_per_bit") * BITS_PER_BYTE * J_PER_PJ,
        idle_w_c=idle_w(chip_area(chips, AreaModel.CORRECTED).total_um2_c),
    )
