"""``rephaze validate`` and ``rephaze calibrate`` as a user meets them."""

import csv
import json

import pytest
from typer.testing import CliRunner

from rephaze.cli.main import app
from rephaze.truth.run_file import RUN_COLUMNS, SWEEP_COLUMNS

GPT = {
    "source": "A paper",
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
    "seq_parallel": 0,
    "chip": "A100-80GB",
    "unit": "s",
    "cp": 1,
    "zero": "0",
    "precision": "fp16",
    "derived_iter_time_s": 8.0,
    "score": "yes",
    "measured_metric": "iteration_time",
    "value": 8,
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


@pytest.fixture
def tables(tmp_path):
    rows = [GPT, GPT | {"model": "GPT-7B on beads", "chip": "Abacus"}]
    died = SWEEP | {"microbatch": 32, "status": "oom", "score": "fit only", "step_s": "", "memory_reserved_gb": ""}
    sweep = [SWEEP, SWEEP | {"tp": 2, "dp": 4, "step_s": 4.2, "memory_reserved_gb": 26.0}, died]
    for name, columns, some in (("runs.csv", RUN_COLUMNS, rows), ("sweep.csv", SWEEP_COLUMNS, sweep)):
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(some)
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_both_layouts_as_json(tables):
    done = run("validate", tables / "runs.csv", tables / "sweep.csv", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    first, unknown, *_, died = found["rows"]
    assert abs(first["predicted_s"] / first["measured_s"] - 1) < 0.3
    assert unknown["reason"] == "no data of chip Abacus"
    assert "predicted_s" not in unknown
    assert died["fits"] is False
    assert found["fits"]["share_right"] == 1.0
    assert set(found["mape"]["by_source"]) == {"A paper", "H100 sweep (nanotron)"}
    (group,) = found["ranking"]
    assert group["group"] == "sweep 1B on 8"
    assert group["tau"] == 1.0
    assert group["regret"] == 0.0


def test_ideal_machines_are_faster_and_a_page_is_written(tables):
    page = tables / "page.html"
    done = run("validate", tables / "runs.csv", "--physics", "ideal", "--html", page, "--json")
    ideal = json.loads(done.stdout.splitlines()[-1])["rows"][0]["predicted_s"]
    known = json.loads(run("validate", tables / "runs.csv", "--json").stdout)["rows"][0]["predicted_s"]
    assert ideal < known
    text = page.read_text()
    assert "Worst rows" in text
    assert "no data of chip Abacus" in text
    # Drawn by the house: a circle a row in the scatter, and its data beside it.
    scatter = text.partition('id="fig-measured-and-predicted"')[2].partition("</figure>")[0]
    assert scatter.count("<circle") == 1
    assert "measured_s,predicted_s,error" in scatter
    assert 'id="fig-compute"' in text
    assert len(text) < 100_000, "no plotting library inside"


def test_tables_for_people_and_errors_in_one_line(tables):
    done = run("validate", tables / "runs.csv", tables / "sweep.csv")
    assert "mean over sources" in done.stdout
    assert "fits or not: 100.0 % right" in done.stdout
    assert "not modelled: A paper, 1 rows: no data of chip Abacus" in done.stdout
    assert run("validate", tables / "runs.csv", "--physics", "guessed").exit_code == 1
    assert run("validate", tables / "nothing.csv").exit_code == 1


def test_a_fit_to_a_few_rows_moves_what_they_touch_and_writes_a_file(tables):
    done = run("calibrate", tables / "runs.csv", "--steps", "1", "--out", tables / "new.toml", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found["in_sample"]) == {"A paper", "mean over sources"}
    assert found["in_sample"]["A paper"] < 0.1
    assert "[constants.product_ampere]" in (tables / "new.toml").read_text()
