"""What a box may span of a system: more links or chips never slow the best plan, larger nodes may."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.hardware.system import system_cluster
from rephaze.place.full.layouts import WHOLE_CLUSTER
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.full import PlanFamily
from rephaze.types.system import SPEED_RULES, SpeedRule, SystemChoice
from tests.property import full_cases
from tests.property.test_full_plans import solved

SAME = 1e-9
SEEDS = st.integers(0, 10**6)
NODES = Cluster(
    num_devices=12,
    levels=(
        NetworkLevel(num_devices=4, bytes_per_s=3e11, latency_s=1e-6),
        NetworkLevel(num_devices=12, bytes_per_s=5e10, latency_s=5e-6),
    ),
)
MAY_IDLE = [family for family in PlanFamily if family not in WHOLE_CLUSTER]


def batch_s(problem, **choice):
    return solved(replace(problem, cluster=system_cluster(NODES, SystemChoice(**choice))))


@given(
    seed=SEEDS,
    family=st.sampled_from(MAY_IDLE),
    sizes=st.tuples(st.integers(1, 12), st.integers(1, 12)).map(sorted),
    node_size=st.sampled_from([None, 1, 2, 3, 4]),
)
@settings(max_examples=120, deadline=None)
def test_more_chips_are_never_slower_where_some_may_idle(seed, family, sizes, node_size):
    problem = full_cases.random_problem(seed, family=family, most_layers=3)
    fewer, more = (batch_s(problem, num_chips=num_chips, node_size=node_size) for num_chips in sizes)
    assert more <= fewer * (1 + SAME)


@given(
    seed=SEEDS,
    field=st.sampled_from(["num_inside_links", "num_outside_links"]),
    links=st.tuples(st.integers(1, 18), st.integers(1, 18)).map(sorted),
)
@settings(max_examples=120, deadline=None)
def test_more_links_are_never_slower(seed, field, links):
    problem = full_cases.random_problem(seed, most_layers=3)
    fewer, more = (batch_s(problem, **{field: num_links}) for num_links in links)
    assert more <= fewer * (1 + SAME)


@pytest.mark.parametrize("family", WHOLE_CLUSTER)
def test_families_that_use_the_whole_cluster_can_be_slower_with_more_chips(family):
    """So a box must not span the number of chips there."""
    slower = 0
    for seed in range(40):
        problem = full_cases.random_problem(seed, family=family, most_layers=3)
        fewer, more = batch_s(problem, num_chips=8), batch_s(problem, num_chips=11)
        slower += more > fewer * (1 + SAME)
    assert slower
    assert SPEED_RULES["num_chips"] is SpeedRule.WITH_IDLE_CHIPS


def test_larger_nodes_can_be_slower():
    """Nodes that do not cut groups evenly, and long rings inside: a box must not span their size."""
    slower = 0
    for seed in range(60):
        problem = full_cases.random_problem(seed, family=PlanFamily.EXACT, most_layers=3)
        slower += batch_s(problem, node_size=6) > batch_s(problem, node_size=4) * (1 + SAME)
    assert slower
    assert SPEED_RULES["node_size"] is SpeedRule.UNORDERED
