"""The bill of a cluster through the door: what is billed, what fits, how it looks."""

from dataclasses import fields, replace

import pytest

import rephaze
from rephaze.api.billing import _ITEMS
from rephaze.errors import SpecError
from rephaze.hardware.bill_grades import item_values
from rephaze.hardware.cluster_bill import ClusterBill
from rephaze.types.system import MAX_CHIPS, HbmChoice, SystemChoice

TPUV4 = rephaze.load_chip("tpuv4")


def test_items_are_all_there_are():
    sums = {"power_w_c", "usd_c"}
    billed = {f"{field}_c" for found in _ITEMS.values() for field in found.values()}
    assert billed == {field.name for field in fields(ClusterBill)} - sums
    bill = rephaze.bill_cluster(TPUV4)
    graded = item_values(bill.hbm, bill.system, is_clock_changed=False, is_power_given=False)
    assert {f"{item}_c" for item in graded} == billed


def test_without_a_choice_the_scenario_is_billed():
    bill = rephaze.bill_cluster("tpuv4")
    assert (bill.num_chips, bill.chip, bill.scenario) == (1024, TPUV4, rephaze.load_scenario("default"))
    assert bill.total("power") == pytest.approx(1.073e6, rel=1e-3)
    assert bill.total("usd") == pytest.approx(12.40e6, rel=1e-3)
    assert (bill.budgets, bill.most_chips, bill.binding) == ((), None, ())


def test_with_a_budget_what_fits_is_billed_and_what_binds_is_named():
    bill = rephaze.bill_cluster(TPUV4, power_w=2e6, cost_usd=50e6, silicon_mm2=5e5)
    assert bill.num_chips == bill.most_chips == int(5e5 // (bill.total("silicon") / bill.num_chips))
    assert bill.binding == ("silicon",)
    assert [one.resource for one in bill.budgets] == ["silicon", "power", "usd"]
    assert all(one.used_fraction <= 1 for one in bill.budgets)
    more = rephaze.bill_cluster(TPUV4, silicon_mm2=5e5, num_chips=bill.num_chips + 1)
    assert more.num_chips == bill.num_chips + 1
    assert more.budgets[0].used_fraction > 1
    assert str(more).endswith(f"the {more.num_chips:,} billed do not")


def test_limits_that_one_chip_more_breaks_all_bind():
    bill = rephaze.bill_cluster(TPUV4, num_chips=16)
    limits = {"power_w": bill.total("power"), "cost_usd": bill.total("usd") * (1 + 1e-9)}
    assert rephaze.bill_cluster(TPUV4, **limits).binding == ("power", "usd")


def test_where_nothing_fits_one_chip_is_billed():
    bill = rephaze.bill_cluster(TPUV4, cost_usd=100.0)
    assert (bill.num_chips, bill.most_chips) == (1, 0)
    assert "not even one chip fits: usd binds" in str(bill)


def test_more_chips_than_are_looked_at():
    bill = rephaze.bill_cluster(TPUV4, power_w=1e30)
    assert bill.most_chips == MAX_CHIPS
    assert "more are not looked at" in str(bill)


def test_a_chosen_system_reaches_chip_cluster_and_bill():
    choice = SystemChoice(
        clock_hz=1.4e9, hbm=HbmChoice(generation="hbm3e", num_layers=12), node_size=16, num_chips=500
    )
    bill = rephaze.bill_cluster(TPUV4, system=choice)
    assert bill.chip.clock_hz == 1.4e9
    assert bill.chip.hbm_bytes == 4 * 36 * 2**30
    assert bill.scenario.cluster.levels[0].num_devices == 16
    assert bill.scenario.cluster.num_devices == bill.num_chips == 500
    assert rephaze.bill_cluster(TPUV4, system=choice, num_chips=7).num_chips == 7
    assert "hbm3e.phy_um2" in bill.placeholders
    assert "of hbm3e, 12 high" in str(bill)


def test_a_faster_clock_draws_more_than_in_proportion():
    own = rephaze.bill_cluster(TPUV4).chip_w
    assert rephaze.bill_cluster(TPUV4, system=SystemChoice(clock_hz=1.4e9)).chip_w > own * 1.4 / 1.05


def test_chips_may_be_held_to_less_than_they_can_draw():
    bill = rephaze.bill_cluster(TPUV4, power_w=2e6, chip_w=192)
    assert bill.chip_w == 192
    assert bill.most_chips > rephaze.bill_cluster(TPUV4, power_w=2e6).most_chips
    assert "the 192 W they are held to" in str(bill)


def test_limits_given_replace_those_of_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[system]\nnum_chips = [8, 16]\n[budget]\npower_w = 1e5\nusd = 1e6\n")
    bill = rephaze.bill_cluster(TPUV4, system=path, num_chips=4, power_w=2e5)
    assert [(one.resource, one.limit) for one in bill.budgets] == [("power", 2e5), ("usd", 1e6)]
    with pytest.raises(SpecError, match=r"^mine.toml: system.num_chips is \[8, 16\]: has 2 values"):
        rephaze.bill_cluster(TPUV4, system=path)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"num_chips": 0}, "num_chips is 0"),
        ({"power_w": -1.0}, "power_w is -1.0: must be above zero"),
        ({"chip_w": 0}, "chip_w is 0: must be at least 1; give watts"),
        ({"scenario": "paper"}, "area_model is 'paper'"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, said):
    with pytest.raises(SpecError, match=f"^{said}"):
        rephaze.bill_cluster(TPUV4, **wrong)


def test_a_die_that_fits_no_wafer_has_no_price():
    bill = rephaze.bill_cluster(replace(TPUV4, num_tensor_cores=8000), cost_usd=1e9, num_chips=2)
    assert "no whole die fits a wafer" in str(bill)
    assert "inf" not in str(bill)
    assert "nan" not in str(bill)
    assert bill.record()["cost_usd"] is None


def test_it_is_html_in_a_notebook():
    html = rephaze.bill_cluster(TPUV4, power_w=2e6)._repr_html_()
    assert html.count("<table>") == 2
