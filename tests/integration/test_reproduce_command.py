"""``rephaze reproduce``: pages with every claim, kept work, options that belong to one of the two."""

import json
import re

import pytest
from typer.testing import CliRunner

from rephaze.cli.main import app
from rephaze.errors import FileError
from rephaze.study import paper_claims, paper_runs
from rephaze.study.paper_runs import PaperSetting
from rephaze.types.readable import rounded_amount

RUNNER = CliRunner()
CHANGES = {
    "training": {"microbatches": [1], "tp_degrees": [1], "recompute": ["none", "stage"]},
    "space": {
        "num_tensor_cores": [4, 8],
        "num_vector_cores": [2, 16],
        "tensor_width": [128],
        "tensor_depth": [128],
        "global_buffer_mib": [16, 32],
    },
}


def called(*arguments):
    done = RUNNER.invoke(app, ["reproduce", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done


def test_nest_writes_its_page_and_keeps_cells(tmp_path):
    page = tmp_path / "nest.md"
    options = ("nest", "--out", tmp_path / "kept", "--page", page, "--model", "bert-large", "--max-chips", 64)
    found = json.loads(called(*options, "--json").stdout)
    (cell,) = found["cells"]
    assert cell["figure"]["nest_factor"] == 1.35
    # What may be chosen only grows from one to the next.
    rates = [cell[name]["samples_per_s"] for name in ("its_degrees", "its_choices", "all_choices")]
    assert rates == sorted(rates)
    assert rates[0] > 0
    text = page.read_text()
    assert f"| bert-large | 64 | {rounded_amount(rates[0])} |" in text
    assert "{" not in text
    page.unlink()
    again = called(*options)
    assert page.read_text() == text
    assert "bert-large" in again.stdout
    assert len((tmp_path / "kept" / "cells.jsonl").read_text().splitlines()) == 1


def test_paper_writes_every_claim_of_every_setting(tmp_path, monkeypatch):
    small = PaperSetting(name="paper", scenario="paper", num_tried=2, changes=CHANGES)
    for module in (paper_runs, paper_claims):
        monkeypatch.setattr(module, "PAPER_SETTINGS", (small,))
    page = tmp_path / "paper.md"
    options = ("paper", "--out", tmp_path / "kept", "--page", page, "--model", "bert-large", "--workers", 1)
    found = json.loads(called(*options, "--json").stdout)
    (setting,) = found["settings"]
    assert setting["status"] == "optimal"
    text = page.read_text()
    assert "{" not in text
    for check in setting["claims"]:
        assert f"| {check['claim']} | {check['published']} | {check['found']}" in text
    assert "paper's heuristic" in text
    # BERT's rates on 1,024 chips are beyond four digits: told whole.
    assert not re.search(r"\de\+\d\d", text)
    assert "Not on this page" not in text
    assert "Each model's own chip" in text
    (kept,) = (tmp_path / "kept").rglob("comparison.json")
    for damaged in ("", "[]", "{}", '{"estimator": 1, "comparison": {"budget": "x"}}'):
        kept.write_text(damaged)
        done = RUNNER.invoke(app, [str(one) for one in ("reproduce", *options)])
        assert isinstance(done.exception, FileError)
        assert str(done.exception).startswith(f"{kept}: ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nest", "--setting", "paper"), "is for reproduce paper"),
        (("nest", "--time-limit", "5"), "is for reproduce paper"),
        (("paper", "--max-chips", "5"), "is for reproduce nest"),
        (("everything",), "paper"),
    ],
)
def test_options_of_the_other_are_refused(arguments, told):
    done = RUNNER.invoke(app, ["reproduce", *arguments])
    assert done.exit_code == 2
    assert told in done.output


def test_an_unknown_setting_or_model_is_named(tmp_path):
    for arguments in (("paper", "--setting", "papier"), ("nest", "--model", "bert")):
        done = RUNNER.invoke(app, ["reproduce", *arguments, "--out", str(tmp_path), "--page", str(tmp_path / "p")])
        assert done.exit_code == 1
        assert "must be one of" in str(done.exception)
