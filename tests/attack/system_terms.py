"""Energy and price of a chip whose system is part of the search, as docs/search.md states them, written afresh."""

from __future__ import annotations

import math
from dataclasses import replace

from rephaze.hardware.cluster_bill import ClusterBill, cluster_bill
from rephaze.hardware.energy import access_energy
from rephaze.hardware.hbm import hbm_stack
from rephaze.hardware.links import inside_bill, outside_bill
from rephaze.hardware.sourced_data import data_file
from rephaze.hardware.system_chips import System, SystemColumns, system_columns, system_energy
from rephaze.types.chip import Chip, chip_table
from rephaze.types.energy import AccessEnergy
from rephaze.types.space import DesignSpace


def chip_energy(chip: Chip, space: DesignSpace) -> AccessEnergy:
    """At the system's clock; idle with switches, optics, network cards and a chip's part of its host."""
    chips, system = chip_table([chip]), space.system
    if system is None:
        return access_energy(chips, space.area_model)
    columns = _columns(space)
    own = system_energy(chips, columns, system.nominal_hz)
    cluster = data_file("cluster.toml")
    num_hosts = math.ceil(system.num_chips / cluster["chips_per_host"]["value"])
    around_w = float(inside_bill(columns.num_inside_links_c, columns.node_size_c).power_w_c[0])
    around_w += float(outside_bill(columns.num_outside_links_c, columns.num_chips_c).power_w_c[0])
    around_w += num_hosts * cluster["host_w"]["value"] / system.num_chips
    return replace(own, idle_w_c=own.idle_w_c + around_w)


def system_bill(chip: Chip, hbm_bytes: int, space: DesignSpace) -> ClusterBill:
    """Of the whole cluster, the chips with so much memory."""
    assert space.system is not None
    return cluster_bill(chip_table([replace(chip, hbm_bytes=hbm_bytes)]), _columns(space), space.system.nominal_hz)


def _columns(space: DesignSpace) -> SystemColumns:
    system = space.system
    assert system is not None
    return system_columns(
        [
            System(
                hbm=hbm_stack(system.hbm),
                num_inside_links=system.num_inside_links,
                num_outside_links=system.num_outside_links,
                node_size=system.num_node_chips,
                num_chips=system.num_chips,
            )
        ]
    )
