"""Placement: how long the searches take once compiled. Run with ``make bench``.

The models are drawn from their shapes alone (12 h^2 parameters and 24 s h^2 FLOPs a block) on a device of
100 TFLOP/s: enough for the work of the search to be that of a real case.
"""

import resource
import subprocess
import sys

import numpy as np
import pytest

from rephaze.place.bounds import ChipBounds
from rephaze.place.precision import named_precision
from rephaze.place.solver import Placer
from rephaze.types.cluster import Cluster, NetworkLevel, flat_cluster
from rephaze.types.placement import (
    LayerCost,
    LayerGraph,
    LayerLink,
    Optimizer,
    PlacementModel,
    PlacementProblem,
    RecomputePolicy,
    SolveStatus,
    TiedWeights,
)
from rephaze.units import GIB

HIDDEN, SEQ, VOCABULARY, BLOCKS = 12288, 2048, 50304, 96


def gpt3_graph(tp, microbatch, blocks=BLOCKS, tied=True):
    tokens = microbatch * SEQ
    block_s = 24 * tokens * HIDDEN**2 / tp / 1e14 * (1 + 0.02 * tp)
    head_s = 2 * tokens * HIDDEN * VOCABULARY / tp / 1e14
    hidden_bytes = 2 * tokens * HIDDEN
    shards = tp > 1
    embed = LayerCost(
        name="embed", param_bytes=2 * HIDDEN * VOCABULARY / tp, activation_bytes=hidden_bytes, forward_s=1e-4,
        backward_s=2e-4, is_sharded=shards, input_bytes=8 * tokens,
    )  # fmt: skip
    middle = [
        LayerCost(
            name=f"block{at}", param_bytes=24 * HIDDEN**2 / tp, activation_bytes=17 * hidden_bytes / tp,
            forward_s=block_s, backward_s=2 * block_s, is_sharded=shards, input_bytes=hidden_bytes,
            working_bytes=4 * hidden_bytes / tp,
        )
        for at in range(blocks)
    ]  # fmt: skip
    head = LayerCost(
        name="head", param_bytes=1e5, activation_bytes=4 * tokens * VOCABULARY / tp + hidden_bytes,
        forward_s=head_s, backward_s=2 * head_s, is_sharded=shards, input_bytes=hidden_bytes,
    )  # fmt: skip
    layers = (embed, *middle, head)
    links = tuple(LayerLink(src=v, dst=v + 1, payload_bytes=hidden_bytes) for v in range(len(layers) - 1))
    ties = (TiedWeights(layers=(0, len(layers) - 1), param_bytes=embed.param_bytes),) if tied else ()
    return LayerGraph(tp=tp, microbatch=microbatch, layers=layers, links=links, tied=ties)


def two_towers(tp, microbatch, depth=24):
    line = gpt3_graph(tp, microbatch, blocks=2 * depth - 1, tied=False)
    last = 2 * depth
    pairs = [(v, v + 1) for v in range(depth - 1)] + [(depth + v, depth + v + 1) for v in range(depth - 1)]
    pairs += [(depth - 1, last), (last - 1, last)]
    links = tuple(LayerLink(src=u, dst=v, payload_bytes=5e7) for u, v in pairs)
    return LayerGraph(tp=tp, microbatch=microbatch, layers=line.layers, links=links)


def problem_of(graphs, num_devices, cost_model=PlacementModel.ONE_F_ONE_B, memory_gib=80):
    is_paper = cost_model is PlacementModel.PAPER
    optimizer = Optimizer.SGD if is_paper else Optimizer.ADAM
    levels = (
        NetworkLevel(num_devices=8, bytes_per_s=300e9, latency_s=1e-6),
        NetworkLevel(num_devices=num_devices, bytes_per_s=50e9, latency_s=5e-6),
    )
    return PlacementProblem(
        cost_model=cost_model,
        cluster=flat_cluster(num_devices, 4 * GIB)
        if is_paper
        else Cluster(num_devices=num_devices, levels=levels),
        device_memory_bytes=memory_gib * GIB,
        graphs=tuple(graphs),
        recompute=RecomputePolicy.STAGE if is_paper else RecomputePolicy.AUTO,
        optimizer=optimizer,
        precision=named_precision("paper" if is_paper else "mixed", optimizer),
        global_batch=4096,
        hbm_bytes_per_s=None if is_paper else 1.2e12,
    )


DEGREES = (1, 2, 4, 8)


@pytest.mark.parametrize("cost_model", list(PlacementModel), ids=str)
@pytest.mark.parametrize("num_devices", [1024, 16384])
def test_gpt3_four_degrees(benchmark, cost_model, num_devices):
    graphs = [gpt3_graph(tp, 1, tied=cost_model is not PlacementModel.PAPER) for tp in DEGREES]
    placer = Placer(problem_of(graphs, num_devices, cost_model))
    placer.solve()
    assert benchmark(placer.solve).status is SolveStatus.OPTIMAL


@pytest.mark.parametrize("cost_model", list(PlacementModel), ids=str)
def test_gpt3_from_scratch(benchmark, cost_model):
    graphs = [gpt3_graph(tp, 1, tied=cost_model is not PlacementModel.PAPER) for tp in DEGREES]
    problem = problem_of(graphs, 1024, cost_model)
    assert benchmark(lambda: Placer(problem).solve()).status is SolveStatus.OPTIMAL


def test_gpt3_all_microbatches(benchmark):
    graphs = [gpt3_graph(tp, size) for tp in DEGREES for size in (1, 2, 4, 8, 16, 32, 64)]
    placer = Placer(problem_of(graphs, 1024))
    placer.solve()
    assert benchmark(placer.solve).status is SolveStatus.OPTIMAL


def test_gpt3_below_a_cutoff(benchmark):
    placer = Placer(problem_of([gpt3_graph(tp, 1) for tp in DEGREES], 1024))
    cutoff_s = placer.solve().batch_s * 0.99
    assert benchmark(placer.solve, cutoff_s=cutoff_s).status is SolveStatus.CUTOFF


@pytest.mark.parametrize("cost_model", list(PlacementModel), ids=str)
def test_two_towers_of_24(benchmark, cost_model):
    problem = problem_of([two_towers(tp, 1) for tp in (1, 4)], 256, cost_model)
    Placer(problem).solve()
    solution = benchmark.pedantic(lambda: Placer(problem).solve(), rounds=3)
    assert solution.status is SolveStatus.OPTIMAL


def test_bounds_of_many_chips(benchmark):
    problem = problem_of([gpt3_graph(tp, size) for tp in DEGREES for size in (1, 2, 4, 8)], 1024)
    bounds = ChipBounds(Placer(problem), [0] + [1] * BLOCKS + [2])
    rng = np.random.default_rng(0)
    slower_ct = rng.uniform(0.5, 8.0, size=(30_000, 3))
    times = [
        tuple(
            slower_ct * [getattr(graph.layers[v], name) for v in (0, 1, BLOCKS + 1)]
            for name in ("forward_s", "backward_s")
        )
        for graph in problem.graphs
    ]
    bounds.batch_s(times)
    assert np.isfinite(benchmark(bounds.batch_s, times)).all()


def test_peak_memory_of_a_process_stays_below_200_mb():
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 200


def main():
    """Solve the large cases and print the most memory the process ever held, in MB."""
    for cost_model in PlacementModel:
        Placer(problem_of([gpt3_graph(tp, 1) for tp in DEGREES], 16384, cost_model)).solve()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
