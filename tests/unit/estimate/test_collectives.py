"""Collectives by hand."""

import pytest

from rephaze.estimate.collectives import (
    GroupLevel,
    collective_s,
    group_collective_s,
    group_levels,
    paper_all_reduce_s,
    ring_s,
    sent_bytes,
    strided_levels,
    tree_s,
)
from rephaze.types.cluster import Cluster, NetworkLevel, flat_cluster
from rephaze.types.graph import Affine, CollectiveDims, CollectiveKind, CommGroup

ALL_REDUCE = CollectiveKind.ALL_REDUCE
NODES = Cluster(
    num_devices=64,
    levels=(
        NetworkLevel(num_devices=8, bytes_per_s=300e9, latency_s=1e-6),
        NetworkLevel(num_devices=64, bytes_per_s=50e9, latency_s=5e-6),
    ),
)


def test_a_group_lies_in_the_smallest_levels_that_hold_it():
    assert [(g.num_members, g.bytes_per_s) for g in group_levels(NODES, 4)] == [(4, 300e9)]
    assert [(g.num_members, g.bytes_per_s) for g in group_levels(NODES, 32)] == [(8, 300e9), (4, 50e9)]
    assert group_levels(NODES, 1) == ()


def test_a_large_all_reduce_takes_the_ring_a_small_one_the_tree():
    level = GroupLevel(num_members=8, bytes_per_s=1e9, latency_s=1e-6)
    assert ring_s(ALL_REDUCE, 8e9, level) == pytest.approx(14 * (1.0 + 1e-6))
    assert tree_s(ALL_REDUCE, 8e9, level) == pytest.approx(6 * (8.0 + 1e-6))
    assert collective_s(ALL_REDUCE, 8e9, (level,)) == ring_s(ALL_REDUCE, 8e9, level)
    assert collective_s(ALL_REDUCE, 8.0, (level,)) == tree_s(ALL_REDUCE, 8.0, level)


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather():
    level = GroupLevel(num_members=4, bytes_per_s=1e9, latency_s=0.0)
    halves = [ring_s(kind, 1e6, level) for kind in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)]
    assert sum(halves) == pytest.approx(ring_s(ALL_REDUCE, 1e6, level))


def test_outer_levels_move_only_what_inner_ones_leave():
    inner, outer = group_levels(NODES, 16)
    by_hand = ring_s(ALL_REDUCE, 1e9, inner) + ring_s(ALL_REDUCE, 1e9 / 8, outer)
    assert collective_s(ALL_REDUCE, 1e9, (inner, outer)) == pytest.approx(by_hand)


def test_the_papers_ring():
    link = flat_cluster(8, 4 * 2**30).levels[0].bytes_per_s
    assert paper_all_reduce_s(2**30, 8, link) == pytest.approx(2 * 7 / 8 / 4)


# --- groups at a stride ---------------------------------------------------------------------------------------

PODS = Cluster(
    num_devices=256,
    levels=(
        NetworkLevel(num_devices=8, bytes_per_s=400e9, latency_s=2e-6),
        NetworkLevel(num_devices=64, bytes_per_s=100e9, latency_s=1e-6),
        NetworkLevel(num_devices=256, bytes_per_s=200e9, latency_s=1e-5),
    ),
)


def of(kind, num_members, group=CommGroup.CP, **more):
    return CollectiveDims(kind=kind, payload_bytes=Affine(1), num_members=num_members, group=group, **more)


@pytest.mark.parametrize(
    ("num_members", "stride", "expected"),
    [
        (4, 1, [4]),
        (4, 2, [4]),
        (4, 4, [2, 2]),
        (4, 8, [1, 4]),
        (32, 4, [2, 8, 2]),
        (4, 64, [1, 1, 4]),
        (3, 2, [1, 1, 3]),  # four slots in a node, three members: no level but the last cuts them evenly
        (6, 3, [1, 1, 6]),
        (1, 8, []),
    ],
)
def test_members_at_a_stride_are_joined_level_by_level(num_members, stride, expected):
    found = strided_levels(PODS, num_members, stride)
    speeds, latencies = [400e9, 100e9, 100e9], [2e-6, 2e-6, 1e-5]
    # What crosses a level passes those inside: the outermost is no faster than the one below it.
    assert [(g.num_members, g.bytes_per_s, g.latency_s) for g in found] == [
        (members, speed, latency)
        for members, speed, latency in zip(expected, speeds, latencies, strict=False)
        if members > 1
    ]


@pytest.mark.parametrize("kind", [CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER])
def test_a_gather_at_a_stride_leaves_each_level_what_those_inside_did_not_do(kind):
    seconds = group_collective_s(of(kind, 4, stride=4), 8e9, PODS)
    inner, outer = 1 / 2 * 8e9 / 400e9 + 2e-6, 1 / 2 * 4e9 / 100e9 + 2e-6
    assert seconds == pytest.approx(inner + outer, rel=1e-12)


def test_an_all_to_all_is_as_slow_as_its_slowest_level():
    seconds = group_collective_s(of(CollectiveKind.ALL_TO_ALL, 32, CommGroup.EP), 8e9, PODS)
    slowest = max(8e9 * (1 - 1 / 32) / 400e9, 8e9 * (1 - 8 / 32) / 100e9)
    assert seconds == pytest.approx(slowest + 7 * 2e-6 + 3 * 2e-6, rel=1e-12)


def test_messages_of_a_ring_go_over_the_level_that_joins_it():
    seconds = group_collective_s(of(CollectiveKind.SEND, 4, stride=4, num_messages=3), 1e9, PODS)
    assert seconds == pytest.approx(3 * (1e9 / 100e9 + 2e-6), rel=1e-12)
    within = group_collective_s(of(CollectiveKind.SEND, 4, num_messages=3), 1e9, PODS)
    assert within == pytest.approx(3 * (1e9 / 400e9 + 2e-6), rel=1e-12)


@pytest.mark.parametrize("kind", list(CollectiveKind))
def test_nothing_to_move_and_nobody_to_move_it_to_are_free(kind):
    assert group_collective_s(of(kind, 8), 0.0, PODS) == 0
    assert group_collective_s(of(kind, 1), 1e9, PODS) == 0


@pytest.mark.parametrize("kind", [kind for kind in CollectiveKind if kind is not CollectiveKind.SEND])
@pytest.mark.parametrize("num_members", [1, 3, 8, 32])
def test_tensor_parallel_groups_are_priced_as_ever(kind, num_members):
    dims = of(kind, num_members, CommGroup.TP)
    assert group_collective_s(dims, 1e8, PODS) == collective_s(kind, 1e8, group_levels(PODS, num_members))
    rounds = 2 if kind is CollectiveKind.ALL_REDUCE else 1
    assert sent_bytes(dims, 1e8) == rounds * 1e8 * (num_members - 1) / num_members


def test_a_chip_sends_what_others_lack():
    assert sent_bytes(of(CollectiveKind.ALL_GATHER, 4), 8.0) == 6.0
    assert sent_bytes(of(CollectiveKind.ALL_REDUCE, 4), 8.0) == 12.0
    assert sent_bytes(of(CollectiveKind.SEND, 4, num_messages=3), 8.0) == 24.0


def test_one_level_and_one_group_is_its_ring():
    flat = flat_cluster(64, 1e11, 1e-6)
    for kind in (CollectiveKind.ALL_GATHER, CollectiveKind.ALL_REDUCE):
        level = GroupLevel(num_members=8, bytes_per_s=1e11, latency_s=1e-6)
        assert group_collective_s(of(kind, 8, stride=2), 1e9, flat) == ring_s(kind, 1e9, level)
