"""Chips with their system: area, energies and cost as clock, stacks and links make them.

As the corrected model says where the system is today's, bit for bit; the paper's model has no such parts.

Axis letters: c = chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.area import ChipArea, chip_area
from rephaze.hardware.clock import at_clock, clock_scale
from rephaze.hardware.cost import ChipCost, chip_cost
from rephaze.hardware.energy import access_energy, idle_w
from rephaze.hardware.hbm import HbmStack
from rephaze.hardware.links import links_um2
from rephaze.types.chip import ChipTable
from rephaze.types.energy import AccessEnergy
from rephaze.types.space import AreaModel
from rephaze.units import GIB

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class System:
    """A system with every field known; its chips' clock and memory are columns of the chips."""

    hbm: HbmStack
    num_inside_links: float
    """Of a chip; not whole where a scenario gives bytes a second."""
    num_outside_links: float
    node_size: int
    num_chips: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemColumns:
    """The systems of many chips, an entry a chip."""

    num_chips_c: Ints
    node_size_c: Ints
    num_inside_links_c: Floats
    num_outside_links_c: Floats
    hbm_interface_um2_c: Floats
    hbm_j_per_byte_c: Floats
    hbm_added_idle_w_c: Floats
    hbm_usd_per_gib_c: Floats

    def __len__(self) -> int:
        return len(self.num_chips_c)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> SystemColumns:
        """The entries at ``index``, in that order."""
        return SystemColumns(**{field.name: getattr(self, field.name)[index] for field in fields(self)})


def system_columns(systems: Sequence[System]) -> SystemColumns:
    """These systems as columns."""
    return SystemColumns(
        num_chips_c=np.array([one.num_chips for one in systems], dtype=np.int64),
        node_size_c=np.array([one.node_size for one in systems], dtype=np.int64),
        num_inside_links_c=np.array([one.num_inside_links for one in systems], dtype=np.float64),
        num_outside_links_c=np.array([one.num_outside_links for one in systems], dtype=np.float64),
        hbm_interface_um2_c=np.array([one.hbm.interface_um2 for one in systems], dtype=np.float64),
        hbm_j_per_byte_c=np.array([one.hbm.j_per_byte for one in systems], dtype=np.float64),
        hbm_added_idle_w_c=np.array([one.hbm.added_idle_w for one in systems], dtype=np.float64),
        hbm_usd_per_gib_c=np.array([one.hbm.usd_per_gib for one in systems], dtype=np.float64),
    )


def same_system(system: System, num_entries: int) -> SystemColumns:
    """One system for so many chips."""
    return system_columns([system]).take(np.zeros(num_entries, dtype=np.intp))


def system_area(chips: ChipTable, systems: SystemColumns) -> ChipArea:
    """The corrected model's area with the interfaces these systems need."""
    plain = chip_area(chips, AreaModel.CORRECTED)
    stacks_um2_c = chips.num_hbm_stacks * systems.hbm_interface_um2_c
    io_um2_c = stacks_um2_c + links_um2(systems.num_inside_links_c, systems.num_outside_links_c)
    # The order of the sum is that of the area model, so that today's system has today's area.
    total_um2_c = plain.arrays_um2_c + plain.lanes_um2_c + plain.scratchpads_um2_c
    total_um2_c = total_um2_c + plain.global_buffer_um2_c + io_um2_c
    return replace(plain, io_um2_c=io_um2_c, total_um2_c=total_um2_c)


def system_energy(
    chips: ChipTable, systems: SystemColumns, nominal_hz: float, area: ChipArea | None = None
) -> AccessEnergy:
    """Joules per operation and byte, at the chips' clocks.

    Args:
        chips: The chips.
        systems: Their systems.
        nominal_hz: The clock at which the component data holds: the template's.
        area: Theirs, if it is known.
    """
    plain = access_energy(chips, AreaModel.CORRECTED)
    area_um2_c = (area or system_area(chips, systems)).total_um2_c
    # Idle power is proportional to area, also that of interfaces.
    plain = replace(plain, idle_w_c=idle_w(area_um2_c))
    scaled = at_clock(plain, clock_scale(chips.clock_hz, nominal_hz))
    return replace(
        scaled,
        hbm_j_per_byte_c=systems.hbm_j_per_byte_c,
        idle_w_c=scaled.idle_w_c + chips.num_hbm_stacks * systems.hbm_added_idle_w_c,
    )


def system_cost(chips: ChipTable, systems: SystemColumns, area: ChipArea | None = None) -> ChipCost:
    """Die and memory of each chip, at the price of its generation of HBM."""
    area_um2_c = (area or system_area(chips, systems)).total_um2_c
    die = chip_cost(area_um2_c, chips.hbm_bytes)
    hbm_usd_c = chips.hbm_bytes / GIB * systems.hbm_usd_per_gib_c
    return replace(die, hbm_usd_c=hbm_usd_c, total_usd_c=die.die_usd_c + hbm_usd_c)
