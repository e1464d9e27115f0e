"""``rephaze search`` with systems and budgets as a user runs it: answer, report, verification, exports."""

import csv
import json
from pathlib import Path

import pytest

from tests.kits.command import rephaze

DATA = Path(__file__).parents[1] / "data"
RUN_FILE = f"""
scenario = "coarse"
[search]
models = ["{DATA / "tiny-gpt-fused.json.gz"}"]
[space]
num_tensor_cores = [1, 2, 4, 8]
tensor_width = [32, 64]
tensor_depth = [64]
num_vector_cores = [2]
vector_lanes = [128, 512]
global_buffer_mib = [8]
num_hbm_stacks = [1, 2]
[training]
global_batch = 32
microbatches = [1, 4]
tp_degrees = [1]
"""
SYSTEMS = """
[system]
clock_hz = { from = 0.9e9, to = 1.5e9, step = 0.3e9 }
hbm = ["hbm2e", "hbm3e"]
hbm_layers = [8]
num_outside_links = [1, 2]
num_chips = [2, 4, 8]
[budget]
power_w = 5000
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("systems")


@pytest.fixture(scope="module")
def answer(folder):
    (folder / "run.toml").write_text(RUN_FILE + SYSTEMS)
    done = rephaze("search", "--config", "run.toml", "--out", "run", "--workers", 1, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_answer_has_a_system_within_the_budget(answer):
    system = answer["system"]
    assert answer["status"] == "optimal"
    assert system["power_w"] <= 5000
    assert system["num_chips"] in (2, 4, 8)
    assert system["clock_hz"] == answer["chip"]["clock_hz"]
    certificate = answer["certificate"]
    assert "of the power budget used" in certificate["binding"]
    assert "5,000 W" in certificate["designs_scope"]
    assert certificate["num_designs"] == 3 * 2 * 2 * 3 * 32
    assert "power budget" in certificate["num_dropped_by_bound"]


def test_the_run_is_reported_verified_and_exported(answer, folder):
    page = (folder / "run" / "report.html").read_text()
    assert "The system" in page
    assert "of the budget" in page
    done = rephaze("verify", "run", "--sample", 1, "--json", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"system", "systems"} <= {check["name"] for check in json.loads(done.stdout)["checks"]}
    for table, num_rows in (("systems", 36), ("boxes", sum(answer["certificate"]["num_boxes"].values()))):
        done = rephaze("export", "run", "--out", f"{table}.csv", "--table", table, cwd=folder)
        assert done.returncode == 0, done.stderr
        with (folder / f"{table}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == num_rows
        assert all("system" in row for row in rows)
    done = rephaze("judge", "--run", "run", "--chip", "tpuv2", cwd=folder)
    assert done.returncode == 0, done.stderr


def test_fronts_of_systems_are_refused_in_one_line(answer, folder):
    done = rephaze("pareto", "run", cwd=folder)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "smaller budgets" in done.stderr


def test_with_a_budget_the_number_of_chips_follows(folder):
    (folder / "plain.toml").write_text(RUN_FILE)
    options = ("--config", "plain.toml", "--budget-watts", 5000, "--workers", 1, "--json")
    done = rephaze("search", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    free = json.loads(done.stdout)
    assert free["system"]["num_chips"] > 1
    done = rephaze("search", *options, "--devices", 2, cwd=folder)
    assert done.returncode == 0, done.stderr
    fixed = json.loads(done.stdout)
    assert fixed["system"]["num_chips"] == 2
    assert free["objective"] >= fixed["objective"]


def test_sensitivity_knows_budgets(folder):
    (folder / "few.toml").write_text(RUN_FILE + "\n[system]\nnum_chips = [2, 4, 8]\n")
    models = (DATA / "tiny-gpt-fused.json.gz",)
    options = ("--config", "few.toml", "--budget-usd", 6e4, "--knob", "usd-budget", "--workers", 1, "--json")
    done = rephaze("sensitivity", *models, *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    less, more = json.loads(done.stdout)["changes"]
    assert less["gain_factor"] <= 1 <= more["gain_factor"]


@pytest.mark.parametrize(
    ("sections", "options", "said"),
    [
        ("[budget]\npower_w = 10", (), "budget.power_w is 10.0: not even one of the smallest chips fits"),
        ("", ("--budget-usd", 100), "budget.usd is 100.0: not even one of the smallest chips fits"),
        ("", ("--budget-watts", -1), "budget.power_w is -1.0"),
        ("[system]\nnum_chips = []", (), "system.num_chips is []: must list at least one value"),
        ("[system]\nnum_chips = { from = 1, to = 8 }", (), "needs step or times"),
        ("[system]\nnum_chips = { from = 1, to = 8, step = 0 }", (), "needs a step of at least 1"),
        ("[system]\nclock_hz = { from = 1e9, to = 1.2e9 }", (), "system.clock_hz is {'from'"),
        ("[system]\nclock_hz = { from = 1e9, to = 1.2e9, step = 0 }", (), "must grow in steps above zero"),
        ("[system]\nclock_hz = [9e9]", (), "system.clock_hz is 9000000000.0"),
        ("[system]\nclocks = [1e9]", (), "did you mean 'clock_hz'?"),
        ("[budget]\nusd = 1e6", ("--method", "list"), "goes by boxes"),
        ("[budget]\nusd = 1e6", ("--exhaustive",), "goes by boxes"),
    ],
)
def test_bad_input_is_one_line(folder, sections, options, said):
    (folder / "bad.toml").write_text(f"{RUN_FILE}\n{sections}\n")
    done = rephaze("search", "--config", "bad.toml", *options, cwd=folder)
    # An option that does not go with the run file is a matter of usage.
    assert done.returncode == (2 if options and said == "goes by boxes" else 1)
    assert done.stderr.count("\n") == 1, done.stderr
    assert said in done.stderr


def test_a_budget_that_closes_every_box_is_named(folder):
    (folder / "nothing.toml").write_text(
        RUN_FILE + "\n[system]\nnum_chips = [64, 128]\n[budget]\npower_w = 1000\n"
    )
    done = rephaze("search", "--config", "nothing.toml", "--workers", 1, "--json", cwd=folder)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["reason"].endswith("all break its power budget")
