"""What a whole cluster takes: silicon, power and dollars, itemised; how much of a budget; how many chips fit.

Every item is a sum of products of numbers that are not negative, and none falls as chips, their parts, links,
clock or node grow. So if the smallest corner of a box of designs is over a budget, the whole box is. What is left
out: margins, design and masks, the building, and electricity over the years.

Axis letters: c = chip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.links import inside_bill, link_value, outside_bill
from rephaze.hardware.peak_power import peak_power
from rephaze.hardware.sourced_data import data_file
from rephaze.hardware.system_chips import SystemColumns, system_area, system_cost, system_energy
from rephaze.types.chip import ChipTable
from rephaze.types.system import MAX_CHIPS, ClusterBudget
from rephaze.units import UM2_PER_MM2

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterBill:
    """What the cluster of each chip takes, all its chips together."""

    silicon_mm2_c: Floats
    """Dies of all chips; not those of switches and hosts."""
    chips_w_c: Floats
    """Chips and their memory."""
    links_w_c: Floats
    """All links at full rate, and what joins them inside a node."""
    network_w_c: Floats
    """Network cards, optics and switches outside nodes."""
    hosts_w_c: Floats
    losses_w_c: Floats
    """Fans and power supplies of servers."""
    building_w_c: Floats
    """Cooling and distribution of the building."""
    power_w_c: Floats
    """All of them."""
    dies_usd_c: Floats
    hbm_usd_c: Floats
    packages_usd_c: Floats
    """Interposers, assembly and test."""
    links_usd_c: Floats
    """Modules, boards, and what joins links inside a node."""
    network_usd_c: Floats
    hosts_usd_c: Floats
    usd_c: Floats
    """All of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetUse:
    """Parts of a budget that clusters take; above 1 where it is exceeded, 0 where there is none."""

    silicon_fraction_c: Floats
    power_fraction_c: Floats
    usd_fraction_c: Floats

    @property
    def fits_c(self) -> NDArray[np.bool_]:
        """Which keep to the budget."""
        return self.largest_c <= 1.0

    @property
    def largest_c(self) -> Floats:
        """The part of what is used most."""
        return np.maximum(np.maximum(self.silicon_fraction_c, self.power_fraction_c), self.usd_fraction_c)


def cluster_bill(
    chips: ChipTable, systems: SystemColumns, nominal_hz: float, chip_w_c: Floats | None = None
) -> ClusterBill:
    """The bill of a cluster of each chip with its system.

    Args:
        chips: The chips, with the clock and the memory of their systems.
        systems: An entry a chip.
        nominal_hz: The clock at which energies are as the component data says: the template's.
        chip_w_c: What one chip may draw where something holds it to that; by default the most it can.
    """
    assert len(chips) == len(systems)
    num_chips_c = systems.num_chips_c.astype(np.float64)
    num_hosts_c = np.ceil(num_chips_c / _value("chips_per_host"))
    area = system_area(chips, systems)
    energy = system_energy(chips, systems, nominal_hz, area)
    cost = system_cost(chips, systems, area)
    inside = inside_bill(systems.num_inside_links_c, systems.node_size_c)
    outside = outside_bill(systems.num_outside_links_c, systems.num_chips_c)
    die_mm2_c = area.total_um2_c / UM2_PER_MM2

    link_bytes_per_s_c = systems.num_inside_links_c * link_value("inside", "bytes_per_s")
    link_bytes_per_s_c = link_bytes_per_s_c + systems.num_outside_links_c * link_value("outside", "bytes_per_s")
    chips_w_c = num_chips_c * (peak_power(chips, energy).total_w_c if chip_w_c is None else chip_w_c)
    links_w_c = num_chips_c * (link_bytes_per_s_c * energy.link_j_per_byte_c + inside.power_w_c)
    network_w_c = num_chips_c * outside.power_w_c
    hosts_w_c = num_hosts_c * _value("host_w")
    it_w_c = chips_w_c + links_w_c + network_w_c + hosts_w_c
    server_factor = _value("supply_factor") / (1.0 - _value("fan_fraction"))
    losses_w_c = it_w_c * (server_factor - 1.0)
    building_w_c = it_w_c * (server_factor * (_value("pue_factor") - 1.0))

    package_mm2_c = die_mm2_c + chips.num_hbm_stacks * _value("stack_mm2")
    dies_usd_c, hbm_usd_c = num_chips_c * cost.die_usd_c, num_chips_c * cost.hbm_usd_c
    packages_usd_c = num_chips_c * (package_mm2_c * _value("package_usd_per_mm2") + _value("test_usd"))
    links_usd_c = num_chips_c * (inside.usd_c + _value("board_usd"))
    network_usd_c = num_chips_c * outside.usd_c
    hosts_usd_c = num_hosts_c * _value("host_usd")
    return ClusterBill(
        silicon_mm2_c=num_chips_c * die_mm2_c,
        chips_w_c=chips_w_c,
        links_w_c=links_w_c,
        network_w_c=network_w_c,
        hosts_w_c=hosts_w_c,
        losses_w_c=losses_w_c,
        building_w_c=building_w_c,
        power_w_c=it_w_c + losses_w_c + building_w_c,
        dies_usd_c=dies_usd_c,
        hbm_usd_c=hbm_usd_c,
        packages_usd_c=packages_usd_c,
        links_usd_c=links_usd_c,
        network_usd_c=network_usd_c,
        hosts_usd_c=hosts_usd_c,
        usd_c=dies_usd_c + hbm_usd_c + packages_usd_c + links_usd_c + network_usd_c + hosts_usd_c,
    )


def surroundings_w(systems: SystemColumns) -> Floats:
    """What is around one chip and draws power whatever runs: switches, optics, network cards, part of a host."""
    num_chips_c = systems.num_chips_c.astype(np.float64)
    num_hosts_c = np.ceil(num_chips_c / _value("chips_per_host"))
    inside = inside_bill(systems.num_inside_links_c, systems.node_size_c)
    outside = outside_bill(systems.num_outside_links_c, systems.num_chips_c)
    return inside.power_w_c + outside.power_w_c + num_hosts_c / num_chips_c * _value("host_w")


def budget_use(bill: ClusterBill, budget: ClusterBudget) -> BudgetUse:
    """How much of each limit clusters take."""
    return BudgetUse(
        silicon_fraction_c=_fraction(bill.silicon_mm2_c, budget.silicon_mm2),
        power_fraction_c=_fraction(bill.power_w_c, budget.power_w),
        usd_fraction_c=_fraction(bill.usd_c, budget.cost_usd),
    )


def most_chips(
    chips: ChipTable,
    systems: SystemColumns,
    nominal_hz: float,
    budget: ClusterBudget,
    chip_w_c: Floats | None = None,
    at_most: int = MAX_CHIPS,
) -> Ints:
    """How many of each chip the budget allows, whatever ``systems`` says; 0 where not even one.

    Args:
        chips: The chips.
        systems: Their systems, but for the number of chips.
        nominal_hz: As in ``cluster_bill``.
        budget: What they may take.
        chip_w_c: As in ``cluster_bill``.
        at_most: No more than this.
    """
    fits_c = np.zeros(len(chips), dtype=np.int64)
    too_many_c = np.full(len(chips), at_most + 1, dtype=np.int64)
    while (too_many_c - fits_c > 1).any():
        # Bills never fall with the number, so halving finds the last one that fits.
        middle_c = (fits_c + too_many_c) // 2
        tried = replace(systems, num_chips_c=np.maximum(1, middle_c))
        is_within_c = budget_use(cluster_bill(chips, tried, nominal_hz, chip_w_c), budget).fits_c
        fits_c = np.where(is_within_c, middle_c, fits_c)
        too_many_c = np.where(is_within_c, too_many_c, middle_c)
    return fits_c


def _fraction(amount_c: Floats, limit: float) -> Floats:
    # A die that fits no wafer costs infinitely much, which is within an infinite budget.
    if math.isinf(limit):
        return np.zeros_like(amount_c)
    with np.errstate(over="ignore"):  # infinitely often a limit that is next to nothing
        return amount_c / limit


def _value(name: str) -> float:
    return float(data_file("cluster.toml")[name]["value"])
