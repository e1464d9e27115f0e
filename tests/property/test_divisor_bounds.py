"""Bounds of model ``paper`` against its mapper: never above, and the array's part as tight as they say."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.estimate.estimate_model import PAPER
from rephaze.estimate.gemm_paper.mapper import DivisorProblem, map_divisors

powers = st.integers(0, 8).map(lambda exponent: 2**exponent)
sizes = st.one_of(powers, st.integers(1, 400), st.sampled_from([29 * 8, 1600, 768, 4096]))
energies = st.floats(0.01, 600.0)


@given(
    rows=sizes, features=sizes, reduction=sizes, cores=powers, width=powers, depth=powers,
    scratchpad=st.sampled_from([1.0, 8.0, 100.0, 512.0, 4096.0, 131072.0]),
    buffer=st.sampled_from([3.0, 64.0, 5000.0, 2.0**20, 2.0**24]),
    pj=st.tuples(energies, energies, energies, energies),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_no_mapping_is_faster_than_its_bound(
    rows, features, reduction, cores, width, depth, scratchpad, buffer, pj
):
    found = map_divisors(
        DivisorProblem(
            rows_n=rows, features_k=features, reduction_c=reduction, num_tensor_cores=cores, width=width,
            depth=depth, scratchpad_words=scratchpad, global_buffer_words=buffer, register_pj=pj[0],
            scratchpad_pj=pj[1], global_buffer_pj=pj[2], dram_pj=pj[3],
        ),
        PAPER,
    )  # fmt: skip
    assert found.bound_cycles <= found.cycles * (1 + 1e-12)


def test_where_the_array_binds_the_bound_is_the_answer():
    # Four 128x256 arrays share 64 words a cycle: what their tiles let through decides.
    found = map_divisors(
        DivisorProblem(
            rows_n=4096, features_k=1600, reduction_c=6400, num_tensor_cores=4, width=128, depth=256,
            scratchpad_words=262144.0, global_buffer_words=2.0**24, register_pj=0.22, scratchpad_pj=4.7,
            global_buffer_pj=55.0, dram_pj=128.0,
        ),
        PAPER,
    )  # fmt: skip
    assert found.bound_cycles > 4096 * 1600 * 6400 / (4 * 128 * 256)
    assert found.cycles <= found.bound_cycles * (1 + 1e-9)
