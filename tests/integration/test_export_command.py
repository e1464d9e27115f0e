"""``rephaze export`` as a user runs it."""

import csv
import json

import pytest

from rephaze.hardware.scenarios import load_scenario
from rephaze.store.run_store import RunStore
from rephaze.store.versions import current_versions
from rephaze.types.search import Aggregate, Evaluation, Objective, SearchSettings
from tests.kits.command import rephaze


def run(*args):
    return rephaze("export", *args)


@pytest.fixture
def folder(tmp_path):
    settings = SearchSettings(
        models=("gpt2-xl",),
        weights=(1.0,),
        scenario=load_scenario("paper"),
        objective=Objective.PER_WATT,
        aggregate=Aggregate.GEOMEAN,
        seed=0,
        exhaustive=False,
    )
    with RunStore.create(tmp_path / "run", settings, current_versions("1")) as store:
        store.record_evaluations(
            Evaluation(design=i, is_exact=True, objective=i / 3, bound=i / 3, plans=()) for i in range(4)
        )
    return tmp_path / "run"


def test_export_to_csv_and_parquet(folder, tmp_path):
    done = run(folder, "--out", tmp_path / "t.csv", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["num_rows"], found["format"], found["table"]) == (4, "csv", "evaluations")
    with (tmp_path / "t.csv").open(newline="") as file:
        assert [float(row["objective_samples_per_j"]) for row in csv.DictReader(file)] == [i / 3 for i in range(4)]
    done = run(folder, "--format", "parquet", "--out", tmp_path / "t.dat")
    assert done.returncode == 0, done.stderr
    assert "4 rows of evaluations" in done.stdout
    assert (tmp_path / "t.dat").read_bytes()[:4] == b"PAR1"


def test_export_refuses_in_one_line(folder, tmp_path):
    for args, code, said in (
        ((folder, "--out", tmp_path / "t.txt"), 2, "ends in neither .csv nor .parquet"),
        ((tmp_path, "--out", tmp_path / "t.csv"), 1, "not a run"),
        ((tmp_path / "none", "--out", tmp_path / "t.csv"), 1, "no such folder"),
    ):
        done = run(*args)
        assert done.returncode == code
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert run(folder).returncode == 2
