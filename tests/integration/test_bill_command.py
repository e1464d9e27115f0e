"""``rephaze bill`` as a user calls it."""

import json
from pathlib import Path

import pytest

from tests.kits.command import rephaze

EXAMPLES = Path(__file__).parents[2] / "examples"


def bill(*arguments, cwd="."):
    return rephaze("bill", *arguments, cwd=cwd)


def test_the_bill_of_a_known_chip_as_json():
    done = bill("tpuv4", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["chip"], found["num_chips"], found["most_chips"]) == ("tpuv4", 1024, None)
    watts = [one["amount"] for one in found["items"] if one["unit"] == "W"]
    assert found["power_w"] == pytest.approx(sum(watts))
    assert found["placeholders"]


def test_budgets_in_the_units_people_say():
    done = bill("tpuv4", "--power-mw", 2, "--musd", 50, "--silicon-m2", 1, "--json")
    found = json.loads(done.stdout)
    limits = {one["resource"]: one["limit"] for one in found["budgets"]}
    assert limits == {"silicon": 1e6, "power": 2e6, "usd": 50e6}
    assert found["binding"] == ["power"]
    assert found["num_chips"] == found["most_chips"]


def test_tables_are_whole_at_eighty_columns():
    done = bill("tpuv4", "--chips", 2**24, "--system", EXAMPLES / "one-system.toml", "--silicon-m2", 1)
    assert done.returncode == 0, done.stderr
    tables = [line for line in done.stdout.splitlines() if " W  " in line or " USD  " in line or "mm²  " in line]
    assert len(tables) == 18
    assert max(map(len, tables)) <= 80


def test_names_that_users_chose_are_shown_not_obeyed(tmp_path):
    (tmp_path / "mine.toml").write_text('base = "tpuv4"\nname = "[red]a\\u001b[31mb"\n')
    done = bill("mine.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "1,024 x [red]a" in done.stdout


def test_not_even_one_chip_is_exit_code_3():
    done = bill("tpuv4", "--musd", 0.001)
    assert done.returncode == 3
    assert "not even one chip fits: usd binds" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tpu4",), "did you mean 'tpuv4'"),
        (("tpuv4", "--system", EXAMPLES / "system.toml"), "rephaze search chooses among several"),
        (("tpuv4", "--system", "nowhere.toml"), "nowhere.toml: no such file"),
        (("tpuv4", "--scenario", "paper"), "area_model is 'paper'"),
    ],
)
def test_what_is_wrong_is_one_line(arguments, said):
    done = bill(*arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout


def test_an_option_that_makes_no_sense_is_a_usage_error():
    done = bill("tpuv4", "--musd", "-1")
    assert done.returncode == 2
    assert done.stderr == "error: --musd is -1.0: must be above zero and at most 1e+24\n"
