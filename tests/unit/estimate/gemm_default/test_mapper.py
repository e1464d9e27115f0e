"""Small GEMMs whose fastest mapping is plain to see."""

from dataclasses import fields, replace

import numpy as np
import pytest

from rephaze.errors import SpecError
from rephaze.estimate.gemm_default.core_shapes import CoreShapes
from rephaze.estimate.gemm_default.mapper import PaddedProblem, map_padded, map_shapes, mapping_of

# Two products of 8 x 8 by 8 x 8, one on each of two cores of 4 x 4.
PROBLEM = PaddedProblem(
    batch=2,
    m=8,
    n=8,
    k=8,
    num_tensor_cores=2,
    width=4,
    depth=4,
    scratchpad_bytes=1024.0,
    global_buffer_bytes=65536.0,
    scratchpad_bytes_per_cycle=48.0,
    global_buffer_bytes_per_cycle=32.0,
    hbm_bytes_per_cycle=16.0,
    global_buffer_multicast=2,
)
ONCE = 2 * 2 * 3 * 64
"""Bytes of all matrices."""


def test_a_product_that_fits_moves_once():
    found = map_padded(PROBLEM)
    assert found.cycles == found.bound_cycles == ONCE / 16
    assert found.mapping["cores"] == {"batch": 2, "m": 1, "n": 1}
    assert found.mapping["cycles"]["hbm"] == ONCE / 16
    assert found.mapping["cycles"]["global_buffer"] == ONCE / 32
    # Four passes stream 8 rows each; filling and draining take a side of the array each.
    assert found.mapping["cycles"]["compute"] == 4 * 8 + 4 + 4


def test_energy_of_each_level():
    macs = 2 * 8**3
    assert map_padded(replace(PROBLEM, mac_j=1.0)).energy_j == macs
    assert map_padded(replace(PROBLEM, register_j_per_byte=1.0)).energy_j == 8 * macs
    assert map_padded(replace(PROBLEM, hbm_j_per_byte=1.0)).energy_j == ONCE
    assert map_padded(replace(PROBLEM, global_buffer_j_per_byte=1.0)).energy_j == ONCE + ONCE


def test_side_bytes_pass_hbm_with_the_product():
    assert map_padded(replace(PROBLEM, side_bytes=160.0)).cycles == (ONCE + 160) / 16


def test_what_fits_nowhere_says_why():
    found = map_padded(replace(PROBLEM, scratchpad_bytes=8.0))
    assert not found.is_feasible
    assert "fits neither 8 B of scratchpad" in found.reason
    assert mapping_of(map_shapes(2, 8, 8, 8, replace(PROBLEM, scratchpad_bytes=8.0).shape())[0]) == {}


def test_answers_come_in_the_order_of_the_shapes():
    rates = [4.0, 64.0, 16.0]
    buffers = [65536.0, 4096.0, 32768.0]
    alone = [
        replace(PROBLEM, hbm_bytes_per_cycle=rate, global_buffer_bytes=buffer)
        for rate, buffer in zip(rates, buffers, strict=True)
    ]
    shapes = [problem.shape() for problem in alone]
    names = [field.name for field in fields(CoreShapes)]
    joined = CoreShapes(**{name: np.concatenate([getattr(shape, name) for shape in shapes]) for name in names})
    cycles = map_shapes(2, 8, 8, 8, joined)["cycles"].tolist()
    assert cycles == [map_padded(problem).cycles for problem in alone]
    assert cycles[0] == ONCE / 4
    assert cycles[2] == ONCE / 16


@pytest.mark.parametrize("changes", [{"m": 0}, {"width": 2**21}, {"hbm_bytes_per_cycle": float("nan")}])
def test_sizes_out_of_range_are_refused(changes):
    with pytest.raises(SpecError, match=next(iter(changes))):
        replace(PROBLEM, **changes)
