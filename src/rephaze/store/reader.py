"""Reading a run: its settings, designs, bounds, evaluations and answer as records.

Axis letters: c = chip (design).
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import RunError
from rephaze.store.box_text import ranges_of
from rephaze.store.digests import check_digests
from rephaze.store.failures import reported
from rephaze.store.opening import check_pages
from rephaze.store.record_json import Json, canonical_text, from_json, to_json
from rephaze.store.schema import DB_NAME
from rephaze.types.boxes import ClosedBox, OpenBox
from rephaze.types.chip import ChipTable, FloatColumn
from rephaze.types.comparison import ChipAnswer
from rephaze.types.run_record import (
    NOT_REMOVED,
    BoundTable,
    Incumbent,
    RecordedDigests,
    RunInfo,
    RunSession,
    RunVersions,
)
from rephaze.types.search import Evaluation, SearchResult, SearchSettings
from rephaze.types.system import ListedSystem

ALL_MODELS = -1
"""In the bounds' table: bounds on the objective over all models."""
CHIP_FIELDS = tuple(field.name for field in fields(ChipTable))
SYSTEM_FIELDS = tuple(field.name for field in fields(ListedSystem))
_REAL_ENDINGS = ("_per_s", "_hz", "_per_cycle", "_um2")
# What reading a row that is not as it should be may end in.
_DAMAGE = (ValueError, TypeError, LookupError, AssertionError, ArithmeticError, AttributeError, RecursionError)


def settings_digest(settings: SearchSettings) -> str:
    """SHA-256 of everything a search depends on."""
    return hashlib.sha256(canonical_text(to_json(settings)).encode()).hexdigest()


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
            settings = from_json(SearchSettings, self._stored("settings"))
            created_at, updated_at, num_sessions = self._connection.execute(
                "SELECT created_at, updated_at, (SELECT count(*) FROM sessions) FROM run"
            ).fetchone()
            return RunInfo(
                settings=settings,
                versions=from_json(RunVersions, self._stored("versions")),
                created_at=_typed(str, created_at),
                updated_at=_typed(str, updated_at),
                num_sessions=num_sessions,
            )

    def sessions(self) -> tuple[RunSession, ...]:
        """Every start and resumption, oldest first."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT started_at, versions, settings_digest, elapsed_s FROM sessions ORDER BY id"
            ).fetchall()
            return tuple(
                RunSession(
                    started_at=_typed(str, started_at),
                    versions=from_json(RunVersions, json.loads(versions)),
                    settings_digest=digest,
                    elapsed_s=_typed(float, elapsed_s),
                )
                for started_at, versions, digest, elapsed_s in rows
            )

    def num_sessions_noted(self) -> int | None:
        """How many sessions the run counted; None in runs of older versions."""
        with self._reading():
            row = self._connection.execute("SELECT num_sessions FROM run").fetchone()
            return None if row is None or row[0] is None else _typed(int, row[0])

    def clock_s(self) -> float:
        """What the run's clock showed when it was last written to: seconds of search over all sessions."""
        with self._reading():
            (latest,) = self._connection.execute(
                "SELECT max(coalesce((SELECT max(elapsed_s) FROM sessions), 0.0), "
                "coalesce((SELECT max(elapsed_s) FROM incumbents), 0.0))"
            ).fetchone()
            return float(_typed(float, latest))

    def digests(self) -> RecordedDigests:
        """What the chain of digests says of the rows."""
        with self._reading():
            return check_digests(self._connection)

    def check_rows(self) -> None:
        """Raise ``RunError`` if rows are not as they were recorded; those of older runs are taken as they are."""
        found = self.digests()
        if found.wrong:
            raise RunError(
                f"{self.folder}: {DB_NAME} was damaged or edited since it was recorded ({found.wrong[0]}); "
                "rephaze verify says what still holds; take a copy from before, or start again in a new folder"
            )

    def check_file(self) -> None:
        """Raise ``RunError`` if the file's structure is damaged."""
        with self._reading():
            check_pages(self._connection, self.folder)

    def check_whole(self) -> None:
        """Raise ``RunError`` if the file or a row of it is damaged: what is told of it would be wrong."""
        self.check_file()
        self.check_rows()

    def designs(self) -> tuple[ChipTable, FloatColumn] | None:
        """The enumerated chips and their areas, or ``None`` if they were not recorded."""
        with self._reading():
            names = ", ".join((*CHIP_FIELDS, "area_um2"))
            rows = self._connection.execute(f"SELECT {names} FROM designs ORDER BY design").fetchall()  # noqa: S608
            if not rows:
                return None
            named = zip((*CHIP_FIELDS, "area_um2"), zip(*rows, strict=True), strict=True)
            arrays = {name: _column(name, cells) for name, cells in named}
            area_um2_c = arrays.pop("area_um2")
            return ChipTable(**arrays), area_um2_c

    def systems(self) -> tuple[ListedSystem, ...]:
        """The systems of the search by number; none of one whose system was given."""
        with self._reading():
            names = ", ".join(SYSTEM_FIELDS)
            rows = self._connection.execute(f"SELECT {names} FROM systems ORDER BY system").fetchall()  # noqa: S608
            kinds = get_type_hints(ListedSystem)
            return tuple(
                ListedSystem(
                    **{name: _typed(kinds[name], cell) for name, cell in zip(SYSTEM_FIELDS, row, strict=True)}
                )
                for row in rows
            )

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
                names=tuple(_typed(str, name) for name in names.values()),
                design_c=np.array([_typed(int, row[0]) for row in rows], dtype=np.int64),
                bound_c=np.array([_typed(float, row[1]) for row in rows], dtype=np.float64),
                removed_by_c=np.array([position[row[2]] for row in rows], dtype=np.int16),
            )

    def bound_names(self) -> tuple[str, ...]:
        """Names of bounds and limits, in the order they were first recorded."""
        with self._reading():
            rows = self._connection.execute("SELECT name FROM bound_names ORDER BY id").fetchall()
            return tuple(_typed(str, name) for (name,) in rows)

    def bounded_models(self) -> tuple[str | None, ...]:
        """What bounds are recorded for: ``None`` (the objective over all models) first, then by model."""
        with self._reading():
            models = from_json(SearchSettings, self._stored("settings")).models
            rows = self._connection.execute("SELECT DISTINCT model FROM bounds ORDER BY model").fetchall()
            if any(not ALL_MODELS <= _typed(int, row[0]) < len(models) for row in rows):
                raise ValueError("a bound is for none of the run's models")
            return tuple(None if row[0] == ALL_MODELS else models[row[0]] for row in rows)

    def evaluations(self) -> Iterator[Evaluation]:
        """All evaluations by design, whatever the order they were found in; finish before recording more."""
        with self._reading():
            cursor = self._connection.execute(
                "SELECT design, is_exact, objective, bound, evaluation FROM evaluations ORDER BY design"
            )
            for *columns, text in cursor:
                found = from_json(Evaluation, json.loads(text))
                if columns != [found.design, found.is_exact, found.objective, found.bound]:
                    raise ValueError(f"the evaluation of design {columns[0]} and its columns differ")
                yield found

    def closed_boxes(self) -> list[ClosedBox]:
        """The boxes of designs a search closed, in the order it did; none of a search through a list."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT ranges, bound, name FROM closed_boxes "
                "LEFT JOIN bound_names ON bound_names.id = closed_by ORDER BY closed_boxes.id"
            ).fetchall()
            ends = [ranges_of(text) for text, _, _ in rows]
            return [
                ClosedBox(first=first, last=last, bound=_typed(float, bound), closed_by=_typed(str, name))
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
                OpenBox(first=first, last=last, upper=_typed(float, bound), bounded_by=_typed(str, name), times=())
                for (first, last), (_, bound, name) in zip(ends, rows, strict=True)
            ]

    def design_numbers(self) -> list[int]:
        """The numbers of the chips that ``designs`` gives, in the same order."""
        with self._reading():
            rows = self._connection.execute("SELECT design FROM designs ORDER BY design").fetchall()
            return [_typed(int, number) for (number,) in rows]

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
                Incumbent(
                    elapsed_s=_typed(float, elapsed_s),
                    objective=_typed(float, objective),
                    bound=_typed(float, bound),
                    design=None if design is None else _typed(int, design),
                )
                for elapsed_s, objective, bound, design in rows
            )

    def result(self) -> SearchResult | None:
        """The recorded answer, or ``None`` while there is none."""
        with self._reading():
            row = self._connection.execute("SELECT status, objective, bound, result FROM result").fetchone()
            if row is None:
                return None
            found = from_json(SearchResult, json.loads(row[3]))
            if row[:3] != (found.status, found.objective, found.bound):
                raise ValueError("the answer and its columns differ")
            return found

    def recorded_at(self) -> str | None:
        """When the answer was recorded; None while there is none."""
        with self._reading():
            row = self._connection.execute("SELECT recorded_at FROM result").fetchone()
            return None if row is None else _typed(str, row[0])

    def known_chips(self) -> tuple[ChipAnswer, ...]:
        """Chips from outside the space, measured as its designs are, by name."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT name, objective, bound, answer FROM known_chips ORDER BY name"
            ).fetchall()
            found = tuple(from_json(ChipAnswer, json.loads(row[3])) for row in rows)
            for (*columns, _), one in zip(rows, found, strict=True):
                if columns != [one.chip.name, one.objective, one.bound]:
                    raise ValueError(f"the answer of chip {columns[0]!r} and its columns differ")
            return found

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what reading a damaged or edited database brings up into a ``RunError``."""
        with reported(self.folder, "read the run"):
            try:
                yield
            except _DAMAGE as error:  # text that is not JSON, or not the record it should be
                reason = " ".join(str(error).split())
                raise RunError(f"{self.folder}: {DB_NAME} holds a record that is damaged ({reason})") from None

    def _stored(self, column: str) -> Json:
        row = self._connection.execute(f"SELECT {column} FROM run").fetchone()  # noqa: S608
        if row is None:
            raise RunError(f"{self.folder}: {DB_NAME} has lost its settings; start again in a new folder")
        return json.loads(_typed(str, row[0]))

    def _model_position(self, model: str | None) -> int:
        if model is None:
            return ALL_MODELS
        models = from_json(SearchSettings, self._stored("settings")).models
        assert model in models, f"{model} is not one of the run's models"
        return models.index(model)


def _typed(kind: type, cell: object) -> Any:
    """The cell; ``ValueError`` if it is not what its column holds."""
    is_right = type(cell) is kind or (kind is float and type(cell) is int)
    if not is_right:
        raise ValueError(f"{cell!r:.60} where a {_WORDS[kind]} is due")
    return float(cell) if kind is float else cell  # type: ignore[arg-type]


_WORDS = {str: "text", int: "whole number", float: "number"}


def _column(name: str, cells: Sequence[object]) -> NDArray[Any]:
    """Cells of one column of the designs."""
    if name.endswith(_REAL_ENDINGS):
        return np.array([_typed(float, cell) for cell in cells], dtype=np.float64)
    return np.array([_typed(int, cell) for cell in cells], dtype=np.int64)
