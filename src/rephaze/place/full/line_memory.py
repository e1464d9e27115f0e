"""Whether a line fits at all, for many layouts at once: at the least any of them holds of a byte of parameters.

Axis letters: v = layer, o = sharding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, unfolded
from rephaze.place.full.least_time import ROUNDING, ZERO_BUBBLE, Floors, Shape, most_load_s
from rephaze.place.full.line_layouts import (
    EXPERT_BYTES,
    NONE,
    OWN_BYTES,
    WEIGHTS_TOO,
    Choices,
    Sharded,
    memory_costs,
)
from rephaze.place.full.lines import Line
from rephaze.place.full.rates import Rate
from rephaze.place.full.spans import Costs

Floats = NDArray[np.float64]

NO = unfolded(False)


class Replicas(NamedTuple):
    """How many devices hold the same weight, and the same expert."""

    own: int
    expert: int


@inner_in_place
def least_held(choices: Choices, replicas: Replicas, gathers: bool, is_zero_bubble: bool) -> Costs:
    """The least any sharding holds, over all replicas; transfers take no time."""
    free = Rate(0.0, 0.0)
    costs = Costs(
        free, free, free, free, free, 1.0, 1.0, False, False, False, is_zero_bubble,
        np.inf, np.inf, np.inf, np.inf, 0.0, 0.0, choices.figures.memory_bytes,
    )  # fmt: skip
    for sharding in range(4):
        is_legal = choices.is_sharding_o[sharding] if replicas.own > 1 else sharding == NONE
        if not is_legal or (gathers and sharding != WEIGHTS_TOO):
            continue
        sharded = Sharded(sharding, 1 if sharding == NONE else replicas.own, gathers)
        one = memory_costs(costs, choices.figures, sharded, replicas.expert)
        costs = Costs(
            free, free, free, free, free, 1.0, 1.0, False, False, False, is_zero_bubble,
            min(costs.own_ratio, one.own_ratio), min(costs.expert_ratio, one.expert_ratio),
            min(costs.pair_ratio, one.pair_ratio), min(costs.largest_ratio, one.largest_ratio),
            0.0, 0.0, choices.figures.memory_bytes,
        )  # fmt: skip
    return costs


@inner_in_place
def may_fit_alone(
    line: Line, choices: Choices, tp: int, cp: int, num_experts: int, count: int, gathers: bool
) -> bool:
    """Whether each layer fits with no other under some layout: sharded over as many replicas as there can be."""
    most_dp = min(count, choices.num_devices // (tp * cp))
    if gathers and not (choices.is_sharding_o[WEIGHTS_TOO] and choices.may_reshard and cp * most_dp > 1):
        return False
    replicas = Replicas(cp * most_dp, max(tp * cp * most_dp // num_experts, 1))
    if _does_each_layer_fit(line, least_held(choices, replicas, gathers, NO)):
        return True
    # A single replica is not sharded, whatever is allowed.
    alone = Replicas(1, max(tp // num_experts, 1))
    return not gathers and cp == 1 and _does_each_layer_fit(line, least_held(choices, alone, NO, NO))


@inner_in_place
def _does_each_layer_fit(line: Line, costs: Costs) -> bool:
    """Whether each layer fits with no other: a device holds no less, and keeps or rebuilds all of a layer once."""
    for v in range(len(line.forward_s_v)):
        p, pe = line.param_bytes_v[v], line.expert_bytes_v[v]
        fixed = costs.own_ratio * p + costs.expert_ratio * pe + (costs.pair_ratio + costs.largest_ratio) * (p + pe)
        if fixed + line.kept_bytes_vk[v, 0] + line.working_bytes_v[v] > costs.memory_bytes:
            return False
    return True


@inner_in_place
def least_kept_bytes(line: Line) -> float:
    """What all layers keep at least of a microbatch."""
    kept, last = 0.0, line.kept_bytes_vk.shape[1] - 1
    for v in range(len(line.kept_bytes_vk)):
        kept += line.kept_bytes_vk[v, last]
    return kept


@inner_in_place
def fits_on_average(total: Floats, least_kept: float, costs: Costs, shape: Shape) -> bool:
    """Whether all devices together hold what all stages must: a microbatch at least is kept of every layer."""
    in_flight = min(shape.pp, shape.num_microbatches) if shape.schedule == ZERO_BUBBLE else 1
    fixed = costs.own_ratio * total[OWN_BYTES] + costs.expert_ratio * total[EXPERT_BYTES]
    return bool(fixed + in_flight * least_kept <= shape.pp * costs.memory_bytes)


@inner_in_place
def may_interleave(line: Line, costs: Costs, floors: Floors, shape: Shape, limit_s: float) -> bool:
    """Whether an interleaved plan of any cut may fit and be faster than the limit.

    Devices together have room for pp microbatches of every chunk but the last of each device, of which fewer are
    in flight. How much those can hold follows from how long a chunk may take, what all layers keep at least from
    how much the devices have time to replay.
    """
    pp, count = shape.pp, shape.num_microbatches
    # Two ends of a run no longer than a chunk may be.
    chunk_s = (limit_s - count * floors.slowest_s - floors.step_s) / (pp - 1)
    messages_s = 2 * (pp * shape.chunks - 1) * floors.message_s
    most_s = most_load_s(floors, shape, limit_s)
    return may_interleave_within(line, costs, pp, most_s, chunk_s, messages_s) and may_deal_blocks(
        line, costs, shape, most_s
    )


@inner_in_place
def may_interleave_within(
    line: Line, costs: Costs, pp: int, most_s: float, chunk_s: float, messages_s: float
) -> bool:
    """The same if no device may take longer than ``most_s``, and no chunk than ``chunk_s``."""
    num_points = line.kept_bytes_vk.shape[1]
    own, experts, work_s, kept, least_kept, price_s = 0.0, 0.0, 0.0, 0.0, 0.0, np.inf
    most_in_chunk, in_chunk, run_s, first = 0.0, 0.0, 0.0, 0
    for v in range(len(line.forward_s_v)):
        own += line.param_bytes_v[v]
        experts += line.expert_bytes_v[v]
        both_s, full = line.forward_s_v[v] + line.compute_s_vk[v, 0], line.kept_bytes_vk[v, 0]
        work_s += both_s
        kept += full
        least_kept += line.kept_bytes_vk[v, num_points - 1]
        for k in range(1, num_points):
            if line.lost_bytes_vk[v, k] > 0:
                replay_s = line.compute_s_vk[v, k] - line.compute_s_vk[v, 0]
                price_s = min(price_s, replay_s / line.lost_bytes_vk[v, k])
        run_s += both_s
        in_chunk += full
        while run_s > chunk_s * (1 + ROUNDING) and first <= v:
            run_s -= line.forward_s_v[first] + line.compute_s_vk[first, 0]
            in_chunk -= line.kept_bytes_vk[first, 0]
            first += 1
        most_in_chunk = max(most_in_chunk, in_chunk)
    spare_s = max(0.0, pp * most_s * (1 + ROUNDING) - work_s - messages_s)
    if price_s > 0:
        least_kept = max(least_kept, kept - spare_s / price_s)
    missing = 0.0
    for device in range(pp):
        missing += pp - min(pp, 2 * (pp - device - 1) + 1)
    needed = costs.own_ratio * own + costs.expert_ratio * experts + pp * least_kept - missing * most_in_chunk
    return bool(needed <= pp * costs.memory_bytes * (1 + ROUNDING))


@inner_in_place
def may_deal_blocks(line: Line, costs: Costs, shape: Shape, most_s: float) -> bool:
    """Whether an interleaved plan of any cut has room for the layers that repeat, in time and in memory.

    A device keeps no less of a layer than of its last chunk, of which fewest microbatches are in flight. How many
    equal layers it can then hold, each with what is worth keeping of it in the time that is left, is the same
    whichever they are; together the devices must hold all.
    """
    first, num_blocks = _longest_run(line)
    room = 0
    for device in range(shape.pp):
        in_flight = min(shape.pp, 2 * (shape.pp - device - 1) + 1, shape.num_microbatches)
        room += _most_blocks(line, costs, first, num_blocks, in_flight, most_s * (1 + ROUNDING))
        if room >= num_blocks:
            return True
    return False


@inner_in_place
def _longest_run(line: Line) -> tuple[int, int]:
    """Where most equal layers follow each other, and how many."""
    best, most, first = 0, 1, 0
    for v in range(1, len(line.forward_s_v)):
        is_same = line.forward_s_v[v] == line.forward_s_v[first]
        is_same = is_same and line.param_bytes_v[v] == line.param_bytes_v[first]
        is_same = is_same and line.expert_bytes_v[v] == line.expert_bytes_v[first]
        for k in range(line.kept_bytes_vk.shape[1]):
            is_same = is_same and line.compute_s_vk[v, k] == line.compute_s_vk[first, k]
            is_same = is_same and line.kept_bytes_vk[v, k] == line.kept_bytes_vk[first, k]
        if not is_same:
            first = v
        if v + 1 - first > most:
            best, most = first, v + 1 - first
    return best, most


@inner_in_place
def _most_blocks(line: Line, costs: Costs, v: int, num_blocks: int, in_flight: int, most_s: float) -> int:
    """How many layers like this a device can hold."""
    held = costs.own_ratio * line.param_bytes_v[v] + costs.expert_ratio * line.expert_bytes_v[v]
    both_s = line.forward_s_v[v] + line.compute_s_vk[v, 0]
    memory_bytes = costs.memory_bytes * (1 + ROUNDING)
    low, high = 0, num_blocks
    while low < high:
        count = (low + high + 1) // 2
        spare_s = most_s / count - both_s
        if spare_s >= 0 and count * (held + in_flight * _least_kept(line, v, spare_s)) <= memory_bytes:
            low = count
        else:
            high = count - 1
    return low


@inner_in_place
def _least_kept(line: Line, v: int, spare_s: float) -> float:
    """The least of a layer that is kept on average, if replays take no longer on average."""
    kept_k, compute_k = line.kept_bytes_vk[v], line.compute_s_vk[v]
    least: float = kept_k[0]
    for k in range(len(kept_k)):
        replay_s = compute_k[k] - compute_k[0]
        if replay_s <= spare_s:
            least = min(least, kept_k[k])
            continue
        # Some layers at this point, the others at one that takes less.
        for other in range(k):
            less_s = compute_k[other] - compute_k[0]
            if less_s <= spare_s:
                share = (spare_s - less_s) / (replay_s - less_s)
                least = min(least, kept_k[other] + share * (kept_k[k] - kept_k[other]))
    return least
