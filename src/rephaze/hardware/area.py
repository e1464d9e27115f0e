"""Silicon area of chips under two models, itemised. Equations: docs/hardware.md.

Axis letters: c = chip.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.sourced_data import component_value
from rephaze.hardware.sram import banked_um2, sram_um2
from rephaze.types.chip import Chip, ChipTable, chip_table
from rephaze.types.chip_items import ChipItems
from rephaze.types.space import AreaModel

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipArea:
    """Area of each chip by component."""

    arrays_um2_c: Floats
    """Multiply-accumulators with their registers."""
    lanes_um2_c: Floats
    scratchpads_um2_c: Floats
    global_buffer_um2_c: Floats
    io_um2_c: Floats
    """HBM and network interfaces; none in the paper's model."""
    total_um2_c: Floats


def chip_area(chips: ChipTable, model: AreaModel) -> ChipArea:
    """The area of every chip under ``model``."""
    return _paper(chips) if model is AreaModel.PAPER else _corrected(chips)


def chip_items(chip: Chip, model: AreaModel) -> ChipItems:
    """The area of one chip by what it is for, as ``chip_area`` adds it up."""
    chips = chip_table([chip])
    area = chip_area(chips, model)
    without_vector = chip_area(replace(chips, num_vector_cores=0 * chips.num_vector_cores), model)
    tensor_scratchpads_um2 = float(without_vector.scratchpads_um2_c[0])
    # Without stacks only the network's part of the interfaces is left.
    links_um2 = float(chip_area(replace(chips, num_hbm_stacks=0 * chips.num_hbm_stacks), model).io_um2_c[0])
    return ChipItems(
        chip=chip,
        arrays_um2=float(area.arrays_um2_c[0]),
        tensor_scratchpads_um2=tensor_scratchpads_um2,
        lanes_um2=float(area.lanes_um2_c[0]),
        vector_scratchpads_um2=float(area.scratchpads_um2_c[0]) - tensor_scratchpads_um2,
        buffer_um2=float(area.global_buffer_um2_c[0]),
        hbm_um2=float(area.io_um2_c[0]) - links_um2,
        links_um2=links_um2,
    )


def lane_um2() -> float:
    """One vector lane of the corrected model: arithmetic, special functions and registers."""
    num_words = component_value("corrected", "lane_register_words")
    registers = num_words * component_value("corrected", "register_word_um2")
    units = ("fp32_unit_um2", "int32_unit_um2", "special_function_um2")
    return float(sum(component_value("corrected", unit) for unit in units) + registers)


def _paper(chips: ChipTable) -> ChipArea:
    tensor_pe_um2 = component_value("paper", "mac_um2") + component_value("paper", "tensor_register_um2")
    vector_pe_um2 = component_value("paper", "mac_um2") + component_value("paper", "vector_register_um2")
    arrays = chips.num_macs * tensor_pe_um2
    lanes = chips.num_lanes * vector_pe_um2
    scratchpads = chips.num_tensor_cores * sram_um2(
        chips.tensor_scratchpad_bytes
    ) + chips.num_vector_cores * sram_um2(chips.vector_scratchpad_bytes)
    return _summed(arrays, lanes, scratchpads, sram_um2(chips.global_buffer_bytes), np.zeros(len(chips)))


def _corrected(chips: ChipTable) -> ChipArea:
    node_factor = _sram_node_factor()
    scratchpads = chips.num_tensor_cores * banked_um2(chips.tensor_scratchpad_bytes, _one(chips))
    scratchpads += chips.num_vector_cores * banked_um2(chips.vector_scratchpad_bytes, _one(chips))
    buffer = banked_um2(chips.global_buffer_bytes, buffer_banks(chips.global_buffer_bytes_per_cycle))
    hbm_um2 = component_value("corrected", "hbm_phy_um2") + component_value("corrected", "hbm_controller_um2")
    return _summed(
        chips.num_macs * component_value("corrected", "pe_um2"),
        chips.num_lanes * np.float64(lane_um2()),
        scratchpads * node_factor,
        buffer * node_factor,
        chips.num_hbm_stacks * hbm_um2 + component_value("corrected", "network_um2"),
    )


def buffer_banks(bytes_per_cycle: Floats) -> Floats:
    """Banks a buffer needs for its bandwidth, one 64-bit access a cycle each."""
    return np.maximum(1.0, np.ceil(bytes_per_cycle / component_value("corrected", "buffer_bank_bytes_per_cycle")))


def _sram_node_factor() -> float:
    """CACTI's 22 nm areas to 7 nm silicon: the anchor's area over what the table gives for the anchor."""
    num_banks = buffer_banks(np.array([component_value("corrected", "sram_anchor_bytes_per_cycle")]))
    num_bytes, area_um2 = (component_value("corrected", f"sram_anchor_{name}") for name in ("bytes", "um2"))
    return float(area_um2) / _banked_um2(float(num_bytes), float(num_banks[0]))


@cache
def _banked_um2(num_bytes: float, num_banks: float) -> float:
    """Of one memory: every look at a chip's area asks it of the same."""
    return float(banked_um2(np.array([num_bytes]), np.array([num_banks]))[0])


def _one(chips: ChipTable) -> NDArray[np.int64]:
    return np.ones(len(chips), dtype=np.int64)


def _summed(arrays: Floats, lanes: Floats, scratchpads: Floats, buffer: Floats, io: Floats) -> ChipArea:
    return ChipArea(
        arrays_um2_c=arrays,
        lanes_um2_c=lanes,
        scratchpads_um2_c=scratchpads,
        global_buffer_um2_c=buffer,
        io_um2_c=io,
        total_um2_c=arrays + lanes + scratchpads + buffer + io,
    )
