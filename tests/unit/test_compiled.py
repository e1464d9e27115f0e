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

HALVES = """
from rephaze.compiled import inner, inner_in_place, kernel


@inner
def halved(value):
    if value % 2:
        raise ValueError("odd", value)
    return value // 2


@inner_in_place
def times(value, factor):
    return value * factor


@inner
def quartered(value):
    return halved(times(halved(value), 1))


@kernel
def quarter(value):
    return quartered(value)


@kernel
def eighth(value):
    return halved(quartered(value))
"""
USE = """
import sys

import halves

kernel, value = getattr(halves, sys.argv[1]), int(sys.argv[2])
try:
    found = kernel(value)
except ValueError as error:
    found = str(error)
hits = [sum(one.stats.cache_hits.values()) for one in (kernel, halves.quartered)]
print(found, *hits)
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


@pytest.fixture
def copied_package(tmp_path, monkeypatch):
    copy = tmp_path / "rephaze"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "data"))
    monkeypatch.setattr(compiled, "__file__", str(copy / "compiled.py"))
    forget()
    yield copy
    forget()


def forget():
    compiled._text_of.cache_clear()
    compiled._imported_by.cache_clear()


def digest_after_change(package, source, changed):
    with (package / changed).open("a") as file:
        file.write("\n# changed\n")
    forget()
    return compiled._digest_of(package / source)


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("place/bounds.py", "place/bounds.py"),
        ("place/bounds.py", "place/tables.py"),
        ("place/bounds.py", "types/placement.py"),
        ("place/full/line_search.py", "place/full/spans.py"),
        ("place/full/line_search.py", "compiled.py"),
        ("estimate/gemm_default/branches.py", "estimate/gemm_default/tiles.py"),
    ],
)
def test_a_change_in_what_a_file_imports_gives_compiled_code_another_name(copied_package, source, changed):
    before = compiled._digest_of(copied_package / source)
    assert compiled._digest_of(copied_package / source) == before
    assert digest_after_change(copied_package, source, changed) != before


@pytest.mark.parametrize("changed", ["place/why_not.py", "estimate/estimator.py", "cli/main.py"])
def test_other_changes_leave_compiled_code_as_it_is(copied_package, changed):
    before = compiled._digest_of(copied_package / "place" / "bounds.py")
    assert digest_after_change(copied_package, "place/bounds.py", changed) == before


def test_all_that_compiled_files_import_counts_for_the_age_of_their_code():
    """By the parser: every module of this package that is imported, however that is written."""
    files = [file for file in PACKAGE.rglob("*.py") if "from rephaze.compiled import" in file.read_text()]
    assert len(files) > 20
    for file in files:
        named = {
            PACKAGE.joinpath(*(node.module or "").split(".")[1:])
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rephaze.")
        }
        found = {part.with_suffix("") for part in compiled._imported_by(file)}
        assert {path for path in named if not path.is_dir()} <= found, file.name
        assert not any(
            alias.name.startswith("rephaze")
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Import)
            for alias in node.names
        ), file.name


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


def test_functions_without_machine_code_of_their_own_are_compiled_into_others_also_from_the_cache(tmp_path):
    (tmp_path / "halves.py").write_text(HALVES)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}

    def use(name, value):
        command = [sys.executable, "-c", USE, name, str(value)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    assert use("quarter", 12) == "3 0 0"
    # Read from the cache, with what it raises.
    assert use("quarter", 20) == "5 1 0"
    assert use("quarter", 6) == "('odd', 3) 1 0"
    # Another kernel of the same functions, which are read.
    assert use("eighth", 4) == "('odd', 1) 0 1"
    assert use("eighth", 40) == "5 1 0"
