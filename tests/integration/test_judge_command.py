"""``rephaze judge`` as a user calls it."""

import json

import pytest

from tests.kits.command import rephaze
from tests.kits.two_layers import PROBLEM


@pytest.fixture
def plan_file(tmp_path):
    plan = {"tp": 1, "dp": 1, "microbatch": 1, "stages": [{"layers": ["a", "b"]}]}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"format": "rephaze.placement-plan/2", "problem": PROBLEM, "plan": plan}))
    return path


def test_a_plan_beside_the_fastest_of_its_problem(plan_file):
    done = rephaze("judge", plan_file, "--json", cwd=plan_file.parent)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    placed = rephaze("place", plan_file.with_name("problem.json"), "--json", cwd=plan_file.parent)
    assert placed.returncode == 1  # there is no such file
    plan_file.with_name("problem.json").write_text(json.dumps(PROBLEM))
    best = json.loads(rephaze("place", "problem.json", "--json", cwd=plan_file.parent).stdout)
    assert found["bound"] == pytest.approx(1 / best["batch_s"], rel=1e-9)
    assert found["value"] == pytest.approx(1 / 0.48, rel=1e-2)
    assert 0 < found["loss"] < 1


def test_a_chip_beside_a_recorded_search(tmp_path):
    (tmp_path / "run.toml").write_text(
        """
[space]
num_tensor_cores = [8]
tensor_width = [128]
tensor_depth = [128]
num_vector_cores = [2]
vector_lanes = [1024]
global_buffer_mib = [32]
num_hbm_stacks = [2]
[training]
microbatches = [1]
tp_degrees = [1]
"""
    )
    made = rephaze("search", "vit-large", "--config", "run.toml", "--out", "run", "--workers", 1, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    done = rephaze("judge", "--run", "run", "--chip", "tpuv2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tpuv2 is within" in done.stdout
    assert "% of the best of the 1 designs for vit-large, proven" in done.stdout
    # What judge says stands in the report, beside what the search measured when it ended.
    loss = json.loads(rephaze("judge", "--run", "run", "--chip", "tpuv2", "--json", cwd=tmp_path).stdout)["loss"]
    written = rephaze("report", "run", "--out", "page.html", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    page = (tmp_path / "page.html").read_text("utf-8")
    row = page.partition("<td>tpuv2</td>")[2].partition("</tr>")[0]
    assert f"within {loss:.1%} of the best" in row
    assert "<td>tpuv4</td>" in page


@pytest.mark.parametrize("arguments", [(), ("--chip", "tpuv4"), ("plan.json", "--chip", "tpuv4", "--run", "run")])
def test_what_does_not_go_together_is_one_line(plan_file, arguments):
    done = rephaze("judge", *arguments, cwd=plan_file.parent)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) <= 2
    assert "Traceback" not in done.stderr
