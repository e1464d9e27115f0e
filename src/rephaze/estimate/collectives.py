"""Collectives over the levels of a network: the better of ring and tree, level by level."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rephaze.types.cluster import Cluster
from rephaze.types.graph import CollectiveKind


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupLevel:
    """The part of a group that one network level joins."""

    num_members: int
    bytes_per_s: float
    latency_s: float


def group_levels(cluster: Cluster, num_members: int) -> tuple[GroupLevel, ...]:
    """How a group of neighbouring chips spreads over the levels, innermost first.

    A group that does not fill a level's groups evenly is taken as its next larger multiple: never faster than
    it is.
    """
    found = []
    inside = 1
    for level in cluster.levels:
        if inside >= num_members:
            break
        # Members of this level are the whole groups of the one inside it.
        room = level.num_devices // inside_devices(cluster, level.num_devices)
        wanted = math.ceil(num_members / inside)
        members = min(room, wanted)
        if members > 1:
            found.append(GroupLevel(num_members=members, bytes_per_s=level.bytes_per_s, latency_s=level.latency_s))
        inside *= members
    return tuple(found)


def inside_devices(cluster: Cluster, num_devices: int) -> int:
    """Devices in one group of the level inside the level of this size; 1 below the innermost."""
    smaller = [level.num_devices for level in cluster.levels if level.num_devices < num_devices]
    return max(smaller, default=1)


def collective_s(kind: CollectiveKind, payload_bytes: float, levels: tuple[GroupLevel, ...]) -> float:
    """Seconds of a collective whose full tensor has ``payload_bytes``.

    Hierarchical: an all-reduce scatters inward-out and gathers outward-in, so each level works on the part the
    levels inside it left over.
    """
    total = 0.0
    part = payload_bytes
    for level in levels:
        total += _level_s(kind, part, level)
        if kind is not CollectiveKind.ALL_TO_ALL:
            part /= level.num_members
    return total


def ring_s(kind: CollectiveKind, payload_bytes: float, level: GroupLevel) -> float:
    """A ring: every chip passes on 1/n of the tensor in each of n - 1 steps (twice for an all-reduce)."""
    steps = level.num_members - 1
    rounds = 2 if kind is CollectiveKind.ALL_REDUCE else 1
    step_s = payload_bytes / level.num_members / level.bytes_per_s + level.latency_s
    return rounds * steps * step_s


def tree_s(kind: CollectiveKind, payload_bytes: float, level: GroupLevel) -> float:
    """A binary tree: few steps, each with the whole tensor; all-to-all has none."""
    if kind is CollectiveKind.ALL_TO_ALL:
        return math.inf
    depth = math.ceil(math.log2(level.num_members))
    rounds = 2 if kind is CollectiveKind.ALL_REDUCE else 1
    return rounds * depth * (payload_bytes / level.bytes_per_s + level.latency_s)


def paper_all_reduce_s(payload_bytes: float, num_members: int, bytes_per_s: float) -> float:
    """The paper's ring: bandwidth only."""
    return 2 * (num_members - 1) / num_members * payload_bytes / bytes_per_s


def _level_s(kind: CollectiveKind, payload_bytes: float, level: GroupLevel) -> float:
    return min(ring_s(kind, payload_bytes, level), tree_s(kind, payload_bytes, level))
