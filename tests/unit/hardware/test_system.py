"""A system applied to a scenario."""

from dataclasses import replace

import pytest

from rephaze.errors import SpecError
from rephaze.hardware.hbm import TODAYS_HBM, hbm_stack
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.system import resolved_system, system_chip, with_system
from rephaze.types.cluster import NetworkLevel, flat_cluster
from rephaze.types.system import HbmChoice, SystemChoice
from rephaze.units import GIB

DEFAULT = load_scenario("default")


def levels_of(scenario):
    return [(level.num_devices, level.bytes_per_s, level.latency_s) for level in scenario.cluster.levels]


def test_nothing_chosen_is_the_scenario_and_so_is_what_it_has():
    assert with_system(DEFAULT, SystemChoice()) is DEFAULT
    today = SystemChoice(
        clock_hz=1.05e9, hbm=TODAYS_HBM, num_inside_links=12, num_outside_links=1, node_size=8, num_chips=1024
    )
    assert with_system(DEFAULT, today) == DEFAULT
    assert resolved_system(DEFAULT, today) == resolved_system(DEFAULT, SystemChoice())


def test_every_field_lands_where_the_code_looks_for_it():
    choice = SystemChoice(
        clock_hz=1.4e9,
        hbm=HbmChoice(generation="hbm3e", num_layers=12),
        num_inside_links=18,
        num_outside_links=2,
        node_size=16,
        num_chips=500,
    )
    changed = with_system(DEFAULT, choice)
    template = changed.space.template
    assert (template.clock_hz, template.hbm_stack_bytes, template.hbm_stack_bytes_per_s) == (
        1.4e9,
        36 * GIB,
        1.2e12,
    )
    assert changed.cluster.num_devices == 500
    assert levels_of(changed) == [(16, 450e9, 1e-6), (512, 100e9, 5e-6)]
    system = resolved_system(DEFAULT, choice)
    assert (system.num_inside_links, system.num_outside_links) == (18, 2)
    assert (system.node_size, system.num_chips) == (16, 500)
    assert system.hbm == hbm_stack(choice.hbm)


def test_a_cluster_within_a_node_has_one_level_and_still_its_ports():
    choice = SystemChoice(node_size=64, num_chips=48, num_outside_links=2)
    assert levels_of(with_system(DEFAULT, choice)) == [(48, 300e9, 1e-6)]
    assert resolved_system(DEFAULT, choice).num_outside_links == 2


def test_nodes_of_one_chip_have_a_network_only():
    assert levels_of(with_system(DEFAULT, SystemChoice(node_size=1))) == [(1024, 50e9, 5e-6)]


def test_only_the_number_of_chips_changes_a_cluster_of_any_levels():
    flat = replace(DEFAULT, cluster=flat_cluster(1024, 50e9))
    assert levels_of(with_system(flat, SystemChoice(num_chips=100))) == [(100, 50e9, 0.0)]
    system = resolved_system(flat, SystemChoice(num_chips=100))
    assert (system.num_inside_links, system.num_outside_links, system.node_size) == (0, 1, 1)
    with pytest.raises(SpecError, match="levels is"):
        with_system(flat, SystemChoice(node_size=8))


def test_a_flat_cluster_that_a_rack_holds_is_a_node():
    small = replace(DEFAULT, cluster=flat_cluster(72, 300e9))
    system = resolved_system(small, SystemChoice())
    assert (system.num_inside_links, system.num_outside_links, system.node_size) == (12, 0, 72)


def test_a_scenarios_bandwidth_need_not_be_whole_links():
    levels = (NetworkLevel(num_devices=8, bytes_per_s=310e9), NetworkLevel(num_devices=1024, bytes_per_s=20e9))
    odd = replace(DEFAULT, cluster=replace(DEFAULT.cluster, levels=levels))
    system = resolved_system(odd, SystemChoice())
    assert (system.num_inside_links, system.num_outside_links) == pytest.approx((12.4, 0.4))


def test_the_papers_model_knows_no_systems():
    with pytest.raises(SpecError, match="area_model is 'paper'"):
        with_system(load_scenario("paper"), SystemChoice(num_chips=10))


def test_clocks_off_the_curve_are_refused():
    with pytest.raises(SpecError, match="clock_hz is"):
        with_system(DEFAULT, SystemChoice(clock_hz=3e9))
    with pytest.raises(SpecError, match="clock_hz is"):
        system_chip(preset_chip("tpuv4"), SystemChoice(clock_hz=3e9))


def test_a_chip_takes_what_is_chosen_and_keeps_the_rest():
    h100 = preset_chip("h100")
    assert system_chip(h100, SystemChoice(num_chips=8, node_size=4)) == h100
    changed = system_chip(h100, SystemChoice(clock_hz=1.2e9, hbm=HbmChoice(generation="hbm3", num_layers=12)))
    stacks = h100.num_hbm_stacks
    assert changed == replace(h100, clock_hz=1.2e9, hbm_bytes=stacks * 24 * GIB, hbm_bytes_per_s=stacks * 819e9)
