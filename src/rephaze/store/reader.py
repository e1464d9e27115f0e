"""Reading a run: its settings, designs, bounds, evaluations and answer as records.

Axis letters: c = chip (design).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Self

import numpy as np

from rephaze.errors import RunError
from rephaze.store.box_text import ranges_of
from rephaze.store.failures import reported
from rephaze.store.record_json import Json, from_json
from rephaze.store.schema import DB_NAME
from rephaze.types.boxes import ClosedBox, OpenBox
from rephaze.types.chip import ChipTable, FloatColumn
from rephaze.types.comparison import ChipAnswer
from rephaze.types.run_record import NOT_REMOVED, BoundTable, Incumbent, RunInfo, RunVersions
from rephaze.types.search import Evaluation, SearchResult, SearchSettings
from rephaze.types.system import ListedSystem

ALL_MODELS = -1
"""In the bounds' table: bounds on the objective over all models."""
CHIP_FIELDS = tuple(field.name for field in fields(ChipTable))
SYSTEM_FIELDS = tuple(field.name for field in fields(ListedSystem))


class RunReader:
    """An open run. Use it in a ``with`` block, from one thread, in the process that opened it."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        """Wrap an open database; callers use ``RunStore.read``, ``create`` or ``resume``."""
        self.folder = folder
        self._connection = connection

    def close(self) -> None:
        """Close the database; a second call does nothing."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def info(self) -> RunInfo:
        """The run's settings, versions and times."""
        with self._reading():
            created_at, updated_at, num_sessions = self._connection.execute(
                "SELECT created_at, updated_at, (SELECT count(*) FROM sessions) FROM run"
            ).fetchone()
            return RunInfo(
                settings=from_json(SearchSettings, self._stored("settings")),
                versions=from_json(RunVersions, self._stored("versions")),
                created_at=created_at,
                updated_at=updated_at,
                num_sessions=num_sessions,
            )

    def designs(self) -> tuple[ChipTable, FloatColumn] | None:
        """The enumerated chips and their areas, or ``None`` if they were not recorded."""
        with self._reading():
            names = ", ".join((*CHIP_FIELDS, "area_um2"))
            rows = self._connection.execute(f"SELECT {names} FROM designs ORDER BY design").fetchall()  # noqa: S608
        if not rows:
            return None
        *chip_columns, area_um2 = zip(*rows, strict=True)
        arrays = {name: np.array(column) for name, column in zip(CHIP_FIELDS, chip_columns, strict=True)}
        return ChipTable(**arrays), np.array(area_um2, dtype=np.float64)

    def systems(self) -> tuple[ListedSystem, ...]:
        """The systems of the search by number; none of one whose system was given."""
        with self._reading():
            names = ", ".join(SYSTEM_FIELDS)
            rows = self._connection.execute(f"SELECT {names} FROM systems ORDER BY system").fetchall()  # noqa: S608
        return tuple(ListedSystem(**dict(zip(SYSTEM_FIELDS, row, strict=True))) for row in rows)

    def bounds(self, model: str | None = None) -> BoundTable:
        """The bounds of one model, or with ``None`` of the objective over all, by design."""
        with self._reading():
            names = dict(self._connection.execute("SELECT id, name FROM bound_names ORDER BY id"))
            rows = self._connection.execute(
                "SELECT design, bound, removed_by FROM bounds WHERE model = ? ORDER BY design",
                (self._model_position(model),),
            ).fetchall()
        position = {None: NOT_REMOVED} | {name_id: index for index, name_id in enumerate(names)}
        return BoundTable(
            model=model,
            names=tuple(names.values()),
            design_c=np.array([row[0] for row in rows], dtype=np.int64),
            bound_c=np.array([row[1] for row in rows], dtype=np.float64),
            removed_by_c=np.array([position[row[2]] for row in rows], dtype=np.int16),
        )

    def bounded_models(self) -> tuple[str | None, ...]:
        """What bounds are recorded for: ``None`` (the objective over all models) first, then by model."""
        with self._reading():
            models = from_json(SearchSettings, self._stored("settings")).models
            rows = self._connection.execute("SELECT DISTINCT model FROM bounds ORDER BY model").fetchall()
        return tuple(None if row[0] == ALL_MODELS else models[row[0]] for row in rows)

    def evaluations(self) -> Iterator[Evaluation]:
        """All evaluations by design, whatever the order they were found in; finish before recording more."""
        with self._reading():
            cursor = self._connection.execute("SELECT evaluation FROM evaluations ORDER BY design")
            for (text,) in cursor:
                yield from_json(Evaluation, json.loads(text))

    def closed_boxes(self) -> list[ClosedBox]:
        """The boxes of designs a search closed, in the order it did; none of a search through a list."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT ranges, bound, name FROM closed_boxes "
                "JOIN bound_names ON bound_names.id = closed_by ORDER BY closed_boxes.id"
            ).fetchall()
            ends = [ranges_of(text) for text, _, _ in rows]
        return [
            ClosedBox(first=first, last=last, bound=float(bound), closed_by=name)
            for (first, last), (_, bound, name) in zip(ends, rows, strict=True)
        ]

    def open_boxes(self) -> list[OpenBox]:
        """The boxes of designs a search had open when it last recorded them."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT ranges, bound, bounded_by FROM open_boxes ORDER BY id"
            ).fetchall()
            ends = [ranges_of(text) for text, _, _ in rows]
        return [
            OpenBox(first=first, last=last, upper=float(bound), bounded_by=name, times=())
            for (first, last), (_, bound, name) in zip(ends, rows, strict=True)
        ]

    def design_numbers(self) -> list[int]:
        """The numbers of the chips that ``designs`` gives, in the same order."""
        with self._reading():
            rows = self._connection.execute("SELECT design FROM designs ORDER BY design").fetchall()
        return [int(number) for (number,) in rows]

    def num_evaluations(self) -> int:
        """How many designs have an evaluation."""
        with self._reading():
            return int(self._connection.execute("SELECT count(*) FROM evaluations").fetchone()[0])

    def incumbents(self) -> tuple[Incumbent, ...]:
        """How the answer grew, oldest first, over all sessions."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT elapsed_s, objective, bound, design FROM incumbents ORDER BY id"
            ).fetchall()
        return tuple(
            Incumbent(elapsed_s=elapsed_s, objective=objective, bound=bound, design=design)
            for elapsed_s, objective, bound, design in rows
        )

    def result(self) -> SearchResult | None:
        """The recorded answer, or ``None`` while there is none."""
        with self._reading():
            row = self._connection.execute("SELECT result FROM result").fetchone()
            return None if row is None else from_json(SearchResult, json.loads(row[0]))

    def known_chips(self) -> tuple[ChipAnswer, ...]:
        """Chips from outside the space, measured as its designs are, by name."""
        with self._reading():
            rows = self._connection.execute("SELECT answer FROM known_chips ORDER BY name").fetchall()
            return tuple(from_json(ChipAnswer, json.loads(text)) for (text,) in rows)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what reading a damaged or edited database brings up into a ``RunError``."""
        with reported(self.folder, "read the run"):
            try:
                yield
            except ValueError as error:  # text that is not JSON, or not the record it should be
                reason = " ".join(str(error).split())
                raise RunError(f"{self.folder}: {DB_NAME} holds a record that is damaged ({reason})") from None

    def _stored(self, column: str) -> Json:
        row = self._connection.execute(f"SELECT {column} FROM run").fetchone()  # noqa: S608
        if row is None:
            raise RunError(f"{self.folder}: {DB_NAME} has lost its settings; start again in a new folder")
        return json.loads(row[0])

    def _model_position(self, model: str | None) -> int:
        if model is None:
            return ALL_MODELS
        models = from_json(SearchSettings, self._stored("settings")).models
        assert model in models, f"{model} is not one of the run's models"
        return models.index(model)
