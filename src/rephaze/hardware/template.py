"""From a few numbers to whole chips: scratchpads and bandwidths by a template's rules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.sourced_data import data_file
from rephaze.types.checks import check_choice
from rephaze.types.chip import ChipTable
from rephaze.types.space import Template
from rephaze.units import MIB

ELEMENT_BYTES = 2
ACCUMULATOR_BYTES = 4

Ints = NDArray[np.int64]


def load_template(name: str) -> Template:
    """The template of this name: ``default`` or ``paper``."""
    templates = data_file("templates.toml")
    check_choice("template", name, templates)
    rules = dict(templates[name])
    stack = data_file("memory.toml")[rules.pop("hbm")]
    return Template(
        scratchpad_bytes_per_cycle=rules.pop("scratchpad_bytes_per_cycle", None),
        buffer_bytes_per_cycle=rules.pop("buffer_bytes_per_cycle", None),
        hbm_stack_bytes=stack["stack_bytes"],
        hbm_stack_bytes_per_s=stack["stack_bytes_per_s"],
        **rules,
    )


def array_feed_bytes_per_cycle(width: Ints, depth: Ints) -> NDArray[np.float64]:
    """What an array needs from its scratchpad to run every cycle.

    A row of inputs and one of the next weights enter along the width; partial sums are read and written
    along the depth.
    """
    return (2.0 * ELEMENT_BYTES) * width + (2.0 * ACCUMULATOR_BYTES) * depth


def scratchpad_bytes(num_pes: Ints, template: Template) -> Ints:
    """Scratchpad of a core with this many multipliers or lanes."""
    return np.maximum(template.min_scratchpad_bytes, template.scratchpad_bytes_per_pe * num_pes)


def buffer_bytes_per_cycle(global_buffer_bytes: Ints, template: Template) -> NDArray[np.float64]:
    """Bandwidth between the global buffer and all cores."""
    if template.buffer_bytes_per_cycle is not None:
        return np.full(len(global_buffer_bytes), template.buffer_bytes_per_cycle)
    return np.maximum(1.0, global_buffer_bytes / MIB * template.buffer_bytes_per_cycle_per_mib)


def build_chips(
    *,
    num_tensor_cores: Ints,
    tensor_width: Ints,
    tensor_depth: Ints,
    num_vector_cores: Ints,
    vector_lanes: Ints,
    global_buffer_bytes: Ints,
    num_hbm_stacks: Ints,
    template: Template,
    hbm_bytes: int | None = None,
) -> ChipTable:
    """Chips from the numbers a design space varies.

    Args:
        num_tensor_cores: And the other columns, one entry a chip.
        tensor_width: Rows of an array.
        tensor_depth: Columns of an array.
        num_vector_cores: Vector cores of the chip.
        vector_lanes: Lanes of one vector core.
        global_buffer_bytes: Size of the shared buffer.
        num_hbm_stacks: Stacks of HBM.
        template: Rules for everything else.
        hbm_bytes: Capacity of every chip, whatever its stacks; by default the stacks decide.
    """
    num_chips = len(num_tensor_cores)
    if template.scratchpad_bytes_per_cycle is None:
        feed = array_feed_bytes_per_cycle(tensor_width, tensor_depth)
    else:
        feed = np.full(num_chips, template.scratchpad_bytes_per_cycle)
    capacity = num_hbm_stacks * template.hbm_stack_bytes
    return ChipTable(
        num_tensor_cores=num_tensor_cores,
        tensor_width=tensor_width,
        tensor_depth=tensor_depth,
        num_vector_cores=num_vector_cores,
        vector_lanes=vector_lanes,
        tensor_scratchpad_bytes=scratchpad_bytes(tensor_width * tensor_depth, template),
        vector_scratchpad_bytes=scratchpad_bytes(vector_lanes, template),
        global_buffer_bytes=global_buffer_bytes,
        num_hbm_stacks=num_hbm_stacks,
        hbm_bytes=capacity if hbm_bytes is None else np.full(num_chips, hbm_bytes, dtype=np.int64),
        hbm_bytes_per_s=num_hbm_stacks * np.float64(template.hbm_stack_bytes_per_s),
        clock_hz=np.full(num_chips, template.clock_hz),
        scratchpad_bytes_per_cycle=feed,
        global_buffer_bytes_per_cycle=buffer_bytes_per_cycle(global_buffer_bytes, template),
        global_buffer_multicast=np.full(num_chips, template.buffer_multicast, dtype=np.int64),
    )
