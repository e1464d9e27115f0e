"""What both searches share: data-parallel degrees worth trying, what they cost, and bounds by pipeline depth.

Axis letters: c = candidate degree (microbatches per pipeline rise, dp falls), s = number of stages.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import inner, kernel
from rephaze.place.tables import (
    BLOCK,
    NONE,
    NUM_MODES,
    STAGE,
    BatchEnd,
    Degrees,
    Floats,
    Ints,
    Links,
    Loads,
    ShortInts,
    StageTable,
    UpdateRates,
    Widths,
)

UNLIMITED = 2**30
"""Microbatches in flight where nothing caps them."""


def candidate_degrees(num_microbatches: int, num_devices: int, dp: int | None) -> Degrees:
    """The degrees worth trying, by rising microbatches.

    Only the smallest dp for each distinct ceil(m / dp) matters: a larger one buys nothing and costs devices
    and a longer all-reduce. There are about 2 sqrt(m) of them.
    """
    most = min(num_microbatches, num_devices)
    if dp is not None:
        chosen = np.array([dp] if dp <= most else [], dtype=np.int64)
        return Degrees(count_c=-(-num_microbatches // chosen), dp_c=chosen)
    per_pipeline: list[int] = []
    degrees: list[int] = []
    d = most
    while d >= 1:
        count = -(-num_microbatches // d)
        smallest = -(-num_microbatches // count)
        per_pipeline.append(count)
        degrees.append(smallest)
        d = smallest - 1
    return Degrees(count_c=np.array(per_pipeline, dtype=np.int64), dp_c=np.array(degrees, dtype=np.int64))


@inner
def pick_load(load_er: Floats, limit_er: ShortInts, e: int, in_flight: int) -> float:
    """The least load of a stage over the recompute modes that fit with this many microbatches in flight."""
    best = np.inf
    for r in range(NUM_MODES):
        if limit_er[e, r] >= in_flight and load_er[e, r] < best:
            best = load_er[e, r]
    return best


@inner
def devices_of(widths: Widths, num_stages: int, num_rare: int) -> int:
    """Devices of a pipeline."""
    return (num_stages - num_rare) * widths.common_devices + num_rare * widths.rare_devices


@kernel
def fewest_microbatches(num_stages_most: int, widths: Widths, degrees: Degrees, at_least_depth: bool) -> Ints:
    """For s = 0, 1, ...: the fewest microbatches a pipeline of s or more stages can have; 0: none fits.

    Args:
        num_stages_most: Greatest s asked for.
        widths: Devices of its stages.
        degrees: Candidates.
        at_least_depth: Only candidates with at least s microbatches count.
    """
    count_c, dp_c = degrees.count_c, degrees.dp_c
    fewest = np.zeros(num_stages_most + 1, dtype=np.int64)
    c = 0
    for s in range(1, num_stages_most + 1):
        num_rare = min(s, widths.num_rare_most) if widths.rare_devices < widths.common_devices else 0
        needed = devices_of(widths, s, num_rare)
        while c < len(dp_c) and (dp_c[c] * needed > widths.num_devices or (at_least_depth and count_c[c] < s)):
            c += 1
        if c == len(dp_c):
            break
        fewest[s] = count_c[c]
    return fewest


@kernel
def shallowest_depth(table: StageTable, fewest_s: Ints, is_paper: bool) -> int:
    """No pipeline of fewer stages fits in memory; past the last depth when none does.

    From the end, stage by stage: the ideals from which the last s stages can hold the rest.
    """
    start_k, end_e, limit_er = table.start_k, table.end_e, table.limit_er
    num_ideals = len(start_k) - 1
    reached = np.zeros(num_ideals, dtype=np.bool_)
    reached[num_ideals - 1] = True
    for s in range(1, len(fewest_s)):
        in_flight = s if is_paper else min(s, fewest_s[s])
        further = np.zeros(num_ideals, dtype=np.bool_)
        for k in range(num_ideals - 1):
            for e in range(start_k[k], start_k[k + 1]):
                if reached[end_e[e]] and (
                    max(limit_er[e, NONE], limit_er[e, BLOCK], limit_er[e, STAGE]) >= in_flight
                ):
                    further[k] = True
                    break
        if further[0]:
            return s
        reached = further
    return len(fewest_s)


@kernel
def pipeline_level_of(devices: int, dp: int, group_l: Ints) -> int:
    """``network.pipeline_level`` on arrays: ``group_l`` is ``Links.num_devices_l``."""
    for at in range(len(group_l)):
        if group_l[at] % devices == 0 or dp * devices <= group_l[at]:
            return at
    return len(group_l) - 1


@inner
def batch_end(devices: int, dp: int, links: Links, rates: UpdateRates) -> BatchEnd:
    """What summing gradients over ``dp`` pipelines of so many devices and the optimizer's step take."""
    if dp == 1:
        return BatchEnd(rates.step_s_per_byte, 0.0)
    group_l = links.num_devices_l
    at = 0
    while at < len(group_l) - 1 and dp * devices > group_l[at]:
        at += 1
    per_byte = 2.0 * (dp - 1) / dp * rates.gradient_ratio / links.bytes_per_s_l[at]
    return BatchEnd(per_byte + rates.step_s_per_byte, 2.0 * (dp - 1) * links.latency_s_l[at])


@kernel
def list_options(
    stages_least: int,
    devices_s: Ints,
    heaviest_bytes_s: Floats,
    num_devices: int,
    degrees: Degrees,
    links: Links,
    rates: UpdateRates,
    is_paper: bool,
) -> tuple[Ints, Ints, Floats]:
    """Depths and degrees worth a look: (depth, microbatches, least time of what happens once a batch).

    By rising depth and microbatches; more microbatches only pay for a cheaper end of the batch, so the last of the
    three falls with the second. ``devices_s`` and ``heaviest_bytes_s`` are the fewest devices and the least
    parameters of the stage that counts, by depth.
    """
    count_c, dp_c = degrees.count_c, degrees.dp_c
    most = max(len(devices_s) - stages_least, 0) * len(dp_c)
    depth_o = np.empty(most, dtype=np.int64)
    count_o = np.empty(most, dtype=np.int64)
    once_s_o = np.empty(most)
    at = 0
    for s in range(stages_least, len(devices_s)):
        least = np.inf
        for c in range(len(dp_c)):
            if dp_c[c] * devices_s[s] > num_devices:
                continue
            if is_paper:
                once = 4.0 * (dp_c[c] - 1) / dp_c[c] * heaviest_bytes_s[s] / links.bytes_per_s_l[-1]
            else:
                end = batch_end(devices_s[s], dp_c[c], links, rates)
                once = end.s_per_byte * heaviest_bytes_s[s] + end.fixed_s
            if once < least:
                depth_o[at], count_o[at], once_s_o[at] = s, count_c[c], once
                least = once
                at += 1
    return depth_o[:at].copy(), count_o[:at].copy(), once_s_o[:at].copy()


@kernel
def quickest_pipeline(
    depth_o: Ints,
    count_o: Ints,
    once_s_o: Floats,
    total_work_s: float,
    total_busy_s: float,
    largest_work_s: float,
    transfer_s: float,
    is_paper: bool,
) -> float:
    """No plan is faster than this: perfectly even stages at the best of the options."""
    least = np.inf
    for o in range(len(depth_o)):
        s = depth_o[o]
        even = (total_work_s + 2 * (s - 1) * transfer_s) / s
        slowest = max(even, largest_work_s)
        if is_paper or count_o[o] > 1:
            # Where replay is a must, only the last stage is spared it, and that is at most one load.
            slowest = max(slowest, (total_busy_s + (s - 1) * transfer_s) / (s + 1))
        filling = (s - 1) * slowest if is_paper else even * s - slowest
        least = min(least, filling + count_o[o] * slowest + once_s_o[o])
    return least


@inner
def load_cuts(
    table: StageTable,
    loads: Loads,
    stages_least: int,
    fewest_s: Ints,
    best_s: float,
    first_s: int,
    is_paper: bool,
    cut_s: Floats,
) -> None:
    """Fill ``cut_s`` from ``first_s`` on: a stage s-th from the end with this load is in no better plan.

    For each depth S the slowest load a better plan may have follows from its time; on a line, stages filled
    up to that load then show whether S of them can hold all layers. ``cut_s[s]`` is the greatest over the
    depths S >= s that can, and 0 from where none does.

    Args:
        table: The stages.
        loads: Their times.
        stages_least: No plan is shallower.
        fewest_s: From ``fewest_microbatches``.
        best_s: Time to beat.
        first_s: Least s to fill.
        is_paper: Which cost model.
        cut_s: Result.
    """
    # Unpacked once: every field access of a tuple in compiled code counts references.
    start_k, is_line, work_e, busy_e = table.start_k, table.is_line, loads.work_e, loads.busy_e
    total_work_s, transfer_s = loads.total_work_s, loads.transfer_s
    cut = 0.0
    for s in range(len(fewest_s) - 1, first_s - 1, -1):
        if fewest_s[s] > 0 and s >= stages_least:
            if is_paper:
                slowest = best_s / (fewest_s[s] + s - 1)
            else:
                left = best_s - total_work_s - 2 * (s - 1) * transfer_s
                slowest = left / (fewest_s[s] - 1) if fewest_s[s] > 1 else (best_s if left > 0.0 else 0.0)
            if slowest > cut and (
                not is_line or _stages_needed(start_k, work_e, busy_e, transfer_s, slowest) <= s
            ):
                cut = slowest
        cut_s[s] = cut


@inner
def _stages_needed(start_k: Ints, work_e: Floats, busy_e: Floats, transfer_s: float, slowest_s: float) -> int:
    """Stages of a line when each is filled until its work and transfers reach ``slowest_s``."""
    if slowest_s == np.inf:
        return 1
    full = len(start_k) - 2
    k = count = 0
    while k < full:
        inward = transfer_s if k > 0 else 0.0
        whole = start_k[k] + full - k - 1
        if whole < start_k[k + 1] and work_e[whole] + inward < slowest_s:
            return count + 1
        furthest = k
        for e in range(start_k[k], start_k[k + 1]):
            # A gradient's transfer may hide behind the replay, not behind the rest.
            if max(busy_e[e], work_e[e] + transfer_s) + inward >= slowest_s:
                break
            furthest = k + 1 + e - start_k[k]
        if furthest == k:
            return full + 1
        k = furthest
        count += 1
    return count
