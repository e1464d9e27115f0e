"""The data files that ship with the package: TOML in which a value stands beside its grade and source."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True, slots=True)
class SourcedValue:
    """One published, derived or assumed value, a number or a name."""

    value: Any
    grade: str
    """A vendor's text, B secondary source or tool run, C recalled, D derived, P placeholder."""
    source: str
    note: str = ""


@cache
def data_file(name: str) -> dict[str, Any]:
    """The contents of ``data/<name>``, one object for all callers: copy before changing it."""
    return tomllib.loads(files("rephaze.hardware").joinpath("data", name).read_text("utf-8"))


def component_value(model: str, name: str) -> np.float64:
    """Area, energy or size of a component by its name (which has the unit), under an area model's name."""
    return np.float64(data_file("components.toml")[model][name]["value"])
