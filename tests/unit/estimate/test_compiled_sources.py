"""Compiled code is made anew when a file changes whose constants or records went into it."""

import ast
from pathlib import Path

import rephaze.estimate

ROOM = Path(rephaze.estimate.__file__).parent
MARK = "rephaze.compiled"
"""Files with it are part of the name under which compiled code is kept."""
NOT_COMPILED = {"rephaze.estimate.arrays", "rephaze.estimate.estimate_model"}
"""What compiled functions take from these are types in signatures."""


def test_all_that_compiled_files_import_counts_for_the_age_of_their_code():
    compiled = [file for file in ROOM.rglob("*.py") if MARK in file.read_text()]
    assert len(compiled) >= 8
    for file in compiled:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rephaze.estimate."):
                if node.module in NOT_COMPILED:
                    continue
                source = ROOM.parent.parent.joinpath(*node.module.split(".")).with_suffix(".py")
                assert MARK in source.read_text(), f"{file.name} compiles in what {node.module} has"
