"""``rephaze search --dask`` with a scheduler and workers as separate processes, some of them killed."""

import importlib.util
import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from distributed import Client

from rephaze.errors import MissingExtraError, RunError, SpecError
from rephaze.search.workers.dask import DaskWorkers
from rephaze.store.run_store import RunStore
from tests.kits.command import rephaze
from tests.kits.workers_kit import WorkersKit

HERE = Path(__file__).parent
DATA = HERE.parent / "data"
REPHAZE = (sys.executable, "-c", "from rephaze.cli.main import run; run()")


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


dask_cluster = load(HERE / "dask_cluster.py").dask_cluster
small_settings = load(HERE.parent / "property" / "search_cases.py").small_settings

CONFIG = """
scenario = "coarse"
[search]
models = ["model.json.gz"]
[space]
num_tensor_cores = [1, 2, 4]
tensor_width = [32, 64]
tensor_depth = [64]
num_vector_cores = [2]
vector_lanes = [128, 512]
global_buffer_mib = [8]
num_hbm_stacks = [1, 2]
[cluster]
num_devices = 8
levels = [{ num_devices = 8, bytes_per_s = 50e9, latency_s = 1e-6 }]
[training]
global_batch = 32
microbatches = [1, 4]
tp_degrees = [1]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder to search in: a run file that names a model by a path relative to it."""
    folder = tmp_path_factory.mktemp("search")
    (folder / "run.toml").write_text(CONFIG)
    (folder / "model.json.gz").write_bytes((DATA / "tiny-gpt-fused.json.gz").read_bytes())
    return folder


OPTIONS = ("search", "--config", "run.toml", "--exhaustive", "--json", "--out")


def search_here(place, name, *arguments):
    """One local worker, in this process."""
    done = rephaze(*OPTIONS, name, "--workers", 1, *arguments, cwd=place)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def begin(place, name, *arguments):
    command = [*REPHAZE, *OPTIONS, name, *arguments]
    return subprocess.Popen(
        command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(process):
    printed, errors = process.communicate(timeout=200)
    return process.returncode, json.loads(printed) if printed else None, errors


def timeless(answer):
    return {name: value for name, value in answer.items() if name not in ("search_s", "report")}


def records(folder):
    with RunStore.read(folder) as store:
        return {item.design: item for item in store.evaluations()}


def num_recorded(folder):
    try:
        with sqlite3.connect(f"file:{folder / 'run.db'}?mode=ro", uri=True) as connection:
            found = connection.execute("SELECT count(*) FROM evaluations").fetchone()[0]
        connection.close()
    except sqlite3.OperationalError:
        return -1
    return found


def wait_until_recorded(process, folder, least):
    while num_recorded(folder) < least:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


@pytest.fixture(scope="module")
def local(place):
    """The run of one local worker, and what it printed."""
    code, answer, errors = search_here(place, "local")
    assert code == 0, errors
    assert answer["status"] == "optimal"
    return place / "local", answer


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with dask_cluster(tmp_path_factory.mktemp("dask"), num_workers=2) as cluster:
        yield cluster


class TestDaskWorkers(WorkersKit):
    @classmethod
    @contextmanager
    def start(cls, request, settings, stop):
        yield DaskWorkers(settings, request.getfixturevalue("cluster").address, stop=stop)


def test_the_answer_is_that_of_one_local_worker(place, local, cluster):
    code, answer, errors = finish(begin(place, "dask", "--dask", cluster.address))
    assert (code, errors) == (0, "")
    assert timeless(answer) == timeless(local[1])
    assert records(place / "dask") == records(local[0])


def test_workers_forget_a_search_that_is_over(cluster):
    def num_kept():
        tasks = sys.modules.get("rephaze.search.workers.dask_tasks")
        return len(tasks._evaluators) if tasks else 0

    workers = DaskWorkers(small_settings(0, "coarse"), cluster.address)
    with Client(cluster.address, set_as_default=False) as client:
        try:
            workers.unit_bounds([0])
            assert sum(client.run(num_kept).values()) >= 1
        finally:
            workers.close()
        deadline = time.monotonic() + 30
        while any(client.run(num_kept).values()):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_worker_whose_model_file_is_missing_is_refused(cluster, tmp_path):
    model = tmp_path / "model.json.gz"
    model.write_bytes((DATA / "tiny-gpt-fused.json.gz").read_bytes())
    asked = small_settings(0, "coarse")
    workers = DaskWorkers(type(asked)(**fields(asked) | {"models": (str(model),)}), cluster.address)
    try:
        model.unlink()
        with pytest.raises(RunError, match=r"cannot take part: .*model\.json\.gz"):
            workers.unit_bounds([0])
    finally:
        workers.close()


def fields(record):
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def test_a_killed_worker_costs_time_but_not_the_answer(place, local, cluster):
    doomed = cluster.add_worker()
    # Stopped, it takes tasks and answers none: the search must be waiting for it when it is killed.
    doomed.send_signal(signal.SIGSTOP)
    process = begin(place, "worker-lost", "--dask", cluster.address)
    while num_recorded(place / "worker-lost") < 0:
        time.sleep(0.01)
    time.sleep(2.0)
    assert process.poll() is None, "the search cannot end without the worker's tasks"
    doomed.send_signal(signal.SIGKILL)
    code, answer, errors = finish(process)
    assert (code, errors) == (0, "")
    assert timeless(answer) == timeless(local[1])
    assert records(place / "worker-lost") == records(local[0])


def test_a_worker_that_does_not_answer_does_not_hold_up_the_limit(place, local, tmp_path):
    with dask_cluster(tmp_path / "dask", num_workers=1) as cluster:
        cluster.workers[0].send_signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            code, answer, errors = finish(begin(place, "late", "--dask", cluster.address, "--time-limit", "3"))
            assert time.monotonic() - began < 60, "starting Python included"
        finally:
            cluster.workers[0].send_signal(signal.SIGCONT)
    assert (code, answer["status"]) == (4, "unknown"), errors
    assert answer["search_s"] < 3 + 5
    assert answer["bound"] >= local[1]["objective"]
    code, resumed, _ = search_here(place, "late", "--resume")
    assert (code, timeless(resumed)) == (0, timeless(local[1]))


def test_a_lost_scheduler_ends_in_one_line_and_the_run_goes_on_elsewhere(place, local, tmp_path):
    with dask_cluster(tmp_path / "dask", num_workers=1) as cluster:
        process = begin(place, "scheduler-lost", "--dask", cluster.address)
        wait_until_recorded(process, place / "scheduler-lost", 1)
        cluster.workers[0].send_signal(signal.SIGSTOP)
        cluster.scheduler.send_signal(signal.SIGKILL)
        code, answer, errors = finish(process)
    assert (code, answer) == (1, None)
    assert len(errors.splitlines()) == 1, errors
    assert "scheduler" in errors
    assert "--resume" in errors
    known = records(place / "scheduler-lost")
    assert 0 < len(known) < len(records(local[0]))
    code, answer, errors = search_here(place, "scheduler-lost", "--resume")
    assert (code, timeless(answer)) == (0, timeless(local[1])), errors
    assert known.items() <= records(place / "scheduler-lost").items()
    assert records(place / "scheduler-lost") == records(local[0])


def test_without_workers_it_says_so_and_gives_up_in_the_end(tmp_path, caplog):
    with dask_cluster(tmp_path, num_workers=0) as cluster:
        workers = DaskWorkers(small_settings(0, "coarse"), cluster.address, patience_s=0.5)
        try:
            with pytest.raises(RunError, match="no workers for"):
                workers.unit_bounds([0])
        finally:
            workers.close()
    assert "has no workers; waiting" in caplog.text


@pytest.mark.parametrize("address", ["nonsense", "tcp://host", "tcp://host:port", "smoke://host:1"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(SpecError, match="must be the address of a Dask scheduler"):
        DaskWorkers(small_settings(0, "coarse"), address)


def test_where_no_scheduler_answers(monkeypatch):
    monkeypatch.setattr("rephaze.search.workers.dask.CONNECT_S", 0.5)
    with pytest.raises(RunError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:1' .*; start one"):
        DaskWorkers(small_settings(0, "coarse"), "tcp://127.0.0.1:1")


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"rephaze\[dask\]"):
        DaskWorkers(small_settings(0, "coarse"), "tcp://127.0.0.1:8786")
