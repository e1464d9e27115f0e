"""From the command to what decides a number in a few opened files: the walks of docs/architecture.md."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

import rephaze

PACKAGE = Path(rephaze.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MOST_FILES = {
    "the time of a GEMM": 7,
    "the time of a batch": 6,
    "the bound that prunes": 4,
    "the SQL insert": 4,
}


def walks():
    """By goal, the steps (file, name to look for there), from the lines of the page that begin with a goal."""
    found = {}
    for line in PAGE.read_text().splitlines():
        match = re.match(r"\| (.+?) \| (`.+`) \|$", line)
        if match and match[1] in MOST_FILES:
            found[match[1]] = re.findall(r"`([^`]+\.py)` `([^`]+)`", match[2])
    return found


def calls_in(path):
    """Names called in a file: plain ones, and methods by their last name."""
    called = set()
    for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
        if isinstance(node, ast.Call):
            target = node.func
            called.add(target.id if isinstance(target, ast.Name) else getattr(target, "attr", ""))
    return called


def imported_from(path, other):
    """Names a file imports from another one."""
    module = "rephaze." + other.removesuffix(".py").replace("/", ".")
    return {
        alias.name
        for node in ast.walk(ast.parse((PACKAGE / path).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }


def defined_in(path):
    return {
        node.name
        for node in ast.walk(ast.parse((PACKAGE / path).read_text()))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


@pytest.mark.parametrize("goal", MOST_FILES)
def test_each_step_of_a_walk_calls_the_next(goal):
    steps = walks()[goal]
    files = list(dict.fromkeys(path for path, _ in steps))
    assert files[0] == "cli/search.py"
    assert len(files) <= MOST_FILES[goal]
    for (path, _), (other, name) in pairwise(steps):
        assert name in defined_in(other), f"{other} has no {name}"
        assert name in calls_in(path), f"{path} does not call {name}"
        if path != other:
            owner = imported_from(path, other)
            assert owner, f"{path} imports nothing from {other}"
            # The function itself, or the class whose method it is.
            assert name in owner or any(name in methods(other, cls) for cls in owner), (
                f"{path} takes {name} elsewhere"
            )


def methods(path, cls):
    for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
        if isinstance(node, ast.ClassDef) and node.name == cls:
            return {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
    return set()


@pytest.mark.parametrize(
    ("goal", "seen"),
    [
        ("the time of a GEMM", "np.maximum"),
        ("the time of a batch", "time = BatchTime("),
        ("the bound that prunes", "self.objective * (1 - RELATIVE_SLACK)"),
        ("the SQL insert", "INSERT INTO evaluation"),
    ],
)
def test_a_walk_ends_where_it_says(goal, seen):
    path, _ = walks()[goal][-1]
    assert seen in (PACKAGE / path).read_text()
