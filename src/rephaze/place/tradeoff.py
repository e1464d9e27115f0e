"""The ``1f1b`` cost model, exactly: sum of loads, slowest stage and largest stage traded off.

    T = sum_k (load_k + tied_k) + (m_d - 1) * max_k load_k + x_d * max_k params_k + const_d

First, for each number of stages s and each ideal, the least sum, the least maximum load and the least
maximum parameters of the last s stages are found, each for itself; their combination bounds every plan from
below. The plan with the least maximum load gives an upper bound. Where the two meet, it is optimal. Where
they do not, plans are grown from the front as labels (sum, max load, max parameters); a label is dropped
when another at the same ideal is no worse in all three, or when it and the bounds for the rest cannot beat
the best plan.

Axis letters: e = stage, r = recompute mode, k = ideal, c = candidate degree, l = network level; tables [s,
z, k] have z stages of the rarer width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner, kernel
from rephaze.place.arrays import Floats, Ints
from rephaze.place.degrees import fewest_microbatches, load_cuts, pick_load, sync_cost

MAX_LABELS = 4_000_000
"""Labels kept for one (stages, dp) before the search settles for a bound."""


@kernel
def least_time_plan(
    start_k: Ints,
    end_e: NDArray[np.int32],
    is_line: bool,
    load_er: Floats,
    limit_er: NDArray[np.int32],
    work_e: Floats,
    busy_e: Floats,
    tied_s_e: Floats,
    param_bytes_e: Floats,
    rare_e: NDArray[np.uint8],
    num_rare_most: int,
    common_devices: int,
    rare_devices: int,
    num_devices: int,
    count_c: Ints,
    dp_c: Ints,
    stages_least: int,
    stages_most: int,
    flight_cap: int,
    at_least_depth: bool,
    level: int,
    group_l: Ints,
    bytes_per_s_l: Floats,
    latency_s_l: Floats,
    gradient_ratio: float,
    step_s_per_byte: float,
    total_work_s: float,
    transfer_s: float,
    cutoff_s: float,
    max_labels: int,
) -> tuple[float, float, int, NDArray[np.int64]]:
    """The fastest plan below ``cutoff_s`` whose pipelines lie in network level ``level``.

    A stage never has more than ``flight_cap`` microbatches in flight; with ``at_least_depth`` only plans with
    at least as many microbatches as stages count; past ``max_labels`` labels the search settles for a bound.

    Returns:
        Its time (or ``cutoff_s``), a bound below every such plan and the cutoff, its dp (0: none), and the
        ideals between its stages.
    """
    num_ideals = len(start_k) - 1
    full = num_ideals - 1
    fewest = fewest_microbatches(
        stages_most, num_rare_most, common_devices, rare_devices, num_devices, count_c, dp_c, at_least_depth
    )
    best = cutoff_s
    best_dp = best_stages = best_rare = 0
    shape = (stages_most + 1, num_rare_most + 1, num_ideals)
    sum_szk, slow_szk, heavy_szk = np.empty(shape), np.empty(shape), np.empty(shape)
    # Of the plan of least maximum load: its choice, its sum, its largest parameters.
    choice_szk = np.empty(shape, dtype=np.int32)
    plan_sum_szk, plan_heavy_szk = np.empty(shape), np.empty(shape)
    open_bound = np.empty(256)
    open_at = np.empty((256, 3), dtype=np.int64)
    num_open = 0
    cut_s = np.zeros(stages_most + 1)
    cuts_for = np.nan  # the time cut_s was made for

    lowest = full
    for table in (sum_szk, slow_szk, heavy_szk):
        table[0] = np.inf
        table[0, 0, full] = 0.0
    plan_sum_szk[0] = plan_heavy_szk[0] = 0.0
    for s in range(1, stages_most + 1):
        if not best >= 0.98 * cuts_for:  # older cuts stay valid, they only cut less
            load_cuts(
                best,
                s,
                stages_least,
                fewest,
                start_k,
                work_e,
                busy_e,
                is_line,
                total_work_s,
                transfer_s,
                False,
                cut_s,
            )
            cuts_for = best
        cut = cut_s[s]
        if cut == 0.0:
            break
        in_flight = min(s, flight_cap)
        bare_e = busy_e if in_flight > 1 else work_e
        sum_szk[s] = np.inf
        slow_szk[s] = np.inf
        heavy_szk[s] = np.inf
        previous_lowest, lowest = lowest, num_ideals
        for k in range(full - 1, -1, -1):
            first = start_k[k]
            if is_line:
                first += max(0, previous_lowest - k - 1)
                if first >= start_k[k + 1] or bare_e[first] >= cut:
                    # Longer stages from earlier ideals are heavier still.
                    if k < previous_lowest:
                        break
                    continue
            for e in range(first, start_k[k + 1]):
                if bare_e[e] >= cut:
                    if is_line:
                        break
                    continue
                load = pick_load(load_er, limit_er, e, in_flight)
                if load >= cut:
                    continue
                after = end_e[e]
                for z in range(min(s - 1, num_rare_most - rare_e[e]) + 1):
                    if slow_szk[s - 1, z, after] == np.inf:
                        continue
                    lowest = k
                    y = z + rare_e[e]
                    cost = load + tied_s_e[e]
                    sum_szk[s, y, k] = min(sum_szk[s, y, k], cost + sum_szk[s - 1, z, after])
                    heavy = max(param_bytes_e[e], heavy_szk[s - 1, z, after])
                    heavy_szk[s, y, k] = min(heavy_szk[s, y, k], heavy)
                    slow = max(load, slow_szk[s - 1, z, after])
                    plan_sum = cost + plan_sum_szk[s - 1, z, after]
                    if slow < slow_szk[s, y, k] or (
                        slow == slow_szk[s, y, k] and plan_sum < plan_sum_szk[s, y, k]
                    ):
                        slow_szk[s, y, k] = slow
                        choice_szk[s, y, k] = e
                        plan_sum_szk[s, y, k] = plan_sum
                        plan_heavy_szk[s, y, k] = max(param_bytes_e[e], plan_heavy_szk[s - 1, z, after])
        if lowest == num_ideals:
            break
        if s < stages_least or lowest > 0:
            continue
        for z in range(min(s, num_rare_most) + 1):
            slow = slow_szk[s, z, 0]
            if slow == np.inf:
                continue
            devices = (s - z) * common_devices + z * rare_devices
            for c in range(len(dp_c)):
                if dp_c[c] * devices > num_devices or (at_least_depth and count_c[c] < s):
                    continue
                pipe = sum_szk[s, z, 0] + (count_c[c] - 1) * slow
                if pipe >= best:
                    break
                if pipeline_level(devices, dp_c[c], group_l) != level:
                    continue
                per_byte, fixed = sync_cost(
                    devices, dp_c[c], group_l, bytes_per_s_l, latency_s_l, gradient_ratio, step_s_per_byte
                )
                bound = pipe + per_byte * heavy_szk[s, z, 0] + fixed
                if bound >= best:
                    continue
                time = plan_sum_szk[s, z, 0] + (count_c[c] - 1) * slow
                time += per_byte * plan_heavy_szk[s, z, 0] + fixed
                if time < best:
                    best, best_dp, best_stages, best_rare = time, dp_c[c], s, z
                if bound < time:
                    if num_open == len(open_bound):
                        open_bound = np.concatenate((open_bound, np.empty(num_open)))
                        open_at = np.concatenate((open_at, np.empty((num_open, 3), dtype=np.int64)))
                    open_bound[num_open] = bound
                    open_at[num_open, 0], open_at[num_open, 1], open_at[num_open, 2] = s, z, c
                    num_open += 1

    cuts = np.empty(best_stages + 1, dtype=np.int64)
    if best_stages:
        _follow(choice_szk, end_e, rare_e, best_stages, best_rare, cuts)
    lower = best
    for at in np.argsort(open_bound[:num_open]):
        if open_bound[at] >= best:
            break
        s, z, c = open_at[at, 0], open_at[at, 1], open_at[at, 2]
        devices = (s - z) * common_devices + z * rare_devices
        per_byte, fixed = sync_cost(
            devices, dp_c[c], group_l, bytes_per_s_l, latency_s_l, gradient_ratio, step_s_per_byte
        )
        time, is_exact, found = _grow_labels(
            start_k, end_e, load_er, limit_er, tied_s_e, param_bytes_e, rare_e, num_rare_most,
            sum_szk, slow_szk, heavy_szk, s, z, count_c[c], per_byte, fixed, flight_cap, best, max_labels,
        )  # fmt: skip
        if not is_exact:
            lower = min(lower, open_bound[at])
        if time < best:
            best, best_dp, cuts = time, dp_c[c], found
    return best, min(lower, best), best_dp, cuts


@kernel
def pipeline_level(devices: int, dp: int, group_l: Ints) -> int:
    """``network.pipeline_level`` on arrays."""
    for at in range(len(group_l)):
        if group_l[at] % devices == 0 or dp * devices <= group_l[at]:
            return at
    return len(group_l) - 1


@inner
def _follow(
    choice_szk: NDArray[np.int32],
    end_e: NDArray[np.int32],
    rare_e: NDArray[np.uint8],
    num_stages: int,
    num_rare: int,
    cuts: Ints,
) -> None:
    """Write the ideals between the stages of the plan of least maximum load."""
    k, z = 0, num_rare
    cuts[0] = 0
    for s in range(num_stages, 0, -1):
        e = choice_szk[s, z, k]
        k = end_e[e]
        z -= rare_e[e]
        cuts[num_stages - s + 1] = k


@inner
def _grow_labels(
    start_k: Ints,
    end_e: NDArray[np.int32],
    load_er: Floats,
    limit_er: NDArray[np.int32],
    tied_s_e: Floats,
    param_bytes_e: Floats,
    rare_e: NDArray[np.uint8],
    num_rare_most: int,
    sum_szk: Floats,
    slow_szk: Floats,
    heavy_szk: Floats,
    num_stages: int,
    num_rare: int,
    count: int,
    per_byte: float,
    fixed: float,
    flight_cap: int,
    cutoff_s: float,
    max_labels: int,
) -> tuple[float, bool, NDArray[np.int64]]:
    """The fastest plan of one depth and dp below ``cutoff_s``: its time, whether proven, its ideals."""
    num_ideals = len(start_k) - 1
    capacity = min(1024, max_labels)
    cost = np.zeros((capacity, 3))  # sum, slowest, heaviest
    at_k = np.zeros(capacity, dtype=np.int64)
    at_z = np.zeros(capacity, dtype=np.int64)
    parent = np.zeros(capacity, dtype=np.int64)
    following = np.zeros(capacity, dtype=np.int64)  # next label at the same (ideal, z), -1: none
    alive = np.ones(capacity, dtype=np.uint8)
    head = np.full((num_ideals, num_rare_most + 1), -1, dtype=np.int64)
    layer_start, total = 0, 1
    weight = count - 1.0
    nothing = np.empty(0, dtype=np.int64)
    for placed in range(num_stages):
        s = num_stages - placed  # this stage's position from the end
        in_flight = min(s, flight_cap)
        layer_end = total
        for label in range(layer_start, layer_end):
            if not alive[label]:
                continue
            k = at_k[label]
            for e in range(start_k[k], start_k[k + 1]):
                after = end_e[e]
                z = at_z[label] + rare_e[e]
                if z > num_rare or num_rare - z > s - 1:
                    continue
                if slow_szk[s - 1, num_rare - z, after] == np.inf:
                    continue
                load = pick_load(load_er, limit_er, e, in_flight)
                if load == np.inf:
                    continue
                spent = cost[label, 0] + load + tied_s_e[e]
                slow = max(cost[label, 1], load)
                heavy = max(cost[label, 2], param_bytes_e[e])
                bound = spent + sum_szk[s - 1, num_rare - z, after] + fixed
                bound += weight * max(slow, slow_szk[s - 1, num_rare - z, after])
                bound += per_byte * max(heavy, heavy_szk[s - 1, num_rare - z, after])
                if bound >= cutoff_s:
                    continue
                dominated = False
                other = head[after, z]
                while other >= 0:
                    if alive[other]:
                        # A criterion without weight does not keep a label alive.
                        if cost[other, 0] <= spent and (
                            (weight == 0.0 or cost[other, 1] <= slow)
                            and (per_byte == 0.0 or cost[other, 2] <= heavy)
                        ):
                            dominated = True
                            break
                        if spent <= cost[other, 0] and (
                            (weight == 0.0 or slow <= cost[other, 1])
                            and (per_byte == 0.0 or heavy <= cost[other, 2])
                        ):
                            alive[other] = 0
                    other = following[other]
                if dominated:
                    continue
                if total == capacity:
                    if capacity >= max_labels:
                        return cutoff_s, False, nothing
                    cost = np.concatenate((cost, np.empty((capacity, 3))))
                    at_k = np.concatenate((at_k, np.empty(capacity, dtype=np.int64)))
                    at_z = np.concatenate((at_z, np.empty(capacity, dtype=np.int64)))
                    parent = np.concatenate((parent, np.empty(capacity, dtype=np.int64)))
                    following = np.concatenate((following, np.empty(capacity, dtype=np.int64)))
                    alive = np.concatenate((alive, np.ones(capacity, dtype=np.uint8)))
                    capacity *= 2
                cost[total, 0], cost[total, 1], cost[total, 2] = spent, slow, heavy
                at_k[total], at_z[total], parent[total] = after, z, label
                following[total] = head[after, z]
                head[after, z] = total
                total += 1
        for label in range(layer_end, total):
            head[at_k[label], at_z[label]] = -1
        layer_start = layer_end
    best, winner = cutoff_s, -1
    for label in range(layer_start, total):
        if alive[label]:
            time = cost[label, 0] + weight * cost[label, 1] + per_byte * cost[label, 2] + fixed
            if time < best:
                best, winner = time, label
    if winner < 0:
        return cutoff_s, True, nothing
    cuts = np.empty(num_stages + 1, dtype=np.int64)
    for at in range(num_stages, -1, -1):
        cuts[at] = at_k[winner]
        winner = parent[winner]
    return best, True, cuts
