"""What the network makes of bytes, compiled: ``groups.Network`` for all layouts of a search.

A collective over a group takes so many seconds a byte and so many a message; one of no bytes is free. Rates of
reduce-scatters; an all-gather has the same, an all-reduce twice them.

Axis letters: l = level, d = data-parallel degree, s = shard group, r = row (a width, dp and pp), q = figure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, kernel_in_place, unfolded

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


NOT_SHARDED = unfolded(1)
"""A shard group of one."""


class Levels(NamedTuple):
    """The network, innermost level first: what crosses a level passes those inside it."""

    num_devices_l: Ints
    s_per_byte_l: Floats
    latency_s_l: Floats


class Rate(NamedTuple):
    """Of a transfer."""

    s_per_byte: float
    latency_s: float


class Mesh(NamedTuple):
    """How the devices of a plan are numbered: tp innermost, then cp, then dp and pp by the order."""

    tp: int
    cp: int
    dp: int
    pp: int
    is_dp_outer: bool


@inner_in_place
def take(rate: Rate, num_bytes: float) -> float:
    """The time of a transfer; nothing takes no time."""
    return num_bytes * rate.s_per_byte + rate.latency_s if num_bytes > 0 else 0.0


@inner_in_place
def _joined(levels: Levels, level: int, members: int, stride: int, num_used: int) -> int:
    """Members of a factor that one group of the level joins."""
    size = levels.num_devices_l[level]
    if level == len(levels.num_devices_l) - 1 or num_used <= size:
        return members
    if size % stride:
        return 1
    slots = size // stride
    is_even = members % slots == 0 or slots % members == 0
    return min(members, slots) if is_even else 1


@inner_in_place
def factor_rate(levels: Levels, members: int, stride: int, num_used: int) -> Rate:
    """Of a reduce-scatter over so many devices at a stride."""
    s_per_byte, latency_s, inside = 0.0, 0.0, 1
    if members > 1:
        for level in range(len(levels.num_devices_l)):
            joined = max(inside, _joined(levels, level, members, stride, num_used))
            parts = joined // inside
            s_per_byte += (parts - 1) / parts / inside * levels.s_per_byte_l[level]
            latency_s += (parts - 1) * levels.latency_s_l[level]
            inside = joined
    return Rate(s_per_byte, latency_s)


@inner_in_place
def _then(first: Rate, members: int, second: Rate) -> Rate:
    """One factor after another that has divided the tensor by its members."""
    return Rate(first.s_per_byte + second.s_per_byte / members, first.latency_s + second.latency_s)


@inner_in_place
def _strides(mesh: Mesh) -> tuple[int, int]:
    """Of the replicas, and of the stages."""
    width = mesh.tp * mesh.cp
    if mesh.is_dp_outer:
        return mesh.pp * width, width
    return width, mesh.dp * width


@inner_in_place
def message_rate(levels: Levels, mesh: Mesh) -> Rate:
    """Between neighbouring stages, at the innermost level that joins all of a pipeline."""
    num_used = mesh.dp * mesh.pp * mesh.tp * mesh.cp
    _, stride = _strides(mesh)
    joined = 1
    for level in range(len(levels.num_devices_l)):
        joined = max(joined, _joined(levels, level, mesh.pp, stride, num_used))
        if joined == mesh.pp:
            return Rate(levels.s_per_byte_l[level], levels.latency_s_l[level])
    return Rate(levels.s_per_byte_l[-1], levels.latency_s_l[-1])


@inner_in_place
def shard_rates(levels: Levels, mesh: Mesh, shard_group: int) -> tuple[Rate, Rate]:
    """Over a shard group, and over the copies of a shard; a group of one has all replicas as copies."""
    num_used = mesh.dp * mesh.pp * mesh.tp * mesh.cp
    stride, _ = _strides(mesh)
    cp, tp = mesh.cp, mesh.tp
    if cp % shard_group == 0:
        shards = factor_rate(levels, shard_group, tp, num_used)
        left = cp // shard_group
        inner_copies = factor_rate(levels, left, tp * shard_group, num_used)
        return shards, _then(inner_copies, left, factor_rate(levels, mesh.dp, stride, num_used))
    across = shard_group // cp
    inside = factor_rate(levels, cp, tp, num_used)
    shards = _then(inside, cp, factor_rate(levels, across, stride, num_used))
    return shards, factor_rate(levels, mesh.dp // across, stride * across, num_used)


@inner_in_place
def expert_rate(levels: Levels, mesh: Mesh, num_expert_devices: int) -> Rate:
    """Over all devices that hold the same expert."""
    num_used = mesh.dp * mesh.pp * mesh.tp * mesh.cp
    stride, _ = _strides(mesh)
    tp, width, e = mesh.tp, mesh.tp * mesh.cp, num_expert_devices
    if tp % e == 0:
        within = factor_rate(levels, tp // e, e, num_used)
        contexts = _then(within, tp // e, factor_rate(levels, mesh.cp, tp, num_used))
        return _then(contexts, tp // e * mesh.cp, factor_rate(levels, mesh.dp, stride, num_used))
    if width % e == 0:
        within = factor_rate(levels, width // e, e, num_used)
        return _then(within, width // e, factor_rate(levels, mesh.dp, stride, num_used))
    across = e // width
    return factor_rate(levels, mesh.dp // across, stride * across, num_used)


class Degrees(NamedTuple):
    """Data-parallel degrees of a problem, rising, and the legal numbers of shards of each with a context group."""

    dp_d: Ints
    first_divisor_d: Ints
    """Where its divisors begin; one more entry at the end."""
    divisor_i: Ints


class Sizes(NamedTuple):
    """Which shard groups are asked for."""

    has_all: bool
    has_level: bool


@inner_in_place
def list_sizes(degrees: Degrees, d: int, cp: int, sizes: Sizes, size_s: Ints) -> int:
    """Fill ``size_s`` with the legal shard groups above one, smallest first; gives back how many."""
    num_sizes, replicas = 0, cp * degrees.dp_d[d]
    if sizes.has_level:
        for inside in range(2, cp):
            if cp % inside == 0:
                size_s[num_sizes] = inside
                num_sizes += 1
        for at in range(degrees.first_divisor_d[d], degrees.first_divisor_d[d + 1]):
            size = cp * degrees.divisor_i[at]
            if size > 1 and (size < replicas or not sizes.has_all):
                size_s[num_sizes] = size
                num_sizes += 1
    if sizes.has_all and replicas > 1:
        size_s[num_sizes] = replicas
        num_sizes += 1
    return num_sizes


MAX_SIZES = 4096
"""Of shard groups of one degree: no number up to 2^30 has more divisors than 1,344."""
NUM_FIGURES = 10
MESSAGE, GRADIENTS, SYNC, REGATHER, ONCE = (unfolded(at) for at in range(0, NUM_FIGURES, 2))
"""Where each least rate stands in a row: seconds a byte, then seconds a collective."""


def least_rates(
    levels: Levels, degrees: Degrees, sizes: Sizes, widths: Ints, first_row: Ints, gradient_ratio: float
) -> Floats:
    """For each width (tp, cp), dp and pp the least rates over orders and shard groups, bytes of weights.

    Args:
        levels: The network.
        degrees: Of data parallelism.
        sizes: Which shard groups are asked for.
        widths: (tp, cp) of each width.
        first_row: By width and degree, where the rows of pp = 1, 2, ... begin; one more entry at the end of each.
        gradient_ratio: Bytes of a gradient over those of a weight.
    """
    rows = np.full((first_row[-1, -1], NUM_FIGURES), np.inf)
    _lower_rates(levels, degrees, sizes, widths, first_row, gradient_ratio, np.zeros(MAX_SIZES, np.int64), rows)
    return rows


@kernel_in_place
def _lower_rates(
    levels: Levels,
    degrees: Degrees,
    sizes: Sizes,
    widths: Ints,
    first_row: Ints,
    gradient_ratio: float,
    size_s: Ints,
    rows: Floats,
) -> None:
    for w in range(len(widths)):
        tp, cp = widths[w, 0], widths[w, 1]
        for d in range(len(degrees.dp_d)):
            num_sizes = list_sizes(degrees, d, cp, sizes, size_s)
            dp = degrees.dp_d[d]
            for row in range(first_row[w, d], first_row[w, d + 1]):
                pp = row - first_row[w, d] + 1
                for is_dp_outer in (True, False):
                    if not is_dp_outer and (dp == 1 or pp == 1):
                        continue
                    mesh = Mesh(tp, cp, dp, pp, is_dp_outer)
                    _lower(rows[row], MESSAGE, message_rate(levels, mesh))
                    _, whole = shard_rates(levels, mesh, NOT_SHARDED)
                    _lower(rows[row], GRADIENTS, Rate(2 * gradient_ratio * whole.s_per_byte, 2 * whole.latency_s))
                    for at in range(num_sizes):
                        shards, copies = shard_rates(levels, mesh, size_s[at])
                        sync_b = gradient_ratio * (shards.s_per_byte + 2 * copies.s_per_byte / size_s[at])
                        sync_s = shards.latency_s + 2 * copies.latency_s
                        _lower(rows[row], SYNC, Rate(sync_b, sync_s))
                        _lower(rows[row], REGATHER, shards)
                        once = Rate(sync_b + shards.s_per_byte, sync_s + shards.latency_s)
                        _lower(rows[row], ONCE, once)


@inner_in_place
def _lower(row: Floats, at: int, rate: Rate) -> None:
    row[at] = min(row[at], rate.s_per_byte)
    row[at + 1] = min(row[at + 1], rate.latency_s)


def least_expert_rates(levels: Levels, degrees: Degrees, kinds: Ints, first_row: Ints, first_kind: Ints) -> Floats:
    """For each kind of experts (tp, cp, devices, width), dp and pp the least rate over orders.

    Args:
        levels: The network.
        degrees: Of data parallelism.
        kinds: The kinds.
        first_row: As of ``least_rates``.
        first_kind: Where the rows of a kind begin; one more entry at the end.
    """
    rows = np.full((first_kind[-1], 2), np.inf)
    _lower_expert_rates(levels, degrees, kinds, first_row, first_kind, rows)
    return rows


@kernel_in_place
def _lower_expert_rates(
    levels: Levels, degrees: Degrees, kinds: Ints, first_row: Ints, first_kind: Ints, rows: Floats
) -> None:
    for x in range(len(kinds)):
        tp, cp, num_devices, w = kinds[x, 0], kinds[x, 1], kinds[x, 2], kinds[x, 3]
        for d in range(len(degrees.dp_d)):
            dp = degrees.dp_d[d]
            if not are_experts_legal(tp, cp, dp, num_devices):
                continue
            for row in range(first_row[w, d], first_row[w, d + 1]):
                pp = row - first_row[w, d] + 1
                at = first_kind[x] + row - first_row[w, 0]
                for is_dp_outer in (True, False):
                    if is_dp_outer or (dp > 1 and pp > 1):
                        mesh = Mesh(tp, cp, dp, pp, is_dp_outer)
                        _lower(rows[at], MESSAGE, expert_rate(levels, mesh, num_devices))


@inner_in_place
def are_experts_legal(tp: int, cp: int, dp: int, num_devices: int) -> bool:
    """Whether experts take whole factors of the devices, from the inside."""
    width = tp * cp
    if tp % num_devices == 0 or (num_devices % tp == 0 and cp % (num_devices // tp) == 0):
        return True
    return num_devices % width == 0 and dp % (num_devices // width) == 0
