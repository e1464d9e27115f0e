"""Links of chips: what they move, the area they take, and what joins them, in dollars and watts.

Inside a node a link goes over a board, then over cables in a rack, then over optics: the larger the node, the more
a link costs. Outside, every port of a chip has a network of its own, a tree of switches with as many tiers as the
number of chips needs. All of it never falls as links, node or cluster grow.

Axis letters: c = chip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.sourced_data import component_value, data_file

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BITS_PER_BYTE = 8
TIERS = 6
"""No cluster is joined by more: 64 ports to a switch reach two thousand million chips in six."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkBill:
    """What joining the links of one chip takes, its own part of the switches included."""

    usd_c: Floats
    power_w_c: Floats


def link_value(kind: str, name: str) -> float:
    """A value of links ``inside`` or ``outside`` a node, by its name (which has the unit)."""
    return float(data_file("links.toml")[kind][name]["value"])


def inside_bytes_per_s(num_links: float) -> float:
    """What a chip sends to its node over so many links."""
    return num_links * link_value("inside", "bytes_per_s")


def outside_bytes_per_s(num_links: float) -> float:
    """What a chip sends to other nodes over so many links."""
    return num_links * link_value("outside", "bytes_per_s")


def links_um2(num_inside_c: Floats, num_outside_c: Floats) -> Floats:
    """Area of the interfaces on the chip; twelve links and a port take what the corrected area model says."""
    inside_um2 = component_value("corrected", "network_um2") * (
        num_inside_c / link_value("inside", "num_in_network_um2")
    )
    # The first port goes through the host interface, which the area model leaves out for every chip.
    added_ports = np.maximum(0.0, num_outside_c - 1.0)
    return inside_um2 + added_ports * link_value("outside", "chip_um2")


def inside_bill(num_links_c: Floats, node_size_c: Ints) -> LinkBill:
    """Switches and cables of a chip's links inside its node.

    Args:
        num_links_c: Links of one chip.
        node_size_c: Chips of a node: up to a board, up to a rack, beyond that optics and two tiers of switches.
    """
    by_cable = node_size_c > link_value("inside", "board_chips")
    by_optics = node_size_c > link_value("inside", "rack_chips")
    # Optics are sold for the outside's rate; an inside link takes its part of them.
    part = link_value("inside", "bytes_per_s") / link_value("outside", "bytes_per_s")
    ports = np.where(by_optics, 3.0, 1.0)
    cable_usd = np.where(by_cable, link_value("inside", "rack_cable_usd"), 0.0)
    cable_usd = np.where(by_optics, part * link_value("outside", "cable_usd"), cable_usd)
    cable_w = np.where(by_optics, part * link_value("outside", "cable_w"), 0.0)
    return LinkBill(
        usd_c=num_links_c * (ports * link_value("inside", "link_usd") + cable_usd),
        power_w_c=num_links_c * (ports * link_value("inside", "switch_w") + cable_w),
    )


def outside_bill(num_links_c: Floats, num_chips_c: Ints) -> LinkBill:
    """Network cards, optics and switches of a chip's links to other nodes, at full bandwidth between any two.

    Args:
        num_links_c: Links of one chip, each in a network of its own.
        num_chips_c: Chips of the cluster.
    """
    tiers_c = _num_tiers(num_chips_c)
    ports_c = 2.0 * tiers_c - 1.0
    usd_c = ports_c * link_value("outside", "port_usd") + tiers_c * link_value("outside", "cable_usd")
    power_w_c = ports_c * link_value("outside", "port_w") + tiers_c * link_value("outside", "cable_w")
    return LinkBill(
        usd_c=num_links_c * (usd_c + link_value("outside", "nic_usd")),
        power_w_c=num_links_c * (power_w_c + link_value("outside", "nic_w")),
    )


def _num_tiers(num_chips_c: Ints) -> Floats:
    """Tiers of a tree of switches without oversubscription: the last has all its ports down, the others half."""
    num_ports = link_value("outside", "switch_ports")
    reach = [num_ports * (num_ports / 2) ** tier for tier in range(TIERS)]
    return 1.0 + np.searchsorted(np.array(reach), num_chips_c, side="left").astype(np.float64)
