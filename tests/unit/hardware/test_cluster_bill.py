"""The bill of a cluster: its items add up, budgets and what binds, the most chips a budget allows."""

from dataclasses import replace

import numpy as np
import pytest

from rephaze.hardware.cluster_bill import budget_use, cluster_bill, most_chips
from rephaze.hardware.hbm import TODAYS_HBM, hbm_stack
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.sourced_data import SourcedValue, data_file
from rephaze.hardware.system_chips import System, same_system, system_columns
from rephaze.types.chip import chip_table
from rephaze.types.system import ClusterBudget

NOMINAL_HZ = 1.05e9
TPUV4 = chip_table([preset_chip("tpuv4")])
TODAY = System(
    hbm=hbm_stack(TODAYS_HBM), num_inside_links=12.0, num_outside_links=1.0, node_size=8, num_chips=1024
)
SYSTEMS = same_system(TODAY, 1)


def test_every_value_has_a_grade_and_a_source():
    for name, entry in data_file("cluster.toml").items():
        value = SourcedValue(**entry)
        assert value.grade in set("ABCDP"), name
        assert value.source, name


def test_items_add_up():
    bill = cluster_bill(TPUV4, SYSTEMS, NOMINAL_HZ)
    watt = ("chips_w_c", "links_w_c", "network_w_c", "hosts_w_c", "losses_w_c", "building_w_c")
    usd = ("dies_usd_c", "hbm_usd_c", "packages_usd_c", "links_usd_c", "network_usd_c", "hosts_usd_c")
    assert bill.power_w_c[0] == pytest.approx(sum(getattr(bill, name)[0] for name in watt))
    assert bill.usd_c[0] == pytest.approx(sum(getattr(bill, name)[0] for name in usd))
    assert bill.silicon_mm2_c[0] == pytest.approx(1024 * 339.4, rel=1e-4)


def test_a_thousand_tpuv4_of_today():
    bill = cluster_bill(TPUV4, SYSTEMS, NOMINAL_HZ)
    assert bill.power_w_c[0] == pytest.approx(1.073e6, rel=1e-3)
    assert bill.usd_c[0] == pytest.approx(12.40e6, rel=1e-3)
    # With what was measured as the most a TPUv4 draws, six tenths of it.
    held = cluster_bill(TPUV4, SYSTEMS, NOMINAL_HZ, chip_w_c=np.array([192.0]))
    assert held.power_w_c[0] == pytest.approx(0.667e6, rel=1e-3)


def test_hosts_come_whole():
    bills = [cluster_bill(TPUV4, same_system(replace(TODAY, num_chips=n), 1), NOMINAL_HZ) for n in (8, 9, 16)]
    assert [bill.hosts_w_c[0] for bill in bills] == [1200.0, 2400.0, 2400.0]


def test_a_server_of_eight_h100_draws_about_what_it_says_on_the_box():
    # 700 W a chip, 18 links inside, a port each: a DGX H100 has 10.2 kW as its most and is seen at 6.5 to 8.5.
    h100 = chip_table([preset_chip("h100")])
    systems = same_system(replace(TODAY, num_inside_links=18.0, num_chips=8), 1)
    bill = cluster_bill(h100, systems, float(h100.clock_hz[0]), chip_w_c=np.array([700.0]))
    server_w = (bill.chips_w_c + bill.links_w_c + bill.hosts_w_c)[0] + 8 * 25.0
    assert 6_500 < server_w * 1.04 / 0.85 < 10_200


def test_without_a_budget_everything_fits():
    use = budget_use(cluster_bill(TPUV4, SYSTEMS, NOMINAL_HZ), ClusterBudget())
    assert use.fits_c.tolist() == [True]
    assert use.largest_c.tolist() == [0.0]


def test_a_die_that_fits_no_wafer_fits_no_budget_in_dollars_but_every_other():
    huge = replace(TPUV4, num_tensor_cores=np.array([8000]))
    bill = cluster_bill(huge, SYSTEMS, NOMINAL_HZ)
    assert bill.usd_c[0] == np.inf
    assert budget_use(bill, ClusterBudget()).fits_c[0]
    assert not budget_use(bill, ClusterBudget(cost_usd=1e300)).fits_c[0]


def test_a_budget_that_is_used_up_still_fits():
    bill = cluster_bill(TPUV4, SYSTEMS, NOMINAL_HZ)
    silicon, power, usd = bill.silicon_mm2_c[0], bill.power_w_c[0], bill.usd_c[0]
    for name, budget in {
        "silicon": ClusterBudget(silicon_mm2=silicon, power_w=2 * power, cost_usd=2 * usd),
        "power": ClusterBudget(silicon_mm2=2 * silicon, power_w=power, cost_usd=2 * usd),
        "usd": ClusterBudget(cost_usd=usd),
    }.items():
        use = budget_use(bill, budget)
        assert use.fits_c[0]
        assert getattr(use, f"{name}_fraction_c")[0] == use.largest_c[0] == 1.0


def test_chips_that_are_held_to_less_are_more():
    budget, held_w_c = ClusterBudget(power_w=2e6), np.array([192.0])
    assert most_chips(TPUV4, SYSTEMS, NOMINAL_HZ, budget, held_w_c) > most_chips(
        TPUV4, SYSTEMS, NOMINAL_HZ, budget
    )


@pytest.mark.parametrize(
    "budget",
    [
        ClusterBudget(power_w=2e6),
        ClusterBudget(cost_usd=50e6),
        ClusterBudget(silicon_mm2=1e5),
        ClusterBudget(silicon_mm2=1e6, power_w=1e6, cost_usd=5e6),
        ClusterBudget(cost_usd=100.0),
    ],
)
def test_the_most_chips_fit_and_one_more_does_not(budget):
    chips = chip_table([preset_chip("tpuv4"), preset_chip("tpuv4i"), preset_chip("a100-80gb")])
    systems = system_columns([TODAY, replace(TODAY, num_inside_links=24.0), replace(TODAY, node_size=72)])
    most_c = most_chips(chips, systems, NOMINAL_HZ, budget)
    for at_c, expected in ((most_c, True), (most_c + 1, False)):
        asked = replace(systems, num_chips_c=np.maximum(1, at_c))
        fits_c = budget_use(cluster_bill(chips, asked, NOMINAL_HZ), budget).fits_c
        assert (fits_c[at_c > 0] == expected).all()


def test_no_more_chips_than_asked_for():
    assert most_chips(TPUV4, SYSTEMS, NOMINAL_HZ, ClusterBudget(), at_most=77).tolist() == [77]
