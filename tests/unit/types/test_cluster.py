"""Clusters: what a network must be, and the same network for other numbers of chips."""

import pytest

from rephaze.errors import SpecError
from rephaze.types.cluster import Cluster, NetworkLevel, flat_cluster, resized_cluster

INNER, OUTER = NetworkLevel(num_devices=8, bytes_per_s=3e11), NetworkLevel(num_devices=1024, bytes_per_s=5e10)
TWO_LEVELS = Cluster(num_devices=1024, levels=(INNER, OUTER))


def sizes(cluster):
    return [level.num_devices for level in cluster.levels]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_devices": 0}, "network.num_devices is 0"),
        ({"num_devices": 8.0}, "network.num_devices is 8.0"),
        ({"bytes_per_s": 0.0}, "network.bytes_per_s is 0.0.*give bytes per second"),
        ({"latency_s": -1e-6}, "network.latency_s is -1e-06"),
        ({"latency_s": 11.0}, "network.latency_s is 11.0.*give seconds"),
    ],
)
def test_a_level_that_cannot_be_is_refused(changes, said):
    with pytest.raises(SpecError, match=said):
        NetworkLevel(**({"num_devices": 8, "bytes_per_s": 1e9} | changes))


@pytest.mark.parametrize(
    ("num_devices", "group_sizes", "said"),
    [
        (0, (8,), "num_devices is 0"),
        (8, (), "needs at least one network level"),
        (8, (8, 8), "must be a larger multiple"),
        (8, (16, 8), "must be a larger multiple"),
        (8, (4, 10), "must be a larger multiple"),
        (9, (4, 8), "must reach all 9 devices"),
    ],
)
def test_levels_that_do_not_nest_or_reach_are_refused(num_devices, group_sizes, said):
    levels = tuple(NetworkLevel(num_devices=size, bytes_per_s=1e9) for size in group_sizes)
    with pytest.raises(SpecError, match=said):
        Cluster(num_devices=num_devices, levels=levels)


def test_the_outermost_level_may_reach_further_than_the_devices():
    assert sizes(Cluster(num_devices=1000, levels=(INNER, OUTER))) == [8, 1024]


def test_a_flat_cluster_has_one_level_for_all():
    assert flat_cluster(6, 2e9, 1e-6) == Cluster(
        num_devices=6, levels=(NetworkLevel(num_devices=6, bytes_per_s=2e9, latency_s=1e-6),)
    )


@pytest.mark.parametrize(
    ("num_devices", "group_sizes", "outermost_bytes_per_s"),
    [
        (1024, [8, 1024], 5e10),
        (4096, [8, 4096], 5e10),
        (20, [8, 24], 5e10),  # whole groups of eight
        (9, [8, 16], 5e10),
        (8, [8], 3e11),  # one group: its fast links reach all
        (3, [3], 3e11),
    ],
)
def test_a_resized_network_keeps_its_inner_groups(num_devices, group_sizes, outermost_bytes_per_s):
    found = resized_cluster(TWO_LEVELS, num_devices)
    assert (found.num_devices, sizes(found)) == (num_devices, group_sizes)
    assert found.levels[-1].bytes_per_s == outermost_bytes_per_s
