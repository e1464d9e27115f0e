"""Placement bounds of many chips against the exact placement, where transfers, widths and memory are awkward."""

import importlib.util
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.place.bounds import ChipBounds
from rephaze.place.precision import named_precision
from rephaze.place.solver import Placer
from rephaze.types.cluster import flat_cluster
from rephaze.types.placement import (
    LayerCost,
    LayerGraph,
    LayerLink,
    Optimizer,
    PlacementModel,
    PlacementProblem,
    RecomputePolicy,
)

_spec = importlib.util.spec_from_file_location("place_cases", Path(__file__).with_name("place_cases.py"))
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)

ROUNDING = 1 + 1e-9
SEEDS = st.integers(min_value=0, max_value=2**32)


def line_problem(params, *, payload_bytes, memory_bytes, num_devices, num_microbatches):
    """Layers in a line of links with a second's transfer per byte, under 1F1B, nothing sharded."""
    return PlacementProblem(
        cost_model=PlacementModel.ONE_F_ONE_B,
        cluster=flat_cluster(num_devices, 1.0),
        device_memory_bytes=memory_bytes,
        graphs=(layer_graph(params, [(v, v + 1) for v in range(len(params) - 1)], payload_bytes=payload_bytes),),
        recompute=RecomputePolicy.NONE,
        optimizer=Optimizer.SGD,
        precision=named_precision("bf16", Optimizer.SGD),
        num_microbatches=num_microbatches,
    )


def branching_problem(params, links, sharded, *, tp, memory_bytes, num_devices, num_microbatches):
    """Any acyclic layers under the paper's rules; transfers are free."""
    return PlacementProblem(
        cost_model=PlacementModel.PAPER,
        cluster=flat_cluster(num_devices, 1e12),
        device_memory_bytes=memory_bytes,
        graphs=(layer_graph(params, links, sharded=sharded, tp=tp),),
        recompute=RecomputePolicy.NONE,
        optimizer=Optimizer.SGD,
        precision=named_precision("paper", Optimizer.SGD),
        num_microbatches=num_microbatches,
    )


def layer_graph(params, links, *, payload_bytes=0.0, sharded=None, tp=1):
    layers = tuple(
        LayerCost(
            name=f"l{v}", param_bytes=size, activation_bytes=0.0, forward_s=0.0, backward_s=0.0,
            is_sharded=bool(sharded and sharded[v]), input_bytes=0.0, working_bytes=0.0,
        )
        for v, size in enumerate(params)
    )  # fmt: skip
    return LayerGraph(
        tp=tp,
        microbatch=1,
        layers=layers,
        links=tuple(LayerLink(src=u, dst=v, payload_bytes=payload_bytes) for u, v in links),
        tied=(),
    )


def bound_and_best(problem, forward_v, backward_v):
    placer = Placer(problem)
    types = list(range(len(forward_v)))
    bound_s = ChipBounds(placer, types).batch_s([(forward_v[None], backward_v[None])])[0]
    return bound_s, placer.solve([(forward_v, backward_v)]).batch_s


def test_work_far_shorter_than_the_transfer_between_two_stages():
    # Two stages by memory: each waits a second for the other and works for a thousandth.
    problem = line_problem([1.0, 1.0], payload_bytes=1.0, memory_bytes=3.0, num_devices=2, num_microbatches=4)
    bound_s, best_s = bound_and_best(problem, np.full(2, 5e-4), np.full(2, 5e-4))
    assert best_s == pytest.approx(2 * 1.001 + 3 * 1.001)
    assert bound_s == pytest.approx(best_s)


def test_fewer_replicas_leave_more_devices_to_each():
    # A narrow layer and two wide ones, at most one wide a stage. Two pipelines of 1 + 4 devices would have both
    # wide layers in one stage; a single one of 4 + 4 devices is faster, though it has more microbatches.
    problem = branching_problem(
        [0.0, 1.0, 1.0], [(0, 1), (0, 2)], [False, True, True], tp=4, memory_bytes=3.9, num_devices=10,
        num_microbatches=3,
    )  # fmt: skip
    assert not Placer(problem).shape.is_line
    forward_v = np.array([0.05, 0.25, 0.25])
    bound_s, best_s = bound_and_best(problem, forward_v, forward_v)
    assert best_s == pytest.approx(2.4)
    assert bound_s <= best_s * ROUNDING


@settings(max_examples=200, deadline=None)
@given(seed=SEEDS)
def test_slow_links(seed):
    rng = random.Random(seed)
    size = rng.randint(2, 4)
    problem = line_problem(
        [rng.choice([0.5, 1.0]) for _ in range(size)], payload_bytes=rng.uniform(0.5, 2.0),
        memory_bytes=rng.uniform(4, 12), num_devices=rng.randint(2, 6), num_microbatches=rng.randint(1, 9),
    )  # fmt: skip
    scale = 10 ** rng.uniform(-4, 0)
    times = [np.array([rng.uniform(0.0, scale) for _ in range(size)]) for _ in range(2)]
    bound_s, best_s = bound_and_best(problem, *times)
    assert bound_s <= best_s * ROUNDING


@settings(max_examples=300, deadline=None)
@given(seed=SEEDS)
def test_wide_and_narrow_layers_that_branch(seed):
    rng = random.Random(seed)
    size = rng.randint(3, 6)
    sharded = [rng.random() < 0.6 for _ in range(size)]
    problem = branching_problem(
        [rng.choice([0.1, 1.0, 2.0]) for _ in range(size)],
        [(u, v) for u in range(size) for v in range(u + 1, size) if rng.random() < 0.4],
        sharded, tp=rng.choice([2, 3, 4]), memory_bytes=rng.uniform(3, 14), num_devices=rng.randint(3, 24),
        num_microbatches=rng.randint(1, 9),
    )  # fmt: skip
    forward_v = np.array([rng.uniform(0.1, 5.0) * (1 if wide else rng.choice([0.02, 1])) for wide in sharded])
    bound_s, best_s = bound_and_best(problem, forward_v, 2 * forward_v)
    assert bound_s <= best_s * ROUNDING


@settings(max_examples=200, deadline=None)
@given(
    seed=SEEDS,
    cost_model=st.sampled_from(list(PlacementModel)),
    kind=st.sampled_from(["line", "skips", "branching"]),
)
def test_any_problem_at_any_scale_of_work(seed, cost_model, kind):
    rng = random.Random(seed)
    problem = cases.random_problem(seed, cost_model, kind)
    num_layers = len(problem.graphs[0].layers)
    type_v = np.array([rng.randrange(max(1, num_layers // 2)) for _ in range(num_layers)])
    type_v = np.unique(type_v, return_inverse=True)[1]
    scale = 10 ** rng.uniform(-4, 1)
    times = [
        tuple(np.array([[rng.uniform(0, scale) for _ in range(type_v.max() + 1)]]) for _ in range(2))
        for _ in problem.graphs
    ]
    placer = Placer(problem)
    bound_s = ChipBounds(placer, type_v.tolist()).batch_s(times)[0]
    best_s = placer.solve([(forward[0, type_v], backward[0, type_v]) for forward, backward in times]).batch_s
    assert bound_s <= best_s * ROUNDING
