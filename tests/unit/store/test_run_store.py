"""The run store in one process: what goes in comes out, and what must be refused is."""

import dataclasses
import math
import os
import sqlite3
from contextlib import suppress

import numpy as np
import pytest

from rephaze.errors import RunError
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.space import enumerate_designs
from rephaze.store import schema
from rephaze.store.opening import is_run
from rephaze.store.run_store import RunStore
from rephaze.types.comparison import ChipAnswer
from rephaze.types.run_record import NOT_REMOVED, BoundTable, Incumbent, RunPart
from rephaze.types.search import Certificate, SearchResult, SearchStatus
from tests.kits.old_runs import as_format


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.fixture
def result(make_evaluation):
    return SearchResult(
        status=SearchStatus.OPTIMAL,
        objective=2.5,
        bound=2.5,
        gap=0.0,
        design=3,
        chip=enumerate_designs(load_scenario("paper").space).chips.chip(3),
        area_um2=2.7e8,
        plans=make_evaluation(3).plans,
        certificate=Certificate(
            num_designs=10,
            num_solved_exactly=2,
            num_dropped_by_bound={"work": 3, "device-time": 5},
            num_infeasible=0,
            num_within={"0.1 %": (1, 2), "5 %": (1, 4)},
            binding="area",
        ),
        reason="",
        search_s=1.5,
    )


def test_evaluations_come_back_bit_for_bit_and_by_design(folder, store, make_evaluation):
    given = [make_evaluation(design, is_exact=design % 2 == 0) for design in range(20)]
    store.record_evaluations(given[10:])
    store.record_evaluations(given[:10])
    assert list(store.evaluations()) == given
    with RunStore.read(folder) as reader:  # while the writer is open
        assert list(reader.evaluations()) == given
        assert reader.num_evaluations() == 20


def test_a_solved_design_is_never_replaced_by_a_dropped_one(store, make_evaluation):
    store.record_evaluations([make_evaluation(1, is_exact=False), make_evaluation(2)])
    store.record_evaluations([make_evaluation(1), make_evaluation(2, is_exact=False)])
    assert [found.is_exact for found in store.evaluations()] == [True, True]


def test_numpy_numbers_are_taken(store, make_evaluation):
    plain = make_evaluation(4)
    given = dataclasses.replace(
        plain, design=np.int64(4), objective=np.float64(plain.objective), is_exact=np.True_
    )
    store.record_evaluations([given])
    store.record_incumbent(
        Incumbent(elapsed_s=np.float64(1), objective=np.float32(2), bound=3, design=np.int64(4))
    )
    assert list(store.evaluations()) == [plain]
    assert store.incumbents() == (Incumbent(elapsed_s=1.0, objective=2.0, bound=3.0, design=4),)


def test_bounds_come_back_by_model(store, make_bounds):
    common, own = make_bounds(), make_bounds("llama2-7b", num_designs=3, names=("device-time", "plan"))
    store.record_bounds(common, own)
    assert store.bounded_models() == (None, "llama2-7b")
    for given in (common, own):
        found = store.bounds(given.model)
        assert np.array_equal(found.design_c, given.design_c)
        assert np.array_equal(found.bound_c, given.bound_c)
        assert removers(found) == removers(given)
    assert len(store.bounds("gpt2-xl")) == 0


def removers(table):
    return [None if i == NOT_REMOVED else table.names[i] for i in table.removed_by_c]


def test_a_later_bound_replaces_and_infinities_are_kept(store, make_bounds):
    store.record_bounds(make_bounds())
    tighter = BoundTable(
        model=None,
        names=("plan",),
        design_c=np.array([1, 4]),
        bound_c=np.array([-math.inf, math.inf]),
        removed_by_c=np.array([0, NOT_REMOVED], dtype=np.int16),
    )
    store.record_bounds(tighter)
    found = store.bounds()
    assert found.bound_c.tolist() == [0, -math.inf, 2 / 3, 1, math.inf]
    assert removers(found) == [None, "plan", "device-time", None, None]


def test_designs_are_kept_and_checked_on_resume(folder, settings, versions):
    census = enumerate_designs(settings.scenario.space)
    with RunStore.create(folder, settings, versions) as store:
        assert store.designs() is None
        store.record_designs(census.chips, census.area_um2_c)
    with RunStore.resume(folder, settings, versions) as store:
        store.record_designs(census.chips, census.area_um2_c)
        chips, area_um2_c = store.designs()
        assert chips.chip(123) == census.chips.chip(123)
        assert np.array_equal(area_um2_c, census.area_um2_c)
        for field in dataclasses.fields(chips):
            found, given = getattr(chips, field.name), getattr(census.chips, field.name)
            assert np.array_equal(found, given)
            assert found.dtype == given.dtype
        with pytest.raises(RunError) as error:
            store.record_designs(census.chips.take(slice(1, None)), census.area_um2_c[1:])
        assert f"had {len(chips)} designs, now it has {len(chips) - 1}" in one_line(error)
        swapped = np.arange(len(chips))
        swapped[[5, 6]] = [6, 5]
        with pytest.raises(RunError, match=r"design 5 had .* enumerated differently"):
            store.record_designs(census.chips.take(swapped), census.area_um2_c[swapped])


def test_the_answer_its_history_and_the_runs_life(folder, settings, versions, result):
    steps = [
        Incumbent(elapsed_s=0.5, objective=-math.inf, bound=math.inf, design=None),
        Incumbent(elapsed_s=1.0, objective=1.0, bound=3.0, design=9),
    ]
    with RunStore.create(folder, settings, versions) as store:
        assert store.result() is None
        store.record_incumbent(steps[0])
        store.record_result(dataclasses.replace(result, status=SearchStatus.FEASIBLE, chip=None, design=None))
    with RunStore.resume(folder, settings, dataclasses.replace(versions, python="9.9")) as store:
        store.record_incumbent(steps[1])
        store.record_result(result)
    with RunStore.read(folder) as reader:
        assert reader.result() == result
        assert list(reader.result().certificate.num_dropped_by_bound) == ["work", "device-time"]
        assert reader.incumbents() == tuple(steps)
        info = reader.info()
    assert (info.settings, info.versions, info.num_sessions) == (settings, versions, 2)
    assert info.created_at < info.updated_at


def test_closing_leaves_one_database_and_the_lock_file(folder, store, make_evaluation):
    store.record_evaluations([make_evaluation(1)])
    store.close()
    store.close()
    with RunStore.read(folder) as reader:
        assert reader.num_evaluations() == 1
    assert sorted(path.name for path in folder.iterdir()) == ["run.db", "run.lock"]


def test_changed_settings_are_refused_and_named(folder, settings, versions, store):
    store.close()
    limit_um2 = settings.scenario.space.area_limit_um2
    space = dataclasses.replace(settings.scenario.space, area_limit_um2=3e8, tensor_width=(2, 4))
    scenario = dataclasses.replace(settings.scenario, space=space)
    changed = dataclasses.replace(settings, scenario=scenario, seed=8)
    other_models = dataclasses.replace(changed, models=("gpt2-xl",))
    with pytest.raises(RunError) as error:
        RunStore.resume(folder, other_models, dataclasses.replace(versions, estimator="estimator-2"))
    first, *lines = str(error.value).splitlines()
    assert str(folder) in first
    assert [line.strip() for line in lines] == [
        'models: ["gpt2-xl", "llama2-7b"] in the run, ["gpt2-xl"] now',
        f"scenario.space.area_limit_um2: {limit_um2} in the run, 300000000.0 now; "
        "and 3 more: scenario.space.tensor_width, seed, estimator",
    ]
    with pytest.raises(RunError, match=r"tensor_width: .* in the run, \[2, 4\] now; and 1 more: seed"):
        RunStore.resume(folder, changed, versions)
    with RunStore.resume(folder, settings, versions):  # refusing left the lock free and the run whole
        pass


def test_a_changed_model_file_is_refused(folder, settings, versions, store):
    store.close()
    digests = {"gpt2-xl": "a" * 63 + "b"}
    with pytest.raises(RunError, match=r"input_digests\.gpt2-xl: .*aaa\" in the run, .*aab\" now"):
        RunStore.resume(folder, settings, dataclasses.replace(versions, input_digests=digests))


def test_equal_settings_written_otherwise_are_the_same(folder, settings, versions, store):
    store.close()
    with RunStore.resume(folder, dataclasses.replace(settings, weights=(1, 2)), versions):
        pass


def test_create_refuses_a_folder_that_holds_a_run(folder, settings, versions, store):
    store.close()
    with pytest.raises(RunError) as error:
        RunStore.create(folder, settings, versions)
    assert "already holds a run" in one_line(error)


@pytest.mark.parametrize("method", ["read", "resume"])
def test_what_is_not_a_run_is_refused_and_left_alone(tmp_path, settings, versions, method):
    def attempt(folder):
        given = (folder,) if method == "read" else (folder, settings, versions)
        with pytest.raises(RunError) as error:
            getattr(RunStore, method)(*given)
        return one_line(error)

    assert "no such folder" in attempt(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    assert "it has no run.db" in attempt(tmp_path / "empty")
    assert not is_run(tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []

    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "run.db").write_text("not a database, but long enough to look like a page " * 99)
    assert "not an SQLite database" in attempt(tmp_path / "text")

    (tmp_path / "foreign").mkdir()
    path = tmp_path / "foreign" / "run.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cats (name)")
    connection.close()
    before = path.read_bytes()
    assert "belongs to another program" in attempt(tmp_path / "foreign")
    assert path.read_bytes() == before


def test_create_leaves_a_foreign_database_alone(folder, settings, versions):
    folder.mkdir()
    (folder / "run.db").write_bytes(b"my own notes" * 100)
    with pytest.raises(RunError, match="not an SQLite database"):
        RunStore.create(folder, settings, versions)
    assert (folder / "run.db").read_bytes() == b"my own notes" * 100


def test_create_needs_a_folder(tmp_path, settings, versions):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RunError) as error:
            RunStore.create(folder, settings, versions)
        assert "cannot make the run folder" in one_line(error)


@pytest.mark.parametrize("leftover", ["run.lock", "run.db"])
def test_a_run_killed_before_its_first_record_is_begun_anew(folder, settings, versions, leftover):
    folder.mkdir()
    (folder / leftover).touch()
    with pytest.raises(RunError, match="ended before its first record"):
        RunStore.read(folder)
    with RunStore.resume(folder, settings, versions) as store:
        assert store.info().settings == settings


def test_a_damaged_page_is_found_on_resume(folder, settings, versions, store, make_evaluation):
    store.record_evaluations([make_evaluation(design) for design in range(200)])
    store.close()
    path = folder / "run.db"
    page_bytes = 4096
    damaged = bytearray(path.read_bytes())
    for start in range(5 * page_bytes, len(damaged), page_bytes):
        damaged[start : start + 64] = os.urandom(64)
    path.write_bytes(damaged)
    with pytest.raises(RunError) as error:
        RunStore.resume(folder, settings, versions)
    assert "damaged" in one_line(error)
    assert path.read_bytes() == damaged


def test_an_edited_record_is_told_in_one_line(folder, store, make_evaluation):
    store.record_evaluations([make_evaluation(1)])
    store._connection.execute(
        'UPDATE evaluations SET evaluation = replace(evaluation, \'"tp":2\', \'"tp":"two"\')'
    )
    with pytest.raises(RunError) as error:
        list(store.evaluations())
    assert "Evaluation.plans[0].tp should be a whole number, is 'two'" in one_line(error)
    store._connection.execute("UPDATE run SET settings = '{'")
    with pytest.raises(RunError, match="damaged"):
        store.info()


def test_a_newer_format_is_refused_and_an_older_one_updated(
    folder, settings, versions, store, make_evaluation, monkeypatch
):
    store.record_evaluations([make_evaluation(1)])
    store.close()
    added = schema.Migration(name="notes", statements=("CREATE TABLE notes (text TEXT)",))
    with monkeypatch.context() as later:
        later.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, added))
        with RunStore.read(folder) as reader:
            assert reader.num_evaluations() == 1
            assert reader._connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)
    for attempt in (lambda: RunStore.read(folder), lambda: RunStore.resume(folder, settings, versions)):
        with pytest.raises(RunError) as error:
            attempt()
        assert f"format {len(schema.MIGRATIONS) + 1}" in one_line(error)


def test_a_failed_migration_leaves_the_run_as_it_was(folder, settings, versions, store, monkeypatch):
    store.close()
    broken = schema.Migration(name="broken", statements=("CREATE TABLE notes (text TEXT)", "NOT SQL"))
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, broken))
    with pytest.raises(RunError):
        RunStore.resume(folder, settings, versions)
    monkeypatch.undo()
    with RunStore.resume(folder, settings, versions) as resumed:
        tables = {row[0] for row in resumed._connection.execute("SELECT name FROM sqlite_master")}
        assert resumed._connection.execute("PRAGMA user_version").fetchone() == (len(schema.MIGRATIONS),)
    assert "evaluations" in tables
    assert "notes" not in tables


def test_a_full_disk_undoes_the_record_and_keeps_the_rest(folder, store, make_evaluation, make_bounds):
    kept = [make_evaluation(design) for design in range(10)]
    store.record_evaluations(kept)
    num_pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {num_pages + 1}")
    for record in (
        lambda: store.record_evaluations([make_evaluation(design) for design in range(5, 500)]),
        lambda: store.record_bounds(make_bounds(num_designs=5000)),
    ):
        with pytest.raises(RunError) as error:
            record()
        assert "the disk is full" in one_line(error)
        assert list(store.evaluations()) == kept
        assert len(store.bounds()) == 0
    store._connection.execute("PRAGMA max_page_count = 100000")
    store.record_evaluations([make_evaluation(10)])
    assert store.num_evaluations() == 11
    assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_read_only_database_is_told_in_one_line(store, make_evaluation):
    store._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(RunError) as error:
        store.record_evaluations([make_evaluation(1)])
    assert "read-only" in one_line(error)


def test_a_reader_cannot_write(folder, store):
    with RunStore.read(folder) as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._connection.execute("DELETE FROM run")


def test_an_interrupt_in_a_record_undoes_it(store, make_evaluation):
    def interrupted():
        yield make_evaluation(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.record_evaluations(interrupted())
    with suppress(KeyboardInterrupt), store._transaction("test") as connection:
        connection.execute("INSERT INTO incumbents (elapsed_s, objective, bound) VALUES (1, 1, 1)")
        raise KeyboardInterrupt
    assert store.incumbents() == ()
    store.record_evaluations([make_evaluation(2)])
    assert [found.design for found in store.evaluations()] == [2]


def test_the_same_process_cannot_open_a_run_twice(folder, settings, versions, store):
    with pytest.raises(RunError, match=f"process {os.getpid()}"):
        RunStore.resume(folder, settings, versions)


def known(name, plan, objective=3.0):
    chip = preset_chip(name)
    return ChipAnswer(
        chip=chip, area_um2=3e8, objective=objective, bound=objective * 1.1, plans=(plan, None), reason="no plan"
    )


def test_known_chips_are_added_after_the_search_and_replaced_by_name(folder, store, make_evaluation):
    plan = make_evaluation(1).plans[0]
    assert store.known_chips() == ()
    with pytest.raises(RunError, match="process"):
        RunStore.annotate(folder)
    store.close()
    with RunStore.annotate(folder) as opened:
        opened.record_known_chips([known("tpuv4", plan), known("h100", plan)])
    with RunStore.annotate(folder) as opened:
        opened.record_known_chips([known("tpuv4", plan, objective=4.0)])
    with RunStore.read(folder) as reader:
        assert reader.known_chips() == (known("h100", plan), known("tpuv4", plan, objective=4.0))
        assert reader.info().num_sessions == 1  # looking at chips is no session of the search


def test_a_run_of_the_first_format_can_be_annotated(folder, settings, versions, make_evaluation):
    RunStore.create(folder, settings, versions).close()
    as_format(folder, 1)
    with RunStore.annotate(folder) as opened:
        opened.record_known_chips([known("tpuv4", make_evaluation(1).plans[0])])
        assert len(opened.known_chips()) == 1


def test_a_run_from_before_systems_opens_without_any(folder, settings, versions):
    RunStore.create(folder, settings, versions).close()
    as_format(folder, 3)
    with RunStore.read(folder) as opened:
        assert opened.systems() == ()


def test_parts_are_kept_by_name_until_another_answer_comes(store, make_evaluation, result):
    found, other = known("tpuv4", make_evaluation(1).plans[0]), known("h100", make_evaluation(2).plans[0])
    store.record_result(result)
    store.record_part(RunPart.POINTS, other)
    store.record_part(RunPart.POINTS, found)
    assert store.part(RunPart.POINTS, ChipAnswer) == found
    assert store.part(RunPart.WINNER, ChipAnswer) is None
    # A part that is not what it should be, as of another version, counts as none.
    assert store.part(RunPart.POINTS, SearchResult) is None
    store.record_result(dataclasses.replace(result, search_s=99.0))
    assert store.part(RunPart.POINTS, ChipAnswer) == found
    store.record_result(dataclasses.replace(result, plans=()))
    assert store.part(RunPart.POINTS, ChipAnswer) is None


def test_there_is_nothing_to_annotate_without_a_run(tmp_path):
    with pytest.raises(RunError):
        RunStore.annotate(tmp_path)
    assert not list(tmp_path.iterdir())
