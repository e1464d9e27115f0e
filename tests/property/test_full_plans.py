"""Cost model ``full``: the solver against every plan there is, and what must hold of prices (docs/plans.md)."""

import importlib.util
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.place.full.groups import Factor, Network, group_of
from rephaze.place.full.lines import is_line
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.solver import FullPlacer
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.full import DeviceOrder, PipelineSchedule, PlanFamily, Sharding
from rephaze.types.placement import SolveStatus

_spec = importlib.util.spec_from_file_location("full_cases", Path(__file__).with_name("full_cases.py"))
full_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(full_cases)

SAME = 1e-9
SEEDS = st.integers(0, 10**9)


def solved(problem):
    found = FullPlacer(problem).solve()
    assert found.status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE)
    return found.best.batch_s if found.best else math.inf


@given(seed=SEEDS)
@settings(max_examples=150, deadline=None)
def test_no_plan_beats_the_solver(seed):
    problem = full_cases.random_problem(seed)
    best = full_cases.best_by_brute_force(problem)
    found = FullPlacer(problem).solve()
    if best is None:
        assert found.status is SolveStatus.INFEASIBLE
        return
    assert found.status is SolveStatus.OPTIMAL
    assert found.best.fits
    assert found.best.batch_s == pytest.approx(best.batch_s, rel=SAME)
    assert found.bound_s <= best.batch_s * (1 + SAME)


PARTS, PROBLEMS_OF_A_PART = 20, 100


@pytest.mark.parametrize("part", range(PARTS))
def test_no_plan_beats_the_solver_in_two_thousand_problems(part):
    for problem in full_cases.tried_problems(100_000 * part, PROBLEMS_OF_A_PART):
        best = full_cases.best_by_brute_force(problem)
        found = FullPlacer(problem).solve()
        assert found.scope == ""
        if best is None:
            assert found.status is SolveStatus.INFEASIBLE, problem
            continue
        assert found.status is SolveStatus.OPTIMAL, problem
        assert found.best.fits
        assert found.best.batch_s == pytest.approx(best.batch_s, rel=SAME), problem


def test_a_plan_of_one_stage_is_called_1f1b_where_that_may_be_chosen():
    both = (PipelineSchedule.ZERO_BUBBLE, PipelineSchedule.ONE_F_ONE_B)
    num_single = 0
    for problem in full_cases.tried_problems(3_000, 120):
        problem = replace(problem, options=replace(problem.options, schedule=both))
        best = FullPlacer(problem).solve().best
        if best is not None and best.plan.pp == 1:
            num_single += 1
            assert best.plan.schedule is PipelineSchedule.ONE_F_ONE_B
            assert best.batch_s == pytest.approx(full_cases.best_by_brute_force(problem).batch_s, rel=SAME)
    assert num_single > 20


def test_every_decision_occurs_in_the_random_cases():
    seen = Counter()
    for problem in full_cases.tried_problems(0, 500):
        best = FullPlacer(problem).solve().best
        if best is None:
            seen.update(["nothing fits"])
            continue
        plan = best.plan
        seen.update([plan.sharding, plan.schedule])
        if plan.dp > 1 and plan.pp > 1:
            seen.update([plan.order])
        seen.update(
            name
            for name, holds in (
                ("tp", plan.tp > 1),
                ("cp", plan.cp > 1),
                ("ep", plan.ep > 1),
                ("etp", plan.etp > 1),
                ("dp", plan.dp > 1),
                ("pp", plan.pp > 1),
                ("some shards", 1 < plan.shard_group < plan.num_replicas),
                ("reshard", plan.reshard),
                ("replay", any(stage.keep for stage in plan.stages)),
                ("chunks of several layers", plan.chunks > 1 and any(len(s.layers) > 1 for s in plan.stages)),
                ("tied", best.time.tied_s > 0),
                ("further links", any(len(graph.links) >= len(graph.layers) > 1 for graph in problem.graphs)),
                ("branches", not all(is_line(graph) for graph in problem.graphs)),
            )
            if holds
        )
    wanted = [*Sharding, *PipelineSchedule, *DeviceOrder]
    wanted += ["tp", "cp", "ep", "etp", "dp", "pp", "some shards", "reshard", "replay", "nothing fits"]
    wanted += ["chunks of several layers", "tied", "further links", "branches"]
    assert not [one for one in wanted if not seen[one]]


@given(seed=SEEDS, what=st.sampled_from(["memory", "links", "latency", "layers", "hbm"]))
@settings(max_examples=120, deadline=None)
def test_more_of_anything_never_gives_a_slower_optimum(seed, what):
    problem = full_cases.random_problem(seed)
    cluster = problem.cluster
    if what == "memory":
        more = replace(problem, device_memory_bytes=2 * problem.device_memory_bytes)
    elif what == "hbm":
        more = replace(problem, hbm_bytes_per_s=None)
    elif what == "layers":
        shorter = [
            replace(graph, layers=tuple(replace(one, forward_s=0.5 * one.forward_s) for one in graph.layers))
            for graph in problem.graphs
        ]
        more = replace(problem, graphs=tuple(shorter))
    else:
        field, factor = ("bytes_per_s", 2.0) if what == "links" else ("latency_s", 0.5)
        at = seed % len(cluster.levels)
        levels = [
            replace(level, **{field: getattr(level, field) * factor}) if number <= at else level
            for number, level in enumerate(cluster.levels)
        ]
        more = replace(problem, cluster=Cluster(num_devices=cluster.num_devices, levels=tuple(levels)))
    assert solved(more) <= solved(problem) * (1 + SAME)


@given(seed=SEEDS)
@settings(max_examples=80, deadline=None)
def test_larger_lists_never_give_a_slower_optimum(seed):
    problem = full_cases.random_problem(seed, family=PlanFamily.ANY)
    options = problem.options
    wider = replace(options, sharding=tuple(Sharding), reshard=(False, True), order=tuple(DeviceOrder))
    wider = replace(wider, schedule=tuple(PipelineSchedule), chunks=(2, 3))
    assert solved(replace(problem, options=wider)) <= solved(problem) * (1 + SAME)
    overlapped = replace(problem, options=replace(options, overlap=True))
    apart = replace(problem, options=replace(options, overlap=False))
    assert solved(overlapped) <= solved(apart) * (1 + SAME)


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_launchable_plan_is_one_of_the_larger_family(seed):
    by_family = {family: solved(full_cases.random_problem(seed, family=family)) for family in PlanFamily}
    assert by_family[PlanFamily.ANY] <= by_family[PlanFamily.EXACT] * (1 + SAME)
    for family in (PlanFamily.MEGATRON, PlanFamily.TORCHTITAN):
        assert by_family[PlanFamily.EXACT] <= by_family[family] * (1 + SAME)
    assert by_family[PlanFamily.TORCHTITAN] <= by_family[PlanFamily.MAXTEXT] * (1 + SAME)


@given(members=st.integers(2, 64), num_bytes=st.floats(1, 1e10), rate=st.floats(1e9, 1e12))
@settings(max_examples=100, deadline=None)
def test_one_level_is_a_ring(members, num_bytes, rate):
    level = NetworkLevel(num_devices=64, bytes_per_s=rate, latency_s=1e-6)
    network = Network(Cluster(num_devices=64, levels=(level,)), 64)
    ring_s = 2 * (members - 1) / members * num_bytes / rate + 2 * (members - 1) * 1e-6
    assert network.all_reduce_s(num_bytes, group_of((members, 1))) == pytest.approx(ring_s, rel=1e-12)


@given(sizes=st.sampled_from([(2, 8), (4, 8), (2, 4, 8)]), stride=st.sampled_from([1, 2, 4]))
@settings(max_examples=30, deadline=None)
def test_levels_of_one_speed_are_no_dearer_than_one(sizes, stride):
    def network(levels):
        made = tuple(NetworkLevel(num_devices=size, bytes_per_s=1e11, latency_s=0.0) for size in levels)
        return Network(Cluster(num_devices=8, levels=made), 8)

    group = (Factor(8 // stride, stride),)
    flat_s = network((8,)).reduce_scatter_s(1e9, group)
    assert network(sizes).reduce_scatter_s(1e9, group) <= flat_s * (1 + 1e-12)


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_sharding_divides_state_and_never_adds_memory_with_more_shards(seed):
    problem = full_cases.random_problem(seed, family=PlanFamily.ANY)
    for price in full_cases.all_prices(problem):
        plan = price.plan
        graph = next(one for one in problem.graphs if (one.tp, one.cp, one.ep) == (plan.tp, plan.cp, plan.ep))
        if plan.sharding is not Sharding.OPTIMIZER or any(layer.expert_param_bytes for layer in graph.layers):
            continue
        whole = price_full_plan(
            problem, graph, replace(plan, sharding=Sharding.NONE, shard_group=1, reshard=False)
        )
        for cut, alone in zip(price.devices, whole.devices, strict=True):
            assert cut.state_bytes == pytest.approx(alone.state_bytes / plan.shard_group, rel=1e-12)
        return
