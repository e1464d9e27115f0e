"""Run databases as older versions wrote them, and rows changed behind the back of the store."""

import sqlite3
from contextlib import closing
from pathlib import Path

from rephaze.store.schema import DB_NAME

ADDED_LATER = {"run": ("digests_since", "num_sessions"), "sessions": ("settings_digest", "elapsed_s")}
TABLES_ADDED_LATER = {4: ("digests",), 3: ("systems",), 2: ("closed_boxes", "open_boxes"), 1: ("known_chips",)}


def edited(folder: Path, *statements: str, parameters: tuple = ()) -> None:
    """Change the database of a run with plain SQL."""
    with closing(sqlite3.connect(folder / DB_NAME)) as connection, connection:
        for statement in statements:
            connection.execute(statement, parameters)


def as_format(folder: Path, version: int) -> None:
    """Take from a run what formats after this one brought."""
    columns = [f"ALTER TABLE {table} DROP COLUMN {name}" for table, own in ADDED_LATER.items() for name in own]
    tables = [f"DROP TABLE {name}" for at, names in TABLES_ADDED_LATER.items() if at >= version for name in names]
    edited(folder, *columns, *tables, f"PRAGMA user_version = {version}")
