"""Stacks by generation and height."""

from itertools import pairwise

import pytest

from rephaze.errors import SpecError
from rephaze.hardware.hbm import TODAYS_HBM, hbm_choices, hbm_stack
from rephaze.hardware.sourced_data import SourcedValue, component_value, data_file
from rephaze.hardware.template import load_template
from rephaze.types.system import HbmChoice
from rephaze.units import GIB


def test_todays_stack_is_what_template_area_energy_and_price_say():
    stack, template = hbm_stack(TODAYS_HBM), load_template("default")
    assert (stack.stack_bytes, stack.stack_bytes_per_s) == (
        template.hbm_stack_bytes,
        template.hbm_stack_bytes_per_s,
    )
    phy_um2 = component_value("corrected", "hbm_phy_um2")
    assert stack.interface_um2 == phy_um2 + component_value("corrected", "hbm_controller_um2")
    assert stack.j_per_byte == component_value("corrected", "hbm_pj_per_bit") * 8 * 1e-12
    assert stack.usd_per_gib == data_file("cost.toml")["hbm"]["usd_per_gb"]
    assert stack.added_idle_w == 0


def test_every_generation_of_the_data_has_its_own_stack_among_its_heights():
    for name, entry in data_file("memory.toml").items():
        if "layers" in entry:
            assert entry["stack_bytes"] in {hbm_stack(choice).stack_bytes for choice in hbm_choices(name)}


def test_every_value_has_a_grade_and_a_source():
    for name, entry in data_file("memory.toml").items():
        for field, value in entry.items():
            if isinstance(value, dict):
                sourced = SourcedValue(**value)
                assert sourced.grade in set("ABCDP"), (name, field)
                assert sourced.source, (name, field)


def test_heights_there_are():
    assert [str(choice) for choice in hbm_choices("hbm3e")] == [
        "hbm3e, 8 high",
        "hbm3e, 12 high",
        "hbm3e, 16 high",
    ]
    assert hbm_stack(HbmChoice(generation="hbm3e", num_layers=12)).stack_bytes == 36 * GIB
    assert hbm_stack(HbmChoice(generation="hbm4", num_layers=16)).stack_bytes == 48 * GIB


def test_a_higher_stack_holds_more_at_the_same_rate_and_costs_no_less():
    for lower, higher in pairwise(hbm_choices()):
        if lower.generation != higher.generation:
            continue
        low, high = hbm_stack(lower), hbm_stack(higher)
        assert high.stack_bytes > low.stack_bytes
        assert high.stack_bytes_per_s == low.stack_bytes_per_s
        assert high.added_idle_w >= low.added_idle_w
        assert high.interface_um2 == low.interface_um2


def test_of_one_height_a_newer_generation_is_faster_and_takes_no_less_of_anything():
    order = ("hbm2e", "hbm3", "hbm3e", "hbm4")
    stacks = [hbm_stack(HbmChoice(generation=name, num_layers=8)) for name in order]
    for older, newer in pairwise(stacks):
        assert newer.stack_bytes_per_s > older.stack_bytes_per_s
        assert newer.stack_bytes >= older.stack_bytes
        assert newer.interface_um2 >= older.interface_um2
        assert newer.stack_bytes_per_s * newer.j_per_byte > older.stack_bytes_per_s * older.j_per_byte
        assert newer.stack_bytes * newer.usd_per_gib > older.stack_bytes * older.usd_per_gib


@pytest.mark.parametrize(
    ("generation", "num_layers", "message"),
    [
        ("hbm5", 8, "hbm is 'hbm5': must be one of"),
        ("hbm2e", 12, "hbm_layers is 12: hbm2e is made with 4, 8 layers"),
    ],
)
def test_what_is_not_made_is_refused(generation, num_layers, message):
    with pytest.raises(SpecError, match=message):
        hbm_stack(HbmChoice(generation=generation, num_layers=num_layers))
