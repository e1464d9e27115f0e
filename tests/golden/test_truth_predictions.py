"""Predictions of the shipped measured runs do not move unseen.

They are kept in the package (what errors to expect is read from them). A change that means to move them records
them anew and says so in the changelog: ``pytest tests/golden/test_truth_predictions.py --regen-golden``.
"""

import json
from importlib.resources import files
from pathlib import Path

import rephaze.truth.predictions as predictions
from rephaze.hardware import calibration as constants
from rephaze.truth.shipped_runs import shipped_runs
from rephaze.truth.validation import validate_runs

KEPT = Path(predictions.__file__).parent / "data" / predictions.FILE


def predicted():
    """By run: its line, calibrated seconds, seconds at data-sheet rates, bytes of the fullest device."""
    runs = shipped_runs()
    calibrated = validate_runs(runs, constants.calibrated(), "calibrated").rows
    ideal = validate_runs(runs, constants.ideal(), "ideal").rows
    return [
        [run.line, mine.predicted_s, bare.predicted_s, mine.fullest_bytes]
        for run, mine, bare in zip(runs, calibrated, ideal, strict=True)
    ]


def text_of(rows):
    lines = ",\n".join(json.dumps(row) for row in rows)
    return '{"columns": ["line", "calibrated_s", "ideal_s", "device_bytes"],\n "rows": [\n' + lines + "\n]}\n"


def moved_sources(before, after):
    """By source: how many predictions moved by more than a millionth, and by how much in the mean."""
    moved = {}
    for run, old, new in zip(shipped_runs(), before, after, strict=True):
        changes = [b / a - 1 for a, b in zip(old[1:], new[1:], strict=True)]
        if max(map(abs, changes)) > 1e-6:
            moved.setdefault(run.source, []).append(max(changes, key=abs))
    return {source: (len(found), sum(found) / len(found)) for source, found in sorted(moved.items())}


def test_predictions_are_those_kept(request):
    found = predicted()
    if request.config.getoption("--regen-golden"):
        KEPT.write_text(text_of(found), "utf-8")
        predictions.kept_predictions.cache_clear()
    moved = moved_sources(json.loads(KEPT.read_text("utf-8"))["rows"], found)
    told = "; ".join(f"{source}: {count} rows by {100 * by:+.2f} %" for source, (count, by) in moved.items())
    assert not moved, f"predictions moved, accept with --regen-golden: {told}"


def test_a_moved_prediction_is_told_by_its_source():
    rows = json.loads(KEPT.read_text("utf-8"))["rows"]
    other = [[rows[0][0], 1.01 * rows[0][1], *rows[0][2:]], *rows[1:]]
    ((source, (count, by)),) = moved_sources(rows, other).items()
    assert source == shipped_runs()[0].source
    assert count == 1
    assert abs(by - 0.01) < 1e-9


def test_kept_errors_are_within_what_the_page_says():
    rows = zip(shipped_runs(), predictions.kept_predictions(), strict=True)
    errors = [abs(kept.calibrated_s / run.measured_s - 1) for run, kept in rows]
    assert sum(errors) / len(errors) < 0.12
    assert sorted(errors)[len(errors) // 2] < 0.08


def test_every_run_says_where_it_is_from():
    for line in files("rephaze.truth").joinpath("data", "runs.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        assert len(record["cited"]) > 8, record
        assert record["measured_s"] > 0
