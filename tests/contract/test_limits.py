"""docs/limits.md tells the limits that are enforced."""

import re
from pathlib import Path

import pytest

from rephaze.api import models, problem_files
from rephaze.hardware import ranges, scenarios
from rephaze.truth import run_row
from rephaze.types import csv_table, files, plain_data, quantities, space, system
from rephaze.units import MIB
from rephaze.workload.extract import config_source

ROWS = [
    [cell.strip() for cell in line.split("|")[1:3]]
    for line in (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| what")
]


@pytest.mark.parametrize(
    ("what", "limits"),
    [
        ("a file", [files.MAX_FILE_BYTES // MIB]),
        ("a TOML file", [files.MAX_TOML_BYTES // MIB]),
        ("lists and objects", [plain_data.MAX_DEPTH]),
        ("a whole number", [plain_data.MAX_WHOLE]),
        ("a key", [plain_data.MAX_KEY_CHARS, plain_data.MAX_TEXT_CHARS, 500]),
        ("bytes and bytes", [quantities.MAX_BYTES]),
        ("seconds", [quantities.MAX_SECONDS]),
        ("problems", [problem_files.MAX_PROBLEMS]),
        ("rows", [csv_table.MAX_ROWS]),
        ("blocks of a measured run", [run_row.MOST_BLOCKS, run_row.MOST_COUNT]),
        ("layers of a model", [quantities.MAX_LAYERS]),
        ("layers, experts, heads", [quantities.MAX_LAYERS, config_source.MAX_SIZE, config_source.MAX_SEQ_LEN]),
        ("edges between layers", [quantities.MAX_LINKS]),
        ("graphs", [quantities.MAX_CUTS]),
        ("operators", [quantities.MAX_OPS, quantities.MAX_OP_EDGES]),
        ("microbatch sizes", [scenarios.MAX_CHOICES, 2**20]),
        ("values of a range", [ranges.MOST_VALUES]),
        ("grid points", [space.MOST_POINTS]),
        (
            "tensor cores",
            [
                space.MOST_OF[name]
                for name in (
                    "num_tensor_cores",
                    "tensor_width",
                    "num_vector_cores",
                    "vector_lanes",
                    "num_hbm_stacks",
                )
            ],
        ),
        ("watts, dollars, mm² of a budget", [system.MAX_BUDGET]),
        ("tensor-parallel", [models.MAX_COUNT]),
    ],
)
def test_the_page_has_the_limit(what, limits):
    [told] = [limit for row, limit in ROWS if row.startswith(what)]
    found = re.findall(r"2\^\d+|\d[\d,]*(?:e\d+)?", told)
    assert [float(2 ** int(n[2:]) if n.startswith("2^") else n.replace(",", "")) for n in found] == limits
