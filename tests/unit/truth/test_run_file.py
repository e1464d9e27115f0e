"""Tables of measured runs are read strictly, whatever their layout."""

import csv

import pytest

from rephaze.errors import SpecError
from rephaze.truth.run_file import RUN_COLUMNS, SWEEP_COLUMNS, read_runs

RUN = {
    "source": "Some paper T1",
    "model": "GPT-7B",
    "hidden": 4096,
    "layers": 32,
    "heads": 32,
    "kv_heads": 32,
    "ffn": 16384,
    "vocab": 51200,
    "seq": 2048,
    "global_batch": 512,
    "microbatch": 2,
    "gpus": 64,
    "tp": 4,
    "pp": 2,
    "dp": 8,
    "interleave": 1,
    "recompute": "full",
    "seq_parallel": 1,
    "chip": "A100-80GB",
    "measured_metric": "iteration_time",
    "value": 10,
    "unit": "s",
    "cp": 1,
    "zero": "1",
    "precision": "bf16",
    "derived_iter_time_s": 10.0,
    "score": "yes",
}
SWEEP = {
    "model": "1B",
    "hidden": 2048,
    "layers": 16,
    "heads": 32,
    "kv_heads": 32,
    "ffn": 8192,
    "vocab": 131072,
    "tied": 1,
    "seq": 4096,
    "gpus": 8,
    "dp": 8,
    "tp": 1,
    "pp": 1,
    "microbatch": 2,
    "global_batch": 256,
    "zero": 0,
    "status": "ok",
    "step_s": 3.3,
    "memory_reserved_gb": 50.2,
    "score": "yes",
}


def write(path, columns, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_run_of_the_common_layout(tmp_path):
    (run,) = read_runs(write(tmp_path / "runs.csv", RUN_COLUMNS, [RUN]))
    assert (run.plan.tp, run.plan.pp, run.plan.dp, run.plan.sharding, run.plan.shard_group) == (
        4,
        2,
        8,
        "optimizer",
        8,
    )
    assert run.measured_s == 10.0
    assert run.bits == 16
    assert not run.reason


def test_a_plan_of_the_sweep(tmp_path):
    ran, died = read_runs(
        write(
            tmp_path / "sweep.csv",
            SWEEP_COLUMNS,
            [SWEEP, SWEEP | {"status": "oom", "score": "fit only", "step_s": "", "memory_reserved_gb": ""}],
        )
    )
    assert ran.status == "ok"
    assert ran.measured_bytes == pytest.approx(50.2 * 2**30)
    assert ran.group == "sweep 1B on 8"
    assert (died.status, died.score, died.measured_s) == ("oom", "fit", None)


def test_what_is_blank_is_a_reason_and_what_is_wrong_an_error(tmp_path):
    (run,) = read_runs(write(tmp_path / "runs.csv", RUN_COLUMNS, [RUN | {"hidden": ""}]))
    assert run.reason == "hidden not stated"
    (run,) = read_runs(write(tmp_path / "runs.csv", RUN_COLUMNS, [RUN | {"dp": 7}]))
    assert run.reason == "tp 4 x pp 2 x dp 7 x cp 1 is not 64 devices"
    with pytest.raises(SpecError, match=r"runs.csv:2 layers is 'many': is not a number"):
        read_runs(write(tmp_path / "runs.csv", RUN_COLUMNS, [RUN | {"layers": "many"}]))
    with pytest.raises(SpecError, match="score"):
        read_runs(write(tmp_path / "runs.csv", RUN_COLUMNS, [RUN | {"score": "perhaps"}]))
    with pytest.raises(SpecError, match="columns of a table of runs are missing"):
        read_runs(write(tmp_path / "runs.csv", ("source", "model"), [{"source": "x", "model": "y"}]))
    with pytest.raises(SpecError, match="cannot be read"):
        read_runs(tmp_path / "nothing.csv")


def test_what_a_policy_keeps(tmp_path):
    notes = "MaxText; remat custom: decoder_layer_input, out_proj, q/k/v offloaded to host"
    row = RUN | {"recompute": "custom", "notes": notes}
    (run,) = read_runs(write(tmp_path / "runs.csv", RUN_COLUMNS, [row]))
    assert run.plan.recompute == "policy"
    assert run.plan.kept == ("qkv", "attention_out")
