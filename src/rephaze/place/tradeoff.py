"""The ``1f1b`` cost model, exactly: sum of loads, slowest stage and largest stage traded off.

    T = sum_k (load_k + tied_k) + (m_d - 1) * max_k load_k + x_d * max_k params_k + const_d

First, for each number of stages s and each ideal, the least sum, the least maximum load and the least
maximum parameters of the last s stages are found, each for itself; their combination bounds every plan from
below. The plan with the least maximum load gives an upper bound. Where the two meet, it is optimal. Where
they do not, plans of that depth and degree are grown from the front (``labels``).

Axis letters: e = stage, r = recompute mode, k = ideal, c = candidate degree, l = network level; tables [s,
z, k] have z stages of the rarer width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rephaze.compiled import inner, kernel
from rephaze.place.degrees import (
    batch_end,
    devices_of,
    fewest_microbatches,
    load_cuts,
    pick_load,
    pipeline_level_of,
)
from rephaze.place.labels import Goal, grow_labels
from rephaze.place.tables import (
    Degrees,
    Depths,
    Ints,
    Links,
    Loads,
    Plain,
    Remainders,
    ShortInts,
    StageTable,
    UpdateRates,
    Widths,
)


class SearchLimits(NamedTuple):
    """What a search of the 1f1b model may look for, and how hard."""

    level: int
    """Network level the pipelines must lie in."""
    cutoff_s: float
    """Only plans faster than this are of interest."""
    max_labels: int
    """Past so many labels of one depth and degree the search settles for a bound."""


def least_time_plan(
    table: StageTable,
    loads: Loads,
    widths: Widths,
    degrees: Degrees,
    depths: Depths,
    links: Links,
    rates: UpdateRates,
    limits: SearchLimits,
) -> tuple[float, float, int, Ints]:
    """The fastest plan within the limits.

    Returns:
        Its time (or the cutoff), a bound below every such plan and the cutoff, its dp (0: none), and the ideals
        between its stages.
    """
    return _least_time_plan(
        tuple(table),
        tuple(loads),
        tuple(widths),
        tuple(degrees),
        tuple(depths),
        tuple(links),
        tuple(rates),
        tuple(limits),
    )


@kernel
def _least_time_plan(
    plain_table: Plain,
    plain_loads: Plain,
    plain_widths: Plain,
    plain_degrees: Plain,
    plain_depths: Plain,
    plain_links: Plain,
    plain_rates: Plain,
    plain_limits: Plain,
) -> tuple[float, float, int, Ints]:
    table, loads, widths = StageTable(*plain_table), Loads(*plain_loads), Widths(*plain_widths)
    degrees, depths, links = Degrees(*plain_degrees), Depths(*plain_depths), Links(*plain_links)
    rates, limits = UpdateRates(*plain_rates), SearchLimits(*plain_limits)
    # Unpacked once: every field access of a tuple in compiled code counts references.
    start_k, end_e, limit_er, rare_e, is_line = (
        table.start_k, table.end_e, table.limit_er, table.rare_e, table.is_line
    )  # fmt: skip
    param_bytes_e, load_er, work_e, busy_e = table.param_bytes_e, loads.load_er, loads.work_e, loads.busy_e
    tied_s_e, count_c, dp_c = loads.tied_s_e, degrees.count_c, degrees.dp_c
    stages_least, stages_most, num_rare_most = depths.stages_least, depths.stages_most, widths.num_rare_most
    at_least_depth = depths.at_least_depth
    num_ideals = len(start_k) - 1
    full = num_ideals - 1
    fewest = fewest_microbatches(stages_most, widths, degrees, at_least_depth)
    best = limits.cutoff_s
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
    for least_szk in (sum_szk, slow_szk, heavy_szk):
        least_szk[0] = np.inf
        least_szk[0, 0, full] = 0.0
    plan_sum_szk[0] = plan_heavy_szk[0] = 0.0
    for s in range(1, stages_most + 1):
        if not best >= 0.98 * cuts_for:  # older cuts stay valid, they only cut less
            load_cuts(table, loads, stages_least, fewest, best, s, False, cut_s)
            cuts_for = best
        cut = cut_s[s]
        if cut == 0.0:
            break
        in_flight = min(s, depths.flight_cap)
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
            devices = devices_of(widths, s, z)
            for c in range(len(dp_c)):
                if dp_c[c] * devices > widths.num_devices or (at_least_depth and count_c[c] < s):
                    continue
                pipe = sum_szk[s, z, 0] + (count_c[c] - 1) * slow
                if pipe >= best:
                    break
                if pipeline_level_of(devices, dp_c[c], links.num_devices_l) != limits.level:
                    continue
                end = batch_end(devices, dp_c[c], links, rates)
                bound = pipe + end.s_per_byte * heavy_szk[s, z, 0] + end.fixed_s
                if bound >= best:
                    continue
                time = plan_sum_szk[s, z, 0] + (count_c[c] - 1) * slow
                time += end.s_per_byte * plan_heavy_szk[s, z, 0] + end.fixed_s
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
        _follow(choice_szk, table, best_stages, best_rare, cuts)
    lower = best
    rest = Remainders(sum_szk, slow_szk, heavy_szk)
    for at in np.argsort(open_bound[:num_open]):
        if open_bound[at] >= best:
            break
        s, z, c = open_at[at, 0], open_at[at, 1], open_at[at, 2]
        end = batch_end(devices_of(widths, s, z), dp_c[c], links, rates)
        goal = Goal(s, z, count_c[c], depths.flight_cap, best)
        time, is_exact, found = grow_labels(table, loads, rest, end, goal, limits.max_labels)
        if not is_exact:
            lower = min(lower, open_bound[at])
        if time < best:
            best, best_dp, cuts = time, dp_c[c], found
    return best, min(lower, best), best_dp, cuts


@inner
def _follow(choice_szk: ShortInts, table: StageTable, num_stages: int, num_rare: int, cuts: Ints) -> None:
    """Write the ideals between the stages of the plan of least maximum load."""
    k, z = 0, num_rare
    cuts[0] = 0
    for s in range(num_stages, 0, -1):
        e = choice_szk[s, z, k]
        k = table.end_e[e]
        z -= table.rare_e[e]
        cuts[num_stages - s + 1] = k
