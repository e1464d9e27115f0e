"""GEMM estimates: every tensor-core shape of the paper's space for every GEMM of GPT2-XL, and their bounds.

Targets on two idle cores: mapped in under 10 s, bounds in under 0.2 s, memory under 2 GB.
"""

import resource
from dataclasses import replace

import numpy as np
import pytest

from rephaze.estimate.costs import chip_rates
from rephaze.estimate.estimate_model import DEFAULT, PAPER
from rephaze.estimate.gemm_costs import GemmColumns, GemmMemo
from rephaze.estimate.gemm_paper.mapper import DivisorProblem, map_divisors
from rephaze.hardware.energy import access_energy
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.space import enumerate_designs
from rephaze.hardware.template import array_feed_bytes_per_cycle, buffer_bytes_per_cycle, load_template
from rephaze.types.graph import OpKind
from rephaze.types.space import AreaModel
from rephaze.workload import fuse_graph, load_model

MICROBATCH = 4
GIB = 2**30


@pytest.fixture(scope="module")
def columns():
    chips = enumerate_designs(load_scenario("paper").space).chips
    fields = np.stack(
        [chips.num_tensor_cores, chips.tensor_width, chips.tensor_depth, chips.global_buffer_bytes], axis=1
    )
    _, first = np.unique(fields, axis=0, return_index=True)
    distinct = _with_default_rates(chips.take(first))
    assert len(distinct) == 4186
    rates = chip_rates(distinct, access_energy(distinct, AreaModel.CORRECTED))
    return lambda: GemmColumns(rates, distinct.num_tensor_cores, DEFAULT, GemmMemo())


def _with_default_rates(chips):
    """The paper's shapes with the bandwidths of the default template and TPUv4's HBM."""
    template = load_template("default")
    return replace(
        chips,
        scratchpad_bytes_per_cycle=array_feed_bytes_per_cycle(chips.tensor_width, chips.tensor_depth),
        global_buffer_bytes_per_cycle=buffer_bytes_per_cycle(chips.global_buffer_bytes, template),
        global_buffer_multicast=np.full(len(chips), 8),
        hbm_bytes_per_s=np.full(len(chips), 1.2e12),
    )


def distinct_gemms(attention):
    graph = fuse_graph(load_model("gpt2-xl", attention))
    found = {
        tuple(size.at(MICROBATCH) for size in (op.gemm.batch, op.gemm.m, op.gemm.n, op.gemm.k))
        for layer in graph.layer_types
        for passed in (layer.forward, layer.backward)
        for op in passed.ops
        if op.kind is OpKind.GEMM
    }
    return sorted(found)


@pytest.mark.parametrize("attention", ["fused", "eager"])
def test_map_every_shape(benchmark, columns, attention):
    gemms = distinct_gemms(attention)
    columns().exact((1, 64, 64, 64))

    def run():
        fresh = columns()
        return [fresh.exact(dims) for dims in gemms]

    costs = benchmark.pedantic(run, rounds=1, iterations=1)
    assert all(np.isfinite(cost.cycles_c).all() for cost in costs)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < 2 * GIB


def test_bound_every_shape(benchmark, columns):
    gemms = distinct_gemms("eager")
    fresh = columns()
    costs = benchmark(lambda: [fresh.bound(dims) for dims in gemms])
    assert len(costs) == len(gemms)


def test_map_one_gemm_as_the_paper_does(benchmark):
    problem = DivisorProblem(
        rows_n=2048,
        features_k=6144,
        reduction_c=12288,
        num_tensor_cores=8,
        width=128,
        depth=128,
        scratchpad_words=262144,
        global_buffer_words=2**27,
        register_pj=0.1,
        scratchpad_pj=8.6,
        global_buffer_pj=137.0,
        dram_pj=512.0,
    )
    assert benchmark(lambda: map_divisors(problem, PAPER)).is_feasible
