"""A forger's means: cells and rows changed with plain SQL, and the chain of digests made to fit again."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from rephaze.store.digests import DIGESTS, chained, table_total
from rephaze.store.schema import DB_NAME


def opened(folder: Path):
    return closing(sqlite3.connect(folder / DB_NAME, isolation_level=None))


def columns_of(folder: Path) -> dict[str, list[str]]:
    """Every table of a run with its columns, whatever tables there are."""
    with opened(folder) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        return {
            name: [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')]
            for (name,) in tables
            if not name.startswith("sqlite_")
        }


def recompute_chain(folder: Path) -> None:
    """Make the digests fit the rows, as they would be had the rows been recorded so."""
    tables = columns_of(folder)
    with opened(folder) as connection:
        rows = connection.execute(
            f"SELECT id, recorded_at, table_name, num_rows, total FROM {DIGESTS} ORDER BY id"
        ).fetchall()
        last = {row[2]: at for at, row in enumerate(rows)}
        entries = [list(row) for row in rows]
        for table, columns in tables.items():
            if table == DIGESTS:
                continue
            found = table_total(connection, table, columns)
            if table not in last:
                if not found.num_rows:
                    continue
                last[table] = len(entries)
                entries.append([len(entries) + 1, entries[-1][1], table, 0, ""])
            entries[last[table]][3:] = found.num_rows, f"{found.total:064x}"
        before = ""
        connection.execute("BEGIN")
        connection.execute(f"DELETE FROM {DIGESTS}")
        for entry in entries:
            before = chained(before, entry)
            connection.execute(f"INSERT INTO {DIGESTS} VALUES (?, ?, ?, ?, ?, ?)", (*entry, before))
        connection.execute("COMMIT")


def leaves(document, path=()):
    """Paths of all values of a JSON document that are no list or object."""
    if isinstance(document, dict):
        for key, item in document.items():
            yield from leaves(item, (*path, key))
    elif isinstance(document, list):
        for at, item in enumerate(document):
            yield from leaves(item, (*path, at))
    else:
        yield path


def at_path(document, path):
    for step in path:
        document = document[step]
    return document


def with_leaf(text: str, path, change) -> str:
    """The document with one value changed."""
    document = json.loads(text)
    *way, last = path
    inside = at_path(document, way)
    inside[last] = change(inside[last])
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def without_last(text: str, path) -> str:
    """The document with the last entry of a list left out."""
    document = json.loads(text)
    at_path(document, path).pop()
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def lists(document, path=()):
    """Paths of all lists with an entry."""
    if isinstance(document, dict):
        for key, item in document.items():
            yield from lists(item, (*path, key))
    elif isinstance(document, list):
        if document:
            yield path
        for at, item in enumerate(document):
            yield from lists(item, (*path, at))
