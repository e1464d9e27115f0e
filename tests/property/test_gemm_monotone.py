"""More hardware never makes a GEMM slower, and the closed-form bound never exceeds the mapper."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.estimate.gemm_default.bounds import padded_bound_cycles
from rephaze.estimate.gemm_default.core_shapes import CoreShapes
from rephaze.estimate.gemm_default.mapper import map_shapes
from rephaze.units import MIB

SIDES = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256])
"""Sides the mapper may also use as a part of any larger array."""
ANY_SIDES = st.one_of(SIDES, st.sampled_from([5, 7, 10, 11, 20, 28, 100, 160]))
DIMS = st.one_of(st.integers(1, 40), st.sampled_from([64, 100, 768, 1600, 4096, 50257]))

FIELDS = (
    "num_cores",
    "width",
    "depth",
    "scratchpad_bytes",
    "global_buffer_bytes",
    "scratchpad_bytes_per_cycle",
    "global_buffer_bytes_per_cycle",
    "hbm_bytes_per_cycle",
    "multicast",
)
COUNTS = ("num_cores", "width", "depth", "multicast")


def shapes_of(rows: list[dict[str, float]]) -> CoreShapes:
    energies = {"scratchpad_j_per_byte": 1e-12, "global_buffer_j_per_byte": 5e-12, "hbm_j_per_byte": 6e-11}
    columns = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in FIELDS}
    return CoreShapes(**columns, **{name: np.full(len(rows), value) for name, value in energies.items()})


@st.composite
def core_shapes(draw: st.DrawFn, sides: st.SearchStrategy[int] = SIDES) -> dict[str, float]:
    """Core shapes, from tiny buffers no template has to those of real chips."""
    width, depth = draw(sides), draw(sides)
    own = max(1024.0, 16.0 * width * depth)
    return {
        "num_cores": draw(st.sampled_from([1, 2, 3, 4, 6, 7, 8, 16, 64, 100, 512])),
        "width": width,
        "depth": depth,
        "scratchpad_bytes": draw(st.sampled_from([16.0, 100.0, 256.0, 1024.0, own])),
        "global_buffer_bytes": draw(st.sampled_from([1024.0, 65536.0, 1e6, 2.0 * MIB, 32.0 * MIB])),
        "scratchpad_bytes_per_cycle": draw(st.sampled_from([4.0, 4.0 * width + 8.0 * depth])),
        "global_buffer_bytes_per_cycle": draw(st.sampled_from([1.0, 64.0, 4096.0])),
        "hbm_bytes_per_cycle": draw(st.sampled_from([10.0, 1143.0])),
        "multicast": draw(st.sampled_from([1, 2, 8])),
    }


GEMMS = st.tuples(st.sampled_from([1, 1, 5, 16]), DIMS, DIMS, DIMS)
SIDE_BYTES = st.sampled_from([0.0, 0.0, 1e4, 1e7])


def slower_with_more(core, more_of_each, gemm, side_bytes):
    rows = [core] + [{**core, name: more} for name, more in more_of_each.items()]
    cycles = map_shapes(*gemm, shapes_of(rows), side_bytes)["cycles"]
    return [name for name, more in zip(more_of_each, cycles[1:], strict=True) if more > cycles[0] * (1 + 1e-12)]


@settings(deadline=None, max_examples=150)
@given(core_shapes(ANY_SIDES), GEMMS, SIDE_BYTES)
def test_doubling_any_resource_never_slows_a_gemm(core, gemm, side_bytes):
    assert not slower_with_more(core, {name: 2 * core[name] for name in FIELDS}, gemm, side_bytes)


@settings(deadline=None, max_examples=60)
@given(core_shapes(), st.floats(1.0, 3.0), st.integers(1, 9), GEMMS, SIDE_BYTES)
def test_a_little_more_of_any_resource_never_slows_a_gemm(core, factor, extra, gemm, side_bytes):
    more = {name: core[name] + extra if name in COUNTS else core[name] * factor for name in FIELDS}
    assert not slower_with_more(core, more, gemm, side_bytes)


def test_a_larger_buffer_pays_even_if_tiny():
    # A block a round that fits only with more rounds than the scratchpad needs must be found at every size.
    core = {
        "num_cores": 1,
        "width": 16,
        "depth": 4,
        "scratchpad_bytes": 256.0,
        "scratchpad_bytes_per_cycle": 96.0,
        "global_buffer_bytes_per_cycle": 64.0,
        "hbm_bytes_per_cycle": 10.0,
        "multicast": 1,
    }
    rows = [{**core, "global_buffer_bytes": 1024.0 * 2**i} for i in range(16)]
    cycles = map_shapes(1, 50257, 4096, 64, shapes_of(rows))["cycles"]
    assert (np.diff(cycles) <= 0).all()


@settings(deadline=None, max_examples=100)
@given(core_shapes(ANY_SIDES), GEMMS, SIDE_BYTES)
def test_every_shape_is_mapped_and_the_bound_is_a_bound(core, gemm, side_bytes):
    shapes = shapes_of([core])
    cycles = map_shapes(*gemm, shapes, side_bytes)["cycles"]
    assert np.isfinite(cycles).all()
    bounds = padded_bound_cycles(*gemm, shapes, side_bytes)
    assert (bounds <= cycles * (1 + 1e-12)).all()
    peak = np.prod(gemm, dtype=np.float64) / (shapes.num_cores * shapes.width * shapes.depth)
    assert (cycles >= peak).all(), "utilisation above 1"
