"""Layouts of lines, compiled: what each makes of bytes, and the time no plan of it beats.

Axis letters: g = graph, v = layer, t = type of equal layers, q = figure, o = sharding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, kernel_in_place
from rephaze.place.full.least_time import LinkTimes, Share, Work
from rephaze.place.full.lines import Lines, Times
from rephaze.place.full.rates import (
    GRADIENTS,
    MESSAGE,
    NOT_SHARDED,
    ONCE,
    REGATHER,
    SYNC,
    Levels,
    Mesh,
    Rate,
    Sizes,
    expert_rate,
    message_rate,
    shard_rates,
    take,
)
from rephaze.place.full.spans import Costs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NONE, OPTIMIZER, GRADIENTS_TOO, WEIGHTS_TOO = 0, 1, 2, 3
"""Codes of shardings."""

NUM_TYPES = 8
"""Types of equal layers a bound looks at, those of most work; and the longest layer."""
NUM_TOTALS = 14
(FORWARD_S, BACKWARD_S, WEIGHT_S, OWN_BYTES, EXPERT_BYTES, NUM_OWN, NUM_EXPERT) = range(7)
(FIRST_OWN, FIRST_EXPERT, LARGEST_OWN, LARGEST_EXPERT, LINK_BYTES, END_TIED_BYTES, EXPERT_DEVICES) = range(
    7, NUM_TOTALS
)
"""Totals of a graph: work, bytes, how many layers have any, the first layer's, the largest, the least link's, and
what the first and the last layer share; devices that experts take."""


class Figures(NamedTuple):
    """Of the problem."""

    memory_bytes: float
    gradient_ratio: float
    state_ratio: float
    step_s_per_byte: float
    overlap: bool


class Wanted(NamedTuple):
    """Choices made beforehand; -1 leaves one open."""

    dp: int = -1
    pp: int = -1
    is_dp_outer: int = -1
    sharding: int = -1
    shard_group: int = -1
    reshard: int = -1
    schedule: int = -1
    chunks: int = -1


class Choices(NamedTuple):
    """What a plan may choose from."""

    figures: Figures
    wanted: Wanted
    num_devices: int
    global_batch: int
    is_exact: bool
    """No ragged batch."""
    uses_all: bool
    """Devices."""
    has_equal_blocks: bool
    is_sharding_o: Flags
    sizes: Sizes
    may_reshard: bool
    may_keep: bool
    """Weights, once gathered."""
    is_schedule: Flags
    chunks: Ints
    least_zero_bubble: int
    """Stages."""


class Totals(NamedTuple):
    """Of all graphs."""

    total_gq: Floats
    type_gtq: Floats
    """By type of equal layers: how many, both passes, forward, input backward pass, forward and input backward."""


def graph_totals(lines: Lines, times: Times) -> Totals:
    """Sums over the layers of each graph, and its equal layers."""
    num_graphs = len(lines.tp_g)
    totals = Totals(np.zeros((num_graphs, NUM_TOTALS)), np.zeros((num_graphs, NUM_TYPES + 1, 5)))
    _add_layers(lines, times, totals)
    return totals


@kernel_in_place
def _add_layers(lines: Lines, times: Times, totals: Totals) -> None:
    for g in range(len(lines.tp_g)):
        total, types = totals.total_gq[g], totals.type_gtq[g]
        first, end = lines.first_v_g[g], lines.first_v_g[g + 1]
        total[EXPERT_DEVICES] = lines.experts_g[g]
        total[FIRST_OWN], total[FIRST_EXPERT] = lines.param_bytes_v[first], lines.expert_bytes_v[first]
        total[LINK_BYTES] = np.inf if end - first > 1 else 0.0
        run = 0
        for v in range(first, end):
            f, b, w = times.forward_s_v[v], times.backward_s_v[v], times.weight_backward_s_v[v]
            p, pe = lines.param_bytes_v[v], lines.expert_bytes_v[v]
            total[FORWARD_S] += f
            total[BACKWARD_S] += b
            total[WEIGHT_S] += w
            total[OWN_BYTES] += p
            total[EXPERT_BYTES] += pe
            total[NUM_OWN] += 1.0 if p > 0 else 0.0
            total[NUM_EXPERT] += 1.0 if pe > 0 else 0.0
            total[LARGEST_OWN] = max(total[LARGEST_OWN], p)
            total[LARGEST_EXPERT] = max(total[LARGEST_EXPERT], pe)
            if v + 1 < end:
                total[LINK_BYTES] = min(total[LINK_BYTES], lines.link_bytes_v[v])
            longest = types[NUM_TYPES]
            longest[0] = 1.0
            longest[1] = max(longest[1], f + b)
            longest[2] = max(longest[2], f)
            longest[3] = max(longest[3], b - w)
            longest[4] = max(longest[4], f + b - w)
            run += 1
            is_end = v + 1 == end
            if not is_end:
                is_end = times.forward_s_v[v + 1] != f or times.backward_s_v[v + 1] != b
                is_end = is_end or times.weight_backward_s_v[v + 1] != w
            if is_end:
                _add_type(types, run, f, b, w)
                run = 0
        for t in range(lines.first_t_g[g], lines.first_t_g[g + 1]):
            a, b = lines.first_i_t[t], lines.first_i_t[t + 1]
            owner, last = lines.owner_t[t], end - first - 1
            is_at_ends = lines.member_i[a] == 0 and lines.member_i[b - 1] == last and owner in (0, last)
            total[END_TIED_BYTES] += lines.tied_bytes_t[t] if is_at_ends and last > 0 else 0.0


@inner_in_place
def _add_type(types: Floats, num_layers: int, f: float, b: float, w: float) -> None:
    """Remember equal layers, or forget those of least work."""
    least = 0
    for t in range(NUM_TYPES):
        if types[t, 0] > 0 and types[t, 1] == f + b and types[t, 2] == f and types[t, 3] == b - w:
            types[t, 0] += num_layers
            return
        if types[t, 0] * types[t, 1] < types[least, 0] * types[least, 1]:
            least = t
    if num_layers * (f + b) > types[least, 0] * types[least, 1]:
        types[least, 0], types[least, 1], types[least, 2] = num_layers, f + b, f
        types[least, 3], types[least, 4] = b - w, f + b - w


@inner_in_place
def fill_shares(types: Floats, num_parts: int, share_nq: Floats) -> None:
    """What some part has at least, for every number of parts up to one."""
    for n in range(1, num_parts + 1):
        share = type_share(types, n)
        share_nq[n, 0], share_nq[n, 1] = share.both_s, share.forward_s
        share_nq[n, 2], share_nq[n, 3] = share.input_backward_s, share.ahead_s


@inner_in_place
def share_of(share_q: Floats) -> Share:
    """As a record."""
    return Share(share_q[0], share_q[1], share_q[2], share_q[3])


@inner_in_place
def type_share(types: Floats, num_parts: int) -> Share:
    """What some part of so many has at least."""
    both_s, forward_s, input_s, ahead_s = 0.0, 0.0, 0.0, 0.0
    for t in range(len(types)):
        if types[t, 0] > 0:
            held = np.ceil(types[t, 0] / num_parts)
            both_s = max(both_s, held * types[t, 1])
            forward_s = max(forward_s, held * types[t, 2])
            input_s = max(input_s, held * types[t, 3])
            ahead_s = max(ahead_s, held * types[t, 4])
    return Share(both_s, forward_s, input_s, ahead_s)


@inner_in_place
def work_of(total: Floats) -> Work:
    """Compute of all layers."""
    return Work(total[FORWARD_S], total[BACKWARD_S], total[WEIGHT_S])


@inner_in_place
def _all_s(rate: Rate, experts: Rate, total: Floats, ratio: float, expert_ratio: float) -> float:
    """One collective of each layer: parameters times a ratio, experts times another."""
    own_s = ratio * rate.s_per_byte * total[OWN_BYTES] + rate.latency_s * total[NUM_OWN]
    expert_s = expert_ratio * experts.s_per_byte * total[EXPERT_BYTES] + experts.latency_s * total[NUM_EXPERT]
    return float(own_s + expert_s)


@inner_in_place
def _first_s(rate: Rate, experts: Rate, total: Floats, ratio: float) -> float:
    """The same of the first layer."""
    return take(rate, ratio * total[FIRST_OWN]) + take(experts, ratio * total[FIRST_EXPERT])


@inner_in_place
def item_links(
    total: Floats, row: Floats, experts: Rate, figures: Figures, mesh: Mesh, is_sharded: bool, gathers: bool
) -> LinkTimes:
    """The least transfers over all orders and shard groups of a (dp, pp).

    Args:
        total: Of the graph.
        row: Least rates.
        experts: Least rate of the experts' replicas.
        figures: Of the problem.
        mesh: Degrees.
        is_sharded: Of layouts with sharding; else of those without.
        gathers: For every pass.
    """
    ratio = figures.gradient_ratio
    message = Rate(row[MESSAGE], row[MESSAGE + 1])
    message_s = take(message, total[LINK_BYTES]) if mesh.pp > 1 else 0.0
    tied_s = take(message, ratio * total[END_TIED_BYTES]) if mesh.pp > 1 else 0.0
    part = 1.0 / (mesh.cp * mesh.dp) if is_sharded else 1.0
    expert_part = total[EXPERT_DEVICES] / (mesh.tp * mesh.cp * mesh.dp) if is_sharded else 1.0
    step_s = figures.step_s_per_byte * (part * total[OWN_BYTES] + expert_part * total[EXPERT_BYTES])
    longest_step_s = figures.step_s_per_byte * max(part * total[LARGEST_OWN], expert_part * total[LARGEST_EXPERT])
    if not is_sharded:
        whole = Rate(row[GRADIENTS], row[GRADIENTS + 1])
        twice = Rate(2 * ratio * experts.s_per_byte, 2 * experts.latency_s)
        sync_s = _all_s(whole, twice, total, 1.0, 1.0)
        first_s = _first_s(whole, twice, total, 1.0)
        return LinkTimes(
            message_s, sync_s, first_s, 0.0, 0.0, sync_s, 0.0, 0.0, 0.0, step_s, longest_step_s, tied_s
        )
    shards = Rate(row[REGATHER], row[REGATHER + 1])
    gather_s = _all_s(shards, experts, total, 1.0, 1.0)
    if gathers:
        scatter_s = _all_s(shards, experts, total, ratio, ratio)
        first_s = _first_s(shards, experts, total, ratio)
        return LinkTimes(
            message_s, 0.0, first_s, 0.0, 0.0, 0.0, gather_s, scatter_s, 0.0, step_s, longest_step_s, tied_s
        )
    sync, once = Rate(row[SYNC], row[SYNC + 1]), Rate(row[ONCE], row[ONCE + 1])
    scaled = Rate(ratio * experts.s_per_byte, experts.latency_s)
    sync_s = _all_s(sync, scaled, total, 1.0, 1.0)
    both = Rate((1 + ratio) * experts.s_per_byte, 2 * experts.latency_s)
    once_s = _all_s(once, both, total, 1.0, 1.0)
    first_sync_s = _first_s(sync, scaled, total, 1.0)
    first_regather_s = _first_s(shards, experts, total, 1.0)
    return LinkTimes(
        message_s, sync_s, first_sync_s, gather_s, first_regather_s, once_s, 0.0, 0.0, 0.0, step_s, longest_step_s,
        tied_s,
    )  # fmt: skip


class Sharded(NamedTuple):
    """What is sharded, over how many devices, and gathered for every pass or not."""

    sharding: int
    shard_group: int
    reshard: bool


@inner_in_place
def memory_costs(costs: Costs, figures: Figures, sharded: Sharded, num_expert_replicas: int) -> Costs:
    """The same with the bytes each byte of parameters takes, and the time of its step."""
    part, expert_part = 1.0 / sharded.shard_group, 1.0 / num_expert_replicas
    ratio, state = figures.gradient_ratio, figures.state_ratio
    own, expert, pair, largest = 1.0 + ratio + state, 1.0 + ratio + state, 0.0, 0.0
    if sharded.sharding == NONE:
        part = expert_part = 1.0
    elif sharded.sharding == OPTIMIZER:
        own, expert = 1.0 + ratio + state * part, 1.0 + ratio + state * expert_part
    else:
        own, expert, largest = 1.0 + (ratio + state) * part, 1.0 + (ratio + state) * expert_part, ratio
        if sharded.sharding == WEIGHTS_TOO and sharded.reshard:
            own, expert, pair = own - 1.0 + part, expert - 1.0 + expert_part, 1.0
        elif sharded.sharding == WEIGHTS_TOO:
            own, expert = own + part, expert + expert_part
    return Costs(
        costs.message, costs.shards, costs.copies, costs.gradients, costs.experts, float(sharded.shard_group),
        ratio, sharded.sharding != NONE, sharded.sharding == WEIGHTS_TOO and sharded.reshard, figures.overlap,
        costs.is_zero_bubble, own, expert, pair, largest, figures.step_s_per_byte * part,
        figures.step_s_per_byte * expert_part, figures.memory_bytes,
    )  # fmt: skip


@inner_in_place
def mesh_costs(levels: Levels, mesh: Mesh, num_expert_devices: int, is_zero_bubble: bool) -> Costs:
    """Messages, sums over all replicas and experts' transfers of a mesh; without sharding yet."""
    free = Rate(0.0, 0.0)
    _, whole = shard_rates(levels, mesh, NOT_SHARDED)
    return Costs(
        message_rate(levels, mesh), free, free, Rate(2 * whole.s_per_byte, 2 * whole.latency_s),
        expert_rate(levels, mesh, num_expert_devices), 1.0, 1.0, False, False, False, is_zero_bubble,
        1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    )  # fmt: skip


@inner_in_place
def sharded_costs(costs: Costs, shards: Rate, copies: Rate) -> Costs:
    """The same with the transfers of a shard group and of the copies of a shard."""
    return Costs(
        costs.message, shards, Rate(2 * copies.s_per_byte, 2 * copies.latency_s), costs.gradients, costs.experts,
        1.0, 1.0, False, False, False, costs.is_zero_bubble, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    )  # fmt: skip


@inner_in_place
def layout_links(total: Floats, costs: Costs, pp: int) -> LinkTimes:
    """Transfers of all layers under a layout, copies of tied weights left out."""
    ratio, experts = costs.gradient_ratio, costs.experts
    message_s = take(costs.message, total[LINK_BYTES]) if pp > 1 else 0.0
    tied_s = take(costs.message, ratio * total[END_TIED_BYTES]) if pp > 1 else 0.0
    step_s = costs.step_own_s * total[OWN_BYTES] + costs.step_expert_s * total[EXPERT_BYTES]
    longest_step_s = max(costs.step_own_s * total[LARGEST_OWN], costs.step_expert_s * total[LARGEST_EXPERT])
    if not costs.is_sharded:
        twice = Rate(2 * experts.s_per_byte, 2 * experts.latency_s)
        sync_s = _all_s(costs.gradients, twice, total, ratio, ratio)
        first_s = _first_s(costs.gradients, twice, total, ratio)
        return LinkTimes(
            message_s, sync_s, first_s, 0.0, 0.0, sync_s, 0.0, 0.0, 0.0, step_s, longest_step_s, tied_s
        )
    gather_s = _all_s(costs.shards, experts, total, 1.0, 1.0)
    scatter_s = _all_s(costs.shards, experts, total, ratio, ratio)
    none = Rate(0.0, 0.0)
    copies_s = _all_s(costs.copies, none, total, ratio / costs.shard_group, 0.0)
    first_copies_s = take(costs.copies, ratio * total[FIRST_OWN] / costs.shard_group)
    first_s = _first_s(costs.shards, experts, total, ratio) + first_copies_s
    if costs.gathers:
        return LinkTimes(
            message_s, 0.0, first_s, 0.0, 0.0, 0.0, gather_s, scatter_s, copies_s, step_s, longest_step_s, tied_s
        )
    first_regather_s = _first_s(costs.shards, experts, total, 1.0)
    sync_s = scatter_s + copies_s
    return LinkTimes(
        message_s, sync_s, first_s, gather_s, first_regather_s, sync_s + gather_s, 0.0, 0.0, 0.0, step_s,
        longest_step_s, tied_s,
    )  # fmt: skip
