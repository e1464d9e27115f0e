"""Time of collectives over the levels of a network: ring or tree at each level, whichever is faster."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.graph import CollectiveKind


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveCost:
    """One collective among the chips of a group."""

    time_s: float
    sent_bytes: float
    """Bytes each chip sends."""


def group_levels(cluster: Cluster, num_members: int) -> list[tuple[int, NetworkLevel]]:
    """How many parts a group of neighbouring chips has at each level, innermost first, ones left out."""
    parts = []
    inside = 1
    for level in cluster.levels:
        reach = min(num_members, level.num_devices)
        here = ceil(reach / inside)
        if here > 1:
            parts.append((here, level))
            inside *= here
        if inside >= num_members:
            break
    return parts


def collective_cost(
    kind: CollectiveKind, payload_bytes: float, num_members: int, cluster: Cluster
) -> CollectiveCost:
    """Time of a collective among ``num_members`` neighbouring chips.

    Args:
        kind: What is done.
        payload_bytes: The full tensor (what every chip holds after an all-reduce or all-gather).
        num_members: Size of the group.
        cluster: Whose levels the group spans, innermost first.
    """
    levels = group_levels(cluster, num_members)
    if not levels or payload_bytes <= 0:
        return CollectiveCost(time_s=0.0, sent_bytes=0.0)
    match kind:
        case CollectiveKind.ALL_REDUCE:
            return _all_reduce(payload_bytes, levels)
        case CollectiveKind.ALL_GATHER | CollectiveKind.REDUCE_SCATTER:
            return _scatter(payload_bytes, levels)
        case CollectiveKind.ALL_TO_ALL:
            return _all_to_all(payload_bytes, num_members, levels)


def point_to_point_s(payload_bytes: float, level: NetworkLevel) -> float:
    """Time of one message between two chips joined by ``level``."""
    return level.latency_s + payload_bytes / level.bytes_per_s if payload_bytes > 0 else 0.0


def _all_reduce(payload_bytes: float, levels: list[tuple[int, NetworkLevel]]) -> CollectiveCost:
    # Scatter inwards to outwards, all-reduce what is left at the outermost level, gather back.
    inner, (outer_parts, outer) = levels[:-1], levels[-1]
    scattered = _scatter(payload_bytes, inner)
    left_bytes = payload_bytes
    for parts, _ in inner:
        left_bytes /= parts
    ring_s = 2 * _ring_s(outer_parts, left_bytes, outer)
    # Pipelined double tree: each chip sends the payload up and down once.
    tree_s = 2 * left_bytes / outer.bytes_per_s + 2 * ceil(log2(outer_parts)) * outer.latency_s
    moved = 2 * left_bytes * (1.0 if tree_s < ring_s else (outer_parts - 1) / outer_parts)
    return CollectiveCost(
        time_s=2 * scattered.time_s + min(ring_s, tree_s), sent_bytes=2 * scattered.sent_bytes + moved
    )


def _scatter(payload_bytes: float, levels: list[tuple[int, NetworkLevel]]) -> CollectiveCost:
    time_s = sent_bytes = 0.0
    for parts, level in levels:
        moved = (parts - 1) / parts * payload_bytes
        steps = parts - 1
        if parts & (parts - 1) == 0:
            # Recursive halving moves the same bytes in fewer messages.
            steps = parts.bit_length() - 1
        time_s += moved / level.bytes_per_s + steps * level.latency_s
        sent_bytes += moved
        payload_bytes /= parts
    return CollectiveCost(time_s=time_s, sent_bytes=sent_bytes)


def _all_to_all(
    payload_bytes: float, num_members: int, levels: list[tuple[int, NetworkLevel]]
) -> CollectiveCost:
    # Every chip keeps 1/p of its part of the payload; what goes further pays the further level.
    own_bytes = payload_bytes / num_members
    time_s = sent_bytes = 0.0
    inside = 1
    for parts, level in levels:
        peers = min(num_members, inside * parts) - inside
        moved = own_bytes * peers / num_members
        direct_s = moved / level.bytes_per_s + peers * level.latency_s
        rounds = ceil(log2(parts))
        staged_s = rounds * (own_bytes / 2 / level.bytes_per_s + level.latency_s)
        time_s += min(direct_s, staged_s)
        sent_bytes += moved
        inside *= parts
    return CollectiveCost(time_s=time_s, sent_bytes=sent_bytes)


def _ring_s(parts: int, payload_bytes: float, level: NetworkLevel) -> float:
    return (parts - 1) / parts * payload_bytes / level.bytes_per_s + (parts - 1) * level.latency_s
