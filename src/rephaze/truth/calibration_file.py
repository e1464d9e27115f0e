"""The file of calibrated constants, written from a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from rephaze.hardware.calibration import Constant

HEAD = """# Constants of the calibrated physics. Written by `rephaze calibrate`; do not edit values by hand.
# value: of the fit; ideal: of a machine that reaches its data sheet; start, leaning: what the fit leans to.
"""


def calibration_text(constants: Mapping[str, Constant], values: Mapping[str, float]) -> str:
    """The constants with new values, as TOML."""
    lines = [HEAD]
    for name, constant in constants.items():
        lines.append(f"[constants.{name}]")
        for one in fields(constant):
            if one.name == "name":
                continue
            value = values.get(name, constant.value) if one.name == "value" else getattr(constant, one.name)
            lines.append(f"{one.name} = {_toml(value)}")
        lines.append("")
    return "\n".join(lines)


def _toml(value: float | str) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{float(value):.6g}"
