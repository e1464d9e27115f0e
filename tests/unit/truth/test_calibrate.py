"""Refits without some rows: regularised, within bounds, blind to what is left out."""

from dataclasses import replace

import numpy as np
import pytest

from rephaze.hardware.calibration import calibrated, load_constants
from rephaze.truth.calibrate import FitProblem, left_out_rows, source_errors
from rephaze.truth.shipped_runs import shipped_runs


def few_runs():
    return [run for run in shipped_runs() if run.source.startswith(("Megatron-LM SC21", "Korthikanti22 T5"))]


@pytest.fixture(scope="module")
def fit():
    return FitProblem(few_runs(), load_constants()).fit(0, calibrated())


def test_what_is_left_out_does_not_decide_its_prediction(fit):
    """Rows of one model twice as slow: their own refit must not see it."""
    runs = few_runs()
    model = runs[0].model
    slower = [replace(run, measured_s=2 * run.measured_s) if run.model == model else run for run in runs]
    other = FitProblem(slower, load_constants()).fit(0, calibrated())
    out = np.array([run.model == model for run in runs])
    mine, theirs = fit.without(out), other.without(out)
    assert mine == pytest.approx(theirs)
    kept = np.zeros(len(runs), dtype=bool)
    assert fit.without(kept)["product_ampere"] > other.without(kept)["product_ampere"]


def test_refits_stay_within_bounds_and_lean_to_the_start(fit):
    constants = load_constants()
    out = np.array([run.source.startswith("Korthikanti") for run in fit.runs])
    found = fit.without(out)
    for name, value in found.items():
        assert constants[name].low * 0.999 <= value <= constants[name].high * 1.001, name
    # No row here has a TPU: such constants go to where they start.
    start = np.log(constants["product_tpu_128"].start)
    before, after = (abs(np.log(values["product_tpu_128"]) - start) for values in (fit.values, found))
    assert after <= before + 1e-9


def test_left_out_rows_are_told_one_by_one(fit):
    predicted = fit.left_out(lambda run: run.model)
    rows = left_out_rows(fit, predicted)
    assert [row.model for row in rows] == [run.model for run in fit.runs]
    errors = source_errors(fit, predicted)
    mine = [abs(row.error_share) for row in rows if row.source == rows[0].source]
    assert errors[rows[0].source] == pytest.approx(sum(mine) / len(mine))
    assert errors["mean over sources"] < 0.2
