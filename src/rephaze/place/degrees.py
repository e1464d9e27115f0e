"""What both searches share: which data-parallel degrees are worth trying, and bounds by pipeline depth.

Axis letters: c = candidate degree (microbatches per pipeline rise, dp falls), s = number of stages.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rephaze.place.arrays import Floats, Ints

UNLIMITED = 2**30


def candidate_degrees(num_microbatches: int, num_devices: int, dp: int | None) -> tuple[Ints, Ints]:
    """Pairs (microbatches a pipeline works through, dp) worth trying, by rising microbatches.

    Only the smallest dp for each distinct ceil(m / dp) matters: a larger one buys nothing and costs devices and
    a longer all-reduce. There are about 2 sqrt(m) of them.
    """
    most = min(num_microbatches, num_devices)
    if dp is not None:
        chosen = np.array([dp] if dp <= most else [], dtype=np.int64)
        return -(-num_microbatches // chosen), chosen
    per_pipeline: list[int] = []
    degrees: list[int] = []
    d = most
    while d >= 1:
        count = -(-num_microbatches // d)
        smallest = -(-num_microbatches // count)
        per_pipeline.append(count)
        degrees.append(smallest)
        d = smallest - 1
    return np.array(per_pipeline, dtype=np.int64), np.array(degrees, dtype=np.int64)


@njit(cache=True)
def pick_load(load_er: Floats, limit_er: NDArray[np.int32], e: int, in_flight: int) -> float:
    """The least load of a stage over the recompute modes that fit with this many microbatches in flight."""
    best = np.inf
    for r in range(3):
        if limit_er[e, r] >= in_flight and load_er[e, r] < best:
            best = load_er[e, r]
    return best


@njit(cache=True)
def fewest_microbatches(
    num_stages_most: int,
    num_rare_most: int,
    common_devices: int,
    rare_devices: int,
    num_devices: int,
    count_c: Ints,
    dp_c: Ints,
    at_least_depth: bool,
) -> Ints:
    """For s = 0, 1, ...: the fewest microbatches a pipeline of s or more stages can have; 0 from where none fits.

    Args:
        num_stages_most: Greatest s asked for.
        num_rare_most: Most stages that can take ``rare_devices`` instead of ``common_devices``.
        common_devices: Devices of most stages.
        rare_devices: Devices of the others.
        num_devices: In the cluster.
        count_c: Candidates: microbatches a pipeline works through, rising.
        dp_c: Candidates: the degree.
        at_least_depth: Only candidates with at least s microbatches count.
    """
    fewest = np.zeros(num_stages_most + 1, dtype=np.int64)
    c = 0
    for s in range(1, num_stages_most + 1):
        num_rare = min(s, num_rare_most) if rare_devices < common_devices else 0
        needed = (s - num_rare) * common_devices + num_rare * rare_devices
        while c < len(dp_c) and (dp_c[c] * needed > num_devices or (at_least_depth and count_c[c] < s)):
            c += 1
        if c == len(dp_c):
            break
        fewest[s] = count_c[c]
    return fewest
