"""GEMMs on known chips: what published parts make one expect."""

from dataclasses import replace

import numpy as np
import pytest

from rephaze.estimate.gemm_default.mapper import PaddedProblem, map_padded

MIB = 2**20

TPUV4 = PaddedProblem(
    batch=1,
    m=4096,
    n=4096,
    k=4096,
    num_tensor_cores=8,
    width=128,
    depth=128,
    scratchpad_bytes=16 * 128 * 128,
    global_buffer_bytes=128 * MIB,
    scratchpad_bytes_per_cycle=4 * 128 + 8 * 128,
    global_buffer_bytes_per_cycle=32 * 128,
    hbm_bytes_per_cycle=1.2e12 / 1.05e9,
    global_buffer_multicast=8,
)


def test_eight_cores_are_nearly_eight_times_as_fast_as_one():
    one = map_padded(replace(TPUV4, num_tensor_cores=1)).cycles
    assert 7.8 <= one / map_padded(TPUV4).cycles <= 8.0


@pytest.mark.parametrize(
    ("m", "n", "k"), [(2048, 36864, 12288), (2048, 12288, 12288), (2048, 49152, 12288), (2048, 12288, 49152)]
)
def test_tpuv4_reaches_half_to_all_of_its_peak_on_gpt3_layers(m, n, k):
    cycles = map_padded(replace(TPUV4, m=m, n=n, k=k)).cycles
    flops_per_s = 2.0 * m * n * k / (cycles / 1.05e9)
    assert 0.5 * 275e12 <= flops_per_s <= 275.3e12


def test_a_prime_vocabulary_does_not_ruin_the_head():
    even = map_padded(replace(TPUV4, n=50176, k=1600)).cycles
    odd = map_padded(replace(TPUV4, n=50257, k=1600)).cycles
    assert odd <= 1.02 * even


def test_a_thin_product_is_bound_by_hbm():
    found = map_padded(replace(TPUV4, m=1))
    terms = found.mapping["cycles"]
    assert max(terms, key=terms.get) == "hbm"
    assert found.cycles == pytest.approx(terms["hbm"])


def test_no_single_resource_decides_every_gemm():
    binding = set()
    for m, cores, buffer, hbm in [
        (4096, 8, 128, 1143.0),
        (4, 8, 128, 1143.0),
        (4096, 64, 4, 1143.0),
        (512, 64, 128, 100.0),
    ]:
        problem = replace(
            TPUV4,
            m=m,
            num_tensor_cores=cores,
            global_buffer_bytes=buffer * MIB,
            global_buffer_bytes_per_cycle=32.0 * buffer,
            hbm_bytes_per_cycle=hbm,
        )
        terms = map_padded(problem).mapping["cycles"]
        binding.add(max(terms, key=terms.get))
    assert binding >= {"compute", "hbm", "global_buffer"}


def test_results_do_not_depend_on_the_number_of_threads():
    import numba

    from rephaze.estimate.gemm_default.mapper import map_shapes

    shapes = TPUV4.shape()
    many = type(shapes)(**{name: np.repeat(getattr(shapes, name), 130) for name in shapes.__dataclass_fields__})
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        alone = map_shapes(1, 300, 500, 700, many)
    finally:
        numba.set_num_threads(before)
    assert np.array_equal(alone, map_shapes(1, 300, 500, 700, many))
