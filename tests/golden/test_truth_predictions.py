"""Predictions of the shipped measured runs do not move unseen.

They are kept in the package (what errors to expect is read from them). A change that means to move them records
them anew and says so in the changelog: ``pytest tests/golden/test_truth_predictions.py --regen-golden``.
"""

from pathlib import Path

import rephaze.truth.predictions as predictions
from rephaze.truth.shipped_runs import shipped_runs

KEPT = Path(predictions.__file__).parent / "data" / predictions.FILE


def test_predictions_are_those_kept(request):
    found = predictions.predict_shipped()
    if request.config.getoption("--regen-golden"):
        KEPT.write_text(predictions.predictions_text(found), "utf-8")
        predictions.kept_predictions.cache_clear()
    moved = predictions.moved_sources(list(predictions.kept_predictions()), found)
    told = "; ".join(
        f"{source}: {count} rows by {100 * change:+.2f} %" for source, (count, change) in moved.items()
    )
    assert not moved, f"predictions moved, accept with --regen-golden: {told}"


def test_kept_errors_are_within_what_the_page_says():
    rows = zip(shipped_runs(), predictions.kept_predictions(), strict=True)
    errors = [abs(kept.calibrated_s / run.measured_s - 1) for run, kept in rows]
    assert sum(errors) / len(errors) < 0.12
    assert sorted(errors)[len(errors) // 2] < 0.08


def test_every_run_says_where_it_is_from():
    import json
    from importlib.resources import files

    for line in files("rephaze.truth").joinpath("data", "runs.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        assert len(record["cited"]) > 8, record
        assert record["measured_s"] > 0
