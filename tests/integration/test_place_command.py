"""``rephaze place`` and ``rephaze evaluate`` as a user calls them."""

import json

import pytest
from typer.testing import CliRunner

from rephaze.cli.main import app


def problem_text(**changes):
    layers = [
        {
            "name": f"b{v}", "param_bytes": 1e9, "activation_bytes": 1e9, "forward_s": 0.01,
            "backward_s": 0.02, "tensor_parallel": False,
        }
        for v in range(6)
    ]  # fmt: skip
    edges = [{"src": f"b{v}", "dst": f"b{v + 1}", "bytes": 1e6} for v in range(5)]
    data = {
        "format": "rephaze.placement-problem/1",
        "cost_model": "paper",
        "cluster": {"num_devices": 8, "device_memory_bytes": 2e10, "link_bytes_per_s": 1e10},
        "training": {"num_microbatches": 32, "recompute": False, "optimizer": "sgd"},
        "graphs": [{"tp": 1, "layers": layers, "edges": edges}],
    }
    for name, change in changes.items():
        data[name] = data[name] | change if isinstance(data[name], dict) else change
    return data


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def write(tmp_path):
    def written(name, *records):
        path = tmp_path / name
        path.write_text("\n".join(json.dumps(record) for record in records))
        return path

    return written


def test_one_problem_gives_one_line(write):
    done = run("place", write("p.json", problem_text()), "--json")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert answer["status"] == "optimal"
    assert answer["batch_s"] == answer["bound_s"] > 0
    assert [name for stage in answer["stages"] for name in stage["layers"]] == [f"b{v}" for v in range(6)]
    assert {"layers", "num_devices", "load_s", "memory_bytes"} <= set(answer["stages"][0])
    assert answer["solve_s"] > 0


def test_bad_ones_do_not_stop_the_others(write):
    lines = write(
        "p.jsonl",
        problem_text(),
        problem_text(cluster={"num_devices": 0}),
        problem_text(cluster={"device_memory_bytes": 1e6}),
        problem_text(cost_model="1f1b"),
    )
    done = run("place", lines, "--json")
    assert done.exit_code == 1
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["status"] for answer in answers] == ["optimal", "error", "infeasible", "optimal"]
    assert "num_devices is 0" in answers[1]["message"]
    assert "memory" in answers[2]["reason"]
    assert answers[3]["replay_s"] > 0


def test_nothing_feasible_is_exit_code_3(write):
    done = run("place", write("p.json", problem_text(cluster={"device_memory_bytes": 1e6})))
    assert done.exit_code == 3
    assert "infeasible" in done.stdout


def test_a_table_shows_stages_memory_and_margin(write):
    done = run("place", write("p.json", problem_text(cost_model="1f1b")), "--why", "pp=6,dp=1")
    assert done.exit_code == 0
    for word in (
        "a batch with tp 1",
        "optimal",
        "held",
        "GiB left",
        "Why not pp 6, dp 1?",
        "memory left GiB",
    ):
        assert word in done.stdout


def test_why_is_in_the_json(write):
    done = run("place", write("p.json", problem_text()), "--why", "pp=2", "--json")
    why = json.loads(done.stdout)["why"]
    assert why["choices"] == {"pp": 2}
    assert why["pp"] == 2
    assert why["loss_ratio"] >= 0


def test_a_plan_is_priced_or_told_what_to_change(write):
    names = [f"b{v}" for v in range(6)]
    plan = {"tp": 1, "dp": 2, "stages": [{"layers": names[:3]}, {"layers": names[3:]}]}
    good = {"format": "rephaze.placement-plan/1", "problem": problem_text(cost_model="1f1b"), "plan": plan}
    tight = {**good, "problem": problem_text(cost_model="1f1b", cluster={"device_memory_bytes": 9e9})}
    good["problem"]["cluster"]["device_memory_bytes"] = 1e11
    done = run("evaluate", write("good.json", good), "--json")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert answer["status"] == "feasible"
    assert answer["replay_s"] == pytest.approx(answer["batch_s"], rel=1e-12)
    done = run("evaluate", write("tight.json", tight), "--json")
    assert done.exit_code == 3
    assert "over" in json.loads(done.stdout)["reason"]
    done = run("evaluate", write("tight.json", tight))
    assert "GiB over" in done.stdout


def test_a_timeline_shows_every_pass(write):
    stages = [{"layers": [f"b{v}"]} for v in range(6)]
    data = {
        "format": "rephaze.placement-plan/1",
        "problem": problem_text(cost_model="1f1b"),
        "plan": {"tp": 1, "dp": 1, "stages": stages},
    }
    path = write("plan.json", data)
    events = json.loads(run("evaluate", path, "--timeline", "--json").stdout)["timeline"]
    assert sum(event["activity"] == "forward" for event in events) == 6 * 32
    assert max(event["end_s"] for event in events) > 0
    shown = run("evaluate", path, "--timeline").stdout
    assert "timeline" in shown
    assert "FB" in shown


def test_a_wrong_file_is_one_line(write, tmp_path):
    done = run("evaluate", write("p.json", problem_text()), tmp_path / "none.json", "--json")
    assert done.exit_code == 1
    assert all(json.loads(line)["status"] == "error" for line in done.stdout.splitlines())
