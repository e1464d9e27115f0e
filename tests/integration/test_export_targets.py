"""``--to`` of ``place``, ``evaluate`` and ``export``, as a user calls them."""

import csv
import io
import json
import tomllib

import pytest
from typer.testing import CliRunner

import rephaze
from rephaze.cli.main import app
from rephaze.launch.frameworks import FRAMEWORKS
from rephaze.types.launch import ExportTarget
from tests.integration.test_full_plan_commands import problem
from tests.unit.launch.test_traces import check_trace

TEXTS = [str(one) for one in ExportTarget if one is not ExportTarget.PARQUET and not one.is_chip]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def problem_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("place") / "problem.json"
    path.write_text(json.dumps(problem()))
    return path


@pytest.fixture(scope="module")
def full_run(tmp_path_factory):
    """A search of two chips under cost model full, of two models."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    few = {
        "space": {
            "num_tensor_cores": [8], "tensor_width": [128], "tensor_depth": [128], "num_vector_cores": [2],
            "vector_lanes": [1024], "global_buffer_mib": [32], "num_hbm_stacks": [2, 4],
        },
        "training": {"microbatches": [1], "tp_degrees": [1], "cp_degrees": [1], "global_batch": 64},
        "cluster": {"num_devices": 8},
    }  # fmt: skip
    rephaze.explore("vit-large", "bert-large", changes=few, store=folder)
    return folder


@pytest.mark.parametrize("to", TEXTS)
def test_place_writes_a_plan_for_every_tool(problem_file, to, tmp_path):
    done = run("place", problem_file, "--to", to)
    assert done.exit_code == 0, done.output
    assert "s a batch" not in done.stdout, "instead of the answer"
    written = run("place", problem_file, "--to", to, "--out", tmp_path / "file")
    assert written.exit_code == 0
    assert "s a batch" in written.stdout
    if to not in ("json",):
        assert (tmp_path / "file").read_text() == done.stdout
    if to in ("perfetto", "chrome-trace"):
        assert check_trace(done.stdout)
        assert "no chip is given" in done.stderr
    if to == "csv":
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        assert sum(int(row["num_layers"]) for row in rows) == 4
        assert all(float(row["memory_bytes"]) > float(row["weights_bytes"]) > 0 for row in rows)
    if to == "json":
        assert json.loads(done.stdout)["status"] == "optimal"


def test_what_is_not_said_is_told_beside_the_file(problem_file, tmp_path):
    done = run("place", problem_file, "--to", "chrome-trace", "--out", tmp_path / "trace.json", "--json")
    assert json.loads(done.stdout)["status"] == "optimal"
    notes = json.loads((tmp_path / "trace.json").read_text())["otherData"]["notes"]
    told = [line.removeprefix("chrome-trace: ") for line in done.stderr.splitlines()]
    assert told == notes != []


def test_evaluate_writes_the_plan_it_was_given(problem_file, tmp_path):
    plan = json.loads(run("place", problem_file, "--json").stdout)["plan"]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"format": "rephaze.placement-plan/2", "problem": problem(), "plan": plan}))
    done = run("evaluate", path, "--to", "torchtitan")
    assert done.exit_code == 0
    found = tomllib.loads(done.stdout)["parallelism"]
    assert found["pipeline_parallel_degree"] * plan["dp"] * plan["tp"] * plan["cp"] <= 8
    assert found["context_parallel_degree"] == plan["cp"]
    pytest.importorskip("pyarrow")
    done = run("evaluate", path, "--to", "parquet", "--out", tmp_path / "stages.parquet")
    assert done.exit_code == 0
    assert (tmp_path / "stages.parquet").read_bytes()[:4] == b"PAR1"


def test_a_run_is_exported_for_every_tool(full_run, tmp_path):
    for to in TEXTS:
        if to == "csv":
            continue
        done = run("export", full_run, "--to", to, "--model", "vit-large")
        assert done.exit_code == 0, (to, done.output)
        if to in ("perfetto", "chrome-trace"):
            tracks = check_trace(done.stdout)
            assert len(tracks) > 2, "the pipeline, and cores in both passes"
        if to == "json":
            found = json.loads(done.stdout)
            assert found["answer"]["status"] == "optimal"
            assert found["settings"]["models"] == ["vit-large", "bert-large"]
    done = run("export", full_run, "--to", "timeloop", "--out", tmp_path / "chip.yaml", "--json")
    assert json.loads(done.stdout)["notes"]
    assert "meshX: 8" in (tmp_path / "chip.yaml").read_text()
    done = run("export", full_run, "--to", "accelforge", "--out", tmp_path / "chip.yaml", "--json")
    assert json.loads(done.stdout)["notes"]
    assert "{name: core, fanout: 8}" in (tmp_path / "chip.yaml").read_text()
    done = run("export", full_run, "--to", "csv", "--table", "plans", "--out", tmp_path / "plans.csv")
    assert done.exit_code == 0
    assert len((tmp_path / "plans.csv").read_text().splitlines()) > 2


def test_runs_say_which_model(full_run):
    done = run("export", full_run, "--to", "nemo")
    assert done.exit_code == 1
    assert "vit-large, bert-large" in str(done.exception)
    done = run("export", full_run, "--to", "nemo", "--model", "gpt9")
    assert "must be one of" in str(done.exception)


def test_coarse_runs_are_launched_and_traced_too(tmp_path):
    space = {"num_tensor_cores": [8], "tensor_width": [128], "tensor_depth": [128], "num_hbm_stacks": [2]}
    few = {"space": space, "training": {"microbatches": [1], "tp_degrees": [1]}}
    rephaze.explore("vit-large", scenario="coarse", changes=few, store=tmp_path / "run")
    done = run("export", tmp_path / "run", "--to", "megatron")
    assert done.exit_code == 0, done.output
    assert "--num-layers 24" in done.stdout
    done = run("export", tmp_path / "run", "--to", "perfetto")
    assert check_trace(done.stdout)
    assert "cost model full" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "parquet"), "add --out FILE"),
        (("--to", "json", "--json"), "add --out FILE"),
        (("--out", "file"), "is for --to"),
        (("--to", "timeloop"), "place a model with --chip"),
        (("--to", "accelforge"), "place a model with --chip"),
    ],
)
def test_what_cannot_be_written_is_refused_in_a_line(problem_file, arguments, said):
    done = run("place", problem_file, *arguments)
    assert done.exit_code == 1
    assert said in str(done.exception)


@pytest.mark.parametrize("to", FRAMEWORKS)
def test_a_zero_bubble_plan_is_told_as_the_nearest_a_framework_has(to, tmp_path):
    """Family megatron allows the schedule, which Megatron-LM's main line does not have."""
    asked = problem()
    asked["options"] |= {"sharding": ["none"], "schedule": ["zero-bubble"], "family": "megatron"}
    asked["cluster"]["device_memory_bytes"] = 8e9
    (tmp_path / "problem.json").write_text(json.dumps(asked))
    answer = json.loads(run("place", tmp_path / "problem.json", "--json").stdout)
    assert answer["plan"]["schedule"] == "zero-bubble"
    done = run("place", tmp_path / "problem.json", "--to", to)
    assert done.exit_code == 0, done.output
    again = {"format": "rephaze.placement-plan/2", "problem": asked, "plan": answer["plan"] | {"schedule": "1f1b"}}
    (tmp_path / "plan.json").write_text(json.dumps(again))
    done_again = run("evaluate", tmp_path / "plan.json", "--json")
    assert done_again.exit_code == 0, "it fits"
    priced = json.loads(done_again.stdout)
    cost = f"{priced['batch_s'] / answer['batch_s'] - 1:+.1%} in batch time"
    for place in (done.stdout, done.stderr):
        assert "no zero-bubble schedule (H1)" in place
        assert "1F1B over the same stages" in place
        assert cost in place
    read = FRAMEWORKS[to].read(done.stdout, None)
    assert read.schedule == "1f1b"


@pytest.mark.parametrize("second", ["the same", "missing", "a line more"])
@pytest.mark.parametrize("command", ["place", "evaluate"])
def test_one_file_takes_one_plan(problem_file, command, second, tmp_path):
    text = problem_file.read_text()
    if command == "evaluate":
        plan = json.loads(run("place", problem_file, "--json").stdout)["plan"]
        text = json.dumps({"format": "rephaze.placement-plan/2", "problem": problem(), "plan": plan})
    first = tmp_path / "first.jsonl"
    first.write_text(text + ("\n" + text if second == "a line more" else ""))
    others = {"the same": [first], "missing": [tmp_path / "missing.json"], "a line more": []}[second]
    done = run(command, first, *others, "--to", "nemo", "--out", tmp_path / "nemo.py")
    assert "one problem at a time" in str(done.exception)
    assert not done.output, "nothing of the first is told"
    assert not (tmp_path / "nemo.py").exists()
