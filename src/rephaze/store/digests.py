"""A chain of digests over the rows of a run, written with the rows: are they still those that were recorded?

Of every table the digests of its rows are added up: a row added, replaced or taken away costs one addition. Each
transaction appends the new totals of the tables it changed to the table ``digests``, each with a digest of itself
and of the entry before it. Rows and digests are in one transaction: a killed search has both or neither.

Digests tell damage and careless edits at once. They are no signature: who recomputes the chain fools them. So
``verify`` derives what can be derived, and its last digest is worth writing down elsewhere.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from rephaze.types.run_record import RecordedDigests

DIGESTS = "digests"
_FUNCTION = "rephaze_row"
_SIZE = 1 << 256
_EVENTS = (("insert", "NEW", 1), ("delete", "OLD", -1))


@dataclass(slots=True)
class TableTotal:
    """The rows of one table."""

    num_rows: int = 0
    total: int = 0

    def add(self, row: tuple[Any, ...], sign: int) -> None:
        """Take in a row, or take it out again."""
        self.num_rows += sign
        self.total = (self.total + sign * _row_digest(row)) % _SIZE


def _row_digest(row: tuple[Any, ...]) -> int:
    if 0.0 in row:  # SQLite drops the sign of a zero, but only when it stores it
        row = tuple(0.0 if isinstance(cell, float) and cell == 0 else cell for cell in row)
    return int.from_bytes(hashlib.sha256(repr(row).encode("utf-8", "surrogatepass")).digest(), "big")


def chained(before: str, entry: Iterable[Any]) -> str:
    """The digest of an entry and of all before it."""
    return hashlib.sha256(repr((before, *entry)).encode("utf-8", "surrogatepass")).hexdigest()


def _tables(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Every table that is watched, with its columns."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    names = [name for (name,) in found if name != DIGESTS and not name.startswith("sqlite_")]
    columns = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
    return {name: [column for (column,) in connection.execute(columns, (name,))] for name in names}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def table_total(connection: sqlite3.Connection, table: str, columns: Iterable[str]) -> TableTotal:
    """The rows a table has now."""
    found = TableTotal()
    listed = ", ".join(map(_quoted, columns))
    for row in connection.execute(f"SELECT {listed} FROM {_quoted(table)}"):  # noqa: S608
        found.add(row, 1)
    return found


class RowWatch:
    """Keeps the chain of a run while this process writes to it.

    Every row that is written passes triggers that only this connection has: no way of recording can forget them.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Watch a connection whose tables are all there, and go on from the chain on record.

        Of a run that has none the first ``write`` begins one with all rows it has by then.
        """
        self._connection = connection
        self._totals: dict[str, TableTotal] = {}
        self._changed: set[str] = set()
        self._last_id, self._chain = 0, ""
        self._load()
        self._before = self._state()
        connection.create_function(_FUNCTION, -1, self._take)
        for table, columns in _tables(connection).items():
            for event, side, sign in _EVENTS:
                self._add_trigger(table, event, [(sign, side)], columns)
            self._add_trigger(table, "update", [(-1, "OLD"), (1, "NEW")], columns)

    def _add_trigger(self, table: str, event: str, sides: list[tuple[int, str]], columns: list[str]) -> None:
        calls = "".join(
            f"SELECT {_FUNCTION}('{table}', {sign}, {', '.join(f'{side}.{_quoted(one)}' for one in columns)}); "
            for sign, side in sides
        )
        self._connection.execute(
            f"CREATE TEMP TRIGGER {_quoted(f'watch_{table}_{event}')} "
            f"AFTER {event} ON main.{_quoted(table)} BEGIN {calls}END"
        )

    def _take(self, table: str, sign: int, *row: Any) -> None:
        self._totals.setdefault(table, TableTotal()).add(row, sign)
        self._changed.add(table)

    def _load(self) -> None:
        rows = self._connection.execute(
            f"SELECT id, table_name, num_rows, total, chain FROM {DIGESTS} ORDER BY id"  # noqa: S608
        )
        for number, table, num_rows, total, chain in rows:
            self._totals[table] = TableTotal(int(num_rows), int(total, 16))
            self._last_id, self._chain = int(number), str(chain)

    def _state(self) -> tuple[dict[str, TableTotal], int, str]:
        return {table: replace(found) for table, found in self._totals.items()}, self._last_id, self._chain

    def undo(self) -> None:
        """Forget what was written since the transaction began that is undone."""
        totals, self._last_id, self._chain = self._before
        self._totals = {table: replace(found) for table, found in totals.items()}
        self._changed = set()

    def write(self, recorded_at: str) -> None:
        """Append the totals of the tables that changed; part of the transaction that changed them."""
        if not self._last_id:
            tables = _tables(self._connection)
            self._totals = {table: table_total(self._connection, table, own) for table, own in tables.items()}
            self._changed = {table for table, found in self._totals.items() if found.num_rows}
        for table in sorted(self._changed):
            found = self._totals[table]
            self._last_id += 1
            entry = (self._last_id, recorded_at, table, found.num_rows, f"{found.total:064x}")
            self._chain = chained(self._chain, entry)
            self._connection.execute(
                f"INSERT INTO {DIGESTS} (id, recorded_at, table_name, num_rows, total, chain) "  # noqa: S608
                "VALUES (?, ?, ?, ?, ?, ?)",
                (*entry, self._chain),
            )

    def keep(self) -> None:
        """The transaction holds."""
        self._changed = set()
        self._before = self._state()


def check_digests(connection: sqlite3.Connection) -> RecordedDigests:
    """What the chain says of the rows; all are read once, as they are at one moment."""
    connection.execute("BEGIN")
    try:
        return _checked(connection)
    finally:
        connection.execute("ROLLBACK")


def _checked(connection: sqlite3.Connection) -> RecordedDigests:
    row = connection.execute("SELECT digests_since, updated_at, created_at FROM run").fetchone()
    since, updated_at, created_at = row if row is not None else ("", "", "")
    is_own = since == created_at
    entries = connection.execute(
        f"SELECT id, recorded_at, table_name, num_rows, total, chain FROM {DIGESTS} ORDER BY id"  # noqa: S608
    ).fetchall()
    if since is None and not entries:
        return RecordedDigests(since=None, num_digests=0, last="", wrong=())
    wrong: list[str] = []
    before, recorded_at = "", ""
    last_of: dict[Any, tuple[Any, Any]] = {}
    written_at: dict[Any, Any] = {}
    for expected, (*entry, chain) in enumerate(entries, start=1):
        number, recorded_at, table, num_rows, total = entry
        if number != expected or chained(before, entry) != chain:
            wrong.append(f"digest {expected} does not follow from what is before it")
            break
        before, last_of[table], written_at[table] = chain, (num_rows, total), recorded_at
    else:
        if recorded_at != updated_at:
            wrong.append(f"run: last written {updated_at!r}, by the digests {recorded_at!r}")
        answered = connection.execute("SELECT recorded_at FROM result").fetchone()
        # The first digests of an older run are later than its answer.
        if answered is not None and answered[0] != written_at.get("result") and is_own:
            wrong.append(f"result: recorded {answered[0]!r}, by the digests {written_at.get('result')!r}")
        wrong += _wrong_tables(connection, last_of)
    if since is None:
        wrong.append("run: digests are there, but it says that it has none")
    return RecordedDigests(since=since or "", num_digests=len(entries), last=before, wrong=tuple(wrong))


def _wrong_tables(connection: sqlite3.Connection, last_of: dict[Any, tuple[Any, Any]]) -> list[str]:
    tables = _tables(connection)
    wrong = [f"{table}: the table is gone" for table in last_of if table not in tables]
    for table, columns in tables.items():
        found = table_total(connection, table, columns)
        num_rows, total = last_of.get(table, (0, f"{0:064x}"))
        if found.num_rows != num_rows:
            wrong.append(f"{table}: {found.num_rows} rows, {num_rows} were recorded")
        elif f"{found.total:064x}" != total:
            wrong.append(f"{table}: a row is not as it was recorded")
    return wrong
