"""What another clock costs: the voltage it needs, and so the energy of an operation and leakage.

The legal clocks are those of a published curve at 7 nm. Everything here never falls as the clock rises, also in
floating point: the limits of a box of designs are decided at its corner.

Axis letters: c = chip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.sourced_data import data_file
from rephaze.types.checks import check_number
from rephaze.types.energy import AccessEnergy

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockScale:
    """Energies of each chip over those at the nominal clock; exactly 1 there."""

    dynamic_c: Floats
    """Of an operation or an access on the chip: voltage squared."""
    leakage_c: Floats
    """Of power drawn whatever runs."""


def legal_clocks_hz() -> tuple[float, float]:
    """The slowest and the fastest clock with a known voltage."""
    data = data_file("clock.toml")
    return float(data["least_clock_hz"]["value"]), float(data["voltage"]["table"][-1][0])


def check_clock(field: str, clock_hz: float) -> None:
    """Raise unless the voltage at this clock is known."""
    slowest_hz, fastest_hz = legal_clocks_hz()
    fix = "give hertz, for example 1.05e9"
    check_number(field, clock_hz, at_least=slowest_hz, at_most=fastest_hz, fix=fix)


def voltage_v(clock_hz_c: Floats) -> Floats:
    """The voltage each clock needs; clocks beyond the legal ones as the nearest of the curve."""
    points = np.array(data_file("clock.toml")["voltage"]["table"], dtype=np.float64)
    clock_hz, volt_v = points[:, 0], points[:, 1]
    left = np.clip(np.searchsorted(clock_hz, clock_hz_c, side="right") - 1, 0, len(points) - 2)
    slope = (volt_v[left + 1] - volt_v[left]) / (clock_hz[left + 1] - clock_hz[left])
    raised_v = volt_v[left] + slope * (clock_hz_c - clock_hz[left])
    # Held between its two points: rounding never lifts the end of one line above the start of the next.
    return np.clip(raised_v, volt_v[left], volt_v[left + 1])


def clock_scale(clock_hz_c: Floats, nominal_hz: float) -> ClockScale:
    """What energies at these clocks are, over those at the nominal clock.

    Args:
        clock_hz_c: The clocks.
        nominal_hz: The clock at which energies are as the component data says: the template's, or a known chip's
            own, which may be faster than the curve.
    """
    data = data_file("clock.toml")
    nominal_v = voltage_v(np.array([nominal_hz]))[0]
    clock_v = voltage_v(np.asarray(clock_hz_c, dtype=np.float64))
    ratio = clock_v / nominal_v
    # Off-current grows by a decade for each swing that the drain lowers the threshold by.
    decades_per_v = data["drain_lowering_v_per_v"]["value"] / data["subthreshold_swing_v"]["value"]
    return ClockScale(dynamic_c=ratio * ratio, leakage_c=ratio * 10.0 ** ((clock_v - nominal_v) * decades_per_v))


def at_clock(energy: AccessEnergy, scale: ClockScale) -> AccessEnergy:
    """Energies at another clock: what is on the chip follows its voltage, HBM and links have their own."""
    return AccessEnergy(
        mac_j_c=energy.mac_j_c * scale.dynamic_c,
        lane_op_j_c=energy.lane_op_j_c * scale.dynamic_c,
        register_j_per_byte_c=energy.register_j_per_byte_c * scale.dynamic_c,
        tensor_scratchpad_j_per_byte_c=energy.tensor_scratchpad_j_per_byte_c * scale.dynamic_c,
        vector_scratchpad_j_per_byte_c=energy.vector_scratchpad_j_per_byte_c * scale.dynamic_c,
        global_buffer_j_per_byte_c=energy.global_buffer_j_per_byte_c * scale.dynamic_c,
        hbm_j_per_byte_c=energy.hbm_j_per_byte_c,
        link_j_per_byte_c=energy.link_j_per_byte_c,
        idle_w_c=energy.idle_w_c * scale.leakage_c,
    )
