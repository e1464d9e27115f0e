"""The run store: a folder with one SQLite file that holds everything a search knows.

Every ``record_...`` call is one transaction: when it returns, killing the process loses nothing of it; if it
raises, the database is as before the call.

Axis letters: c = chip (design).
"""

from __future__ import annotations

import operator
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import Self

import numpy as np

from rephaze.errors import RunError
from rephaze.store.box_text import ranges_text
from rephaze.store.difference import differences, shortened
from rephaze.store.digests import RowWatch
from rephaze.store.failures import reported
from rephaze.store.lock import FolderLock
from rephaze.store.opening import check_is_run, check_pages, connect, connect_to_read, make_writable
from rephaze.store.reader import CHIP_FIELDS, SYSTEM_FIELDS, RunReader, settings_digest
from rephaze.store.record_json import canonical_text, json_text, to_json
from rephaze.store.schema import DatabaseState, inspect, migrate
from rephaze.types.boxes import ClosedBox, OpenBox
from rephaze.types.chip import ChipTable, FloatColumn
from rephaze.types.comparison import ChipAnswer
from rephaze.types.run_record import BoundTable, Incumbent, RunPart, RunVersions
from rephaze.types.search import Evaluation, SearchResult, SearchSettings
from rephaze.types.system import ListedSystem


class RunStore(RunReader):
    """A run folder open for recording: this process is its only writer until ``close``."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: FolderLock) -> None:
        """Wrap an open database; callers use ``create`` or ``resume``."""
        super().__init__(folder, connection)
        self._lock = lock
        self._watch: RowWatch | None = None
        self._session: int | None = None
        self._now = ""
        """When the transaction at hand began."""
        self._elapsed_s: Callable[[], float] | None = None

    @classmethod
    def create(cls, folder: Path, settings: SearchSettings, versions: RunVersions) -> Self:
        """A new run in ``folder``, made if needed; ``RunError`` if one is there already."""
        with reported(folder, "make the run folder"):
            folder.mkdir(parents=True, exist_ok=True)
        with cls._opened(folder) as store:
            if inspect(store._connection, folder) is not DatabaseState.EMPTY:
                raise RunError(f"{folder}: already holds a run; resume it, or name another folder")
            store._begin(settings, versions)
        return store

    @classmethod
    def resume(cls, folder: Path, settings: SearchSettings, versions: RunVersions) -> Self:
        """The run in ``folder``, to be continued with the very settings it was made with.

        A folder whose search was killed before its first record is begun anew. ``RunError`` if there is no
        run, or, with one line a difference, if settings, estimator or input files have changed.
        """
        check_is_run(folder)
        with cls._opened(folder) as store:
            state = inspect(store._connection, folder)
            if state is DatabaseState.EMPTY:
                store._begin(settings, versions)
                return store
            check_pages(store._connection, folder)
            store._check_unchanged(settings, versions)
            if state is DatabaseState.CURRENT:
                store.check_rows()
            make_writable(store._connection, folder)
            with store._transaction("open the run"):
                if state is DatabaseState.OLDER:
                    migrate(store._connection)
                store._watch_rows()
                store._add_session(settings, versions)
        return store

    @classmethod
    def annotate(cls, folder: Path) -> Self:
        """The run in ``folder``, to add what was found out beside its search; ``RunError`` while one goes on."""
        check_is_run(folder)
        with cls._opened(folder) as store:
            state = inspect(store._connection, folder)
            if state is DatabaseState.EMPTY:
                raise RunError(f"{folder}: holds no run yet: its search ended before its first record")
            make_writable(store._connection, folder)
            with store._transaction("open the run"):
                if state is DatabaseState.OLDER:
                    migrate(store._connection)
                store._watch_rows()
        return store

    @classmethod
    def read(cls, folder: Path, *, whole: bool = False) -> RunReader:
        """The run in ``folder``, for reading only; a search may be recording to it meanwhile.

        Args:
            folder: The run's folder.
            whole: Raise ``RunError`` if the file or a row of it is not as it was recorded.
        """
        check_is_run(folder)
        with reported(folder, "read the run"):
            connection = connect_to_read(folder)
            try:
                state = inspect(connection, folder)
                if state is DatabaseState.EMPTY:
                    raise RunError(f"{folder}: holds no run yet: its search ended before its first record")
            except BaseException:
                connection.close()
                raise
        if state is DatabaseState.CURRENT:
            reader = RunReader(folder, connection)
            try:
                if whole:
                    reader.check_whole()
            except BaseException:
                reader.close()
                raise
            return reader
        connection.close()
        with cls._opened(folder) as store, store, store._transaction("update the run to this format"):
            migrate(store._connection)
        return cls.read(folder, whole=whole)

    def close(self) -> None:
        """Fold the write-ahead log into the file and let other writers in; a second call does nothing."""
        super().close()
        self._lock.release()

    @classmethod
    @contextmanager
    def _opened(cls, folder: Path) -> Iterator[Self]:
        """The folder's store, locked; it stays open unless the block raises."""
        lock = FolderLock(folder)
        try:
            with reported(folder, "open the run"):
                store = cls(folder, connect(folder, "rwc"), lock)
                try:
                    yield store
                except BaseException:
                    store.close()
                    raise
        except BaseException:
            lock.release()
            raise

    def _begin(self, settings: SearchSettings, versions: RunVersions) -> None:
        make_writable(self._connection, self.folder)
        with self._transaction("begin the run") as connection:
            migrate(connection)
            now = self._now
            connection.execute(
                "INSERT INTO run (id, settings, versions, created_at, updated_at, num_sessions) "
                "VALUES (1, ?, ?, ?, ?, 0)",
                (canonical_text(to_json(settings)), canonical_text(to_json(versions)), now, now),
            )
            self._watch_rows()
            self._add_session(settings, versions)

    def _watch_rows(self) -> None:
        """Keep the chain of digests from now on; of a run without one it begins with the rows it has."""
        self._watch = RowWatch(self._connection)
        self._connection.execute(
            "UPDATE run SET digests_since = ?, num_sessions = (SELECT count(*) FROM sessions) "
            "WHERE digests_since IS NULL",
            (self._now,),
        )

    def _add_session(self, settings: SearchSettings, versions: RunVersions) -> None:
        cursor = self._connection.execute(
            "INSERT INTO sessions (started_at, pid, versions, settings_digest, elapsed_s) VALUES (?, ?, ?, ?, ?)",
            (
                self._now,
                os.getpid(),
                canonical_text(to_json(versions)),
                settings_digest(settings),
                self.clock_s(),
            ),
        )
        self._session = cursor.lastrowid
        self._connection.execute("UPDATE run SET num_sessions = num_sessions + 1")

    def keep_time(self, elapsed_s: Callable[[], float]) -> None:
        """Have every transaction note what the run's clock shows, so that a killed session's time is not lost."""
        self._elapsed_s = elapsed_s

    def _check_unchanged(self, settings: SearchSettings, versions: RunVersions) -> None:
        with self._reading():
            stored_settings, stored_versions = self._stored("settings"), self._stored("versions")
        given_versions = to_json(versions)
        lines = differences(stored_settings, to_json(settings))
        for field in ("estimator", "input_digests"):
            lines += differences(stored_versions.get(field), given_versions[field], field)
        if lines:
            raise RunError(
                f"{self.folder}: the run was made with other settings; "
                "give the settings it was made with, or name another folder\n  " + "\n  ".join(shortened(lines))
            )

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[sqlite3.Connection]:
        with reported(self.folder, doing):
            self._connection.execute("BEGIN IMMEDIATE")
            now = self._now = _now()
            try:
                yield self._connection
                self._connection.execute("UPDATE run SET updated_at = ?", (now,))
                if self._elapsed_s is not None:
                    self._note_time(self._elapsed_s())
                if self._watch is not None:
                    self._watch.write(now)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite undoes it itself when the disk is full
                    with suppress(sqlite3.Error):
                        self._connection.execute("ROLLBACK")
                if self._watch is not None:
                    self._watch.undo()
                raise
            if self._watch is not None:
                self._watch.keep()

    def _note_time(self, elapsed_s: float) -> None:
        self._connection.execute(
            "UPDATE sessions SET elapsed_s = ? WHERE id = ?", (float(elapsed_s), self._session)
        )

    def record_designs(self, chips: ChipTable, area_um2_c: FloatColumn) -> None:
        """Keep the enumerated space: design ``i`` is ``chips.chip(i)``.

        In a resumed run, checks instead that the space is still enumerated as it was: the stored bounds and
        evaluations are by position.
        """
        stored = self.designs()
        if stored is not None:
            self._check_same_designs(stored, (chips, area_um2_c))
            return
        columns = [getattr(chips, name).tolist() for name in CHIP_FIELDS]
        names = ", ".join(("design", *CHIP_FIELDS, "area_um2"))
        marks = ", ".join("?" * (len(CHIP_FIELDS) + 2))
        rows = zip(range(len(chips)), *columns, area_um2_c.tolist(), strict=True)
        with self._transaction("record the designs") as connection:
            connection.executemany(f"INSERT INTO designs ({names}) VALUES ({marks})", rows)  # noqa: S608

    def record_systems(self, systems: Sequence[ListedSystem]) -> None:
        """Keep the systems of the search by number; those that are there stay."""
        names = ", ".join(("system", *SYSTEM_FIELDS))
        marks = ", ".join("?" * (len(SYSTEM_FIELDS) + 1))
        rows = [(number, *(getattr(one, name) for name in SYSTEM_FIELDS)) for number, one in enumerate(systems)]
        with self._transaction("record the systems") as connection:
            connection.executemany(f"INSERT OR IGNORE INTO systems ({names}) VALUES ({marks})", rows)  # noqa: S608

    def record_bounds(self, *tables: BoundTable) -> None:
        """Keep bounds, all tables in one transaction; a later bound of the same design and model replaces."""
        with self._transaction("record bounds") as connection:
            for table in tables:
                name_ids = [self._bound_name_id(name) for name in table.names]
                # One more at the end: NOT_REMOVED, -1, picks it.
                removed_by = np.array([*name_ids, None], dtype=object)[table.removed_by_c].tolist()
                model = self._model_position(table.model)
                rows = zip(repeat(model), table.design_c.tolist(), table.bound_c.tolist(), removed_by)
                connection.executemany(
                    "INSERT OR REPLACE INTO bounds (model, design, bound, removed_by) VALUES (?, ?, ?, ?)",
                    rows,
                )

    def record_evaluations(self, evaluations: Iterable[Evaluation], step: Incumbent | None = None) -> None:
        """Keep evaluations, and the new answer if one is among them, in one transaction.

        A solved design is never replaced by a dropped one.
        """
        rows = [
            (
                document["design"],
                document["is_exact"],
                float(found.objective),
                float(found.bound),
                json_text(document),
            )
            for found in evaluations
            for document in [to_json(found)]
        ]
        with self._transaction("record evaluations") as connection:
            connection.executemany(
                """INSERT INTO evaluations (design, is_exact, objective, bound, evaluation)
                VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (design) DO UPDATE SET is_exact = excluded.is_exact,
                    objective = excluded.objective, bound = excluded.bound, evaluation = excluded.evaluation
                WHERE excluded.is_exact >= evaluations.is_exact""",
                rows,
            )
            if step is not None:
                self._add_incumbent(step)

    def record_boxes(self, closed: Iterable[ClosedBox], still_open: Iterable[OpenBox]) -> None:
        """Add closed boxes and keep what is open, in place of what was, in one transaction: together a cover."""
        with self._transaction("record boxes") as connection:
            ids: dict[str, int] = {}
            for box in closed:
                if box.closed_by not in ids:
                    ids[box.closed_by] = self._bound_name_id(box.closed_by)
                connection.execute(
                    "INSERT INTO closed_boxes (ranges, bound, closed_by) VALUES (?, ?, ?)",
                    (ranges_text(box.first, box.last), float(box.bound), ids[box.closed_by]),
                )
            connection.execute("DELETE FROM open_boxes")
            connection.executemany(
                "INSERT INTO open_boxes (ranges, bound, bounded_by) VALUES (?, ?, ?)",
                [(ranges_text(box.first, box.last), float(box.upper), box.bounded_by) for box in still_open],
            )

    def reopen_boxes(self, reopened: Iterable[ClosedBox]) -> None:
        """Have closed boxes open again, under the bounds that closed them, in one transaction."""
        with self._transaction("open boxes again") as connection:
            for box in reopened:
                ranges = ranges_text(box.first, box.last)
                connection.execute("DELETE FROM closed_boxes WHERE ranges = ?", (ranges,))
                connection.execute(
                    "INSERT INTO open_boxes (ranges, bound, bounded_by) VALUES (?, ?, ?)",
                    (ranges, float(box.bound), box.closed_by),
                )

    def record_looked_at(self, designs: Iterable[int], chips: ChipTable, area_um2_c: FloatColumn) -> None:
        """Keep the chips of some designs, by their numbers; those that are there stay."""
        columns = [getattr(chips, name).tolist() for name in CHIP_FIELDS]
        names = ", ".join(("design", *CHIP_FIELDS, "area_um2"))
        marks = ", ".join("?" * (len(CHIP_FIELDS) + 2))
        rows = zip(designs, *columns, area_um2_c.tolist(), strict=True)
        with self._transaction("record designs") as connection:
            connection.executemany(f"INSERT OR IGNORE INTO designs ({names}) VALUES ({marks})", rows)  # noqa: S608

    def record_incumbent(self, incumbent: Incumbent) -> None:
        """Add one step to the history of the answer."""
        with self._transaction("record the incumbent"):
            self._add_incumbent(incumbent)

    def _add_incumbent(self, incumbent: Incumbent) -> None:
        self._connection.execute(
            "INSERT INTO incumbents (elapsed_s, objective, bound, design) VALUES (?, ?, ?, ?)",
            (
                float(incumbent.elapsed_s),
                float(incumbent.objective),
                float(incumbent.bound),
                None if incumbent.design is None else operator.index(incumbent.design),
            ),
        )

    def record_result(self, result: SearchResult) -> None:
        """Keep the answer, in place of an earlier one, and wait until the disk has it and all before it."""
        row = (str(result.status), float(result.objective), float(result.bound), json_text(to_json(result)))
        self._connection.execute("PRAGMA synchronous = FULL")
        elapsed_s, self._elapsed_s = self._elapsed_s, None
        try:
            with self._transaction("record the result") as connection:
                self._drop_parts_unless(result)
                connection.execute(
                    "INSERT OR REPLACE INTO result (id, status, objective, bound, result, recorded_at) "
                    "VALUES (1, ?, ?, ?, ?, ?)",
                    (*row, self._now),
                )
                # The very number the answer shows.
                self._note_time(result.search_s)
        finally:
            self._elapsed_s = elapsed_s
            self._connection.execute("PRAGMA synchronous = NORMAL")

    def record_known_chips(self, answers: Iterable[ChipAnswer]) -> None:
        """Keep chips from outside the space in one transaction; one of the same name is replaced."""
        rows = [
            (one.chip.name, float(one.objective), float(one.bound), json_text(to_json(one))) for one in answers
        ]
        with self._transaction("record known chips") as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO known_chips (name, objective, bound, answer) VALUES (?, ?, ?, ?)", rows
            )

    def record_part(self, name: RunPart, record: object) -> None:
        """Keep what was worked out beside the answer, in place of an earlier record of the same name."""
        with self._transaction(f"record {name}") as connection:
            connection.execute(
                "INSERT OR REPLACE INTO parts (name, part) VALUES (?, ?)", (str(name), json_text(to_json(record)))
            )

    def _drop_parts_unless(self, result: SearchResult) -> None:
        """Parts are about an answer: they go when another one comes."""
        held = self.result()
        if held is None or (held.chip, held.plans) != (result.chip, result.plans):
            self._connection.execute("DELETE FROM parts")

    def _bound_name_id(self, name: str) -> int:
        self._connection.execute("INSERT OR IGNORE INTO bound_names (name) VALUES (?)", (name,))
        row = self._connection.execute("SELECT id FROM bound_names WHERE name = ?", (name,)).fetchone()
        return int(row[0])

    def _check_same_designs(
        self, stored: tuple[ChipTable, FloatColumn], given: tuple[ChipTable, FloatColumn]
    ) -> None:
        fix = "start a new run"
        if len(stored[0]) != len(given[0]):
            raise RunError(
                f"{self.folder}: the space had {len(stored[0])} designs, now it has {len(given[0])}; {fix}"
            )
        for name in (*CHIP_FIELDS, "area_um2"):
            old, new = (
                area_um2_c if name == "area_um2" else getattr(chips, name) for chips, area_um2_c in (stored, given)
            )
            if (old != new).any():
                design = int(np.argmax(old != new))
                raise RunError(
                    f"{self.folder}: design {design} had {name} {old[design]}, now {new[design]}: "
                    f"the space is enumerated differently; {fix}"
                )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
