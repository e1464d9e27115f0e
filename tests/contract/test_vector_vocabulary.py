"""The documented vocabulary of vector work is the real one."""

import re
from pathlib import Path

from rephaze.workload.extract.aten import VECTOR_FUNCTIONS

DOCS = Path(__file__).parents[2] / "docs" / "workloads.md"


def test_every_vector_function_is_documented_and_no_other():
    section = DOCS.read_text().split("### Vector functions")[1].split("`num_elements`")[0]
    listed = {name for group in re.findall(r"`([^`]+)`", section.split(":\n\n", 1)[1]) for name in group.split()}
    assert listed == VECTOR_FUNCTIONS
