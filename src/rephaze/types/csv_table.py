"""Tables that enter as CSV: one header, rows of its length, nothing given twice."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from rephaze.errors import FileError, SpecError
from rephaze.types.files import read_text

MAX_ROWS = 1_000_000


def read_csv_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table, each row as long as the header; empty lines are left out.

    Raises:
        FileError: It is no CSV, has no rows, too many, or a column twice.
        SpecError: A row is longer or shorter than the header: its cells would be read a column off.
    """
    name = path.name
    try:
        text = io.StringIO(read_text(path), newline="")
        header, *rows = [line for line in csv.reader(text, strict=True) if line] or [[]]
    except csv.Error as error:
        raise FileError(f"{name}: not valid CSV ({error})") from None
    header = [cell.strip() for cell in header]
    for at, column in enumerate(header):
        if column in header[:at]:
            raise FileError(f"{name}: column {column[:80]} is given twice")
    if len(rows) > MAX_ROWS:
        raise FileError(f"{name}: has {len(rows):,} rows; the most is {MAX_ROWS:,}")
    for number, row in enumerate(rows, start=1):
        if len(row) > len(header):
            rule = f"is a cell too much: there are {len(header)} columns"
            raise SpecError(f"{name} row {number}", row[len(header)], rule)
        if len(row) < len(header):
            rule = f"is too short: there are {len(header)} columns; leave a cell empty for what is not given"
            raise SpecError(f"{name} row {number}", ",".join(row), rule)
    return header, rows
