"""The tables of a run's database, as named migrations."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from rephaze.errors import RunError

DB_NAME = "run.db"
APPLICATION_ID = 0x72705A31
"""Marks an SQLite file as a run of ours (``PRAGMA application_id``)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Migration:
    """One step from an older database to a newer; never edited once released, only followed by another."""

    name: str
    statements: tuple[str, ...]


MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        name="first tables",
        statements=(
            """CREATE TABLE run (
                id INTEGER PRIMARY KEY CHECK (id = 1),
                settings TEXT NOT NULL,
                versions TEXT NOT NULL,
                created_at TEXT NOT NULL,
                updated_at TEXT NOT NULL
            )""",
            """CREATE TABLE sessions (
                id INTEGER PRIMARY KEY,
                started_at TEXT NOT NULL,
                pid INTEGER NOT NULL,
                versions TEXT NOT NULL
            )""",
            """CREATE TABLE designs (
                design INTEGER PRIMARY KEY,
                num_tensor_cores INTEGER NOT NULL,
                tensor_width INTEGER NOT NULL,
                tensor_depth INTEGER NOT NULL,
                num_vector_cores INTEGER NOT NULL,
                vector_lanes INTEGER NOT NULL,
                tensor_scratchpad_bytes INTEGER NOT NULL,
                vector_scratchpad_bytes INTEGER NOT NULL,
                global_buffer_bytes INTEGER NOT NULL,
                num_hbm_stacks INTEGER NOT NULL,
                hbm_bytes INTEGER NOT NULL,
                hbm_bytes_per_s REAL NOT NULL,
                clock_hz REAL NOT NULL,
                scratchpad_bytes_per_cycle REAL NOT NULL,
                global_buffer_bytes_per_cycle REAL NOT NULL,
                global_buffer_multicast INTEGER NOT NULL,
                area_um2 REAL NOT NULL
            )""",
            "CREATE TABLE bound_names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
            # model: position in the settings' list, or -1 for the objective over all models.
            """CREATE TABLE bounds (
                model INTEGER NOT NULL,
                design INTEGER NOT NULL,
                bound REAL NOT NULL,
                removed_by INTEGER REFERENCES bound_names (id),
                PRIMARY KEY (model, design)
            ) WITHOUT ROWID""",
            # evaluation: the whole record as JSON; the other columns repeat what queries ask for.
            """CREATE TABLE evaluations (
                design INTEGER PRIMARY KEY,
                is_exact INTEGER NOT NULL,
                objective REAL NOT NULL,
                bound REAL NOT NULL,
                evaluation TEXT NOT NULL
            )""",
            """CREATE TABLE incumbents (
                id INTEGER PRIMARY KEY,
                elapsed_s REAL NOT NULL,
                objective REAL NOT NULL,
                bound REAL NOT NULL,
                design INTEGER
            )""",
            """CREATE TABLE result (
                id INTEGER PRIMARY KEY CHECK (id = 1),
                status TEXT NOT NULL,
                objective REAL NOT NULL,
                bound REAL NOT NULL,
                result TEXT NOT NULL,
                recorded_at TEXT NOT NULL
            )""",
        ),
    ),
    Migration(
        name="known chips",
        statements=(
            # answer: the whole record as JSON; the other columns repeat what queries ask for.
            """CREATE TABLE known_chips (
                name TEXT PRIMARY KEY,
                objective REAL NOT NULL,
                bound REAL NOT NULL,
                answer TEXT NOT NULL
            )""",
        ),
    ),
    Migration(
        name="boxes of designs",
        statements=(
            # ranges: first and last position of each field, as "0-3 2-2 ...".
            """CREATE TABLE closed_boxes (
                id INTEGER PRIMARY KEY,
                ranges TEXT NOT NULL,
                bound REAL NOT NULL,
                closed_by INTEGER NOT NULL REFERENCES bound_names (id)
            )""",
            """CREATE TABLE open_boxes (
                id INTEGER PRIMARY KEY,
                ranges TEXT NOT NULL,
                bound REAL NOT NULL,
                bounded_by TEXT NOT NULL
            )""",
        ),
    ),
    Migration(
        name="systems",
        statements=(
            # Of a search with systems; ranges of its boxes then begin with the number of their system.
            """CREATE TABLE systems (
                system INTEGER PRIMARY KEY,
                clock_hz REAL NOT NULL,
                hbm TEXT NOT NULL,
                hbm_layers INTEGER NOT NULL,
                num_inside_links REAL NOT NULL,
                num_outside_links REAL NOT NULL,
                node_size INTEGER NOT NULL,
                num_chips INTEGER NOT NULL
            )""",
        ),
    ),
    Migration(
        name="digests and the run's clock",
        statements=(
            # One entry a table and transaction that changed it (store/digests.py).
            """CREATE TABLE digests (
                id INTEGER PRIMARY KEY,
                recorded_at TEXT NOT NULL,
                table_name TEXT NOT NULL,
                num_rows INTEGER NOT NULL,
                total TEXT NOT NULL,
                chain TEXT NOT NULL
            )""",
            # Null: recorded without digests. What a session repeats tells an edit of the one from the other.
            "ALTER TABLE run ADD COLUMN digests_since TEXT",
            "ALTER TABLE run ADD COLUMN num_sessions INTEGER",
            "ALTER TABLE sessions ADD COLUMN settings_digest TEXT",
            "ALTER TABLE sessions ADD COLUMN elapsed_s REAL NOT NULL DEFAULT 0",
        ),
    ),
)


class DatabaseState(Enum):
    """What a database file holds."""

    EMPTY = auto()
    """Nothing: new, or its maker was killed before the first transaction."""
    OLDER = auto()
    """A run that lacks some migrations."""
    CURRENT = auto()


def inspect(connection: sqlite3.Connection, folder: Path) -> DatabaseState:
    """What the database holds; ``RunError`` if it is not a run or of a newer format. Changes nothing."""
    num_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    if application_id != APPLICATION_ID:
        if num_tables == 0 and application_id == 0:
            return DatabaseState.EMPTY
        raise RunError(f"{folder}: its {DB_NAME} belongs to another program, so this is not a run")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise RunError(
            f"{folder}: the run has format {version}, this rephaze knows formats up to {len(MIGRATIONS)}; "
            "use the newer rephaze that made it"
        )
    return DatabaseState.CURRENT if version == len(MIGRATIONS) else DatabaseState.OLDER


def migrate(connection: sqlite3.Connection) -> None:
    """Apply the migrations the database lacks, inside the caller's transaction."""
    assert connection.in_transaction, "all migrations or none"
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for migration in MIGRATIONS[version:]:
        for statement in migration.statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
