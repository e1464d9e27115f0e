"""Every way a run is tampered with: each column of each table, each row, each value of a JSON document."""

import json
import math
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rephaze.store.digests import DIGESTS
from tests.tampering.forging import at_path, columns_of, leaves, lists, opened, with_leaf, without_last

CHANGED, NEGATED, TEXT, NULL, SWAPPED = "changed", "negated", "text", "null", "swapped"
DROPPED, DUPLICATED, EMPTIED, GONE = "row dropped", "row duplicated", "all rows dropped", "table dropped"
SHORTENED = "shortened"
ROW = "(row)"
OTHER_TEXT = "zzz"


@dataclass(frozen=True)
class Tampering:
    """One change to one run."""

    table: str
    column: str
    """``ROW`` where whole rows are changed."""
    way: str
    statements: tuple[tuple[str, tuple], ...]
    leaf: str = ""
    """Of a JSON document: which value."""

    def __str__(self) -> str:
        return f"{self.table}.{self.column}{' ' + self.leaf if self.leaf else ''}: {self.way}"

    def apply(self, folder: Path) -> bool:
        """Do it; False if the database itself does not allow it."""
        with opened(folder) as connection:
            connection.execute("BEGIN")
            try:
                for statement, parameters in self.statements:
                    connection.execute(statement, parameters)
            except sqlite3.IntegrityError:
                connection.execute("ROLLBACK")
                return False
            connection.execute("COMMIT")
        return True


def all_ways(folder: Path) -> Iterator[Tampering]:
    """Everything that is tried on a run."""
    for table, columns in columns_of(folder).items():
        if table == DIGESTS:
            continue
        with opened(folder) as connection:
            key = _key(connection, table)
            keys = connection.execute(f'SELECT {key} FROM "{table}" ORDER BY {key}').fetchall()
        if not keys:
            continue
        yield from _row_ways(table, columns, key, [one for (one,) in keys], folder)
        for column in columns:
            yield from _column_ways(table, column, key, folder)


def _key(connection: sqlite3.Connection, table: str) -> str:
    """What tells a row of a table from the others."""
    try:
        connection.execute(f'SELECT rowid FROM "{table}" LIMIT 1')
    except sqlite3.OperationalError:  # without rowid
        return "design"
    return "rowid"


def _row_ways(table, columns, key, keys, folder) -> Iterator[Tampering]:
    middle = keys[len(keys) // 2]
    yield Tampering(table, ROW, DROPPED, ((f'DELETE FROM "{table}" WHERE {key} = ?', (middle,)),))
    if len(keys) > 1:
        yield Tampering(table, ROW, EMPTIED, ((f'DELETE FROM "{table}"', ()),))
    yield Tampering(table, ROW, GONE, ((f'DROP TABLE "{table}"', ()),))
    first = columns[0]
    with opened(folder) as connection:
        value = connection.execute(f'SELECT "{first}" FROM "{table}" WHERE {key} = ?', (middle,)).fetchone()[0]
        if isinstance(value, int):
            fresh = connection.execute(f'SELECT max("{first}") + 1 FROM "{table}"').fetchone()[0]
        else:
            fresh = f"{value} again"
    names = ", ".join(f'"{one}"' for one in columns)
    others = ", ".join(["?", *(f'"{one}"' for one in columns[1:])])
    yield Tampering(
        table,
        ROW,
        DUPLICATED,
        ((f'INSERT INTO "{table}" ({names}) SELECT {others} FROM "{table}" WHERE {key} = ?', (fresh, middle)),),
    )


def _column_ways(table, column, key, folder) -> Iterator[Tampering]:
    with opened(folder) as connection:
        rows = connection.execute(f'SELECT {key}, "{column}" FROM "{table}" ORDER BY {key}').fetchall()
    at, value = rows[len(rows) // 2]
    update = f'UPDATE "{table}" SET "{column}" = ? WHERE {key} = ?'
    other = next(((one, cell) for one, cell in rows if cell != value), None)

    def put(way, cell, leaf=""):
        return Tampering(table, column, way, ((update, (cell, at)),), leaf)

    document = _document(value)
    if document is not None:
        for path in leaves(document):
            for way, change in _LEAF_WAYS:
                if change(at_path(document, path)) != at_path(document, path):
                    yield put(way, with_leaf(value, path, change), _said(path))
        for path in lists(document):
            yield put(SHORTENED, without_last(value, path), _said(path))
    elif isinstance(value, str):
        yield put(CHANGED, _next_text(value))
    elif value is None:
        yield put(CHANGED, 1)
    else:
        yield put(CHANGED, _changed(value))
        yield put(NEGATED, -value - (value == 0))
    yield put(TEXT, OTHER_TEXT)
    yield put(NULL, None)
    if other is not None:
        steps = ((update, (other[1], at)), (update, (value, other[0])))
        yield Tampering(table, column, SWAPPED, steps)


def _document(value):
    if not isinstance(value, str) or not value.startswith("{"):
        return None
    return json.loads(value)


def _changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 + 1e-3 if math.isfinite(value) else 1.0
    return _next_text(value) if isinstance(value, str) else 1


def _negated(value):
    return -value if isinstance(value, int | float) and not isinstance(value, bool) else value


_LEAF_WAYS = ((CHANGED, _changed), (NEGATED, _negated))


def _next_text(text):
    """Another text of the same kind: a time a second later, a digest with another digit, a word with one more."""
    if text and text[-1].isdigit():
        return text[:-1] + str((int(text[-1]) + 1) % 10)
    return text.replace(":", ":0", 1) if text.endswith("+00:00") else text + "x"


def _said(path):
    """A place in a document, positions in lists left out."""
    return ".".join("*" if isinstance(step, int) else str(step) for step in path)
