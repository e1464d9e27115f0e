"""Designs from a CSV file, a chip a row."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from rephaze.errors import FileError, SpecError
from rephaze.hardware.template import build_chips, load_template
from rephaze.types.checks import check_count
from rephaze.types.chip import ChipTable
from rephaze.types.files import read_text
from rephaze.types.space import AreaModel

REQUIRED = ("num_tensor_cores", "num_vector_cores", "width", "depth", "global_buffer_bytes")
OPTIONAL = ("vector_lanes", "num_hbm_stacks")
DEFAULT_HBM_STACKS = 4


def read_designs(path: Path, model: AreaModel) -> ChipTable:
    """The chips of a CSV file, built by the template that goes with the area model."""
    reader = csv.DictReader(io.StringIO(read_text(path)))
    header = reader.fieldnames or []
    missing = [name for name in REQUIRED if name not in header]
    if missing:
        raise FileError(f"{path.name}: column {missing[0]} is missing; needed are {', '.join(REQUIRED)}")
    rows = [_row(number, record, path.name) for number, record in enumerate(reader, start=1)]
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


def _row(number: int, record: dict[str, str | None], source: str) -> dict[str, int]:
    def whole(column: str) -> int:
        field, text = f"{source} row {number}: {column}", record.get(column)
        if text is None or not text.strip():
            raise SpecError(field, text, "is missing")
        try:
            value = int(text)
        except ValueError:
            raise SpecError(field, text, "must be a whole number") from None
        check_count(field, value, at_most=2**38)
        return value

    found = {column: whole(column) for column in REQUIRED}
    found["vector_lanes"] = whole("vector_lanes") if record.get("vector_lanes") else found["width"]
    found["num_hbm_stacks"] = whole("num_hbm_stacks") if record.get("num_hbm_stacks") else DEFAULT_HBM_STACKS
    return found
