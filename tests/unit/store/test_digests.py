"""The chain of digests: it holds whatever way rows are recorded, and tells any that changed behind its back."""

import sqlite3

import numpy as np
import pytest

from rephaze.errors import RunError
from rephaze.hardware.space import enumerate_designs
from rephaze.store.run_store import RunStore
from rephaze.store.schema import DB_NAME
from rephaze.types.boxes import ClosedBox, OpenBox
from rephaze.types.run_record import NOT_REMOVED, BoundTable, Incumbent
from tests.kits.old_runs import as_format, edited


def bound_table(bounds):
    return BoundTable(
        model=None,
        names=("a", "b"),
        design_c=np.arange(len(bounds)),
        bound_c=np.array(bounds, dtype=np.float64),
        removed_by_c=np.array([NOT_REMOVED, *[1] * (len(bounds) - 1)], dtype=np.int16),
    )


@pytest.fixture
def filled(store, settings, make_evaluation):
    """Every way of recording, also those that replace or delete rows."""
    census = enumerate_designs(settings.scenario.space)
    some = np.arange(50)
    store.record_designs(census.chips.take(some), census.area_um2_c[some])
    store.record_bounds(bound_table([1.0, -0.0, float("inf")]))
    store.record_bounds(bound_table([0.5, 2.0, 3.0]))
    store.record_evaluations([make_evaluation(1, is_exact=False), make_evaluation(2)])
    store.record_evaluations([make_evaluation(1)], Incumbent(elapsed_s=0.0, objective=1.0, bound=2.0, design=1))
    closed = [ClosedBox(first=(0,), last=(1,), bound=0.5, closed_by="a")]
    store.record_boxes(closed, [OpenBox(first=(2,), last=(3,), upper=1.0, bounded_by="", times=())])
    store.reopen_boxes(closed)
    store.record_boxes([], [])
    return store


def test_all_that_is_recorded_is_in_the_chain(filled):
    found = filled.digests()
    assert found.wrong == ()
    assert found.since == filled.info().created_at
    assert found.num_digests > 10


def test_a_resumed_run_goes_on_with_its_chain(filled, folder, settings, versions, make_evaluation):
    before = filled.digests()
    filled.close()
    with RunStore.resume(folder, settings, versions) as store:
        store.record_evaluations([make_evaluation(3)])
        found = store.digests()
    assert found.wrong == ()
    assert found.num_digests > before.num_digests


def test_what_fails_leaves_the_chain_as_it_was(filled, make_evaluation):
    before = filled.digests()
    broken = Incumbent(elapsed_s=float("nan"), objective=1.0, bound=1.0, design=1)
    with pytest.raises(sqlite3.IntegrityError):
        filled.record_evaluations([make_evaluation(7)], broken)
    assert filled.digests() == before
    filled.record_evaluations([make_evaluation(4)])
    assert filled.digests().wrong == ()


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("UPDATE designs SET clock_hz = clock_hz * 2 WHERE design = 3", "designs: a row is not as it was"),
        ("DELETE FROM incumbents", "incumbents: 0 rows, 1 were recorded"),
        ("UPDATE bounds SET removed_by = NULL WHERE design = 1", "bounds: a row"),
        ("UPDATE run SET updated_at = '2020'", "run: last written"),
        ("DELETE FROM digests WHERE id = 3", "digest 3 does not follow"),
        ("UPDATE digests SET num_rows = 7 WHERE id = 5", "digest 5 does not follow"),
        ("UPDATE run SET digests_since = NULL", "run: a row"),
        ("DELETE FROM digests", "rows, 0 were recorded"),
        ("DROP TABLE incumbents", "incumbents: the table is gone"),
        ("CREATE TABLE more AS SELECT 1", "more: 1 rows, 0 were recorded"),
    ],
)
def test_what_changed_is_told(filled, folder, settings, versions, edit, said):
    filled.close()
    edited(folder, edit)
    with RunStore.read(folder) as reader:
        assert any(said in one for one in reader.digests().wrong), reader.digests().wrong
        with pytest.raises(RunError, match="damaged or edited"):
            reader.check_whole()
    with pytest.raises(RunError, match="damaged or edited"):
        RunStore.resume(folder, settings, versions)


def test_what_another_program_wrote_stays_told(filled, folder, make_evaluation):
    filled.close()
    edited(folder, "UPDATE evaluations SET objective = 1e9 WHERE design = 2")
    with RunStore.annotate(folder) as store:
        store.record_known_chips([])
        assert store.digests().wrong == ("evaluations: a row is not as it was recorded",)


def test_an_older_run_has_none_until_it_goes_on(filled, folder, settings, versions):
    filled.close()
    as_format(folder, 4)
    with RunStore.read(folder) as reader:
        assert reader.digests().since is None
        reader.check_whole()
    with RunStore.resume(folder, settings, versions) as store:
        found = store.digests()
        assert found.wrong == ()
        assert found.since > store.info().created_at


def test_text_that_is_none_is_one_line(filled, folder):
    filled.close()
    edited(folder, "UPDATE run SET settings = CAST(x'ff00ff' AS TEXT)")
    with RunStore.read(folder) as reader, pytest.raises(RunError, match="damaged"):
        reader.info()


def test_a_file_cut_short_is_one_line(filled, folder):
    filled.close()
    content = (folder / DB_NAME).read_bytes()
    (folder / DB_NAME).write_bytes(content[: len(content) // 2])
    with pytest.raises(RunError), RunStore.read(folder) as reader:
        reader.check_whole()
