"""`rephaze estimate` as a user meets it."""

import json

import pytest
from typer.testing import CliRunner

from rephaze.cli.main import app

GOOD = {
    "format": "rephaze.gemm-problem/1",
    "cost_model": "paper",
    "rows_n": 64,
    "features_k": 96,
    "reduction_c": 50,
    "num_tensor_cores": 4,
    "width": 8,
    "depth": 4,
    "scratchpad_words": 1024,
    "global_buffer_words": 65536,
    "pj_per_access": {"register": 0.1, "scratchpad": 3.8, "global_buffer": 34.2, "dram": 512},
}


def run(tmp_path, *problems, options=("--json",)):
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    return CliRunner().invoke(app, ["estimate", str(path), *options])


@pytest.mark.parametrize("model", ["paper", "default"])
def test_a_problem_gets_cycles_energy_and_a_mapping(tmp_path, model):
    done = run(tmp_path, {**GOOD, "cost_model": model})
    answer = json.loads(done.stdout)
    assert done.exit_code == 0
    assert answer["status"] == "optimal"
    assert answer["cycles"] >= answer["bound_cycles"] > 0
    assert answer["energy_pj"] > 2.2 * 64 * 96 * 50
    assert answer["mapping"]
    assert answer["solve_s"] >= 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rows_n": 0}, "rows_n"),
        ({"features_k": -3}, "features_k"),
        ({"reduction_c": 1.5}, "reduction_c"),
        ({"width": "8"}, "width"),
        ({"depht": 4}, "depht"),
        ({"cost_model": "papper"}, "did you mean 'paper'"),
        ({"format": "rephaze.gemm-problem/9"}, "format"),
        ({"pj_per_access": {"register": -1, "scratchpad": 1, "global_buffer": 1, "dram": 1}}, "register"),
    ],
)
def test_a_bad_problem_names_the_field_and_the_others_are_answered(tmp_path, change, named):
    done = run(tmp_path, {**GOOD, **change}, GOOD)
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert done.exit_code == 1
    assert first["status"] == "error"
    assert named in first["message"]
    assert second["status"] == "optimal"


@pytest.mark.parametrize("model", ["paper", "default"])
def test_a_buffer_too_small_for_one_tile_is_infeasible_with_the_reason(tmp_path, model):
    done = run(tmp_path, {**GOOD, "cost_model": model, "global_buffer_words": 2, "scratchpad_words": 2})
    answer = json.loads(done.stdout)
    assert done.exit_code == 3
    assert answer["status"] == "infeasible"
    assert "buffer" in answer["reason"]


@pytest.mark.parametrize("model", ["paper", "default"])
def test_an_array_larger_than_the_problem_is_used_in_part(tmp_path, model):
    tiny = {
        **GOOD,
        "cost_model": model,
        "rows_n": 2,
        "features_k": 3,
        "reduction_c": 1,
        "width": 256,
        "depth": 256,
    }
    answer = json.loads(run(tmp_path, tiny).stdout)
    assert answer["status"] == "optimal"
    assert answer["cycles"] > 0


def test_a_model_on_a_chip(tmp_path):
    page = tmp_path / "roofline.html"
    command = ["estimate", "bert-large", "--chip", "tpuv4", "--microbatch", "2", "--html", str(page), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(row["time_share"] for row in rows) == pytest.approx(1.0)
    assert all(0 <= row["tensor_utilization"] <= 1 for row in rows)
    assert {"array", "hbm"} <= {row["bound_by"] for row in rows}
    text = page.read_text()
    assert "<script src" not in text
    assert "bound by hbm" in text or "bound by array" in text


def test_a_model_without_a_chip_says_what_is_missing():
    done = CliRunner().invoke(app, ["estimate", "bert-large"])
    assert done.exit_code == 1
    assert "--chip" in str(done.exception)
