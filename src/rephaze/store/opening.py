"""How a run's database is opened: for recording, for reading, and where nothing can be written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from rephaze.errors import RunError
from rephaze.store.lock import LOCK_NAME
from rephaze.store.schema import DB_NAME

_BUSY_S = 5.0
MOST_SHOWN = 200
"""Characters of a folder's name in a message."""


def is_run(folder: Path) -> bool:
    """Whether ``folder`` holds a run, or what a search leaves that was killed before its first record."""
    return (folder / DB_NAME).is_file() or (folder / LOCK_NAME).is_file()


def check_is_run(folder: Path) -> None:
    """Raise ``RunError`` unless ``folder`` is a run's."""
    try:
        is_folder = folder.is_dir()
    except (OSError, ValueError):  # what cannot be a folder's name
        is_folder = False
    if not is_folder:
        raise RunError(f"{str(folder)[:MOST_SHOWN]}: no such folder; name the one a search wrote to")
    if not is_run(folder):
        raise RunError(f"{folder}: not a run: it has no {DB_NAME}; name the folder a search wrote to")


def connect(folder: Path, mode: str) -> sqlite3.Connection:
    """A connection to the folder's database, transactions left to the caller.

    Args:
        folder: The run folder.
        mode: ``rwc`` makes the file if needed, ``rw`` does not; ``immutable`` reads a file nobody writes to,
            without the side files that WAL needs.
    """
    query = "immutable=1" if mode == "immutable" else f"mode={mode}"
    uri = (folder / DB_NAME).absolute().as_uri() + "?" + query
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_S)


def make_writable(connection: sqlite3.Connection, folder: Path) -> None:
    """Set up a connection for recording: WAL, and a sync at each checkpoint.

    With WAL a commit is in the operating system's hands when it returns, so killing the process loses none.
    ``NORMAL`` leaves out the wait for the disk at each commit: a power cut can lose the last ones, whole, and
    never damages the file.
    """
    found = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if found != "wal":
        raise RunError(
            f"{folder}: the file system does not allow SQLite's write-ahead log; use a folder on a local disk"
        )
    connection.execute("PRAGMA synchronous = NORMAL")
    # For the triggers that keep the digests: they live in memory, and see rows that others replace.
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA recursive_triggers = ON")


def connect_to_read(folder: Path) -> sqlite3.Connection:
    """A connection that cannot change the run; where nothing can be written, without WAL's side files."""
    if not (folder / DB_NAME).is_file():
        raise RunError(f"{folder}: holds no run yet: its search ended before its first record")
    # "rw", not "ro": the last to close then tidies the side files away.
    connection = connect(folder, "rw")
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        log = folder / f"{DB_NAME}-wal"
        if log.exists() and log.stat().st_size:
            raise RunError(
                f"{folder}: is read-only and its last records are still in {log.name}; "
                "copy the folder to where it can be written and read it there"
            ) from None
        return connect(folder, "immutable")
    except BaseException:
        connection.close()
        raise
    return connection


def check_pages(connection: sqlite3.Connection, folder: Path) -> None:
    """Raise ``RunError`` if the file's structure is damaged: better now than after hours of search."""
    finding = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if finding != "ok":
        raise RunError(
            f"{folder}: {DB_NAME} is damaged ({' '.join(finding.split())}); start again in a new folder"
        )
