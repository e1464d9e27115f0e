"""The page of best plans: its numbers hold together, its words say what a plan is, its rows are what is found."""

import math
import re
import sys
import tomllib
from pathlib import Path

import pytest

import rephaze
from rephaze.types.graph import Affine, AttentionDims

ROOT = Path(__file__).parents[2]
RUNS = tomllib.loads((ROOT / "benchmarks" / "data" / "published_best.toml").read_text())["runs"]
PLAN = {
    "tp": 2, "sp": True, "cp": 1, "ep": 1, "etp": 1, "dp": 4, "pp": 2, "microbatch": 1, "sharding": "gradients",
    "shard_group": 4, "reshard": False, "schedule": "interleaved", "chunks": 2, "num_devices": 16,
    "stage_layers": [3, 4, 4, 3], "kept_share": 0.5, "replay_share": 0.25,
}  # fmt: skip
CELL = {
    "model": "llama3-8b", "chip": "h100", "variant": "scenario", "status": "feasible", "reason": "",
    "num_devices": 16, "global_batch": 32, "seq_len": 8192, "sample_flops": 8e12, "peak_flops_per_s": 1e12,
    "batch_s": 20.0, "bound_s": 19.0, "plan": PLAN,
    "causes": {
        "compute_s": 18.0, "replay_s": 0.5, "messages_s": 0.3, "gathers_s": 0.0, "bubble_s": 0.7, "sync_s": 0.2,
        "tied_s": 0.1, "step_s": 0.1, "regather_s": 0.1,
    },
    "memory": {
        "weights_bytes": 2**30, "gradients_bytes": 2**29, "state_bytes": 0.0, "kept_bytes": 2**31,
        "replay_bytes": 0.0, "working_bytes": 0.0, "device_bytes": 2**32,
    },
    "busiest": {
        "products_s": 16.5, "products_flops": 15e12, "attention_s": 2.0, "attention_flops": 1.5e12,
        "vector_s": 1.0, "vector_flops": 0.0, "collectives_s": 0.5, "collectives_flops": 0.0,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def command():
    """The script and what it imports, as ``python benchmarks/best_plans.py`` finds them."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import best_plans

        yield best_plans
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def text(command):
    import best_plans_text

    return best_plans_text


def test_parts_of_the_time_add_up_and_use_is_flops_over_peak(text):
    parts = text.shares(CELL)
    assert sum(parts.values()) == pytest.approx(1)
    assert parts["use"] == pytest.approx(text.use_of(CELL)) == pytest.approx(8e12 * 32 / (20 * 16 * 1e12))
    assert parts["uneven"] == pytest.approx(0.5 / 20)
    assert parts["products"] == pytest.approx(1.5 / 20)
    assert parts["beside"] == pytest.approx(-2 / 20)
    assert parts["once"] == pytest.approx(0.5 / 20)


def test_gradients_are_divided_early_only_over_several_microbatches(text):
    assert text.is_divided_early(CELL)
    assert not text.is_divided_early(CELL | {"global_batch": 4})
    assert not text.is_divided_early(CELL | {"plan": PLAN | {"sharding": "optimizer"}})


def test_a_plan_in_words(text):
    assert text.stage_words(PLAN) == "2 (3 to 4 layers a chunk)"
    assert text.stage_words(PLAN | {"pp": 1}) == "1"
    assert text.sharding_words(PLAN) == "ZeRO 2 over 4"
    fsdp = PLAN | {"sharding": "weights", "reshard": True}
    assert text.sharding_words(fsdp) == "ZeRO 3 over 4, gathered every pass"
    assert text.schedule_words(PLAN) == "interleaved x2"
    assert text.schedule_words(PLAN | {"chunks": 1, "schedule": "zero-bubble"}) == "zero-bubble"
    assert text.schedule_words(PLAN | {"chunks": 1, "pp": 1, "schedule": "zero-bubble"}) == "-"
    assert text.recompute_words(PLAN) == "keeps 50%, replays 25.0%"
    assert text.proof_words(CELL) == "within 5.26 %"
    assert text.plan_words(PLAN).startswith("tp 2, sp, pp 2, dp 4, microbatch 1, interleaved x2, ZeRO 2 over 4")


def test_odd_utilisations_are_explained_and_others_are_not(text):
    assert text.use_of(CELL) > text.HIGH
    assert "vector 5.0 %" in text.why_table([CELL])
    slow = CELL | {"batch_s": 200.0, "causes": CELL["causes"] | {"bubble_s": 180.7}}
    assert "lost to bubble 90.3 %" in text.why_table([slow])
    usual = CELL | {"batch_s": 32.0, "causes": CELL["causes"] | {"bubble_s": 12.7}}
    assert "llama3-8b" not in text.why_table([usual])


def test_published_runs_stand_beside_ours(text):
    run = {
        "model": "llama3-8b", "chip": "h100", "num_devices": 8, "global_batch": 16, "seq_len": 8192, "pp": 1,
        "dp": 8, "sharding": "weights", "precision": "bf16", "step_s": 40.0, "source": "somebody",
        "url": "somewhere",
    }  # fmt: skip
    assert text.run_tokens_per_s(run) == pytest.approx(16 * 8192 / 40 / 8)
    assert text.run_use(run, CELL) == pytest.approx(16 * 8e12 / 40 / 8 / 1e12)
    assert "| dp 8, ZeRO 3 | bf16 | 410 | 819 | 40 | 80 | somebody: somewhere |" in text.published_table(
        [CELL], [run]
    )
    assert "2.0 to 2.0 times those of the 1 published" in text.calibration([CELL], [run])
    with_shape = run | {"shape": "another", "printed_mfu": 0.5}
    assert text.run_use(with_shape, CELL) == 0.5


def test_the_page_has_a_row_in_every_table_and_the_variants(text):
    whole = CELL | {"variant": "whole-gradients", "batch_s": 21.0, "plan": PLAN | {"sharding": "optimizer"}}
    page = text.page([CELL, whole, CELL | {"variant": "own-links", "batch_s": 18.0}], [])
    assert page.count("\n| llama3-8b |") == 5
    assert "1 of 1 plans" in page
    (row,) = re.findall(r"^\| llama3-8b .*ZeRO 1 over 4.*$", page, re.MULTILINE)
    assert row.startswith("| llama3-8b | 5.0 |")
    assert row.endswith("| 105.0 | 90.0 |")
    assert "Nothing found for these models" in page


def test_a_cell_without_a_plan_says_why(text):
    nothing = {key: CELL[key] for key in ("chip", "variant", "num_devices", "global_batch")}
    nothing |= {"model": "gpt3-175b", "status": "infeasible", "reason": "no memory"}
    page = text.page([CELL, nothing], RUNS)
    assert re.search(r"^\| gpt3-175b \|.*\| infeasible: no memory \|$", page, re.MULTILINE)
    assert "No model is missing" in text.page([CELL], RUNS, ["llama3-8b"])
    assert "Not computed yet: gpt2-xl on h100." in text.page([CELL], RUNS, ["gpt2-xl"])


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run['model']}-{run['chip']}-{run['num_devices']}")
def test_a_published_run_is_complete(run, command):
    assert run["model"] in rephaze.list_models()
    assert run["chip"] in command.CHIPS
    assert run["source"]
    assert run["url"]
    assert {"step_s", "tokens_per_s_per_chip", "printed_mfu"} & set(run)
    degrees = [run.get(key, 1) for key in ("tp", "cp", "pp", "dp")]
    assert degrees[0] * degrees[1] * degrees[2] * degrees[3] == run["num_devices"]
    same_shape = run["seq_len"] == rephaze.load_model(run["model"]).seq_len
    assert same_shape or "shape" in run


def test_model_flops_are_six_a_weight_and_token_and_the_lower_triangle(command):
    hidden, blocks, tokens = 4096, 32, 8192
    weights = blocks * (2 * hidden**2 + 2 * hidden * 1024 + 3 * hidden * 14336) + hidden * 128256
    triangle = tokens * (tokens + 1) / 2
    expected = 6 * weights * tokens + blocks * 3 * 4 * triangle * hidden
    assert command.sample_flops(rephaze.load_model("llama3-8b")) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("window", [0, 1, 3, 8])
def test_visible_pairs_are_those_of_the_mask(command, window):
    dims = AttentionDims(
        batch=Affine(0, 1), num_heads=1, num_kv_heads=1, query_len=8, key_len=8, head_dim=1, value_dim=1,
        causal=True, backward=False, window_len=window,
    )  # fmt: skip
    mask = [(q, k) for q in range(8) for k in range(q + 1) if q - k < (window or 8)]
    assert command.visible_pairs(dims) == len(mask)


def test_the_page_says_what_the_command_finds(command, text):
    cell = command.cell_of("vit-large", "tpuv4", "scenario", math.inf)
    assert sum(text.shares(cell).values()) == pytest.approx(1)
    part = (ROOT / "docs" / "best-plans.md").read_text().split("(`tpuv4`)")[1]
    plan_row, time_row, *_ = re.findall(r"^\| vit-large .*$", part, re.MULTILINE)
    assert plan_row in text.plan_table([cell])
    assert time_row in text.time_table([cell])


def test_variants_change_the_scenario(command):
    own = command.scenario_of("own-links", "h100").cluster.levels
    assert [level.bytes_per_s for level in own] == [450e9, 50e9]
    assert command.is_asked("own-links", None, "h100")
    assert not command.is_asked("own-links", None, "tpuv4")
    plans = command.scenario_of("whole-gradients", "h100").plans
    assert "gradients" not in plans.sharding
    assert plans.reshard == (True,)
    assert command.is_asked("whole-gradients", CELL, "h100")
    assert not command.is_asked("whole-gradients", None, "h100")
