"""Groups of devices and what collectives over them cost, level by level of the network (docs/plans.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from rephaze.types.cluster import Cluster
from rephaze.types.full import DeviceOrder, FullPlan


@dataclass(frozen=True, slots=True)
class Factor:
    """So many devices with a stride in the device order."""

    num_members: int
    stride: int


Group = tuple[Factor, ...]
"""From the inside out, factors of one member left out."""


def group_of(*factors: tuple[int, int]) -> Group:
    """The group of these (members, stride)."""
    return tuple(Factor(members, stride) for members, stride in factors if members > 1)


class Network:
    """The cluster's levels as a plan with so many devices in use meets them.

    Args:
        cluster: Levels, innermost first.
        num_used: Devices in use: a level that joins them all joins every group.
    """

    def __init__(self, cluster: Cluster, num_used: int) -> None:
        self.group_sizes = [level.num_devices for level in cluster.levels]
        # What crosses a level passes those inside it.
        self.bytes_per_s = list(accumulate((level.bytes_per_s for level in cluster.levels), min))
        self.latency_s = list(accumulate((level.latency_s for level in cluster.levels), max))
        self.num_used = num_used
        self._reach: dict[Factor, list[int]] = {}

    def reach(self, factor: Factor) -> list[int]:
        """By level, how many members of the factor one group of the level joins; never fewer than further in."""
        if factor not in self._reach:
            last = len(self.group_sizes) - 1
            joined = [
                factor.num_members if level == last or self.num_used <= size else _evenly_joined(factor, size)
                for level, size in enumerate(self.group_sizes)
            ]
            self._reach[factor] = list(accumulate(joined, max))
        return self._reach[factor]

    def reduce_scatter_s(self, num_bytes: float, group: Group) -> float:
        """Of a tensor of so many bytes; an all-gather takes as long."""
        total_s, left = 0.0, num_bytes
        if num_bytes <= 0:
            return 0.0
        for factor in group:
            inner = 1
            for level, joined in enumerate(self.reach(factor)):
                parts = joined // inner
                total_s += (parts - 1) / parts * (left / inner) / self.bytes_per_s[level]
                total_s += (parts - 1) * self.latency_s[level]
                inner = joined
            left /= factor.num_members
        return total_s

    def coefficients(self, group: Group) -> tuple[float, float]:
        """Seconds a byte and seconds a message of a reduce-scatter over the group."""
        latency_s = self.reduce_scatter_s(5e-324, group)
        return (self.reduce_scatter_s(1.0, group) - latency_s), latency_s

    def all_reduce_s(self, num_bytes: float, group: Group) -> float:
        """A reduce-scatter, then an all-gather."""
        return 2 * self.reduce_scatter_s(num_bytes, group)

    def message_s(self, num_bytes: float, factor: Factor) -> float:
        """Between neighbours of a factor; nothing takes no time."""
        if num_bytes <= 0:
            return 0.0
        level = self.reach(factor).index(factor.num_members)
        return num_bytes / self.bytes_per_s[level] + self.latency_s[level]


def _evenly_joined(factor: Factor, size: int) -> int:
    """Members that every group of a level joins; one where the level does not cut the factor evenly."""
    if size % factor.stride:
        return 1
    slots = size // factor.stride
    is_even = factor.num_members % slots == 0 or slots % factor.num_members == 0
    return min(factor.num_members, slots) if is_even else 1


@dataclass(frozen=True)
class PlanGroups:
    """The groups of a plan's devices: tp innermost, then cp, then dp and pp by the order."""

    tp: int
    cp: int
    dp: int
    pp: int
    order: DeviceOrder
    expert_devices: int
    """ep times etp."""
    shard_group: int

    @cached_property
    def dp_stride(self) -> int:
        """Of the replicas."""
        width = self.tp * self.cp
        return self.pp * width if self.order is DeviceOrder.DP_OUTER else width

    @cached_property
    def stages(self) -> Factor:
        """The stages of a pipeline."""
        width = self.tp * self.cp
        return Factor(self.pp, width if self.order is DeviceOrder.DP_OUTER else self.dp * width)

    @cached_property
    def gradients(self) -> Group:
        """All replicas of a weight."""
        return group_of((self.cp, self.tp), (self.dp, self.dp_stride))

    @cached_property
    def shards(self) -> Group:
        """Those a weight is sharded over, from the inside."""
        f = self.shard_group
        if self.cp % f == 0:
            return group_of((f, self.tp))
        return group_of((self.cp, self.tp), (f // self.cp, self.dp_stride))

    @cached_property
    def copies(self) -> Group:
        """Replicas of a shard."""
        f = self.shard_group
        if self.cp % f == 0:
            return group_of((self.cp // f, self.tp * f), (self.dp, self.dp_stride))
        across = f // self.cp
        return group_of((self.dp // across, self.dp_stride * across))

    @cached_property
    def expert_replicas(self) -> Group:
        """All devices that hold the same expert."""
        e, width = self.expert_devices, self.tp * self.cp
        if self.tp % e == 0:
            return group_of((self.tp // e, e), (self.cp, self.tp), (self.dp, self.dp_stride))
        if width % e == 0:
            return group_of((width // e, e), (self.dp, self.dp_stride))
        across = e // width
        return group_of((self.dp // across, self.dp_stride * across))

    @property
    def num_expert_replicas(self) -> int:
        """How many devices hold the same expert."""
        return self.tp * self.cp * self.dp // self.expert_devices


def groups_of(plan: FullPlan) -> PlanGroups:
    """The groups of a plan."""
    return PlanGroups(
        tp=plan.tp,
        cp=plan.cp,
        dp=plan.dp,
        pp=plan.pp,
        order=plan.order,
        expert_devices=plan.ep * plan.etp,
        shard_group=plan.shard_group,
    )
