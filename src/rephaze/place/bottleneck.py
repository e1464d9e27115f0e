"""The ``paper`` cost model, exactly: the slowest stage times the pipeline's length, plus one sync.

    T = max_k load_k * (ceil(m / d) + S - 1) + 4 (d - 1) / d * params_1 / bandwidth

For each number of stages s and each ideal, the least possible slowest stage of the last s stages is found
from that of the last s - 1. The first stage is chosen last, with d, because its parameters count.

Axis letters: e = stage, r = recompute mode, k = ideal, c = candidate degree; w[s, z, k] has z stages of the
rarer width.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import kernel
from rephaze.place.degrees import devices_of, fewest_microbatches, load_cuts, pick_load
from rephaze.place.tables import Degrees, Depths, Ints, Loads, Plain, StageTable, Widths


def least_bottleneck_plan(
    table: StageTable,
    loads: Loads,
    widths: Widths,
    degrees: Degrees,
    depths: Depths,
    sync_s_per_byte: float,
    cutoff_s: float,
) -> tuple[float, int, Ints]:
    """Time, dp and ideals between stages of the fastest plan below ``cutoff_s``; else cutoff, 0, empty."""
    return _least_bottleneck_plan(
        tuple(table), tuple(loads), tuple(widths), tuple(degrees), tuple(depths), sync_s_per_byte, cutoff_s
    )


@kernel
def _least_bottleneck_plan(
    plain_table: Plain,
    plain_loads: Plain,
    plain_widths: Plain,
    plain_degrees: Plain,
    plain_depths: Plain,
    sync_s_per_byte: float,
    cutoff_s: float,
) -> tuple[float, int, Ints]:
    table, loads, widths = StageTable(*plain_table), Loads(*plain_loads), Widths(*plain_widths)
    degrees, depths = Degrees(*plain_degrees), Depths(*plain_depths)
    # Unpacked once: every field access of a tuple in compiled code counts references.
    start_k, end_e, limit_er, rare_e, is_line = (
        table.start_k, table.end_e, table.limit_er, table.rare_e, table.is_line
    )  # fmt: skip
    param_bytes_e, load_er, work_e, busy_e = table.param_bytes_e, loads.load_er, loads.work_e, loads.busy_e
    count_c, dp_c = degrees.count_c, degrees.dp_c
    stages_least, stages_most, num_rare_most = depths.stages_least, depths.stages_most, widths.num_rare_most
    num_ideals = len(start_k) - 1
    full = num_ideals - 1
    fewest = fewest_microbatches(stages_most, widths, degrees, False)
    best = cutoff_s
    best_dp = best_stages = best_rare = 0
    best_first = -1
    slowest_szk = np.empty((stages_most + 1, num_rare_most + 1, num_ideals))
    choice_szk = np.empty((stages_most + 1, num_rare_most + 1, num_ideals), dtype=np.int32)
    first_c = np.zeros(num_rare_most + 1, dtype=np.int64)  # largest dp that fits, by stages of the rarer width
    lowest = full  # least ideal from which the last s - 1 stages are known
    cut_s = np.zeros(stages_most + 1)
    cuts_for = np.nan  # the time cut_s was made for
    slowest_szk[0] = np.inf
    slowest_szk[0, 0, full] = 0.0
    for s in range(1, stages_most + 1):
        if not best >= 0.98 * cuts_for:  # older cuts stay valid, they only cut less
            load_cuts(table, loads, stages_least, fewest, best, s, True, cut_s)
            cuts_for = best
        if cut_s[s] == 0.0:
            break
        for z in range(min(s, num_rare_most) + 1):
            devices = devices_of(widths, s, z)
            first_c[z] = 0
            while first_c[z] < len(dp_c) and dp_c[first_c[z]] * devices > widths.num_devices:
                first_c[z] += 1
        if s >= stages_least:
            for e in range(start_k[0], start_k[1]):
                load = pick_load(load_er, limit_er, e, s)
                if load >= cut_s[s]:
                    continue
                for z in range(min(s - 1, num_rare_most - rare_e[e]) + 1):
                    slowest = max(load, slowest_szk[s - 1, z, end_e[e]])
                    if slowest >= best:
                        continue
                    for c in range(first_c[z + rare_e[e]], len(dp_c)):
                        pipe = slowest * (count_c[c] + s - 1)
                        if pipe >= best:
                            break
                        time = pipe + sync_s_per_byte * param_bytes_e[e] * (dp_c[c] - 1) / dp_c[c]
                        if time < best:
                            best, best_dp, best_stages, best_rare, best_first = time, dp_c[c], s, z, e
        if s == stages_most:
            break
        # The last s stages, from every ideal; this stage is s-th from the end.
        cut = cut_s[s + 1]
        bare_e = busy_e if s > 1 else work_e
        slowest_szk[s] = np.inf
        previous_lowest, lowest = lowest, num_ideals
        for k in range(full - 1, 0, -1):
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
                load = pick_load(load_er, limit_er, e, s)
                if load >= cut:
                    continue
                for z in range(min(s - 1, num_rare_most - rare_e[e]) + 1):
                    slowest = max(load, slowest_szk[s - 1, z, end_e[e]])
                    if slowest < slowest_szk[s, z + rare_e[e], k]:
                        slowest_szk[s, z + rare_e[e], k] = slowest
                        choice_szk[s, z + rare_e[e], k] = e
                        lowest = k
        if lowest == num_ideals:
            break
    if best_first < 0:
        return cutoff_s, 0, np.empty(0, dtype=np.int64)
    cuts = np.empty(best_stages + 1, dtype=np.int64)
    cuts[0] = 0
    e, z = best_first, best_rare
    for s in range(best_stages - 1, 0, -1):
        k = end_e[e]
        cuts[best_stages - s] = k
        e = choice_szk[s, z, k]
        z -= rare_e[e]
    cuts[best_stages] = full
    return best, best_dp, cuts
