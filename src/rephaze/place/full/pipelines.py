"""The best cut into stages under one layout, exactly: labels from the last stage to the first, compiled.

A label is a cut of the last layers into so many stages: what adds up over stages, and the largest of each quantity
of which a schedule takes the largest. A batch's time falls with none of them, so of two labels of the same layers
the one that is nowhere better goes; and so does one whose time, with the least the layers before it can add, does
not beat the best plan known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner, kernel
from rephaze.place.full.cuts import Cuts
from rephaze.place.full.stage_costs import StageCosts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_LABELS = 2_000_000


class Pipeline(NamedTuple):
    """What is asked of a cut."""

    pp: int
    num_microbatches: int
    """Of a replica."""
    is_zero_bubble: bool
    memory_bytes: float
    cutoff_s: float
    """Plans no faster are of no use."""
    work_s_by_set: Floats
    """Forward and backward time of all layers of a set."""
    is_first_allowed_e: NDArray[np.bool_]
    is_inner_allowed_e: NDArray[np.bool_]
    is_last_allowed_e: NDArray[np.bool_]


class Found(NamedTuple):
    """The fastest cut below the cutoff: stages front to back, none if there is none."""

    batch_s: float
    stages: Ints
    points: Ints
    is_complete: bool
    """False: there were too many labels, and some plans were not looked at."""


@inner
def batch_time(total_s: float, most_q: Floats, pp: int, count: int, is_zero_bubble: bool) -> float:
    """The time of a batch from what adds up and from the largest amounts of any stage."""
    first, second, third, fourth = float(most_q[0]), float(most_q[1]), float(most_q[2]), float(most_q[3])
    if not is_zero_bubble:
        return total_s + (count - 1) * first + second + third + fourth
    slowest, backward, ahead, forward = first, second, third, fourth
    steady = min(pp - 1, count - 1)
    pipe = count * slowest + max(
        (pp - 1) * ahead - steady * (slowest - ahead),
        (pp - 1 - steady) * ahead + steady * backward,
        (pp - 1) * forward + (pp - 1 - steady) * backward,
    )
    late, step = float(most_q[4]), float(most_q[5])
    return total_s + pipe + max(0.0, late - slowest) + step


@inner
def _point(costs: StageCosts, e: int, in_flight: int, memory_bytes: float) -> int:
    """The fastest point of ``keep`` that fits; -1 if none does."""
    for k in range(costs.kept_bytes_ek.shape[1]):
        used = costs.fixed_bytes_e[e] + in_flight * costs.kept_bytes_ek[e, k]
        if used + costs.replay_bytes_ek[e, k] + costs.working_bytes_e[e] <= memory_bytes:
            return k
    return -1


@kernel
def best_cut(cuts: Cuts, costs: StageCosts, asked: Pipeline) -> Found:
    """The cut of least batch time."""
    num_sets, num_maxima = cuts.num_sets, costs.most_s_ekq.shape[2]
    capacity = 1024
    total_l = np.zeros(capacity)
    most_lq = np.zeros((capacity, num_maxima))
    stage_l = np.zeros(capacity, dtype=np.int64)
    point_l = np.zeros(capacity, dtype=np.int64)
    parent_l = np.zeros(capacity, dtype=np.int64)
    next_l = np.zeros(capacity, dtype=np.int64)
    num_labels = 0
    head = np.full(num_sets, -1, dtype=np.int64)
    best_s, best_label = asked.cutoff_s, -1
    trial = np.zeros(num_maxima)
    is_complete = True
    for depth in range(1, asked.pp + 1):
        fresh = np.full(num_sets, -1, dtype=np.int64)
        left = asked.pp - depth
        in_flight = min(asked.pp if asked.is_zero_bubble else depth, asked.num_microbatches)
        for at in range(len(cuts.by_end)):
            e = cuts.by_end[at]
            start, end = cuts.start_e[e], cuts.end_e[e]
            if (left == 0) != (start == 0) or (depth == 1) != (end == num_sets - 1):
                continue
            if (depth == 1 and not asked.is_last_allowed_e[e]) or (left == 0 and not asked.is_first_allowed_e[e]):
                continue
            if depth > 1 and left > 0 and not asked.is_inner_allowed_e[e]:
                continue
            behind = -2 if depth == 1 else head[end]
            if behind == -1:
                continue
            k = _point(costs, e, in_flight, asked.memory_bytes)
            if k < 0:
                continue
            while behind != -1:
                parent = behind
                total = costs.sum_s_ek[e, k]
                for q in range(num_maxima):
                    trial[q] = costs.most_s_ekq[e, k, q]
                if parent >= 0:
                    total += total_l[parent]
                    for q in range(num_maxima):
                        trial[q] = max(trial[q], most_lq[parent, q])
                behind = -1 if parent == -2 else next_l[parent]
                rest_s = asked.work_s_by_set[start]
                slowest = trial[0]
                if left > 0:
                    trial[0] = max(slowest, rest_s / left)
                least = total if asked.is_zero_bubble else total + rest_s
                time_s = batch_time(least, trial, asked.pp, asked.num_microbatches, asked.is_zero_bubble)
                trial[0] = slowest
                if time_s >= best_s:
                    continue
                # Labels of the same layers and depth: the needless go.
                is_needless, previous, other = False, -1, fresh[start]
                while other != -1:
                    no_worse, no_better = total_l[other] <= total, total_l[other] >= total
                    for q in range(num_maxima):
                        no_worse = no_worse and most_lq[other, q] <= trial[q]
                        no_better = no_better and most_lq[other, q] >= trial[q]
                    if no_worse:
                        is_needless = True
                        break
                    following = next_l[other]
                    if no_better:
                        if previous == -1:
                            fresh[start] = following
                        else:
                            next_l[previous] = following
                    else:
                        previous = other
                    other = following
                if is_needless:
                    continue
                if num_labels == MAX_LABELS:
                    is_complete = False
                    continue
                if num_labels == capacity:
                    grown = 2 * capacity
                    total_l = np.concatenate((total_l, np.zeros(capacity)))
                    most_lq = np.concatenate((most_lq, np.zeros((capacity, num_maxima))))
                    stage_l = np.concatenate((stage_l, np.zeros(capacity, dtype=np.int64)))
                    point_l = np.concatenate((point_l, np.zeros(capacity, dtype=np.int64)))
                    parent_l = np.concatenate((parent_l, np.zeros(capacity, dtype=np.int64)))
                    next_l = np.concatenate((next_l, np.zeros(capacity, dtype=np.int64)))
                    capacity = grown
                new = num_labels
                num_labels += 1
                total_l[new] = total
                for q in range(num_maxima):
                    most_lq[new, q] = trial[q]
                stage_l[new], point_l[new], parent_l[new] = e, k, parent
                next_l[new] = fresh[start]
                fresh[start] = new
                if left == 0:
                    best_s, best_label = time_s, new
        head = fresh
    num_stages = asked.pp if best_label >= 0 else 0
    stages = np.zeros(num_stages, dtype=np.int64)
    points = np.zeros(num_stages, dtype=np.int64)
    label = best_label
    for at in range(num_stages):
        stages[at], points[at] = stage_l[label], point_l[label]
        label = parent_l[label]
    return Found(best_s, stages, points, is_complete)
