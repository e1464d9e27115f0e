"""Collectives over the levels of a network: the better of ring and tree, level by level.

Groups that are not tensor parallelism's have members at a stride in the order of devices and are priced by the
formulas that plans are priced with (docs/plans.md): rings, and an all-to-all bound by its slowest level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rephaze.types.cluster import Cluster
from rephaze.types.graph import CollectiveDims, CollectiveKind, CommGroup


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


def strided_levels(cluster: Cluster, num_members: int, stride: int) -> tuple[GroupLevel, ...]:
    """How a group whose members stand ``stride`` devices apart spreads over the levels, innermost first.

    A level joins members only where it cuts the group evenly; the outermost joins all that are left. What
    crosses a level passes those inside it, so none is faster than they are.
    """
    found: list[GroupLevel] = []
    inside, bytes_per_s, latency_s = 1, math.inf, 0.0
    for number, level in enumerate(cluster.levels):
        bytes_per_s, latency_s = min(bytes_per_s, level.bytes_per_s), max(latency_s, level.latency_s)
        is_last = number == len(cluster.levels) - 1
        joined = num_members if is_last else _evenly_joined(num_members, stride, level.num_devices)
        if joined > inside:
            members = joined // inside
            found.append(GroupLevel(num_members=members, bytes_per_s=bytes_per_s, latency_s=latency_s))
            inside = joined
    return tuple(found)


def _evenly_joined(num_members: int, stride: int, num_devices: int) -> int:
    """Members that every group of so many devices joins; one where it does not cut them evenly."""
    if num_devices % stride:
        return 1
    slots = num_devices // stride
    is_even = num_members % slots == 0 or slots % num_members == 0
    return min(num_members, slots) if is_even else 1


def group_collective_s(dims: CollectiveDims, payload_bytes: float, cluster: Cluster) -> float:
    """Seconds of a collective over its group; one of no bytes is free."""
    if dims.group is CommGroup.TP and dims.kind is not CollectiveKind.SEND:
        return collective_s(dims.kind, payload_bytes, group_levels(cluster, dims.num_members))
    levels = strided_levels(cluster, dims.num_members, dims.stride)
    if not levels or payload_bytes <= 0:
        return 0.0
    if dims.kind is CollectiveKind.SEND:
        # Neighbours somewhere in the ring are as far apart as the level that joins the group.
        reach = levels[-1]
        return dims.num_messages * point_to_point_s(payload_bytes, reach.bytes_per_s, reach.latency_s)
    if dims.kind is CollectiveKind.ALL_TO_ALL:
        return _all_to_all_s(payload_bytes, dims.num_members, levels)
    total, part = 0.0, payload_bytes
    for level in levels:
        total += ring_s(dims.kind, part, level)
        part /= level.num_members
    return total


def sent_bytes(dims: CollectiveDims, payload_bytes: float) -> float:
    """Bytes that one chip puts on the network."""
    if dims.kind is CollectiveKind.SEND:
        return dims.num_messages * payload_bytes
    rounds = 2 if dims.kind is CollectiveKind.ALL_REDUCE else 1
    return rounds * payload_bytes * (dims.num_members - 1) / dims.num_members


def _all_to_all_s(payload_bytes: float, num_members: int, levels: tuple[GroupLevel, ...]) -> float:
    """All levels at once, each with what goes beyond the groups inside it, and a message to every other."""
    slowest = latency_s = 0.0
    inside = 1
    for level in levels:
        slowest = max(slowest, payload_bytes * (1 - inside / num_members) / level.bytes_per_s)
        latency_s += (level.num_members - 1) * level.latency_s
        inside *= level.num_members
    return slowest + latency_s


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


def point_to_point_s(payload_bytes: float, bytes_per_s: float, latency_s: float) -> float:
    """Seconds of one message."""
    return latency_s + payload_bytes / bytes_per_s if payload_bytes else 0.0


def ring_s(kind: CollectiveKind, payload_bytes: float, level: GroupLevel) -> float:
    """A ring: every chip passes on 1/n of the tensor in each of n - 1 steps (twice for an all-reduce)."""
    steps = level.num_members - 1
    rounds = 2 if kind is CollectiveKind.ALL_REDUCE else 1
    step_s = payload_bytes / level.num_members / level.bytes_per_s + level.latency_s
    return rounds * steps * step_s


def tree_s(kind: CollectiveKind, payload_bytes: float, level: GroupLevel) -> float:
    """A binary tree: few steps, each with the whole tensor; what goes from each to each has none."""
    if kind in (CollectiveKind.ALL_TO_ALL, CollectiveKind.SEND):
        return math.inf
    depth = math.ceil(math.log2(level.num_members))
    rounds = 2 if kind is CollectiveKind.ALL_REDUCE else 1
    return rounds * depth * (payload_bytes / level.bytes_per_s + level.latency_s)


def paper_all_reduce_s(payload_bytes: float, num_members: int, bytes_per_s: float) -> float:
    """The paper's ring: bandwidth only."""
    return 2 * (num_members - 1) / num_members * payload_bytes / bytes_per_s


def paper_collective_s(dims: CollectiveDims, payload_bytes: float, bytes_per_s: float) -> float:
    """The paper has all-reduces only: every collective is taken for one, messages follow one another."""
    if dims.kind is CollectiveKind.SEND:
        return dims.num_messages * payload_bytes / bytes_per_s
    return paper_all_reduce_s(payload_bytes, dims.num_members, bytes_per_s)


def _level_s(kind: CollectiveKind, payload_bytes: float, level: GroupLevel) -> float:
    return min(ring_s(kind, payload_bytes, level), tree_s(kind, payload_bytes, level))
