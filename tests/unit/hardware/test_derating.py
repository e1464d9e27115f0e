"""Calibrated physics for planning: chips, templates and networks at the rates measured machines reach."""

from dataclasses import replace

import pytest

from rephaze.errors import SpecError
from rephaze.hardware.calibration import calibrated
from rephaze.hardware.derating import (
    TEMPLATE_FAMILY,
    calibrated_scenario,
    chip_at,
    losses_at,
    losses_of,
    searched_chip_of,
)
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario, scenario_from_mapping, scenario_mapping
from rephaze.search.settings import resolve_settings
from rephaze.types.scenario import PhysicsName


def test_every_family_has_constants_below_one():
    for family in ("ampere", "hopper", "blackwell", "cdna", "gaudi", "tpu-128", "tpu-256"):
        found = losses_of(family)
        shares = (found.array_share, found.hbm_share, found.link_share, found.network_share, found.memory_share)
        assert all(0 < share < 1 for share in shares), found


def test_a_scenario_at_calibrated_rates_is_slower_everywhere_and_says_so():
    ideal = load_scenario("default")
    found = calibrated_scenario(ideal)
    values = calibrated()
    assert found.physics is PhysicsName.CALIBRATED
    assert found.space.template.clock_hz == ideal.space.template.clock_hz * values["product_tpu_256"]
    inner, outer = (
        b.bytes_per_s / a.bytes_per_s for a, b in zip(ideal.cluster.levels, found.cluster.levels, strict=True)
    )
    assert inner == pytest.approx(values["link_rate"])
    assert outer == pytest.approx(values["network_rate"])
    assert found.space.area_limit_um2 == ideal.space.area_limit_um2
    assert calibrated_scenario(found) == found, "not twice"
    assert TEMPLATE_FAMILY in losses_at("searched", found).sentence()
    assert losses_at("searched", ideal) is None


def test_a_scenario_file_names_its_physics():
    data = scenario_mapping("default") | {"physics": "calibrated"}
    assert scenario_from_mapping(data, name="mine") == replace(
        calibrated_scenario(load_scenario("default")), name="mine"
    )
    with pytest.raises(SpecError, match="physics"):
        scenario_from_mapping(data | {"physics": "magic"}, name="mine")


def test_a_search_takes_the_physics_from_its_run_file_or_options():
    settings = resolve_settings(("gpt2-xl",), changes={"physics": "calibrated"})
    assert settings.scenario == calibrated_scenario(load_scenario("default"))
    assert resolve_settings(("gpt2-xl",)).scenario.physics is PhysicsName.IDEAL


@pytest.mark.parametrize(
    "changes",
    [
        {"search": {"objective": "per-usd"}},
        {"search": {"objective": "per-watt"}},
        {"budget": {"power_w": 1e6}},
        {"space": {"power_limit_w": 200.0}},
    ],
)
def test_power_and_money_are_not_asked_of_reduced_clocks(changes):
    with pytest.raises(SpecError, match="physics"):
        resolve_settings(("gpt2-xl",), changes=changes | {"physics": "calibrated"})


def test_the_papers_model_has_rates_of_its_own():
    with pytest.raises(SpecError, match="paper"):
        calibrated_scenario(load_scenario("paper"))


def test_known_chips_have_the_constants_of_their_own_family():
    found = calibrated_scenario(load_scenario("default"))
    for name, family in (("tpuv4", "tpu-128"), ("h100", "hopper")):
        chip, losses = preset_chip(name), losses_of(family)
        assert chip_at(chip, found).clock_hz == chip.clock_hz * losses.array_share
        assert chip_at(chip, load_scenario("default")) == chip
    own = replace(preset_chip("tpuv4"), name="of a user")
    assert chip_at(own, found).clock_hz == own.clock_hz * losses_of(TEMPLATE_FAMILY).array_share


def test_a_known_chip_without_measured_runs_is_refused():
    with pytest.raises(SpecError, match="no family"):
        chip_at(preset_chip("tpuv3"), calibrated_scenario(load_scenario("default")))


def test_the_figures_of_a_searched_chip_come_back():
    found = calibrated_scenario(load_scenario("default"))
    chip = replace(preset_chip("tpuv4"), name="searched")
    again = searched_chip_of(chip_at(chip, found), found)
    assert again.clock_hz == pytest.approx(chip.clock_hz)
    assert again.hbm_bytes_per_s == pytest.approx(chip.hbm_bytes_per_s)
    assert again.hbm_bytes == chip.hbm_bytes
