"""Figures that ship with the package: values with grade and source, read from data files."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One published, derived or assumed value."""

    value: Any
    grade: str
    """A vendor's text, B secondary source or tool run, C recalled, D derived, P placeholder."""
    source: str
    note: str = ""


@cache
def data_file(name: str) -> dict[str, Any]:
    """The contents of ``data/<name>``."""
    return tomllib.loads(files("rephaze.hardware").joinpath("data", name).read_text("utf-8"))


def figure(section: str, name: str) -> np.float64:
    """A component's value by area or energy model and name."""
    return np.float64(data_file("components.toml")[section][name]["value"])
