"""Measured runs beside what is predicted of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rephaze.errors import SpecError
from rephaze.types.output_files import HTML_PAGE, check_output
from rephaze.types.truth import Validation

PHYSICS = ("calibrated", "ideal")


def validate(paths: Sequence[str | Path], *, physics: str = "calibrated") -> Validation:
    """How far predictions are from the measured runs of these tables.

    Args:
        paths: CSV files in one of the layouts of docs/validation.md.
        physics: ``calibrated``, or ``ideal``: machines that reach their data sheets.
    """
    from rephaze.hardware import calibration as constants
    from rephaze.truth.validation import validate_files

    if physics not in PHYSICS:
        raise SpecError("physics", physics, f"must be one of {', '.join(PHYSICS)}")
    values = constants.calibrated() if physics == "calibrated" else constants.ideal()
    return validate_files([Path(path) for path in paths], values, physics)


def write_validation_page(validation: Validation, path: str | Path, *, reads: Sequence[str | Path] = ()) -> Path:
    """An HTML page: the scatter, errors by cause, the worst rows; never over one of ``reads``."""
    from rephaze.report.validation_page import write_validation

    check_output(Path(path), HTML_PAGE, reads)
    return write_validation(Path(path), validation)
