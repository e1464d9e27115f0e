"""What the hardware page says of systems is what the code does."""

from pathlib import Path

import numpy as np

import rephaze
from rephaze.hardware.clock import clock_scale, legal_clocks_hz, voltage_v
from rephaze.hardware.cluster_bill import cluster_bill
from rephaze.hardware.hbm import hbm_choices, hbm_stack
from rephaze.hardware.peak_power import peak_power
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.system import resolved_system
from rephaze.hardware.system_chips import same_system, system_energy
from rephaze.types.chip import chip_table
from rephaze.types.system import SPEED_RULES, SystemChoice

PAGE = (Path(__file__).parents[2] / "docs" / "hardware.md").read_text()
NOMINAL_HZ = 1.05e9


def test_the_table_of_clocks():
    slowest_hz, fastest_hz = legal_clocks_hz()
    assert f"Legal: {slowest_hz / 1e9:g} to {fastest_hz / 1e9:g} GHz" in PAGE
    clock_hz = np.array([0.806e9, NOMINAL_HZ, 1.271e9, 1.5e9, 1.736e9])
    scale = clock_scale(clock_hz, NOMINAL_HZ)
    assert " | ".join(f"{volt:.3f}" for volt in voltage_v(clock_hz)) in PAGE
    for column in (scale.dynamic_c, scale.leakage_c):
        assert " | ".join("1" if value == 1 else f"{value:.2f}" for value in column) in PAGE


def test_the_table_of_stacks():
    for choice in hbm_choices():
        stack = hbm_stack(choice)
        heights = ", ".join(str(one.num_layers) for one in hbm_choices(choice.generation))
        per_layer_gib = stack.stack_bytes // choice.num_layers // 2**30
        row = f"| {heights} | {per_layer_gib} | {stack.stack_bytes_per_s / 1e9:,.0f} |"
        assert f"{row} {stack.interface_um2 / 1e6:.2f}" in PAGE
        assert f"| {stack.stack_bytes_per_s * stack.j_per_byte:.1f} | {stack.usd_per_gib:.1f} |" in PAGE


def test_the_bill_of_a_thousand_tpuv4():
    chips = chip_table([preset_chip("tpuv4")])
    systems = same_system(resolved_system(load_scenario("default"), SystemChoice()), 1)
    bill = cluster_bill(chips, systems, NOMINAL_HZ)
    assert f"{bill.silicon_mm2_c[0] / 1e6:.2f} m² of silicon, {bill.power_w_c[0] / 1e6:.2f} MW" in PAGE
    assert f"{bill.usd_c[0] / 1e6:.1f}\nmillion dollars" in PAGE
    assert f"takes {100 * bill.network_usd_c[0] / bill.usd_c[0]:.0f} %" in PAGE
    peak_w = peak_power(chips, system_energy(chips, systems, NOMINAL_HZ)).total_w_c[0]
    assert f"TPUv4: {peak_w:.0f} W" in PAGE


def test_every_field_has_its_rule_on_the_page():
    for field in SPEED_RULES:
        assert f"`{field}`" in PAGE.split("### What a box")[1]


def test_how_many_chips_for_a_budget():
    power, usd = rephaze.bill_cluster("tpuv4", power_w=2e6), rephaze.bill_cluster("tpuv4", cost_usd=50e6)
    held = rephaze.bill_cluster("tpuv4", power_w=2e6, chip_w=192)
    assert f"run on 2 MW? {power.most_chips:,}:" in PAGE
    assert f"$ rephaze bill tpuv4 --power-mw 2\n{power}\n```" in PAGE
    assert (
        f"`rephaze bill tpuv4 --musd 50`: {usd.most_chips:,}, which draw {usd.total('power') / 1e6:.2f} MW" in PAGE
    )
    each_usd = [one.total("usd") / one.num_chips for one in (usd, power)]
    assert f"They cost {each_usd[0]:,.0f} USD each instead of\n{each_usd[1]:,.0f}" in PAGE
    assert f"2 MW are enough for {held.most_chips:,}." in PAGE
