"""Cost model ``full``, graphs that are lines: lists, bounds and cuts of compiled code against slower ways."""

import importlib.util
import itertools
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.place.full import line_items as codes
from rephaze.place.full.branching import BranchingSolver
from rephaze.place.full.groups import Network, PlanGroups
from rephaze.place.full.layout_cuts import GRAPH, ITEM, LAYOUT
from rephaze.place.full.layouts import layouts
from rephaze.place.full.line_layouts import Wanted, graph_totals
from rephaze.place.full.line_search import LineSearch, Order, _desk_for, bound_layouts
from rephaze.place.full.line_solver import SCHEDULES, LineSolver, levels_of
from rephaze.place.full.lines import is_line, times_of
from rephaze.place.full.link import gathered_passes
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.rates import Degrees, Sizes, least_expert_rates, least_rates
from rephaze.place.full.solver import FullPlacer
from rephaze.place.full.times import recorded_times
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.full import DeviceOrder, FullPlan, FullStage, PipelineSchedule, PlanFamily, Sharding
from rephaze.types.placement import SolveStatus

_spec = importlib.util.spec_from_file_location("full_cases", Path(__file__).with_name("full_cases.py"))
full_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(full_cases)

SAME = 1e-9
SEEDS = st.integers(0, 10**9)


def listed(problem, graph):
    """Every layout of a graph that compiled code lists if memory is no matter, with its bound."""
    solver = LineSolver(replace(problem, device_memory_bytes=1e30), [graph])
    times = times_of([recorded_times(graph)])
    search = LineSearch(solver.lines, solver.tables, times.kept_bytes_vk.shape[1], solver.choices.chunks)
    state, listing = search._state, _desk_for(search._sizes).listing
    state.best_s[0] = math.inf
    order = Order(np.zeros(1, dtype=np.int64), np.zeros(1), 0)
    totals = graph_totals(solver.lines, times)
    found, _ = bound_layouts(solver.lines, times, totals, solver.tables, solver.choices, order, state, listing)
    names = {number: schedule for schedule, number in SCHEDULES.items()}
    bounds = {}
    for row, bound_s in zip(listing.row_yq[:found].tolist(), listing.bound_s_y[:found].tolist(), strict=True):
        assert row[GRAPH] == 0
        item, layout = row[ITEM:LAYOUT], row[LAYOUT:]
        key = (
            item[codes.DP],
            item[codes.PP],
            DeviceOrder.DP_OUTER if layout[codes.IS_DP_OUTER] else DeviceOrder.PP_OUTER,
            tuple(Sharding)[layout[codes.SHARDING]],
            layout[codes.SHARD_GROUP],
            bool(item[codes.GATHERS]),
            names[item[codes.SCHEDULE]],
            item[codes.CHUNKS],
        )
        assert key not in bounds
        bounds[key] = bound_s
    return bounds


def key_of(one):
    return (one.dp, one.pp, one.order, one.sharding, one.shard_group, one.reshard, one.schedule, one.chunks)


def test_compiled_code_lists_all_layouts_but_those_another_is_never_worse_than():
    for problem in full_cases.tried_problems(5_000_000, 200):
        has_gradients = Sharding.GRADIENTS in problem.options.sharding
        for graph in filter(is_line, problem.graphs):
            wanted = {key_of(one) for one in layouts(problem, graph)}
            if has_gradients and problem.options.family in (PlanFamily.ANY, PlanFamily.EXACT):
                wanted = {key for key in wanted if key[3] is not Sharding.WEIGHTS or key[5]}
            assert set(listed(problem, graph)) == wanted


@pytest.mark.parametrize("part", range(4))
def test_no_plan_is_faster_than_the_bound_of_its_layout(part):
    """Whether or not it fits: bounds of layouts know nothing of memory."""
    num_compared = 0
    for problem in full_cases.tried_problems(6_000_000 + 100_000 * part, 100):
        for graph in filter(is_line, problem.graphs):
            bounds = listed(problem, graph)
            for price in full_cases.all_prices(replace(problem, graphs=(graph,))):
                bound_s = bounds.get(key_of(price.plan))
                if bound_s is not None:
                    num_compared += 1
                    assert bound_s <= price.batch_s, price.plan
    assert num_compared > 3_000


def grown(seed):
    """A problem too large for brute force."""
    rng = random.Random(seed)
    problem = full_cases.random_problem(seed, most_layers=12)
    sizes = rng.choice([(8, 32), (4, 16, 64), (8, 48), (16,)])
    levels = tuple(
        NetworkLevel(num_devices=size, bytes_per_s=4e11 / 4**at, latency_s=1e-6 * 3**at * rng.random())
        for at, size in enumerate(sizes)
    )
    schedules = [one for one in problem.options.schedule if one is not PipelineSchedule.INTERLEAVED]
    options = replace(problem.options, schedule=tuple(schedules or [PipelineSchedule.ONE_F_ONE_B]))
    graphs = []
    for graph in problem.graphs:
        layers = list(graph.layers)
        if rng.random() < 0.5:  # equal layers, but for the first and the last
            layers[1:-1] = [replace(layers[1], name=layer.name) for layer in layers[1:-1]]
        graphs.append(replace(graph, layers=tuple(layers)))
    return replace(
        problem,
        cluster=Cluster(num_devices=sizes[-1], levels=levels),
        graphs=tuple(graphs),
        global_batch=rng.choice([8, 16, 24, 64]),
        device_memory_bytes=10 ** rng.uniform(8.2, 9.8),
        options=options,
    )


def test_lines_are_solved_as_graphs_that_branch_are():
    num_solved = 0
    for seed in range(300):
        problem = grown(seed)
        if not all(is_line(graph) for graph in problem.graphs):
            continue
        found = FullPlacer(problem).solve()
        best_s = math.inf
        for graph in problem.graphs:
            answer = BranchingSolver(problem, graph).solve(best_s)
            assert answer.unsolved_s == math.inf
            best_s = answer.best.batch_s if answer.best else best_s
        if math.isinf(best_s):
            assert found.status is SolveStatus.INFEASIBLE
            continue
        assert found.status is SolveStatus.OPTIMAL
        assert found.best.batch_s == pytest.approx(best_s, rel=SAME), seed
        num_solved += 1
    assert num_solved > 100


def equal_cuts(num_blocks, num_chunks):
    """Blocks of each chunk: as many each, the first and the last may have fewer."""
    for each in range(1, num_blocks + 1):
        for first in range(each + 1):
            last = num_blocks - first - each * (num_chunks - 2)
            if 0 <= last <= each:
                yield [first, *[each] * (num_chunks - 2), last]


def blocks_problem(seed, num_blocks, schedule, chunks=()):
    """An embedding, equal blocks and a head on two devices; memory is short."""
    rng = random.Random(seed)
    problem = replace(full_cases.random_problem(7), global_batch=8)
    graph = full_cases.random_graph(rng, num_blocks + 2, 1, 1, 1, 1, 1, has_links_only_in_line=True, scale=0.2)
    first, block, last = graph.layers[0], graph.layers[1], graph.layers[-1]
    # Two points of keep: all choices of all chunks can be looked at.
    layers = [replace(one, keep=(one.keep * 2)[:2], is_block=False) for one in (first, last)]
    blocks = [
        replace(block, name=f"block{at}", keep=(block.keep * 2)[:2], is_block=True) for at in range(num_blocks)
    ]
    graph = replace(graph, layers=(layers[0], *blocks, layers[1]), links=graph.links[: num_blocks + 1], tied=())
    options = replace(
        problem.options, sharding=(Sharding.NONE,), schedule=(schedule,), chunks=chunks, family=PlanFamily.ANY
    )
    cluster = Cluster(num_devices=2, levels=(NetworkLevel(num_devices=2, bytes_per_s=1e11, latency_s=1e-6),))
    problem = replace(problem, cluster=cluster, graphs=(graph,), options=options, device_memory_bytes=1e12)
    whole = FullPlacer(problem).solve().best
    short = max(device.total_bytes for device in whole.devices) * rng.uniform(0.5, 1.0)
    return replace(problem, device_memory_bytes=short)


def best_of_equal_cuts(problem, num_chunks, *, pp, chunks, schedule):
    graph, best_s = problem.graphs[0], math.inf
    plan = FullPlan(
        tp=1, cp=1, ep=1, etp=1, sp=False, dp=1, microbatch=1, order=DeviceOrder.DP_OUTER, sharding=Sharding.NONE,
        shard_group=1, reshard=False, schedule=schedule, chunks=chunks, stages=(),
    )  # fmt: skip
    assert pp * chunks == num_chunks
    for counts in equal_cuts(len(graph.layers) - 2, num_chunks):
        ends = list(itertools.accumulate([counts[0] + 1, *counts[1:-1], counts[-1] + 1]))
        stages = [tuple(range(a, b)) for a, b in itertools.pairwise([0, *ends])]
        for keep in itertools.product(range(2), repeat=num_chunks):
            chosen = tuple(FullStage(layers=s, keep=k) for s, k in zip(stages, keep, strict=True))
            price = price_full_plan(problem, graph, replace(plan, stages=chosen))
            if price.fits:
                best_s = min(best_s, price.batch_s)
    return best_s


@pytest.mark.parametrize("seed", range(6))
def test_of_too_many_interleaved_cuts_the_best_with_equal_blocks_is_found_and_said_to_be(seed):
    problem = blocks_problem(seed, 32, PipelineSchedule.INTERLEAVED, chunks=(3,))
    found = FullPlacer(problem).solve()
    best_s = best_of_equal_cuts(problem, 6, pp=2, chunks=3, schedule=PipelineSchedule.INTERLEAVED)
    assert "equal numbers of repeated blocks" in found.scope
    if math.isinf(best_s):
        assert (found.status, found.best) == (SolveStatus.CUTOFF, None)
        assert found.bound_s < math.inf
        return
    assert found.status is SolveStatus.OPTIMAL
    assert found.best.batch_s == pytest.approx(best_s, rel=SAME)


@pytest.mark.parametrize("schedule", [PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.ZERO_BUBBLE])
def test_with_too_many_labels_cuts_with_equal_blocks_are_looked_at(schedule):
    problem = blocks_problem(3, 9, schedule)
    placer = FullPlacer(problem)
    solver = placer._lines
    solver.choices = solver.choices._replace(wanted=Wanted(dp=1, pp=2))
    exact = placer.solve()
    solver._searches[2] = LineSearch(solver.lines, solver.tables, 2, solver.choices.chunks, max_labels=1)
    found = placer.solve()
    family_s = best_of_equal_cuts(problem, 2, pp=2, chunks=1, schedule=schedule)
    assert exact.scope == ""
    assert (exact.best.plan.dp, exact.best.plan.pp) == (1, 2)
    assert found.best.fits
    assert exact.best.batch_s * (1 - SAME) <= found.best.batch_s <= family_s * (1 + SAME)
    assert found.status is SolveStatus.OPTIMAL
    if found.best.batch_s > exact.best.batch_s * (1 + SAME):
        assert "equal numbers of repeated blocks" in found.scope


LISTS = st.integers(1, 6).flatmap(
    lambda size: st.tuples(*[st.lists(st.floats(0, 10), min_size=size, max_size=size)] * 4)
)


@given(lists=LISTS)
@settings(max_examples=300, deadline=None)
def test_gathered_passes_in_closed_form(lists):
    """The formulas of the proof against the link served event by event."""
    f, c, g, r = lists
    last = len(f) - 1
    passes = gathered_passes(f, c, g, r)
    forward_s = g[0] + sum(max(f[i], g[i + 1]) for i in range(last)) + f[last]
    after = [*r[1:], 0.0]  # of the layer after each; the last has none
    backward_s = g[last] + sum(max(c[i], after[i] + g[i - 1]) for i in range(last, 0, -1)) + c[0]
    assert passes.forward_s == pytest.approx(forward_s)
    assert passes.backward_s == pytest.approx(backward_s)
    assert passes.tail_s == pytest.approx(r[0] + max(0.0, after[0] - c[0]), abs=1e-9)


@given(seed=SEEDS)
@settings(max_examples=200, deadline=None)
def test_compiled_rates_are_those_of_the_network(seed):
    rng = random.Random(seed)
    sizes = rng.choice([(2, 8), (4, 8, 64), (8, 32), (3, 12), (16,)])
    levels = tuple(
        NetworkLevel(num_devices=size, bytes_per_s=10 ** rng.uniform(9, 12), latency_s=rng.uniform(0, 1e-5))
        for size in sizes
    )
    cluster = Cluster(num_devices=sizes[-1], levels=levels)
    tp, cp, dp = rng.choice([1, 2, 3]), rng.choice([1, 2, 4]), rng.choice([2, 3, 4, 8])
    experts = rng.choice([1, tp, tp * cp, tp * cp * dp])
    degrees = Degrees(np.array([dp]), np.array([0, 1]), np.array([dp]))
    first_row = np.array([[0, 1]])
    found = least_rates(levels_of(cluster), degrees, Sizes(True, False), np.array([[tp, cp]]), first_row, 2.0)[0]
    kinds = np.array([[tp, cp, experts, 0]])
    expert = least_expert_rates(levels_of(cluster), degrees, kinds, first_row, np.array([0, 1]))[0]
    groups = PlanGroups(
        tp=tp, cp=cp, dp=dp, pp=1, order=DeviceOrder.DP_OUTER, expert_devices=experts, shard_group=cp * dp
    )
    network, num_bytes = Network(cluster, tp * cp * dp), 1e9
    shard_s = network.reduce_scatter_s(num_bytes, groups.shards)
    expert_s = network.reduce_scatter_s(num_bytes, groups.expert_replicas)
    assert found[2] * num_bytes + found[3] == pytest.approx(network.all_reduce_s(2 * num_bytes, groups.gradients))
    assert found[4] * num_bytes + found[5] == pytest.approx(network.reduce_scatter_s(2 * num_bytes, groups.shards))
    assert found[6] * num_bytes + found[7] == pytest.approx(shard_s)
    assert expert[0] * num_bytes + expert[1] == pytest.approx(expert_s)
