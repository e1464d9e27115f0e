"""Predictions of the shipped runs, kept beside them: what errors to expect. A test keeps them from drifting."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

FILE = "predictions.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptPrediction:
    """Of one shipped run."""

    line: int
    calibrated_s: float
    ideal_s: float
    """Of machines that reach their data sheets."""
    device_bytes: float


@cache
def kept_predictions() -> tuple[KeptPrediction, ...]:
    """As kept."""
    text = files("rephaze.truth").joinpath("data", FILE).read_text("utf-8")
    return tuple(
        KeptPrediction(line=line, calibrated_s=calibrated_s, ideal_s=ideal_s, device_bytes=device_bytes)
        for line, calibrated_s, ideal_s, device_bytes in json.loads(text)["rows"]
    )
