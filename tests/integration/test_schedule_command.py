"""`rephaze schedule` as a user meets it."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from rephaze.cli.main import app

GOOD = {
    "format": "rephaze.schedule-problem/1",
    "num_tensor_cores": 2,
    "num_vector_cores": 1,
    "ops": [
        {"name": "in", "core": "none", "one_core_cycles": 0, "all_cores_cycles": 0},
        {"name": "q", "core": "fused", "one_core_cycles": 100, "all_cores_cycles": 60},
        {"name": "k", "core": "tensor", "one_core_cycles": 90, "all_cores_cycles": 50},
        {"name": "add", "core": "vector", "one_core_cycles": 30, "all_cores_cycles": None},
        {"name": "send", "core": "link", "one_core_cycles": 40, "all_cores_cycles": 40},
    ],
    "edges": [["in", "q"], ["in", "k"], ["q", "add"], ["k", "send"]],
}


def run(tmp_path, problem, *options, name="p.json"):
    path = tmp_path / name
    path.write_text(problem if isinstance(problem, str) else json.dumps(problem))
    return CliRunner().invoke(app, ["schedule", str(path), *options])


def changed(**fields):
    return {**GOOD, **fields}


def with_op(**fields):
    return changed(
        ops=[
            *GOOD["ops"],
            {"name": "x", "core": "vector", "one_core_cycles": 1, "all_cores_cycles": 1, **fields},
        ]
    )


def test_the_answer_is_proven_and_complete(tmp_path):
    done = run(tmp_path, GOOD, "--json")
    answer = json.loads(done.stdout)
    assert done.exit_code == 0
    assert answer["status"] == "optimal"
    assert answer["makespan_cycles"] == answer["bound_cycles"] == 130
    assert {start["op"] for start in answer["starts"]} == {"in", "q", "k", "add", "send"}
    assert answer["solve_s"] >= 0


@pytest.mark.parametrize("solver", ["auto", "search", "cpsat", "ilp"])
def test_every_solver_answers_alike(tmp_path, solver):
    answer = json.loads(run(tmp_path, GOOD, "--json", "--solver", solver).stdout)
    assert (answer["status"], answer["makespan_cycles"]) == ("optimal", 130)


@pytest.mark.parametrize("limit", ["0", "0.01"])
def test_no_time_still_gives_a_valid_schedule(tmp_path, limit):
    answer = json.loads(run(tmp_path, GOOD, "--json", "--time-limit", limit).stdout)
    assert answer["status"] in ("optimal", "feasible")
    assert answer["bound_cycles"] <= 130 <= answer["makespan_cycles"]


def test_the_engine_rule_is_read(tmp_path):
    two = changed(
        ops=[
            {"name": "t", "core": "tensor", "one_core_cycles": None, "all_cores_cycles": 10},
            {"name": "v", "core": "vector", "one_core_cycles": None, "all_cores_cycles": 10},
        ],
        edges=[],
    )
    chip = json.loads(run(tmp_path, two, "--json").stdout)
    engine = json.loads(run(tmp_path, {**two, "all_cores_excludes": "engine"}, "--json").stdout)
    assert (chip["makespan_cycles"], engine["makespan_cycles"]) == (20, 10)


def test_an_op_without_a_mode_is_infeasible_and_named(tmp_path):
    done = run(tmp_path, with_op(one_core_cycles=None, all_cores_cycles=None), "--json")
    answer = json.loads(done.stdout)
    assert done.exit_code == 3
    assert answer["status"] == "infeasible"
    assert "'x'" in answer["reason"]


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (changed(edges=[["q", "add"], ["add", "q"]]), "must form no cycle"),
        (changed(edges=[["q", "ad"]]), "did you mean 'add'?"),
        (changed(num_vector_cores=0), "num_vector_cores is 0: must be from 1"),
        (changed(num_tensor_cores=1.5), "num_tensor_cores is 1.5: must be a whole number"),
        (changed(all_cores_excludes="cheap"), "did you mean 'chip'?"),
        (changed(format="rephaze.schedule-problem/2"), "format"),
        (changed(op=[]), "op is []: is not a known field"),
        (with_op(one_core_cycles=-1), "op 'x': one_core_cycles is -1: must be from 0"),
        (with_op(one_core_cycles=1.5), "op 'x': one_core_cycles is 1.5: must be a whole number"),
        (with_op(one_core_cycles="7"), "op 'x': one_core_cycles is '7': must be a whole number"),
        (with_op(one_core_cycles=2**60), "op 'x': one_core_cycles"),
        (
            with_op(one_core_hbm_share=1.1),
            "op 'x': one_core_hbm_share is 1.1: must be at least 0 and at most 1",
        ),
        (with_op(core="vectr"), "did you mean 'vector'?"),
        (with_op(core="none"), "must be 0 for core none"),
        (with_op(name="q"), "op name is 'q': is used twice"),
        (json.dumps(GOOD).replace("100", "1e999"), "is inf: is no number to reckon with"),
        (json.dumps(GOOD).replace("100", "NaN"), "is nan: is no number to reckon with"),
        ("{", "not valid JSON"),
    ],
)
def test_what_is_wrong_is_one_clear_line(tmp_path, problem, said):
    done = run(tmp_path, problem, "--json")
    answer = json.loads(done.stdout)
    assert done.exit_code == 1
    assert answer["status"] == "error"
    assert said in answer["message"]
    assert "\n" not in answer["message"]


def test_a_bad_line_leaves_the_others_solved(tmp_path):
    lines = "\n".join([json.dumps(GOOD), "{}", "", json.dumps(GOOD)])
    done = run(tmp_path, lines, "--json", name="p.jsonl")
    statuses = [json.loads(line)["status"] for line in done.stdout.splitlines()]
    assert statuses == ["optimal", "error", "optimal"]
    assert done.exit_code == 1


def test_without_json_a_table_and_a_chart_are_shown(tmp_path):
    chart = tmp_path / "chart.html"
    done = run(tmp_path, GOOD, "--html", str(chart))
    assert done.exit_code == 0
    assert "130 cycles, proven optimal" in done.stdout
    assert "send" in done.stdout
    assert "<figure" in chart.read_text()


def test_an_unusable_backend_is_one_line(tmp_path):
    answer = json.loads(run(tmp_path, GOOD, "--json", "--solver", "ilp", "--backend", "gurobi").stdout)
    assert answer["status"] in ("optimal", "error")  # a licence may be there
    if answer["status"] == "error":
        assert "backend is 'gurobi': cannot be used here" in answer["message"]


def test_the_answer_is_the_same_in_a_fresh_process(tmp_path):
    path = tmp_path / "p.json"
    path.write_text(json.dumps(GOOD))
    code = "from rephaze.cli.main import run; run()"
    answers = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code, "schedule", str(path), "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        answer = json.loads(done.stdout)
        del answer["solve_s"]
        answers.append(answer)
    assert answers[0] == answers[1]
