"""The house keeps its shape: import weight and units in names."""

import dataclasses
import importlib
import pkgutil
import subprocess
import sys
import typing

import rephaze

HEAVY = ("torch", "transformers", "ortools", "plotly", "dask", "distributed", "numba", "pyarrow")

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
}  # fmt: skip


def test_importing_rephaze_loads_nothing_heavy():
    code = "import sys, rephaze; print(' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & set(HEAVY)


def test_starting_the_command_line_loads_nothing_heavy():
    code = "import sys, rephaze.cli.main; print(' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & set(HEAVY)


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
