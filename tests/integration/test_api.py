"""The public functions as a script or a notebook calls them, from a search to all that is asked of its run."""

import pytest

import rephaze

FEW = {
    "space": {
        "num_tensor_cores": [4, 8],
        "tensor_width": [128],
        "tensor_depth": [128],
        "num_vector_cores": [2],
        "vector_lanes": [2048],
        "global_buffer_mib": [64],
        "num_hbm_stacks": [2],
        "area_floor_fraction": 0.0,
    },
    "training": {"microbatches": [1], "tp_degrees": [1]},
}


@pytest.fixture(scope="module")
def explored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("door") / "run"
    told = []
    result = rephaze.explore("vit-large", changes=FEW, store=folder, on_progress=told.append)
    assert told, "a search tells how far it is"
    return folder, result


def test_explore_finds_and_proves_on_a_small_space(explored):
    _, result = explored
    assert result.status == "optimal"
    assert result.chip is not None
    assert result.certificate.num_designs == 2
    assert result.plans[0].samples_per_s > 0
    assert "gpt2-xl" in rephaze.list_models()
    assert result.chip.in_words not in ("", None)
    assert "certificate  2 designs" in str(result)


def test_a_search_that_is_told_to_stop_ends_with_what_it_has():
    result = rephaze.explore("vit-large", changes=FEW, should_stop=lambda: True)
    assert result.status == "unknown"
    assert result.chip is None


def test_a_run_answers_everything_that_is_asked_of_it(explored):
    folder, result = explored
    run = rephaze.open_run(folder)
    assert run.best.chip == result.chip
    assert run.result == result
    doing = []
    checks = run.verify(sample=1, on_step=doing.append)
    assert checks.holds, str(checks)
    assert doing[:2] == ["digests", "models and design space"]
    front = run.pareto()
    assert front.points[0].samples_per_s == pytest.approx(result.plans[0].samples_per_s)
    assert "Best chip per area budget" in str(front)
    assert "<table>" in front._repr_html_()
    page = run.report(folder.parent / "page.html")
    assert "vit-large" in page.read_text("utf-8")
    assert run.export(folder.parent / "designs.csv", table="designs") == 2


def test_studies_start_from_a_run_or_from_a_scenario_file(explored, tmp_path):
    folder, result = explored
    steps = []
    found = rephaze.compare(runs=[folder], budget=1, on_step=lambda step, _progress: steps.append(step))
    winner = next(one for one in found.baselines if one.name == "searched chip and plan")
    assert winner.objective == result.objective
    assert steps
    assert "searched chip and plan" in str(found)
    assert found.write_html(tmp_path / "compare.html").stat().st_size > 1000
    scenario = tmp_path / "few.toml"
    scenario.write_text(SCENARIO)
    changed = rephaze.sensitivity("vit-large", scenario=str(scenario), knobs=["hbm"], factors=[2.0])
    assert [one.knob for one in changed.changes] == ["hbm"]
    assert changed.changes[0].gain_factor >= 1.0
    assert str(changed).splitlines()[2].startswith("nothing")


SCENARIO = """
title = "two chips"
estimate_model = "default"
placement_model = "1f1b"
all_cores_excludes = "engine"
attention = "fused"
[space]
num_tensor_cores = [4, 8]
tensor_width = [128]
tensor_depth = [128]
num_vector_cores = [2]
vector_lanes = [2048]
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
recompute = ["none"]
optimizer = "adam"
precision = "mixed"
"""
