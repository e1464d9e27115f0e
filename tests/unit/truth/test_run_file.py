"""Tables of measured runs are read strictly, whatever their layout."""

import csv

import pytest

from rephaze.errors import FileError, SpecError
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


def test_a_degree_of_zero_is_one_that_is_not_used(tmp_path):
    (run,) = read_runs(write(tmp_path / "sweep.csv", SWEEP_COLUMNS, [SWEEP | {"tp": "0", "pp": "0", "dp": "0"}]))
    assert (run.plan.tp, run.plan.pp, run.plan.dp) == (1, 1, 1)


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
    with pytest.raises(FileError, match="no such file"):
        read_runs(tmp_path / "nothing.csv")


def test_unknown_words_are_reasons_not_guesses(tmp_path):
    for change, reason in (
        ({"recompute": "sometimes"}, "what recompute sometimes keeps is not known"),
        ({"precision": "tf32"}, "products in tf32 have no rate here"),
        ({"model": "LoRA of GPT-7B"}, "only part of the weights is trained"),
    ):
        (run,) = read_runs(write(tmp_path / "runs.csv", RUN_COLUMNS, [RUN | change]))
        assert run.reason == reason


MIXTURE = RUN | {"experts": 8, "topk": 2, "moe_ffn": 4096}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (RUN | {"ep": 1}, ""),
        (RUN | {"ep": 64}, "ep 64 of a model without experts"),
        (MIXTURE | {"ep": 4}, ""),
        (MIXTURE | {"ep": 8}, ""),
        (MIXTURE | {"ep": 3}, "ep 3 does not divide 8 experts"),
        (MIXTURE | {"ep": 64}, "ep 64 does not divide 8 experts"),
        (
            MIXTURE | {"ep": 8, "notes": "ETP=8"},
            "experts on ep 8 x etp 8 devices are no whole part of tp 4 x cp 1 x dp 8",
        ),
        (
            MIXTURE | {"ep": 2, "notes": "ETP=3"},
            "experts on ep 2 x etp 3 devices are no whole part of tp 4 x cp 1 x dp 8",
        ),
    ],
)
def test_experts_that_cannot_lie_on_the_devices_are_a_reason(tmp_path, row, reason):
    (run,) = read_runs(write(tmp_path / "runs.csv", RUN_COLUMNS, [row]))
    assert run.reason == reason


def test_what_a_policy_keeps(tmp_path):
    notes = "MaxText; remat custom: decoder_layer_input, out_proj, q/k/v offloaded to host"
    row = RUN | {"recompute": "custom", "notes": notes}
    (run,) = read_runs(write(tmp_path / "runs.csv", RUN_COLUMNS, [row]))
    assert run.plan.recompute == "policy"
    assert run.plan.kept == ("qkv", "attention_out")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layers": "1_0"}, "runs.csv:2 layers is '1_0': is not a number"),
        ({"heads": "\uff11"}, "is not a number"),
        ({"seq": "nan"}, "is not a number"),
        ({"hidden": "1e308"}, "hidden is '1e308': must be from 0 to 1e\\+24"),
        ({"topk": "x"}, "topk is 'x': is not a number"),
        ({"heads": 0}, "heads is 0: must be from 1"),
        ({"layers": 5000}, "layers is 5000: must be from 1 to 4096"),
        ({"derived_iter_time_s": "1e-320"}, "derived_iter_time_s is '1e-320': must be 0, or from 1e-09"),
        (
            {"derived_iter_time_s": "", "measured_metric": "model_TFLOPs_per_gpu", "value": 0},
            "value is '0': must be",
        ),
        ({"interleave": "nan"}, "interleave is 'nan': must be a whole number"),
        ({"interleave": "-1", "pp": 1, "dp": 16}, "interleave is '-1': must be a whole number"),
        ({"interleave": "9" * 5000}, "must be a whole number"),
        ({"seq_parallel": "7"}, "seq_parallel is '7': must be a word or 0 or 1"),
        ({"zero": "nan"}, "zero is 'nan': must be a word or 0 or 1 or 2 or 3"),
        ({"precision": "-1"}, "precision is '-1': must be a word or 8 or 16"),
        ({"notes": "ETP=x"}, "notes is 'x': must be a whole number"),
        ({"notes": "ETP=0"}, "notes is 0: must be from 1"),
        ({"notes": "zero1 group 0"}, "notes is 0: must be from 1"),
        ({"notes": "zero1 group " + "9" * 5000}, "must be a whole number"),
        ({"experts": 8, "topk": 2, "moe_ffn": 1024, "notes": "dense_layers=\u0663"}, "must be a whole number"),
        ({"kv_heads": "MLA", "notes": "q_lora=x kv_lora=1 qk=1+1 v=1"}, "notes is 'x': must be a whole number"),
        ({"kv_heads": "MLA", "notes": "q_lora=1 kv_lora=0 qk=1+1 v=1"}, "notes is 0: must be from 1"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(tmp_path, change, said):
    with pytest.raises(SpecError, match=said):
        read_runs(write(tmp_path / "runs.csv", RUN_COLUMNS, [RUN | change]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"window": "nan"}, "window is 'nan': must be a whole number"),
        ({"window": "\u00b2"}, ""),  # words: what the time was taken over
        ({"window": "chunk"}, ""),
        ({"window": "chunk 0"}, "window is 0: must be from 1"),
        ({"window": "1024", "notes": "3 of 0 layers"}, "notes is 0: must be from 1"),
        ({"sharding": "dp=0 DCN"}, "sharding is 0: must be from 1"),
        ({"sharding": "hsdp=0x4"}, "sharding is 0: must be from 1"),
        ({"attention": "1e5"}, "attention is '1e5': must be a word"),
    ],
)
def test_numbers_within_columns_that_may_be_absent(tmp_path, change, said):
    path = write(tmp_path / "runs.csv", (*RUN_COLUMNS, "window", "sharding", "attention"), [RUN | change])
    if said:
        with pytest.raises(SpecError, match=said):
            read_runs(path)
    else:
        assert read_runs(path)[0].shape.window == 0


@pytest.mark.parametrize("change", [{"tied": "nan"}, {"tied": "7"}, {"status": "0"}])
def test_numbers_in_a_sweep_that_mean_nothing(tmp_path, change):
    with pytest.raises(SpecError, match="must be a word"):
        read_runs(write(tmp_path / "sweep.csv", SWEEP_COLUMNS, [SWEEP | change]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [lines[0] + ",model", lines[1] + ",x"], "column model is given twice"),
        (lambda lines: [lines[0], lines[1] + ",77"], "row 1 is '77': is a cell too much"),
        (lambda lines: [lines[0], lines[1].rpartition(",")[0]], "row 1 is .* is too short"),
        (lambda lines: [lines[0], "x" * 140_000 + lines[1]], "not valid CSV"),
        (lambda lines: [lines[0], '"' + lines[1]], "not valid CSV"),
    ],
)
def test_rows_that_do_not_fit_the_header_are_refused(tmp_path, change, said):
    path = write(tmp_path / "runs.csv", RUN_COLUMNS, [RUN])
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    with pytest.raises((SpecError, FileError), match=said):
        read_runs(path)
