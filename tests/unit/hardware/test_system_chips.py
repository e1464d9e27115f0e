"""Chips under today's system are today's chips; other systems cost what they should."""

from dataclasses import fields, replace

import numpy as np
import pytest

from rephaze.hardware.area import ChipArea, chip_area
from rephaze.hardware.cost import ChipCost, chip_cost
from rephaze.hardware.energy import access_energy
from rephaze.hardware.hbm import TODAYS_HBM, hbm_stack
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.space import enumerate_designs
from rephaze.hardware.system_chips import (
    System,
    same_system,
    system_area,
    system_columns,
    system_cost,
    system_energy,
)
from rephaze.types.energy import AccessEnergy
from rephaze.types.space import AreaModel
from rephaze.types.system import HbmChoice

NOMINAL_HZ = 1.05e9
TODAY = System(
    hbm=hbm_stack(TODAYS_HBM), num_inside_links=12.0, num_outside_links=1.0, node_size=8, num_chips=1024
)


@pytest.fixture(scope="module")
def designs():
    chips = enumerate_designs(load_scenario("coarse").space).chips
    return chips.take(slice(0, None, 97))


def test_under_todays_system_area_energy_and_cost_are_todays_bit_for_bit(designs):
    today = same_system(TODAY, len(designs))
    area = chip_area(designs, AreaModel.CORRECTED)
    pairs = [
        (ChipArea, system_area(designs, today), area),
        (AccessEnergy, system_energy(designs, today, NOMINAL_HZ), access_energy(designs, AreaModel.CORRECTED)),
        (ChipCost, system_cost(designs, today), chip_cost(area.total_um2_c, designs.hbm_bytes)),
    ]
    for record, found, expected in pairs:
        for field in fields(record):
            same = np.array_equal(getattr(found, field.name), getattr(expected, field.name))
            assert same, (record.__name__, field.name)


def test_stacks_links_and_ports_add_their_area(designs):
    one = designs.take(slice(0, 1))
    stacks = int(one.num_hbm_stacks[0])
    hbm4 = replace(TODAY, hbm=hbm_stack(HbmChoice(generation="hbm4", num_layers=12)))
    more = replace(TODAY, num_inside_links=18.0, num_outside_links=2.0)
    today_um2 = system_area(one, same_system(TODAY, 1)).total_um2_c[0]
    assert system_area(one, same_system(hbm4, 1)).total_um2_c[0] - today_um2 == pytest.approx(stacks * 16.19e6)
    assert system_area(one, same_system(more, 1)).total_um2_c[0] - today_um2 == pytest.approx(15.98e6 + 5.33e6)


def test_higher_stacks_idle_and_cost_by_their_layers(designs):
    one = designs.take(slice(0, 1))
    high = replace(TODAY, hbm=hbm_stack(HbmChoice(generation="hbm3e", num_layers=16)))
    plain = replace(TODAY, hbm=hbm_stack(HbmChoice(generation="hbm3e", num_layers=8)))
    added_w = (
        system_energy(one, same_system(high, 1), NOMINAL_HZ).idle_w_c
        - system_energy(one, same_system(plain, 1), NOMINAL_HZ).idle_w_c
    )
    assert added_w[0] == pytest.approx(int(one.num_hbm_stacks[0]) * 8 * 0.375)
    assert system_cost(one, same_system(high, 1)).hbm_usd_c[0] == pytest.approx(one.hbm_bytes[0] / 2**30 * 10.3)


def test_columns_are_taken_in_order():
    other = replace(TODAY, num_chips=7, node_size=2)
    columns = system_columns([TODAY, other, TODAY])
    assert len(columns) == 3
    assert columns.take(np.array([1, 0])).num_chips_c.tolist() == [7, 1024]
    assert columns.node_size_c.tolist() == [8, 2, 8]
