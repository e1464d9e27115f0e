"""The published runs of ``examples/published``: every file is priced, and its page says what the pricing says."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rephaze.cli.main import app

ROOT = Path(__file__).parents[2]
PLANS = sorted((ROOT / "examples" / "published").glob("*.json"))
RUNS = tomllib.loads((ROOT / "benchmarks" / "data" / "published_runs.toml").read_text())["runs"]


@pytest.fixture(scope="module")
def answers():
    result = CliRunner().invoke(app, ["evaluate", *map(str, PLANS), "--json"])
    # 3: some plan needs more memory than the model of memory allows it, which is an answer too.
    assert result.exit_code in (0, 3), result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    return dict(zip([path.stem for path in PLANS], found, strict=True))


def test_every_run_has_a_file_and_a_price(answers):
    assert set(answers) == set(RUNS)
    assert len(answers) >= 30
    for name, answer in answers.items():
        assert answer["status"] in ("feasible", "infeasible"), f"{name}: {answer}"
        assert answer["num_devices"] == RUNS[name]["num_devices"], name


def test_plans_are_those_of_the_facts(answers):
    for name, answer in answers.items():
        run, plan = RUNS[name], answer["plan"]
        for key in ("tp", "cp", "ep", "dp", "microbatch", "chunks"):
            assert plan[key] == run.get(key, 1), f"{name}: {key}"
        assert len(plan["stages"]) == run["pp"] * run.get("chunks", 1), name
        assert plan["sharding"] == run["sharding"], name
        is_replaying = any(stage["keep"] for stage in plan["stages"])
        assert is_replaying == (run["recompute"] != "none"), name
        assert (answer["causes"]["replay_s"] > 0) == is_replaying, name


def test_the_page_says_what_evaluate_says(answers):
    page = (ROOT / "examples" / "published" / "README.md").read_text()
    for name, answer in answers.items():
        (row,) = re.findall(rf"^\| \[{re.escape(name)}\].*$", page, re.MULTILINE)
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        measured_s = RUNS[name]["measured_s"]
        assert float(cells[4]) == pytest.approx(measured_s, rel=1e-3)
        assert float(cells[5]) == pytest.approx(answer["batch_s"], rel=1e-3)
        assert float(cells[6]) == pytest.approx(100 * (answer["batch_s"] / measured_s - 1), abs=0.06)
    mean = sum(abs(a["batch_s"] / RUNS[n]["measured_s"] - 1) for n, a in answers.items()) / len(answers)
    assert f"Mean absolute error: {100 * mean:.1f} %" in page
