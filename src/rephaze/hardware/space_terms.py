"""Area, energy, power and price of the chips of a space: with their system where that is part of the search.

Everything that judges a design asks here, so that a search, its proof and its verification count the same.

Axis letters: c = chip.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.area import ChipArea, chip_area
from rephaze.hardware.cluster_bill import BudgetUse, ClusterBill, budget_use, cluster_bill, surroundings_w
from rephaze.hardware.cost import chip_cost
from rephaze.hardware.energy import access_energy, full_power
from rephaze.hardware.hbm import hbm_stack
from rephaze.hardware.peak_power import peak_power
from rephaze.hardware.system_chips import System, SystemColumns, same_system, system_area, system_energy
from rephaze.types.chip import ChipTable
from rephaze.types.energy import AccessEnergy
from rephaze.types.space import AreaModel, DesignSpace
from rephaze.types.system import BilledSystem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def space_area(chips: ChipTable, space: DesignSpace) -> ChipArea:
    """Areas under the space's model, with the interfaces of its system."""
    if space.system is None:
        return chip_area(chips, space.area_model)
    return system_area(chips, _columns(space.system, len(chips)))


def space_energy(chips: ChipTable, space: DesignSpace) -> AccessEnergy:
    """Joules per operation and byte, and idle power.

    With a system: at its clock, and idle with a chip's part of what is around it, which draws power whatever runs.
    """
    if space.system is None:
        return access_energy(chips, space.area_model)
    columns = _columns(space.system, len(chips))
    found = system_energy(chips, columns, space.system.nominal_hz)
    return replace(found, idle_w_c=found.idle_w_c + surroundings_w(columns))


def space_power_w(chips: ChipTable, space: DesignSpace) -> Floats:
    """What counts under the space's power limit.

    With a system the most a chip can draw, which no operator passes; else full use, a sum over parts of a chip by
    which spaces are counted without listing them (docs/hardware.md).
    """
    if space.system is None:
        return full_power(chips, space.area_model).total_w_c
    columns = _columns(space.system, len(chips))
    return peak_power(chips, system_energy(chips, columns, space.system.nominal_hz)).total_w_c


def cluster_usd(chips: ChipTable, hbm_bytes_c: Ints, space: DesignSpace, num_devices: int) -> Floats:
    """Dollars of a cluster of each chip with such a memory.

    Chips and memory, at the 7 nm of the corrected model whatever limits the area; with a system all of its bill.
    """
    if space.system is None:
        area_um2_c = chip_area(chips, AreaModel.CORRECTED).total_um2_c
        return chip_cost(area_um2_c, hbm_bytes_c).total_usd_c * num_devices
    assert num_devices == space.system.num_chips
    return space_bill(replace(chips, hbm_bytes=hbm_bytes_c), space).usd_c


def space_bill(chips: ChipTable, space: DesignSpace) -> ClusterBill:
    """What a cluster of each chip takes, where the system is part of the search."""
    assert space.system is not None
    return cluster_bill(chips, _columns(space.system, len(chips)), space.system.nominal_hz)


def space_budget_use(chips: ChipTable, space: DesignSpace) -> BudgetUse | None:
    """How much of its budget a cluster of each chip takes; None where nothing limits it."""
    if space.system is None or not space.system.budget.is_limited:
        return None
    return budget_use(space_bill(chips, space), space.system.budget)


def is_cool(chips: ChipTable, space: DesignSpace) -> NDArray[np.bool_]:
    """Which chips keep to the space's power limit."""
    if math.isinf(space.power_limit_w):
        return np.ones(len(chips), dtype=np.bool_)
    found: NDArray[np.bool_] = space_power_w(chips, space) <= space.power_limit_w
    return found


def _columns(system: BilledSystem, num_chips: int) -> SystemColumns:
    whole = System(
        hbm=hbm_stack(system.hbm),
        num_inside_links=system.num_inside_links,
        num_outside_links=system.num_outside_links,
        node_size=system.num_node_chips,
        num_chips=system.num_chips,
    )
    return same_system(whole, num_chips)
