"""The public names: documented, with examples that run, none of them a room's, and the only way in for the cli."""

import doctest
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import rephaze

FUNCTIONS = sorted(name for name in rephaze.__all__ if inspect.isfunction(getattr(rephaze, name)))
CLI = Path(rephaze.__file__).parent / "cli"


def examples_of(name):
    [found] = doctest.DocTestFinder(recurse=False).find(getattr(rephaze, name), name, globs={})
    return found


def test_the_door_is_what_it_is_said_to_be():
    assert set(FUNCTIONS) == {
        "bill_cluster", "compare", "estimate_model", "evaluate_plan", "explore", "export_plan", "extract",
        "list_chips", "list_models", "judge_chip", "judge_plan", "load_chip", "load_model", "load_scenario",
        "open_run", "place_model", "schedule_model", "sensitivity", "support",
    }  # fmt: skip


def test_no_function_has_the_name_of_a_room():
    rooms = {module.name for module in pkgutil.iter_modules(rephaze.__path__)}
    assert {"search", "place", "schedule"} <= rooms
    assert not rooms & set(FUNCTIONS)
    # Nor of a module of the door itself, which importing would put in the function's place.
    assert not {module.name for module in pkgutil.iter_modules(rephaze.api.__path__)} & set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_documented_with_an_example_that_runs(name, tmp_path, monkeypatch):
    if name == "extract":
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    test = examples_of(name)
    assert "Example:" in test.docstring
    parameters = inspect.signature(getattr(rephaze, name)).parameters
    undocumented = [one for one in parameters if not re.search(rf"^\s+{one}: \S", test.docstring, re.MULTILINE)]
    assert not undocumented
    run = [one for one in test.examples if not one.options.get(doctest.SKIP)]
    assert any("rephaze." in one.source for one in run), "an example that only imports shows nothing"
    said = []
    outcome = doctest.DocTestRunner().run(test, out=said.append)
    assert outcome.attempted >= 2
    assert outcome.failed == 0, "".join(said)


@pytest.mark.parametrize("path", sorted(CLI.glob("*.py")), ids=lambda path: path.stem)
def test_commands_import_the_door_and_records_only(path):
    imported = re.findall(r"^\s*(?:from|import) (rephaze[\w.]*)", path.read_text(), re.MULTILINE)
    allowed = ("rephaze.api", "rephaze.cli", "rephaze.types", "rephaze.units", "rephaze.errors")
    if path.stem == "serve":  # a second face beside the command line, which goes through the door itself
        allowed += ("rephaze.serve",)
    assert [name for name in imported if not name.startswith(allowed)] == []
