"""Fits the constants of the calibrated physics anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rephaze.errors import SpecError
from rephaze.types.truth import LeftOutRow


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What a fit found."""

    values: dict[str, float]
    in_sample: dict[str, float]
    """Mean absolute error of step times by source, a share."""
    model_left_out: dict[str, float]
    """Of each row from a fit without the rows of its model."""
    source_left_out: dict[str, float]
    rows: tuple[LeftOutRow, ...]
    """All fitted rows, with their models left out."""
    text: str
    """The file of constants."""

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "format": "rephaze.calibration/1",
            "values": self.values,
            "in_sample": self.in_sample,
            "model_left_out": self.model_left_out,
            "source_left_out": self.source_left_out,
            "rows": [asdict(row) for row in self.rows],
        }


def calibrate(paths: Sequence[str | Path], *, num_steps: int = 3) -> Calibration:
    """Fits the constants to the scored rows of these tables, and judges them with models and sources left out."""
    from rephaze.hardware.calibration import calibrated, load_constants
    from rephaze.truth.calibrate import FitProblem, fit_memory, fitted_rows, left_out_rows, source_errors
    from rephaze.truth.calibration_file import calibration_text
    from rephaze.truth.run_file import read_runs

    constants = load_constants()
    runs = [run for path in paths for run in read_runs(Path(path))]
    problem = FitProblem(fitted_rows(runs), constants)
    if not problem.runs:
        shown = ", ".join(str(path) for path in paths)
        rule = "holds no run to fit to: none is scored, states its time and can be modelled"
        raise SpecError("FILE", shown, rule, "rephaze validate says why of each row")
    fit = problem.fit(num_steps, calibrated())
    values = fit.values | fit_memory(runs, fit.values)
    without_model = fit.left_out(lambda run: run.model)
    return Calibration(
        values=values,
        in_sample=source_errors(fit, fit.predicted_s),
        model_left_out=source_errors(fit, without_model),
        source_left_out=source_errors(fit, fit.left_out(lambda run: run.source)),
        rows=left_out_rows(fit, without_model),
        text=calibration_text(constants, values),
    )
