"""The cluster: how many chips, and the network levels that join them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from rephaze.errors import SpecError
from rephaze.types.checks import check_count, check_number


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkLevel:
    """One level of the network: groups of ``num_devices`` chips that reach each other at this speed."""

    num_devices: int
    bytes_per_s: float
    """What one chip can send (and at the same time receive) at this level."""
    latency_s: float = 0.0
    """Time of one message beside its bytes."""

    def __post_init__(self) -> None:
        check_count("network.num_devices", self.num_devices, at_most=2**30)
        check_number(
            "network.bytes_per_s",
            self.bytes_per_s,
            at_least=1e-9,
            at_most=1e24,
            fix="give bytes per second, for example 50e9",
        )
        check_number("network.latency_s", self.latency_s, at_most=10.0, fix="give seconds, for example 1e-6")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """Equal chips joined by network levels, innermost (smallest group, fastest) first."""

    num_devices: int
    levels: tuple[NetworkLevel, ...]

    def __post_init__(self) -> None:
        check_count("num_devices", self.num_devices, at_most=2**30)
        if not self.levels:
            raise SpecError("levels", self.levels, "a cluster needs at least one network level")
        sizes = [level.num_devices for level in self.levels]
        for inner, outer in pairwise(sizes):
            if outer <= inner or outer % inner:
                raise SpecError(
                    "levels", sizes, "each level's group must be a larger multiple of the one inside it"
                )
        if sizes[-1] < self.num_devices:
            raise SpecError("levels", sizes, f"the outermost level must reach all {self.num_devices} devices")


def flat_cluster(num_devices: int, link_bytes_per_s: float, latency_s: float = 0.0) -> Cluster:
    """A cluster of one level: every chip reaches every other at ``link_bytes_per_s``."""
    level = NetworkLevel(num_devices=num_devices, bytes_per_s=link_bytes_per_s, latency_s=latency_s)
    return Cluster(num_devices=num_devices, levels=(level,))


def resized_cluster(cluster: Cluster, num_devices: int) -> Cluster:
    """The same network with another number of chips: inner groups stay, the outermost reaches all of them."""
    inner = tuple(level for level in cluster.levels[:-1] if level.num_devices < num_devices)
    unit = inner[-1].num_devices if inner else 1
    last = cluster.levels[len(inner)] if num_devices <= cluster.levels[-1].num_devices else cluster.levels[-1]
    reach = -(-num_devices // unit) * unit
    outermost = NetworkLevel(num_devices=reach, bytes_per_s=last.bytes_per_s, latency_s=last.latency_s)
    return Cluster(num_devices=num_devices, levels=(*inner, outermost))
