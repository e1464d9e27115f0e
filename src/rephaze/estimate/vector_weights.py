"""Lane cycles per element of vector functions, from the data file."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from rephaze.errors import UnsupportedError

_BACKWARD = "_backward"


@cache
def _tables() -> dict[str, dict[str, float]]:
    text = files("rephaze.estimate").joinpath("data", "vector_weights.toml").read_text("utf-8")
    return tomllib.loads(text)


def lane_ops(function: str) -> float:
    """Lane operations per element under the default model."""
    table = _tables()["default"]
    if function not in table:
        raise UnsupportedError(f"vector function {function!r} has no weight; known are {', '.join(sorted(table))}")
    return table[function]


def paper_lane_cycles(function: str) -> float:
    """Cycles per element by the paper's tables, forward or (``..._backward``) backward.

    Copies, casts and other functions its tables lack are free there or unknown to it; they cost one cycle here,
    as its plain elementwise operators do.
    """
    name, is_backward = function.removesuffix(_BACKWARD), function.endswith(_BACKWARD)
    return _tables()["paper_backward" if is_backward else "paper_forward"].get(name, 1.0)
