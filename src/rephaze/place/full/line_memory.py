"""Whether a line fits at all, for many layouts at once: at the least any of them holds of a byte of parameters.

Axis letters: v = layer, o = sharding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner
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


class Replicas(NamedTuple):
    """How many devices hold the same weight, and the same expert."""

    own: int
    expert: int


@inner
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


@inner
def may_fit_alone(
    line: Line, choices: Choices, tp: int, cp: int, num_experts: int, count: int, gathers: bool
) -> bool:
    """Whether each layer fits with no other under some layout: sharded over as many replicas as there can be."""
    most_dp = min(count, choices.num_devices // (tp * cp))
    if gathers and not (choices.is_sharding_o[WEIGHTS_TOO] and choices.may_reshard and cp * most_dp > 1):
        return False
    replicas = Replicas(cp * most_dp, max(tp * cp * most_dp // num_experts, 1))
    if _does_each_layer_fit(line, least_held(choices, replicas, gathers, False)):
        return True
    # A single replica is not sharded, whatever is allowed.
    alone = Replicas(1, max(tp // num_experts, 1))
    return not gathers and cp == 1 and _does_each_layer_fit(line, least_held(choices, alone, False, False))


@inner
def _does_each_layer_fit(line: Line, costs: Costs) -> bool:
    """Whether each layer fits with no other: a device holds no less, and keeps or rebuilds all of a layer once."""
    for v in range(len(line.forward_s_v)):
        p, pe = line.param_bytes_v[v], line.expert_bytes_v[v]
        fixed = costs.own_ratio * p + costs.expert_ratio * pe + (costs.pair_ratio + costs.largest_ratio) * (p + pe)
        if fixed + line.kept_bytes_vk[v, 0] + line.working_bytes_v[v] > costs.memory_bytes:
            return False
    return True


@inner
def fits_on_average(total: Floats, least_kept: float, costs: Costs, shape: Shape) -> bool:
    """Whether all devices together hold what all stages must: a microbatch at least is kept of every layer."""
    in_flight = min(shape.pp, shape.num_microbatches) if shape.schedule == ZERO_BUBBLE else 1
    fixed = costs.own_ratio * total[OWN_BYTES] + costs.expert_ratio * total[EXPERT_BYTES]
    return bool(fixed + in_flight * least_kept <= shape.pp * costs.memory_bytes)


@inner
def may_interleave(line: Line, costs: Costs, floors: Floors, shape: Shape, limit_s: float) -> bool:
    """Whether an interleaved plan of any cut may fit and be faster than the limit.

    Devices together have room for pp microbatches of every chunk but the last of each device, of which fewer are
    in flight. How much those can hold follows from how long a chunk may take, what all layers keep at least from
    how much the devices have time to replay.
    """
    pp, count, num_points = shape.pp, shape.num_microbatches, line.kept_bytes_vk.shape[1]
    most_s = most_load_s(floors, shape, limit_s)
    messages_s = 2 * (pp * shape.chunks - 1) * floors.message_s
    own, experts, work_s, kept, least_kept, price_s = 0.0, 0.0, 0.0, 0.0, 0.0, np.inf
    # Two ends of a run no longer than a chunk may be.
    chunk_s = (limit_s - count * floors.slowest_s - floors.step_s) / (pp - 1)
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
