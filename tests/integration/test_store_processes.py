"""The run store under real processes: killed, competing, out of disk, without the right to write.

Full and read-only file systems are mounted in a namespace of the test's own; where the system does not allow
that, those tests are skipped (unit tests provoke the same SQLite errors without a mount).
"""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from rephaze.errors import RunError
from rephaze.hardware.scenarios import load_scenario
from rephaze.store.opening import is_run
from rephaze.store.record_json import json_text, to_json
from rephaze.store.run_store import RunStore
from rephaze.types.run_record import RunVersions
from rephaze.types.search import Aggregate, Objective, SearchSettings

WRITER = Path(__file__).with_name("store_writer.py")
BATCH = 5
NUM_KILLS = 40
VERSIONS = RunVersions(estimator="1", rephaze="1", python="3", packages={})
SETTINGS = SearchSettings(
    models=("gpt2-xl",),
    weights=(1.0,),
    scenario=load_scenario("paper"),
    objective=Objective.THROUGHPUT,
    aggregate=Aggregate.GEOMEAN,
    seed=0,
    exhaustive=False,
)


@pytest.fixture
def settings_file(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json_text(to_json(SETTINGS)))
    return path


@contextmanager
def started(action, settings_file, folder):
    command = [sys.executable, str(WRITER), action, str(settings_file), str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=30)


def test_nothing_recorded_is_lost_to_kill_9(tmp_path, settings_file):
    folder, log = tmp_path / "run", tmp_path / "log"
    moments = random.Random(20)
    num_recorded = num_kills_with_records = 0
    with started("start_recorders", settings_file, folder) as starter:
        for kill in range(NUM_KILLS):
            log.unlink(missing_ok=True)
            starter.stdin.write(f"{log}\n")
            starter.stdin.flush()
            process = int(starter.stdout.readline())
            if kill % 2:  # else anywhere from before it opens the run
                await_text(log)
            time.sleep(moments.uniform(0, 0.08))
            os.kill(process, signal.SIGKILL)
            assert int(starter.stdout.readline()) == -signal.SIGKILL
            said = log.read_text().split("\n")[:-1] if log.exists() else []
            if said:
                num_recorded = int(said[-1].removeprefix("recorded "))
                num_kills_with_records += 1
            if num_recorded:
                check_counts(folder, num_recorded)
    assert num_kills_with_records >= NUM_KILLS // 2
    with RunStore.resume(folder, SETTINGS, VERSIONS) as store:
        assert store.info().num_sessions > num_kills_with_records
    check_run(folder, num_recorded)


def await_text(path):
    deadline_s = time.monotonic() + 30
    while not path.exists() or not path.stat().st_size:
        assert time.monotonic() < deadline_s, "the writer records nothing"
        time.sleep(0.001)


def check_counts(folder, num_recorded):
    with RunStore.read(folder) as reader:
        num_found = reader.num_evaluations()
    assert num_found >= num_recorded, "every evaluation reported as recorded is there"
    assert num_found % BATCH == 0, "a batch is recorded whole or not at all"
    connection = sqlite3.connect(folder / "run.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def check_run(folder, num_recorded):
    check_counts(folder, num_recorded)
    with RunStore.read(folder) as reader:
        found = list(reader.evaluations())
        assert reader.info().settings == SETTINGS
    assert [(one.design, one.objective) for one in found] == [(i, i / 3) for i in range(len(found))]


def test_a_second_search_on_a_run_is_refused_until_the_first_is_gone(tmp_path, settings_file):
    folder = tmp_path / "run"
    with started("hold", settings_file, folder) as process:
        worker = int(process.stdout.readline().split()[1])
        try:
            for attempt in (RunStore.resume, RunStore.create):
                with pytest.raises(RunError) as error:
                    attempt(folder, SETTINGS, VERSIONS)
                message = str(error.value)
                assert f"process {process.pid}" in message
                assert str(folder) in message
                assert "\n" not in message
            with RunStore.read(folder) as reader:
                assert reader.num_evaluations() == 0
            process.kill()
            process.wait(timeout=30)
            # Its forked worker lives on, as workers of a killed driver do for a while; the lock does not.
            os.kill(worker, 0)
            with RunStore.resume(folder, SETTINGS, VERSIONS) as store:
                assert store.info().num_sessions == 2
        finally:
            os.kill(worker, signal.SIGKILL)


@pytest.fixture
def in_namespace(settings_file):
    """Runs an action of the writer where it may mount file systems, and returns what it said."""
    unshare = shutil.which("unshare")
    probe = ["--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if unshare is None or subprocess.run([unshare, *probe], capture_output=True, timeout=30).returncode:
        pytest.skip("this system lets us mount nothing")

    def run(action, folder):
        inside = [sys.executable, str(WRITER), action, str(settings_file), str(folder)]
        done = subprocess.run(
            [unshare, *probe[:3], *inside], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_a_full_disk_ends_in_one_line_and_an_intact_run(tmp_path, in_namespace):
    mount = tmp_path / "small"
    mount.mkdir()
    facts = in_namespace("fill_disk", mount)
    assert "disk is full" in facts["message"] or "disk failed" in facts["message"]
    assert "\n" not in facts["message"]
    assert facts["num_recorded"] > 0
    assert facts["num_found"] == facts["num_recorded"]
    assert facts["num_at_end"] == facts["num_recorded"] + 1
    assert facts["all_equal"]
    assert facts["integrity"] == "ok"


def test_a_disk_without_any_room_is_told_in_one_line(tmp_path, in_namespace):
    message = in_namespace("fill_disk_at_once", tmp_path)["message"]
    assert str(tmp_path) in message
    assert "\n" not in message


def test_a_read_only_folder_can_be_read_and_refuses_the_rest_in_one_line(tmp_path, settings_file, in_namespace):
    parent = tmp_path / "parent"
    parent.mkdir()
    with started("record_forever", settings_file, parent / "killed") as process:
        while not process.stdout.readline().startswith("recorded"):
            pass
    assert (parent / "killed" / "run.db-wal").stat().st_size
    # A copy without the log's index cannot be read where the index cannot be made anew.
    shutil.copytree(parent / "killed", parent / "copied", ignore=shutil.ignore_patterns("*-shm"))
    RunStore.create(parent / "run", SETTINGS, VERSIONS).close()
    facts = in_namespace("use_read_only", parent)
    assert facts["num_found"] == 0
    assert facts["num_found_killed"] >= BATCH
    assert "Read-only" in facts["resume"]
    assert "Read-only" in facts["create"]
    assert "copy the folder" in facts["read_unfolded"]
    assert not any("\n" in str(fact) for fact in facts.values())
    assert not is_run(parent / "new")
