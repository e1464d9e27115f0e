"""Templates: what a chip has beyond the numbers that a space varies."""

from dataclasses import replace

import numpy as np
import pytest

from rephaze.errors import SpecError
from rephaze.hardware.template import (
    array_feed_bytes_per_cycle,
    buffer_bytes_per_cycle,
    build_chips,
    load_template,
    scratchpad_bytes,
)
from rephaze.units import GIB, KIB, MIB

DEFAULT, PAPER = load_template("default"), load_template("paper")


def column(*values):
    return np.array(values, dtype=np.int64)


def chips(template, **given):
    return build_chips(
        num_tensor_cores=column(1, 8),
        tensor_width=column(4, 128),
        tensor_depth=column(2, 128),
        num_vector_cores=column(1, 2),
        vector_lanes=column(4, 2048),
        global_buffer_bytes=column(2 * MIB, 128 * MIB),
        num_hbm_stacks=column(1, 4),
        template=template,
        **given,
    )


def test_the_two_templates_that_ship_differ_where_the_paper_does():
    assert (DEFAULT.scratchpad_bytes_per_cycle, DEFAULT.buffer_bytes_per_cycle) == (None, None)
    assert (PAPER.scratchpad_bytes_per_cycle, PAPER.buffer_bytes_per_cycle) == (128.0, 512.0)
    assert (DEFAULT.hbm_stack_bytes, PAPER.hbm_stack_bytes) == (16 * GIB, 32 * GIB)
    assert DEFAULT.clock_hz == PAPER.clock_hz == 1.05e9


def test_an_unknown_template_is_refused_with_those_there_are():
    with pytest.raises(SpecError, match="template is 'papr': must be one of default, paper; did you mean 'paper'"):
        load_template("papr")


def test_a_scratchpad_grows_with_its_core_but_has_a_least_size():
    assert scratchpad_bytes(column(1, 64, 65, 16384), DEFAULT).tolist() == [KIB, KIB, 65 * 16, 256 * KIB]


def test_an_array_is_fed_along_both_sides():
    # Inputs and next weights, 2 bytes each a row; partial sums read and written, 4 bytes each a column.
    assert array_feed_bytes_per_cycle(column(128, 1), column(64, 2)).tolist() == [128 * 4 + 64 * 8, 4 + 16]


def test_a_buffers_bandwidth_is_banked_or_fixed():
    sizes = column(KIB, MIB, 128 * MIB)
    assert buffer_bytes_per_cycle(sizes, DEFAULT).tolist() == [1.0, 32.0, 4096.0]
    assert buffer_bytes_per_cycle(sizes, PAPER).tolist() == [512.0] * 3


def test_chips_by_the_default_template():
    built = chips(DEFAULT)
    assert built.tensor_scratchpad_bytes.tolist() == [KIB, 256 * KIB]
    assert built.vector_scratchpad_bytes.tolist() == [KIB, 32 * KIB]
    assert built.scratchpad_bytes_per_cycle.tolist() == [4 * 4 + 2 * 8, 128 * 12]
    assert built.hbm_bytes.tolist() == [16 * GIB, 64 * GIB]
    assert built.hbm_bytes_per_s.tolist() == [410e9, 4 * 410e9]
    assert built.global_buffer_multicast.tolist() == [8, 8]
    assert built.hbm_bytes.dtype == np.int64


def test_chips_by_the_papers_template():
    built = chips(PAPER)
    assert built.scratchpad_bytes_per_cycle.tolist() == [128.0, 128.0]
    assert built.hbm_bytes_per_s.tolist() == [268.8e9, 4 * 268.8e9]


def test_a_memory_given_replaces_the_stacks_capacity_not_their_speed():
    built = chips(DEFAULT, hbm_bytes=80 * GIB)
    assert built.hbm_bytes.tolist() == [80 * GIB, 80 * GIB]
    assert built.hbm_bytes_per_s.tolist() == chips(DEFAULT).hbm_bytes_per_s.tolist()


def test_the_clock_is_the_templates():
    assert chips(replace(DEFAULT, clock_hz=2e9)).clock_hz.tolist() == [2e9, 2e9]
