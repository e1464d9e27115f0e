"""Predictions of the shipped runs, kept beside them: what errors to expect, and a gate against drift."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rephaze.truth import constants
from rephaze.truth.shipped_runs import shipped_runs
from rephaze.truth.validation import validate_runs

FILE = "predictions.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptPrediction:
    """Of one shipped run."""

    line: int
    calibrated_s: float
    ideal_s: float
    """Of machines that reach their data sheets."""
    device_bytes: float


def predict_shipped() -> list[KeptPrediction]:
    """Computed anew."""
    runs = shipped_runs()
    calibrated = validate_runs(runs, constants.calibrated(), "calibrated").rows
    ideal = validate_runs(runs, constants.ideal(), "ideal").rows
    return [
        KeptPrediction(
            line=run.line,
            calibrated_s=mine.predicted_s or 0.0,
            ideal_s=bare.predicted_s or 0.0,
            device_bytes=mine.fullest_bytes or 0.0,
        )
        for run, mine, bare in zip(runs, calibrated, ideal, strict=True)
    ]


@cache
def kept_predictions() -> tuple[KeptPrediction, ...]:
    """As kept."""
    text = files("rephaze.truth").joinpath("data", FILE).read_text("utf-8")
    return tuple(
        KeptPrediction(line=line, calibrated_s=calibrated_s, ideal_s=ideal_s, device_bytes=device_bytes)
        for line, calibrated_s, ideal_s, device_bytes in json.loads(text)["rows"]
    )


def predictions_text(rows: list[KeptPrediction]) -> str:
    """As the file keeps them."""
    lines = [json.dumps([row.line, row.calibrated_s, row.ideal_s, row.device_bytes]) for row in rows]
    return (
        '{"columns": ["line", "calibrated_s", "ideal_s", "device_bytes"],\n "rows": [\n'
        + ",\n".join(lines)
        + "\n]}\n"
    )


def moved_sources(before: list[KeptPrediction], after: list[KeptPrediction]) -> dict[str, tuple[int, float]]:
    """By source: how many predictions moved by more than a millionth, and by how much in the mean."""
    moved: dict[str, list[float]] = {}
    for run, old, new in zip(shipped_runs(), before, after, strict=True):
        pairs = (
            (old.calibrated_s, new.calibrated_s),
            (old.ideal_s, new.ideal_s),
            (old.device_bytes, new.device_bytes),
        )
        changes = [b / a - 1 for a, b in pairs]
        if max(map(abs, changes)) > 1e-6:
            moved.setdefault(run.source, []).append(max(changes, key=abs))
    return {source: (len(found), sum(found) / len(found)) for source, found in sorted(moved.items())}
