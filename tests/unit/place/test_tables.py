"""What goes into compiled functions: few arguments, and groups whose fields cannot change behind numba's cache."""

import ast
from pathlib import Path

import pytest

import rephaze

ROOMS = [Path(rephaze.__file__).parent / room for room in ("place", "schedule")]
MOST_ARGUMENTS = 8


def compiled_functions(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = {ast.unparse(mark).partition("(")[0] for mark in node.decorator_list}
            if names & {"kernel", "inner", "compiled", "entry"}:
                yield node


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_no_compiled_function_takes_more_than_eight_arguments(room):
    counts = {
        f"{source.name}: {function.name}": len(function.args.args)
        for source in room.glob("*.py")
        for function in compiled_functions(ast.parse(source.read_text()))
    }
    assert counts
    assert {name: count for name, count in counts.items() if count > MOST_ARGUMENTS} == {}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_change_of_the_tables_compiles_kernels_anew(room):
    # Only files that name the decorators' module count for the names of numba's cache files.
    assert "rephaze.compiled" in (room / "tables.py").read_text()
