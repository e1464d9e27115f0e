"""Every command of docs/questions.md, on models and clusters small enough for a test."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rephaze
from rephaze.cli.main import app

ROOT = Path(__file__).parents[2]
COMMANDS = re.findall(r"^\$ rephaze (.*)$", (ROOT / "docs" / "questions.md").read_text(), re.M)
SMALLER = {"llama3-70b": "bert-large", "gpt2-xl": "vit-large", "256": "8", "1024": "64"}
SHORTER = ("--scenario", "examples/own-scenario.toml", "--workers", "1")
"""For searches: eight chips."""
EXPECTED = {
    "place": ("s a batch", "fullest device", "launch it"),
    "evaluate": ("over of", "would fit", "would do as it is"),
    "search": ("per-usd", "with hbm3"),
    "bill": ("USD",),
    "sensitivity": ("inner-links x 2", "outer-links x 2"),
    "judge": ("tpuv4",),
    "support": ("legal ep",),
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    space = {"num_tensor_cores": [8], "tensor_width": [128], "tensor_depth": [128], "num_hbm_stacks": [2]}
    few = {"space": space, "training": {"microbatches": [1], "tp_degrees": [1]}}
    rephaze.explore("vit-large", scenario="coarse", changes=few, store=folder)
    return folder


def test_the_page_asks_every_kind_of_question():
    assert {command.split()[0] for command in COMMANDS} == EXPECTED.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_questions_are_answered(command, tmp_path, request, monkeypatch):
    monkeypatch.chdir(ROOT)
    kind, *arguments = command.split()
    words = [SMALLER.get(word, word) for word in arguments]
    if kind in ("search", "sensitivity"):
        words += SHORTER
    if "--out" in words:
        words[words.index("--out") + 1] = str(tmp_path / "run")
    if "--run" in words:
        words[words.index("--run") + 1] = str(request.getfixturevalue("recorded"))
    done = CliRunner().invoke(app, [kind, *words], env={"COLUMNS": "200"})
    assert done.exit_code == (3 if kind == "evaluate" else 0), done.output
    for said in EXPECTED[kind]:
        assert said in done.output
    if "--why" in words:
        assert "Why not tp 8?" in done.output
