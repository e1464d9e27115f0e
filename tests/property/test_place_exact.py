"""The placement solver against every plan there is, and against what must hold for any problem."""

import importlib.util
import math
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.place.answer import find_placement
from rephaze.place.bounds import ChipBounds
from rephaze.place.price import price_plan
from rephaze.place.simulate import Activity, formula_gap_s, replay_plan, run_1f1b
from rephaze.place.solver import Placer
from rephaze.types.cluster import Cluster
from rephaze.types.placement import (
    LayerCost,
    LayerLink,
    PlacementModel,
    PlanLimits,
    RecomputePolicy,
    SolveStatus,
)

_spec = importlib.util.spec_from_file_location("place_cases", Path(__file__).with_name("place_cases.py"))
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)

KINDS = ("line", "skips", "branching")
SEEDS = st.integers(min_value=0, max_value=2**32)
MODELS = pytest.mark.parametrize("cost_model", list(PlacementModel), ids=str)


def least_batch_s(problem, limits=None):
    placement = find_placement(problem, limits)
    if placement.best is None:
        assert placement.status is SolveStatus.INFEASIBLE
        assert len(placement.reason) > 15
        return math.inf
    assert placement.status is SolveStatus.OPTIMAL
    assert placement.best.fits
    return placement.best.batch_s


def agree(left, right):
    return left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)


@MODELS
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=350, deadline=None)
@given(seed=SEEDS)
def test_no_plan_at_all_is_faster(cost_model, kind, seed):
    problem = cases.random_problem(seed, cost_model, kind, max_layers=5)
    assert agree(least_batch_s(problem), cases.brute_force(problem))


@MODELS
@settings(max_examples=12, deadline=None)
@given(seed=SEEDS)
def test_no_plan_of_a_longer_line_is_faster(cost_model, seed):
    problem = cases.random_problem(seed, cost_model, "line", max_layers=10)
    if problem.recompute is RecomputePolicy.AUTO:
        # The product of all choices would take too long; two are still a choice in every stage.
        problem = replace(problem, recompute=RecomputePolicy.STAGE)
    assert agree(least_batch_s(problem), cases.brute_force(problem))


@MODELS
@settings(max_examples=80, deadline=None)
@given(seed=SEEDS, tp=st.sampled_from([None, 1, 2]), dp=st.sampled_from([None, 1, 2, 3]), pp=st.integers(1, 4))
def test_no_plan_under_given_choices_is_faster(cost_model, seed, tp, dp, pp):
    problem = cases.random_problem(seed, cost_model, "skips", max_layers=5)

    def accept(graph, degree, stages):
        return tp in (None, graph.tp) and dp in (None, degree) and len(stages) == pp

    want = cases.brute_force(problem, accept)
    assert agree(least_batch_s(problem, PlanLimits(tp=tp, dp=dp, pp=pp)), want)


@MODELS
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_the_order_layers_are_listed_in_does_not_matter(cost_model, kind, seed):
    problem = cases.random_problem(seed, cost_model, kind)
    num_layers = len(problem.graphs[0].layers)
    order = list(range(num_layers))
    random.Random(seed).shuffle(order)
    at = {old: new for new, old in enumerate(order)}
    graphs = tuple(
        replace(
            graph,
            layers=tuple(graph.layers[old] for old in order),
            links=tuple(replace(link, src=at[link.src], dst=at[link.dst]) for link in reversed(graph.links)),
            tied=tuple(replace(tie, layers=tuple(at[v] for v in tie.layers)) for tie in graph.tied),
        )
        for graph in problem.graphs
    )
    assert agree(least_batch_s(replace(problem, graphs=graphs)), least_batch_s(problem))


@MODELS
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_splitting_off_a_layer_of_no_cost_never_hurts(cost_model, seed):
    problem = cases.random_problem(seed, cost_model, random.Random(seed).choice(KINDS))
    graphs = []
    for graph in problem.graphs:
        new, split = len(graph.layers), seed % len(graph.layers)
        free = LayerCost(
            name="free", param_bytes=0.0, activation_bytes=0.0, forward_s=0.0, backward_s=0.0,
            is_sharded=False, input_bytes=0.0,
        )  # fmt: skip
        links = [replace(link, src=new if link.src == split else link.src) for link in graph.links]
        links.append(LayerLink(src=split, dst=new, payload_bytes=0.0))
        graphs.append(replace(graph, layers=(*graph.layers, free), links=tuple(links)))
    before, after = least_batch_s(problem), least_batch_s(replace(problem, graphs=tuple(graphs)))
    assert after <= before * (1 + 1e-9)


@MODELS
@settings(max_examples=80, deadline=None)
@given(seed=SEEDS, more=st.integers(1, 5))
def test_more_devices_never_hurt(cost_model, seed, more):
    problem = cases.random_problem(seed, cost_model, random.Random(seed).choice(KINDS))
    cluster = problem.cluster
    levels = tuple(replace(level, num_devices=level.num_devices * 8) for level in cluster.levels[-1:])
    wider = Cluster(num_devices=cluster.num_devices + more, levels=(*cluster.levels[:-1], *levels))
    same = Cluster(num_devices=cluster.num_devices, levels=wider.levels)
    before = least_batch_s(replace(problem, cluster=same))
    assert least_batch_s(replace(problem, cluster=wider)) <= before * (1 + 1e-9)


@MODELS
@settings(max_examples=80, deadline=None)
@given(seed=SEEDS)
def test_longer_layers_never_make_a_shorter_batch(cost_model, seed):
    rng = np.random.default_rng(seed)
    problem = cases.random_problem(seed, cost_model, rng.choice(KINDS))
    placer = Placer(problem)
    short, long = [], []
    for graph in problem.graphs:
        times = np.array([[layer.forward_s, layer.backward_s] for layer in graph.layers]).T
        short.append(tuple(times))
        long.append(tuple(times * rng.uniform(1.0, 1.5, size=times.shape)))
    assert placer.solve(short).batch_s <= placer.solve(long).batch_s * (1 + 1e-12)
    assert agree(placer.solve(short).batch_s, placer.solve().batch_s)


@MODELS
@settings(max_examples=120, deadline=None)
@given(seed=SEEDS)
def test_bounds_of_many_chips_are_never_above_the_optimum(cost_model, seed):
    rng = np.random.default_rng(seed)
    problem = cases.random_problem(seed, cost_model, rng.choice(KINDS))
    num_layers, num_types = len(problem.graphs[0].layers), 2
    type_of = [v % num_types for v in range(num_layers)]
    times_ct = [tuple(rng.uniform(0.0, 5.0, size=(3, num_types)) for _ in range(2)) for _ in problem.graphs]
    placer = Placer(problem)
    bound_c = ChipBounds(placer, type_of).batch_s(times_ct)
    for chip in range(3):
        times = [(forward[chip, type_of], backward[chip, type_of]) for forward, backward in times_ct]
        assert bound_c[chip] <= placer.solve(times).batch_s * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, kind=st.sampled_from(KINDS))
def test_bounds_charge_each_option_the_level_its_narrowest_pipeline_reaches(seed, kind):
    problem = cases.random_problem(seed, PlacementModel.ONE_F_ONE_B, kind)
    placer = Placer(problem)
    for prepared, _, options in ChipBounds(placer, [0] * len(problem.graphs[0].layers))._options:
        assert len(options.transfer_s_o) == len(options.depth_o)
        for depth, transfer_s in zip(options.depth_o.tolist(), options.transfer_s_o.tolist(), strict=True):
            fewest = prepared.fewest_devices(depth)
            sizes = [level.num_devices for level in problem.cluster.levels]
            level = next((at for at, size in enumerate(sizes) if size >= fewest), len(sizes) - 1)
            assert transfer_s == prepared.transfer_s_l[level]


@MODELS
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, factor=st.floats(0.5, 1.5))
def test_a_cutoff_changes_nothing_but_the_work(cost_model, seed, factor):
    placer = Placer(cases.random_problem(seed, cost_model, "skips"))
    best = placer.solve()
    if best.status is SolveStatus.INFEASIBLE:
        return
    cut = placer.solve(cutoff_s=best.batch_s * factor)
    if best.batch_s * factor > best.batch_s:
        assert (cut.status, cut.batch_s) == (SolveStatus.OPTIMAL, best.batch_s)
    else:
        assert cut.status is SolveStatus.CUTOFF
        assert cut.bound_s == best.batch_s * factor


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS)
def test_out_of_work_the_answer_is_a_plan_and_a_bound(seed):
    placer = Placer(cases.random_problem(seed, PlacementModel.ONE_F_ONE_B, "branching"))
    exact, hasty = placer.solve(), placer.solve(max_labels=1)
    assert hasty.bound_s <= exact.batch_s * (1 + 1e-12)
    if hasty.status is SolveStatus.OPTIMAL:
        assert agree(hasty.batch_s, exact.batch_s)
    elif hasty.status is SolveStatus.FEASIBLE:
        assert hasty.bound_s < hasty.batch_s
        assert hasty.batch_s >= exact.batch_s * (1 - 1e-12)
        assert price_plan(placer.problem, placer.plan(hasty)).fits
    else:
        assert exact.status is SolveStatus.INFEASIBLE


@settings(max_examples=200, deadline=None)
@given(seed=SEEDS)
def test_the_replay_stays_within_the_stated_gap(seed):
    problem = cases.random_problem(seed, PlacementModel.ONE_F_ONE_B, random.Random(seed).choice(KINDS))
    placement = find_placement(problem)
    if placement.best is None:
        return
    timeline = replay_plan(problem, placement.best.plan)
    gap_s = formula_gap_s(placement.best)
    assert abs(timeline.batch_s - placement.best.batch_s) <= gap_s + 1e-9 * placement.best.batch_s


TIMES = st.lists(st.tuples(st.floats(0.0, 9.0), st.floats(0.0, 9.0)), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(times=TIMES, count=st.integers(1, 12))
def test_any_pipeline_lies_between_the_two_ends_of_the_gap(times, count):
    loads = [forward + backward for forward, backward in times]
    events = run_1f1b([forward for forward, _ in times], [backward for _, backward in times], count)
    end = max(event.end_s for event in events)
    least = max(count * load + sum(loads[:k]) for k, load in enumerate(loads))
    assert least * (1 - 1e-12) <= end <= (count + len(loads) - 1) * max(loads) * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(
    forward=st.floats(0.1, 9.0),
    backward=st.floats(0.1, 9.0),
    stages=st.integers(1, 7),
    count=st.integers(1, 20),
)
def test_equal_stages_take_exactly_what_the_formula_says(forward, backward, stages, count):
    events = run_1f1b([forward] * stages, [backward] * stages, count)
    end = max(event.end_s for event in events)
    assert math.isclose(end, (stages + count - 1) * (forward + backward), rel_tol=1e-12)
    # And a stage never holds more microbatches than the memory rule counts.
    for k in range(stages):
        own = sorted((event for event in events if event.stage == k), key=lambda event: event.start_s)
        assert all(before.end_s <= after.start_s + 1e-9 for before, after in pairwise(own))
        in_flight = np.cumsum([1 if event.activity is Activity.FORWARD else -1 for event in own])
        assert in_flight.max() == min(stages - k, count)
