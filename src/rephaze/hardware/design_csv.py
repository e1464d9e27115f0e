"""Designs from a CSV file, a chip a row."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from rephaze.errors import FileError, SpecError
from rephaze.hardware.template import build_chips, load_template
from rephaze.types.checks import check_count, did_you_mean
from rephaze.types.chip import ChipTable
from rephaze.types.csv_table import read_csv_table
from rephaze.types.space import AreaModel

REQUIRED = ("num_tensor_cores", "num_vector_cores", "width", "depth", "global_buffer_bytes")
OPTIONAL = ("vector_lanes", "num_hbm_stacks")
DEFAULT_HBM_STACKS = 4
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")


def read_designs(path: Path, model: AreaModel) -> ChipTable:
    """The chips of a CSV file, built by the template that goes with the area model."""
    header, lines = read_csv_table(path)
    _check_header(header, path.name)
    rows = [_row(number, header, line, path.name) for number, line in enumerate(lines, start=1)]
    if not rows:
        raise FileError(f"{path.name}: holds no chips; give a row below the header")
    columns = {name: np.array([row[name] for row in rows], dtype=np.int64) for name in REQUIRED + OPTIONAL}
    return build_chips(
        num_tensor_cores=columns["num_tensor_cores"],
        num_vector_cores=columns["num_vector_cores"],
        tensor_width=columns["width"],
        tensor_depth=columns["depth"],
        vector_lanes=columns["vector_lanes"],
        global_buffer_bytes=columns["global_buffer_bytes"],
        num_hbm_stacks=columns["num_hbm_stacks"],
        template=load_template("paper" if model is AreaModel.PAPER else "default"),
    )


def _check_header(header: list[str], source: str) -> None:
    """Raise if a needed column is missing, or one looks like a known one misspelt.

    Others, such as names or areas found before, may be there: tables of designs are written by people.
    """
    known = REQUIRED + OPTIONAL
    for name in REQUIRED:
        if name not in header:
            raise FileError(f"{source}: column {name} is missing; needed are {', '.join(REQUIRED)}")
    for name in header:
        if name not in known and (meant := did_you_mean(name, known)):
            rule = f"is not a known column; known are {', '.join(known)}"
            raise SpecError(f"{source}: column", name, rule, meant)


def _row(number: int, header: list[str], cells: list[str], source: str) -> dict[str, int]:
    record = dict(zip(header, cells, strict=True))

    def whole(column: str) -> int:
        field, text = f"{source} row {number}: {column}", record.get(column)
        if text is None or not text.strip():
            raise SpecError(field, text, "is missing")
        if not _WHOLE.fullmatch(text.strip()):
            raise SpecError(field, text, "must be a whole number")
        check_count(field, int(text), at_most=2**38)
        return int(text)

    found = {column: whole(column) for column in REQUIRED}
    found["vector_lanes"] = whole("vector_lanes") if record.get("vector_lanes") else found["width"]
    found["num_hbm_stacks"] = whole("num_hbm_stacks") if record.get("num_hbm_stacks") else DEFAULT_HBM_STACKS
    return found
