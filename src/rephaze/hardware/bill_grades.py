"""How good the numbers of a bill are: the values of the data files that each item takes, and their grades.

An item's own values only: what follows from another item (packages from silicon, losses from all that draws
power) is as good as that one besides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rephaze.hardware.hbm import TODAYS_HBM
from rephaze.hardware.links import link_value
from rephaze.hardware.sourced_data import data_file
from rephaze.hardware.system_chips import System
from rephaze.types.system import HbmChoice

GRADES = "ABCDP"
"""Best first."""

_AREA = (
    *("pe_um2", "fp32_unit_um2", "int32_unit_um2", "special_function_um2", "lane_register_words"),
    *("register_word_um2", "sram_anchor_bytes", "sram_anchor_um2", "sram_anchor_bytes_per_cycle"),
    "buffer_bank_bytes_per_cycle",
)
_ENERGY = ("mac_pj", "lane_op_pj", "register_pj_per_byte", "sram_1mb_pj", "idle_anchor_w")


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemGrade:
    """How good an item's own values are."""

    weakest: str
    """The last of their grades; empty where the data has none."""
    placeholders: tuple[str, ...]
    """Names of values that no source gives."""


def item_grades(
    hbm: HbmChoice, system: System, *, is_clock_changed: bool, is_power_given: bool
) -> dict[str, ItemGrade]:
    """By field of ``ClusterBill`` without its axis; sums have none.

    Args:
        hbm: The stacks that are billed.
        system: The system that is.
        is_clock_changed: Whether the chip runs at another clock than its own.
        is_power_given: Whether the caller says what a chip draws.
    """
    taken = item_values(hbm, system, is_clock_changed=is_clock_changed, is_power_given=is_power_given)
    return {item: _grade(names) for item, names in taken.items()}


def item_values(
    hbm: HbmChoice, system: System, *, is_clock_changed: bool, is_power_given: bool
) -> dict[str, tuple[str, ...]]:
    """Names of the values that each item takes, the data file first: ``links.inside.switch_w``."""
    by_optics = bool(system.num_inside_links) and system.node_size > link_value("inside", "rack_chips")
    by_cable = not by_optics and system.node_size > link_value("inside", "board_chips")
    silicon = [f"components.corrected.{name}" for name in _AREA]
    silicon += _of_stacks(hbm, "phy_um2", "controller_um2")
    silicon += ["links.outside.chip_um2"] if system.num_outside_links > 1 else []

    chips_w = [f"components.corrected.{name}" for name in _ENERGY] + _of_stacks(hbm, "pj_per_bit")
    chips_w += _of_stacks(hbm, "idle_w_per_layer") if hbm.num_layers > TODAYS_HBM.num_layers else []
    clock = ("voltage", "subthreshold_swing_v", "drain_lowering_v_per_v")
    chips_w += [f"clock.{name}" for name in clock] if is_clock_changed else []

    links_w, links_usd = ["components.corrected.link_pj_per_bit"], ["cluster.board_usd"]
    if system.num_inside_links:
        silicon += ["components.corrected.network_um2", "links.inside.num_in_network_um2"]
        links_w += ["links.inside.switch_w"] + ["links.outside.cable_w"] * by_optics
        links_usd += ["links.inside.link_usd"]
        links_usd += ["links.outside.cable_usd"] * by_optics + ["links.inside.rack_cable_usd"] * by_cable
    has_ports = bool(system.num_outside_links)
    network_w = [f"links.outside.{name}" for name in ("nic_w", "cable_w", "port_w", "switch_ports")]
    network_usd = [f"links.outside.{name}" for name in ("nic_usd", "cable_usd", "port_usd", "switch_ports")]
    found = {
        "silicon_mm2": silicon,
        "chips_w": [] if is_power_given else chips_w,
        "links_w": links_w,
        "network_w": network_w if has_ports else [],
        "hosts_w": ["cluster.host_w", "cluster.chips_per_host"],
        "losses_w": ["cluster.fan_fraction", "cluster.supply_factor"],
        "building_w": ["cluster.pue_factor"],
        "dies_usd": ["cost.wafer", "cost.process"],
        "hbm_usd": _of_stacks(hbm, "usd_per_gb"),
        "packages_usd": ["cluster.package_usd_per_mm2", "cluster.stack_mm2", "cluster.test_usd"],
        "links_usd": links_usd,
        "network_usd": network_usd if has_ports else [],
        "hosts_usd": ["cluster.host_usd", "cluster.chips_per_host"],
    }
    return {item: tuple(names) for item, names in found.items()}


def _of_stacks(hbm: HbmChoice, *names: str) -> list[str]:
    return [f"memory.{hbm.generation}.{name}" for name in names]


def _grade(names: Iterable[str]) -> ItemGrade:
    grades = {name: _entry(name).get("grade", "") for name in names}
    return ItemGrade(
        weakest=max(filter(None, grades.values()), key=GRADES.index, default=""),
        placeholders=tuple(name.partition(".")[2] for name, grade in grades.items() if grade == "P"),
    )


def _entry(name: str) -> dict[str, Any]:
    file, *path = name.split(".")
    entry = data_file(f"{file}.toml")
    for part in path:
        entry = entry[part]
    return entry
