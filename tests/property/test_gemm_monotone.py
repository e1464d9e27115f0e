"""More hardware never makes a GEMM slower, and the closed-form bound never exceeds the mapper."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.estimate.padded_bounds import padded_bound_cycles
from rephaze.estimate.padded_gemm import CoreShapes, map_shapes
from rephaze.units import MIB

POWERS = st.integers(0, 8).map(lambda i: 2**i)
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


def shapes_of(rows: list[dict[str, float]]) -> CoreShapes:
    energies = {"scratchpad_j_per_byte": 1e-12, "global_buffer_j_per_byte": 5e-12, "hbm_j_per_byte": 6e-11}
    columns = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in FIELDS}
    return CoreShapes(**columns, **{name: np.full(len(rows), value) for name, value in energies.items()})


@st.composite
def core_shapes(draw: st.DrawFn, tiny: bool = True) -> dict[str, float]:
    """Core shapes; not tiny: as templates give them, a scratchpad of 1 KiB and a buffer of 2 MiB at least."""
    width, depth = draw(POWERS), draw(POWERS)
    own = max(1024.0, 16.0 * width * depth)
    scratchpads = [16.0, 256.0, 1024.0, own] if tiny else [1024.0, own]
    buffer = draw(st.sampled_from([1024.0, 65536.0] if tiny else [2.0 * MIB, 32.0 * MIB]))
    return {
        "num_cores": draw(st.sampled_from([1, 2, 3, 4, 6, 8, 16, 64, 512])),
        "width": width,
        "depth": depth,
        "scratchpad_bytes": draw(st.sampled_from(scratchpads)),
        "global_buffer_bytes": buffer,
        "scratchpad_bytes_per_cycle": draw(st.sampled_from([4.0, 4.0 * width + 8.0 * depth])),
        "global_buffer_bytes_per_cycle": draw(st.sampled_from([1.0, 64.0, 4096.0])),
        "hbm_bytes_per_cycle": draw(st.sampled_from([10.0, 1143.0])),
        "multicast": draw(st.sampled_from([1, 2, 8])),
    }


@settings(deadline=None, max_examples=150)
@given(core_shapes(tiny=False), st.sampled_from([1, 1, 5, 16]), DIMS, DIMS, DIMS)
def test_doubling_any_resource_never_slows_a_gemm(core, batch, m, n, k):
    # With tiny buffers it may, a little: docs/how-it-works.md, limits.
    rows = [core] + [{**core, name: 2 * core[name]} for name in FIELDS]
    cycles = map_shapes(batch, m, n, k, shapes_of(rows))[:, 0]
    slower = [name for name, more in zip(FIELDS, cycles[1:], strict=True) if more > cycles[0] * (1 + 1e-12)]
    assert not slower


@settings(deadline=None, max_examples=100)
@given(st.booleans().flatmap(core_shapes), st.sampled_from([1, 1, 5, 16]), DIMS, DIMS, DIMS)
def test_every_shape_is_mapped_and_the_bound_is_a_bound(core, batch, m, n, k):
    shapes = shapes_of([core])
    cycles = map_shapes(batch, m, n, k, shapes)[:, 0]
    assert np.isfinite(cycles).all()
    bounds = padded_bound_cycles(batch, m, n, k, shapes)
    assert (bounds <= cycles * (1 + 1e-12)).all()
    peak = batch * m * n * k / (shapes.num_cores * shapes.width * shapes.depth)
    assert (cycles >= peak).all(), "utilisation above 1"


@settings(deadline=None, max_examples=40)
@given(core_shapes(tiny=False), st.integers(1, 7), st.sampled_from([1, 12]), DIMS, DIMS, DIMS)
def test_one_more_core_never_slows_a_gemm(core, extra, batch, m, n, k):
    more = {**core, "num_cores": core["num_cores"] + extra}
    cycles = map_shapes(batch, m, n, k, shapes_of([core, more]))[:, 0]
    assert cycles[1] <= cycles[0] * (1 + 1e-12)
