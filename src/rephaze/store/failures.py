"""Failures of the disk and of SQLite, told to the user in one line."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rephaze.errors import RunError

_MAX_CHARS = 200
_KEPT = "what was recorded before is kept"
# By primary result code; the text follows "FOLDER: cannot DO: ".
_SAID = {
    sqlite3.SQLITE_FULL: f"the disk is full; {_KEPT}: free some space and resume",
    sqlite3.SQLITE_IOERR: f"the disk failed ({{}}); {_KEPT}: check space and disk, then resume",
    sqlite3.SQLITE_READONLY: "the folder or its run.db is read-only; make it writable or use another folder",
    sqlite3.SQLITE_CANTOPEN: "run.db cannot be opened ({}); check that the folder may be read and written",
    sqlite3.SQLITE_PERM: "run.db may not be opened; check the folder's permissions",
    sqlite3.SQLITE_BUSY: "another program has locked run.db; close it and try again",
    sqlite3.SQLITE_LOCKED: "another program has locked run.db; close it and try again",
    sqlite3.SQLITE_CORRUPT: "run.db is damaged ({}); start again in a new folder",
    sqlite3.SQLITE_NOTADB: "run.db is not an SQLite database, so this is not a run",
}
# Breaches of our own rules or of the interface: bugs, to be seen with their traceback.
_OURS = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE)


@contextmanager
def reported(folder: Path, doing: str) -> Iterator[None]:
    """Turn failures of disk or database in the block into a ``RunError``: ``FOLDER: cannot DO: why; fix``."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None and isinstance(error, sqlite3.OperationalError):
            code = sqlite3.SQLITE_CORRUPT  # Python's own finding: text that is none
        if code is None or code & 0xFF in _OURS:
            raise
        said = _SAID.get(code & 0xFF, "{}").format(_one_line(error))
        raise RunError(f"{folder}: cannot {doing}: {said}") from error
    except UnicodeDecodeError as error:
        # SQLite's own message has a name in it that is damaged.
        said = _SAID.get(sqlite3.SQLITE_CORRUPT, "{}").format("a name in it is no text")
        raise RunError(f"{folder}: cannot {doing}: {said}") from error
    except OSError as error:
        raise RunError(f"{folder}: cannot {doing}: {_one_line(error.strerror or error)}") from error


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:_MAX_CHARS]
