"""Compiled code: few arguments, and made anew when a file changes whose constants or records went into it."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rephaze
from rephaze import compiled

PACKAGE = Path(rephaze.__file__).parent
ROOMS = ("estimate", "schedule", "place")
MOST_ARGUMENTS = 8
DECORATORS = {"kernel", "kernel_in_place", "inner", "inner_in_place", "compiled", "entry"}
MISSES = """
from rephaze.place.full.pass_clock import turn_of

assert turn_of(5, 0, 0, 2, 2) == (3, 0)
print(sum(turn_of.stats.cache_misses.values()), sum(turn_of.stats.cache_hits.values()))
"""


def compiled_functions(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = {ast.unparse(mark).partition("(")[0] for mark in node.decorator_list}
            if names & DECORATORS:
                yield node


@pytest.mark.parametrize("room", ROOMS)
def test_no_compiled_function_takes_more_than_eight_arguments(room):
    counts = {
        f"{source.name}: {function.name}": len(function.args.args)
        for source in (PACKAGE / room).rglob("*.py")
        for function in compiled_functions(ast.parse(source.read_text()))
    }
    assert len(counts) > 10
    assert {name: count for name, count in counts.items() if count > MOST_ARGUMENTS} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_all_that_compiled_files_import_counts_for_the_age_of_their_code(room):
    """Their own room and the records are hashed; nothing else may be compiled in but the decorators themselves."""
    files = [file for file in (PACKAGE / room).rglob("*.py") if "rephaze.compiled" in file.read_text()]
    assert files
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rephaze."):
                owner = node.module.split(".")[1]
                assert owner in (room, "types", "compiled", "errors"), f"{file.name} imports {node.module}"


@pytest.mark.parametrize("changed", ["place/network.py", "place/arrays.py", "types/latency.py", "compiled.py"])
def test_a_change_anywhere_in_the_room_or_the_records_gives_compiled_code_another_name(
    tmp_path, monkeypatch, changed
):
    copy = tmp_path / "rephaze"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "data"))
    monkeypatch.setattr(compiled, "__file__", str(copy / "compiled.py"))

    def digest():
        compiled._digest_of.cache_clear()
        return compiled._digest_of_room(copy / "place" / "bounds.py")

    before = digest()
    assert digest() == before
    (copy / changed).write_text((copy / changed).read_text() + "\n# changed\n")
    assert digest() != before
    compiled._digest_of.cache_clear()


def test_of_processes_that_start_together_one_compiles_and_the_others_read(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", MISSES], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    counts = [process.communicate(timeout=300)[0].split() for process in started]
    assert sorted(counts) == [["0", "1"], ["0", "1"], ["1", "0"]]


def test_a_number_is_not_compiled_in():
    made = [compiled.unfolded(7), compiled.unfolded(True)]
    assert made == [7, True]
    assert [str(compiled.type_like(one)) for one in made] == ["int64", "bool"]
