"""Tables of a run as CSV or Parquet files, cell for cell: nothing is escaped, rounded or left out."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

from rephaze.errors import FileError, MissingExtraError
from rephaze.store.lock import LOCK_NAME
from rephaze.store.reader import RunReader
from rephaze.store.record_json import Json, canonical_text, to_json
from rephaze.store.schema import DB_NAME
from rephaze.store.tables import FlatTable, TableName, flat_table
from rephaze.types.output_files import FileKind, whole_file, write_whole

_ROWS_A_BATCH = 20_000
_NUM_ALIKE_BYTES = 24
"""Files of one kind begin alike for so long."""


class FileFormat(StrEnum):
    """What a table can be written as."""

    CSV = "csv"
    PARQUET = "parquet"


FILE_KINDS = {
    FileFormat.CSV: FileKind(
        name="a CSV table of a run", starts=(b"design,", b"model,design,", b"least_", b"elapsed_s,")
    ),
    FileFormat.PARQUET: FileKind(name="a Parquet file", starts=(b"par1",)),
}


def run_files(folder: Path) -> list[Path]:
    """The files a run lives in: nothing may be written over them."""
    return [folder / name for name in (DB_NAME, f"{DB_NAME}-wal", f"{DB_NAME}-shm", LOCK_NAME)]


def export_table(run: RunReader, name: TableName, out: Path, file_format: FileFormat) -> int:
    """Write one table of the run to ``out`` and return its number of rows.

    The file appears, or replaces the one before, only when it is whole.

    Raises:
        FileError: ``out`` cannot be written, or is one of the run's own files.
        MissingExtraError: Parquet is asked for and pyarrow is not installed.
    """
    info = run.info()
    facts = {"settings": to_json(info.settings), "versions": to_json(info.versions)}
    return write_table(flat_table(run, name), out, file_format, facts, run_files(run.folder))


def write_table(
    table: FlatTable, out: Path, file_format: FileFormat, facts: dict[str, Json], reads: Sequence[Path] = ()
) -> int:
    """Write a table to ``out`` and return its number of rows; a Parquet file holds the facts about it, too."""
    try:
        with whole_file(out, FILE_KINDS[file_format], reads) as path:
            if file_format is FileFormat.CSV:
                return _write_csv(table, path)
            return _write_parquet(table, path, facts)
    except UnicodeEncodeError as error:
        raise FileError(f"{out}: a cell is not valid text ({error.object!r}); export as csv") from None


def _write_csv(table: FlatTable, path: Path) -> int:
    num_rows = 0
    # A file's name may hold bytes that are no text: they are written as the bytes they were.
    with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(column.name for column in table.columns)
        for row in table.rows:
            writer.writerow([str(cell).lower() if isinstance(cell, bool) else cell for cell in row])
            num_rows += 1
    return num_rows


def _write_parquet(table: FlatTable, path: Path, facts: dict[str, Json]) -> int:
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter
    except ImportError:
        raise MissingExtraError(
            "Parquet files need pyarrow: pip install 'rephaze[parquet]', or export as csv"
        ) from None
    kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema(
        [(column.name, kinds[column.kind]) for column in table.columns],
        metadata={"rephaze": canonical_text(facts)},
    )
    num_rows = 0
    with ParquetWriter(path, schema) as writer:
        while rows := list(islice(table.rows, _ROWS_A_BATCH)):
            columns: list[Any] = [
                pa.array(cells, type=field.type)
                for cells, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            num_rows += len(rows)
    return num_rows


def write_text(text: str, out: Path, reads: Sequence[Path] = ()) -> None:
    """Write a text file, whole or not at all; over another only if that begins alike.

    Raises:
        FileError: It cannot be written.
    """
    content = text.encode("utf-8", errors="surrogateescape")
    begins = b"".join(content[:_NUM_ALIKE_BYTES].split()).lower()
    write_whole(out, content, FileKind(name="a file like the one to be written", starts=(begins,)), reads)
