"""The house keeps its shape: import weight, no import cycles, units in names."""

import ast
import dataclasses
import importlib
import pkgutil
import re
import subprocess
import sys
import typing
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import rephaze

HEAVY = ("torch", "transformers", "ortools", "dask", "distributed", "numba", "pyarrow", "pandas")
PACKAGE = Path(rephaze.__file__).parent

UNIT_ENDINGS = (
    "_bytes", "_s", "_j", "_w", "_um2", "_mm2", "_hz", "_cycles", "_per_s", "_per_cycle", "_flops", "_usd",
    "_utilization", "_share", "_ratio", "_fraction", "_factor", "_nm", "_mm", "_per_byte",
    "_per_cm2", "_per_sample_j", "_per_um2", "_per_pe", "_per_mib",
)  # fmt: skip
# Whole numbers that are plain counts or positions by their nature.
UNITLESS = {
    "const", "per_sample", "tp", "dp", "pp", "cp", "ep", "etp", "shard_group", "chunks", "keep",
    "microbatch", "global_batch", "src", "dst", "position", "index",
    "tensor_width", "tensor_depth", "vector_lanes", "global_buffer_multicast", "row_length", "seq_len",
    "query_len", "key_len", "window_len", "head_dim", "value_dim", "param_bytes", "seed", "layer", "op", "op_id",
    "stride", "buffer_multicast", "objective", "bound", "gap", "design", "cycles",
    "upper", "threshold", "later_threshold", "cutoff", "tau",
}  # fmt: skip


def test_importing_rephaze_loads_nothing_heavy():
    code = "import sys, rephaze; print(' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {*HEAVY, "numpy", "pydantic", "typer", "rich"}


def test_starting_the_command_line_loads_nothing_heavy():
    code = "import sys, rephaze.cli.main; print(' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & set(HEAVY)


def sources():
    """Every module of the package by its name, parsed."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


def imports_of(node, known):
    """Modules that running the code may import, inside functions too; not what only the type checker reads."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return set()
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} & known
    if isinstance(node, ast.ImportFrom):
        names = {f"{node.module}.{alias.name}" for alias in node.names}
        return (names & known) or ({node.module} & known)
    return set().union(*(imports_of(child, known) for child in ast.iter_child_nodes(node)))


def in_order(trees):
    """Modules, each after those it imports; ``CycleError`` if there is no such order."""
    graph = {name: imports_of(tree, trees.keys()) - {name} for name, tree in trees.items()}
    return list(TopologicalSorter(graph).static_order())


def test_no_import_cycle_hides_behind_an_import_inside_a_function():
    order = in_order(sources())
    assert order.index("rephaze.types.chip") < order.index("rephaze.measure.chip_solver")
    assert order.index("rephaze.measure.chip_solver") < order.index("rephaze.api.exploring")


def test_a_hidden_import_cycle_is_found():
    hidden = {"a": ast.parse("import b"), "b": ast.parse("def f():\n    from a import g")}
    with pytest.raises(CycleError):
        in_order(hidden)
    for_types = "if TYPE_CHECKING:\n    from a import g"
    assert in_order(hidden | {"b": ast.parse(for_types)}) == ["b", "a"]


def test_what_the_package_defines_the_package_uses():
    """Code that only tests call lives with the tests."""
    words = Counter(word for path in PACKAGE.rglob("*.py") for word in re.findall(r"\w+", path.read_text()))
    defined = [
        f"{name}: {node.name}"
        for name, tree in sources().items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and words[node.name] == 1
    ]
    assert [name for name in defined if not name.endswith("__")] == []


def numeric_fields():
    import rephaze.types

    for info in pkgutil.iter_modules(rephaze.types.__path__, "rephaze.types."):
        module = importlib.import_module(info.name)
        for record in vars(module).values():
            if not (
                isinstance(record, type) and dataclasses.is_dataclass(record) and record.__module__ == info.name
            ):
                continue
            hints = typing.get_type_hints(record)
            for field in dataclasses.fields(record):
                if hints[field.name] in (int, float):
                    yield record.__name__, field.name


def names_its_unit(name: str) -> bool:
    return name.startswith("num_") or name in UNITLESS or name.endswith(UNIT_ENDINGS)


def test_every_numeric_field_of_a_record_names_its_unit():
    bare = [f"{record}.{name}" for record, name in numeric_fields() if not names_its_unit(name)]
    assert not bare, f"give these a unit in the name: {bare}"


def test_the_unit_rule_can_fail():
    assert names_its_unit("makespan_s")
    assert not names_its_unit("makespan")


def test_public_names_exist_and_are_sorted():
    assert rephaze.__all__ == sorted(rephaze.__all__)
    assert all(hasattr(rephaze, name) for name in rephaze.__all__)
