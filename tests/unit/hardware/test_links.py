"""Links: areas and rates as today's, and what joins them."""

import numpy as np
import pytest

from rephaze.hardware.links import inside_bill, inside_bytes_per_s, links_um2, outside_bill, outside_bytes_per_s
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.sourced_data import SourcedValue, component_value, data_file


def test_every_value_has_a_grade_and_a_source():
    for kind, entries in data_file("links.toml").items():
        for name, entry in entries.items():
            value = SourcedValue(**entry)
            assert value.grade in set("ABCDP"), (kind, name)
            assert value.source, (kind, name)


def test_twelve_links_and_a_port_are_todays_network():
    assert links_um2(np.array([12.0]), np.array([1.0]))[0] == component_value("corrected", "network_um2")
    inner, outer = load_scenario("default").cluster.levels
    assert inside_bytes_per_s(12) == inner.bytes_per_s
    assert outside_bytes_per_s(1) == outer.bytes_per_s


def test_links_take_area_in_proportion_and_ports_beyond_the_first():
    area_mm2 = links_um2(np.array([0.0, 18.0, 12.0]), np.array([0.0, 1.0, 3.0])) / 1e6
    assert area_mm2 == pytest.approx([0.0, 1.5 * 31.96, 31.96 + 2 * 5.33])


def test_a_larger_node_pays_for_cables_then_for_optics():
    bill = inside_bill(np.full(4, 12.0), np.array([8, 9, 72, 73]))
    assert bill.usd_c == pytest.approx([12 * 74.4, 12 * 134.4, 12 * 134.4, 12 * (3 * 74.4 + 640)])
    assert bill.power_w_c == pytest.approx([12 * 1.6, 12 * 1.6, 12 * 1.6, 12 * (3 * 1.6 + 10)])


@pytest.mark.parametrize(
    ("num_chips", "num_tiers"), [(1, 1), (64, 1), (65, 2), (2048, 2), (2049, 3), (65_536, 3), (65_537, 4)]
)
def test_tiers_of_switches(num_chips, num_tiers):
    bill = outside_bill(np.array([2.0]), np.array([num_chips]))
    each = 1363.5 + (2 * num_tiers - 1) * 562.5 + num_tiers * 1280
    assert bill.usd_c[0] == pytest.approx(2 * each)
    assert bill.power_w_c[0] == pytest.approx(2 * (25 + (2 * num_tiers - 1) * 11.7 + num_tiers * 20))


def test_a_thousand_ports_cost_what_a_published_offer_says():
    # 48 switches of 36,000 and 2,621,440 of cables for 1,024 ports (network cards were in the servers).
    bill = outside_bill(np.array([1.0]), np.array([1024]))
    assert 1024 * (bill.usd_c[0] - 1363.5) == pytest.approx(1_728_000 + 2_621_440)
