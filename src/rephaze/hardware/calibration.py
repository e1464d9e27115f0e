"""The calibrated constants: names, units, bounds and values, stored with the fit they come from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rephaze.hardware.sourced_data import data_file

NO_POWER_LIMIT = "power_exponent"
"""Set to 0 beside the constants of ideal machines: data sheets know no limit of power."""

PRODUCTS_AS = {"gaudi": "tpu-128"}
"""Families whose products go with another's: Gaudi's matrix engines are arrays that are filled as TPUs' are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Constant:
    """One of them."""

    name: str
    value: float
    ideal: float
    """What a machine that loses nothing would have."""
    low: float
    high: float
    start: float
    """Where a fit starts, and what it leans to where rows say nothing."""
    leaning: float
    """Factor (as a natural logarithm) by which it may leave the start at a cost of one row."""
    unit: str
    meaning: str


@cache
def load_constants() -> dict[str, Constant]:
    """All of them, by name."""
    constants = data_file("calibration.toml")["constants"]
    return {name: Constant(name=name, **values) for name, values in constants.items()}


def calibrated() -> dict[str, float]:
    """The values of the fit."""
    return {name: constant.value for name, constant in load_constants().items()}


def ideal() -> dict[str, float]:
    """Values of a machine that reaches its data sheet."""
    return {name: constant.ideal for name, constant in load_constants().items()} | {NO_POWER_LIMIT: 0.0}


def product_constant(family: str) -> str:
    """The name of the constant of a family's products."""
    return "product_" + PRODUCTS_AS.get(family, family).replace("-", "_")
