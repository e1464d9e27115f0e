"""A small recorded run, for commands that read one, and edits of its rows."""

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.fuzz.seeds import RUN_FILE, graph
from tests.fuzz.toml_text import toml_text


def record_run(folder: Path) -> Path:
    """Search a few chips for a tiny model and return the run's folder."""
    from rephaze.api import explore

    (folder / "graph.json").write_text(json.dumps(graph()))
    asked = RUN_FILE | {"search": RUN_FILE["search"] | {"models": [str(folder / "graph.json")]}}
    (folder / "run.toml").write_text(toml_text(asked))
    explore(config=folder / "run.toml", store=folder / "run", num_workers=1)
    return folder / "run"


CELLS = (
    None,
    "",
    -1,
    0,
    7,
    1e308,
    float("inf"),
    "x",
    b"\xff\xfe",
    "\x1b[31m",
    "[/x]",
    "{}",
    "[]",
    "[1]",
    "null",
    2**62,
)


def edit_rows(rng: random.Random, path: Path) -> str:
    """Change a run through SQLite, so that its file stays sound, and say how; its digests stay as they are."""
    with closing(sqlite3.connect(path)) as connection, connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        held = [name for name in names if connection.execute(f'SELECT 1 FROM "{name}"').fetchone()]  # noqa: S608
        table = rng.choice(held)
        way = rng.choice(("cell", "cell", "cell", "column", "row", "rows", "table"))
        key = next(row[1] for row in connection.execute(f'PRAGMA table_info("{table}")') if row[5])
        first = f'"{key}" = (SELECT min("{key}") FROM "{table}")'  # noqa: S608
        if way in ("cell", "column"):
            column = rng.choice([row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')])
            value = rng.choice(CELLS)
            where = f'"{column}" IS NOT ?1' + (f" AND {first}" if way == "cell" else "")
            try:
                done = connection.execute(f'UPDATE "{table}" SET "{column}" = ?1 WHERE {where}', (value,))  # noqa: S608
            except sqlite3.IntegrityError:  # SQLite itself refuses it
                done = None
            if done is not None and done.rowcount:
                return f"run.db: {way} {table}.{column} = {value!r}"
        if way in ("table", "rows"):
            connection.execute(f'DROP TABLE "{table}"' if way == "table" else f'DELETE FROM "{table}"')  # noqa: S608
        else:
            connection.execute(f'DELETE FROM "{table}" WHERE {first}')  # noqa: S608
        return f"run.db: {way} of {table} dropped"
