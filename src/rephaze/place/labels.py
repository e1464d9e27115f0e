"""Plans of one depth and degree grown from the front: sum of loads, slowest and largest stage kept apart.

A label is a pipeline's first stages: where they end, and the sum, the slowest load and the most parameters so far.
It is dropped when another at the same ideal is no worse in all three, or when it and the bounds for the rest
(``tables.Remainders``) cannot beat the best plan.

Axis letters: e = stage, r = recompute mode, k = ideal; tables [s, z, k] have z stages of the rarer width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rephaze.compiled import inner
from rephaze.place.degrees import pick_load
from rephaze.place.tables import BatchEnd, Ints, Loads, Remainders, StageTable

MAX_LABELS = 4_000_000
"""Labels kept for one (stages, dp) before the search settles for a bound."""

# What a label has cost so far, as columns.
_SUM, _SLOW, _HEAVY = range(3)


class Goal(NamedTuple):
    """The plans to be grown: depth, stages of the rarer width, microbatches, and the time to beat."""

    num_stages: int
    num_rare: int
    num_microbatches: int
    flight_cap: int
    """A stage never has more microbatches in flight."""
    cutoff_s: float


@inner
def grow_labels(
    table: StageTable, loads: Loads, rest: Remainders, end: BatchEnd, goal: Goal, max_labels: int
) -> tuple[float, bool, Ints]:
    """The fastest plan of a goal: its time (or the cutoff), whether proven, the ideals between its stages."""
    # Unpacked once: every field access of a tuple in compiled code counts references.
    start_k, end_e, limit_er, rare_e = table.start_k, table.end_e, table.limit_er, table.rare_e
    param_bytes_e, load_er, tied_s_e = table.param_bytes_e, loads.load_er, loads.tied_s_e
    sum_szk, slow_szk, heavy_szk = rest.sum_szk, rest.slow_szk, rest.heavy_szk
    num_stages, num_rare, cutoff_s = goal.num_stages, goal.num_rare, goal.cutoff_s
    per_byte, fixed = end.s_per_byte, end.fixed_s
    num_ideals = len(start_k) - 1
    capacity = min(1024, max_labels)
    cost = np.zeros((capacity, 3))
    at_k = np.zeros(capacity, dtype=np.int64)
    at_z = np.zeros(capacity, dtype=np.int64)
    parent = np.zeros(capacity, dtype=np.int64)
    following = np.zeros(capacity, dtype=np.int64)  # next label at the same (ideal, z), -1: none
    alive = np.ones(capacity, dtype=np.uint8)
    head = np.full((num_ideals, slow_szk.shape[1]), -1, dtype=np.int64)
    layer_start, total = 0, 1
    weight = goal.num_microbatches - 1.0
    nothing = np.empty(0, dtype=np.int64)
    for placed in range(num_stages):
        s = num_stages - placed  # this stage's position from the end
        in_flight = min(s, goal.flight_cap)
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
                spent = cost[label, _SUM] + load + tied_s_e[e]
                slow = max(cost[label, _SLOW], load)
                heavy = max(cost[label, _HEAVY], param_bytes_e[e])
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
                        if cost[other, _SUM] <= spent and (
                            (weight == 0.0 or cost[other, _SLOW] <= slow)
                            and (per_byte == 0.0 or cost[other, _HEAVY] <= heavy)
                        ):
                            dominated = True
                            break
                        if spent <= cost[other, _SUM] and (
                            (weight == 0.0 or slow <= cost[other, _SLOW])
                            and (per_byte == 0.0 or heavy <= cost[other, _HEAVY])
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
                cost[total, _SUM], cost[total, _SLOW], cost[total, _HEAVY] = spent, slow, heavy
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
            time = cost[label, _SUM] + weight * cost[label, _SLOW] + per_byte * cost[label, _HEAVY] + fixed
            if time < best:
                best, winner = time, label
    if winner < 0:
        return cutoff_s, True, nothing
    cuts = np.empty(num_stages + 1, dtype=np.int64)
    for at in range(num_stages, -1, -1):
        cuts[at] = at_k[winner]
        winner = parent[winner]
    return best, True, cuts
