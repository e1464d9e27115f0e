"""Collectives by hand."""

import pytest

from rephaze.estimate.collectives import (
    GroupLevel,
    collective_s,
    group_levels,
    paper_all_reduce_s,
    ring_s,
    tree_s,
)
from rephaze.types.cluster import Cluster, NetworkLevel, flat_cluster
from rephaze.types.graph import CollectiveKind

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
