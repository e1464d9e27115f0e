"""``rephaze compare`` and ``rephaze pareto`` as a user runs them, on a few chips."""

import json
import math

import pytest

from tests.kits.command import rephaze

SCENARIO = """
title = "a few chips"
estimate_model = "default"
placement_model = "1f1b"
all_cores_excludes = "engine"
attention = "fused"
[space]
num_tensor_cores = [4, 8]
tensor_width = [128]
tensor_depth = [128]
num_vector_cores = [2]
vector_lanes = [512, 2048]
global_buffer_mib = [64]
num_hbm_stacks = [2]
area_limit_chip = "tpuv4"
[cluster]
num_devices = 1024
levels = [{ num_devices = 1024, bytes_per_s = 50e9, latency_s = 5e-6 }]
[training]
global_batch = 4096
microbatches = [1]
tp_degrees = [1]
recompute = ["none", "stage"]
optimizer = "adam"
precision = "mixed"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("compare")
    (made / "tiny.toml").write_text(SCENARIO)
    options = ("--scenario", "tiny.toml", "--out", "run1", "--workers", "1", "--exhaustive", "--json")
    done = rephaze("search", "vit-large", *options, cwd=made)
    assert done.returncode == 0, done.stderr
    return made


def test_compare_takes_the_answer_of_a_run_and_tells_what_has_no_expert_plan(folder):
    done = rephaze("compare", "--run", "run1", "--budget", "2", "--html", "page.html", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    by_name = {one["name"]: one for one in found["baselines"]}
    assert found["status"] == "optimal"
    for one in found["baselines"]:
        assert one["is_proven"]
        assert one["bound"] == pytest.approx(one["objective"], rel=1e-12)
    expert = by_name["tpuv4, expert plan"]
    assert (expert["objective"], expert["samples_per_s"]) == (0.0, [None])
    assert "no expert plan of vit-large is published" in expert["note"]
    winner = by_name["searched chip and plan"]
    assert winner["ratio_to_tpuv4_expert"] is None
    factors = [step["gain_factor"] for step in found["gains"]["steps"]]
    assert math.prod(factors) == pytest.approx(winner["ratio_to_tpuv4_searched"])
    page = (folder / "page.html").read_text()
    assert 'data-name="baselines"' in page
    assert "searched chip and plan" in page


def test_compare_shows_a_table_to_people(folder):
    done = rephaze("compare", "--run", "run1", "--budget", "1", cwd=folder)
    assert done.returncode == 0, done.stderr
    for text in ("tpuv4, searched plan", "spotlight latency, expert plan", "random search", "gain over", "proven"):
        assert text in done.stdout


def test_compare_refuses_what_contradicts_the_run(folder):
    for args in (("--scenario", "paper"), ("gpt2-xl",)):
        done = rephaze("compare", *args, "--run", "run1", cwd=folder)
        assert done.returncode == 2
        assert done.stderr.startswith("error:")
        assert "Traceback" not in done.stderr
    assert rephaze("compare", cwd=folder).returncode == 2


def test_pareto_of_an_exhaustive_run_is_all_proven_in_throughput_against_area(folder):
    done = rephaze("pareto", "run1", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    front = json.loads(done.stdout)
    assert front["num_designs"] == front["num_solved_exactly"] == 4
    assert len(front["budgets"]) == 10
    points = front["points"]
    for point in points:
        faster = [one for one in points if one["samples_per_s"] > point["samples_per_s"]]
        assert point["is_proven"] == (not any(one["area_um2"] <= point["area_um2"] for one in faster))
    assert points[0]["is_proven"]
    assert front["budgets"][-1]["best"]["samples_per_s"] == points[0]["samples_per_s"]
    assert all(budget["is_proven"] and budget["gap"] == 0.0 for budget in front["budgets"])
    shown = rephaze("pareto", "run1", cwd=folder)
    assert "non-dominated" in shown.stdout
    assert "best of its budget" in shown.stdout


def test_pareto_solves_what_a_stopped_run_lacks(folder):
    options = ("--scenario", "tiny.toml", "--out", "run2", "--workers", "1", "--time-limit", "0", "--json")
    assert rephaze("search", "vit-large", *options, cwd=folder).returncode == 4
    whole = json.loads(rephaze("pareto", "run1", "--json", cwd=folder).stdout)
    done = rephaze("pareto", "run2", "--coarse", "--json", cwd=folder)
    assert done.returncode == 4, done.stderr
    found = json.loads(done.stdout)
    assert found["num_solved_exactly"] == 0
    shown = rephaze("pareto", "run2", "--coarse", cwd=folder)
    assert "--solve" in shown.stdout
    done = rephaze("pareto", "run2", "--solve", "--workers", "1", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    solved = json.loads(done.stdout)
    assert solved["num_recorded"] == 0
    for loose, proven, want in zip(found["budgets"], solved["budgets"], whole["budgets"], strict=True):
        best = want["best"]["samples_per_s"] if want["best"] else 0.0
        assert (loose["is_proven"], loose["gap"]) == ((False, None) if best else (True, 0.0))
        assert loose["bound_samples_per_s"] >= best * (1 - 1e-9)
        assert proven["is_proven"]
        assert (proven["best"] or {"samples_per_s": 0.0})["samples_per_s"] == pytest.approx(best, rel=1e-9)
    assert rephaze("pareto", "run2", "--coarse", "--solve", cwd=folder).returncode == 2


def test_pareto_without_a_run_is_one_line(tmp_path):
    done = rephaze("pareto", "nothing", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error:")


def test_sensitivity_searches_again_with_one_thing_changed(folder):
    options = ("--scenario", "tiny.toml", "--workers", "1", "--html", "moves.html")
    done = rephaze("sensitivity", "vit-large", *options, "--knob", "hbm", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["base"]["status"] == "optimal"
    less, more = found["changes"]
    assert (less["factor"], more["factor"]) == (0.5, 2.0)
    assert less["objective"] <= found["base"]["objective"] <= more["objective"]
    assert more["chip"]["hbm_bytes_per_s"] == 2 * found["base"]["chip"]["hbm_bytes_per_s"]
    assert "HBM bandwidth x 0.5" in (folder / "moves.html").read_text()


def test_sensitivity_out_of_time_is_unknown_not_infeasible(folder):
    options = ("--scenario", "tiny.toml", "--workers", "1", "--knob", "hbm", "--time-limit", "0")
    done = rephaze("sensitivity", "vit-large", *options, "--json", cwd=folder)
    assert done.returncode == 4, done.stderr
    found = json.loads(done.stdout)
    assert found["base"]["status"] == "unknown"
    assert found["base"]["gap"] is None
    assert not any(one["is_proven"] for one in found["changes"])


def test_sensitivity_knows_its_knobs(folder):
    done = rephaze("sensitivity", "vit-large", "--scenario", "tiny.toml", "--knob", "luck", cwd=folder)
    assert done.returncode == 2
    assert "knob" in done.stderr
    assert "outer-links" in done.stderr
