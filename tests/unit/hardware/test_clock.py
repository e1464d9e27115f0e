"""Voltage, energy and leakage over the clock."""

from dataclasses import asdict, fields, replace

import numpy as np
import pytest

from rephaze.errors import SpecError
from rephaze.hardware.clock import at_clock, check_clock, clock_scale, legal_clocks_hz, voltage_v
from rephaze.hardware.energy import access_energy, drawn_power, full_power
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.sourced_data import data_file
from rephaze.hardware.template import load_template
from rephaze.types.chip import chip_table
from rephaze.types.energy import AccessEnergy
from rephaze.types.space import AreaModel

NOMINAL_HZ = load_template("default").clock_hz
TPUV4 = chip_table([preset_chip("tpuv4")])
OFF_CHIP = ("hbm_j_per_byte_c", "link_j_per_byte_c")


def test_the_curve_goes_through_its_points_and_is_flat_below_them():
    points = np.array(data_file("clock.toml")["voltage"]["table"])
    assert voltage_v(points[:, 0]).tolist() == points[:, 1].tolist()
    assert voltage_v(np.array([legal_clocks_hz()[0]]))[0] == points[0, 1]
    assert voltage_v(np.array([1.05e9]))[0] == pytest.approx(0.780, abs=5e-4)


def test_every_value_has_a_grade_and_a_source():
    for name, entry in data_file("clock.toml").items():
        assert entry["grade"] in set("ABCDP"), name
        assert entry["source"], name


def test_neither_voltage_nor_scale_ever_falls_not_even_in_the_last_bit():
    slowest_hz, fastest_hz = legal_clocks_hz()
    clocks = [np.linspace(slowest_hz, fastest_hz, 20_001)]
    for point_hz, _ in data_file("clock.toml")["voltage"]["table"]:
        # Neighbouring doubles on both sides of a corner of the curve.
        clocks.append(point_hz + np.spacing(point_hz) * np.arange(-50, 51))
    clock_hz = np.clip(np.unique(np.concatenate(clocks)), slowest_hz, fastest_hz)
    scale = clock_scale(clock_hz, NOMINAL_HZ)
    for column in (voltage_v(clock_hz), scale.dynamic_c, scale.leakage_c):
        assert (np.diff(column) >= 0).all()


def test_at_the_nominal_clock_nothing_changes_in_any_bit():
    for model in AreaModel:
        energy = access_energy(TPUV4, model)
        same = at_clock(energy, clock_scale(TPUV4.clock_hz, NOMINAL_HZ))
        for field in fields(AccessEnergy):
            assert getattr(same, field.name).tolist() == getattr(energy, field.name).tolist()
        for name, watt in asdict(full_power(TPUV4, model)).items():
            assert asdict(drawn_power(TPUV4, same))[name].tolist() == watt.tolist()


def test_a_faster_clock_costs_what_is_on_the_chip_and_nothing_off_it():
    fast = replace(TPUV4, clock_hz=np.array([1.6e9]))
    energy = access_energy(fast, AreaModel.CORRECTED)
    scale = clock_scale(fast.clock_hz, NOMINAL_HZ)
    scaled = at_clock(energy, scale)
    for field in fields(AccessEnergy):
        ratio = getattr(scaled, field.name)[0] / getattr(energy, field.name)[0]
        expected = 1.0 if field.name in OFF_CHIP else scale.dynamic_c[0]
        expected = scale.leakage_c[0] if field.name == "idle_w_c" else expected
        assert ratio == pytest.approx(expected), field.name
    assert scale.dynamic_c[0] == pytest.approx((0.994 / 0.780) ** 2, rel=2e-3)
    # A clock 1.52 times as fast draws 2.5 times as much in the arrays.
    nominal_w = full_power(TPUV4, AreaModel.CORRECTED).arrays_w_c[0]
    assert drawn_power(fast, scaled).arrays_w_c[0] / nominal_w == pytest.approx(1.6 / 1.05 * scale.dynamic_c[0])


@pytest.mark.parametrize("clock_hz", [1.05, 1e8, 2.5e9, float("nan")])
def test_clocks_off_the_curve_are_refused(clock_hz):
    with pytest.raises(SpecError, match="clock_hz is"):
        check_clock("clock_hz", clock_hz)
