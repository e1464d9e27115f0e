"""Kept bytes against replay time on one chip: the front over all that a layer may keep.

A set's operators are replayed one after another, or as the whole scheduled forward pass if that is quicker; both
are ways to run it, so every point can be had. Bytes and times of a set are sums over its decisions, so the front
is built decision by decision, and what is behind after some decisions stays behind whatever the others add.

Shorter operators make no point worse: for each point (bytes, time) of a front there is one with no more of either
when operators or the forward pass take less time. A set's time is a sum, and the smaller of it and the forward
pass: it rises with each of them, also as doubles are rounded, because the order of additions is fixed. The front's
time at some bytes is the least over the sets that keep no more, and these do not depend on times. This holds for
the whole front; which points a limit on their number picks depends on all of them.

Axis letters: k = point, d = decision, h = choice, n = operator.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner, inner_in_place, kernel
from rephaze.workload.passes.keep_sets import KeepSets

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MAX_POINTS = 32
"""Of a front unless told otherwise."""
LEAST = -1
"""As choices: nothing is kept but the layer's inputs."""


def pareto_points(
    sets: KeepSets, op_time_s_n: Floats, full_s: float, microbatch: int, max_points: int = MAX_POINTS
) -> tuple[Ints, Floats, Ints]:
    """Kept bytes (falling), replay times in seconds (rising from 0) and choices (point x decision) of the front.

    The first point keeps everything; the last one the fewest bytes, those of the layer's inputs. Choices are
    numbered within their decision, as ``KeepSets.kept_storages`` and ``KeepSets.replayed_ops`` take them; a row
    of ``LEAST`` drops all but the inputs.

    Args:
        sets: What the layer may keep.
        op_time_s_n: Time of each of ``sets.ops`` alone on the chip; that of views is not looked at.
        full_s: Time of the layer's whole forward pass as scheduled.
        microbatch: In samples.
        max_points: A longer front is thinned: its ends, and between them, at evenly spaced bytes, the quickest
            point that keeps no more. 0: never.
    """
    kept_bytes_k, replay_s_k, choice_kd = _front(
        sets.first_choice_d,
        sets.bytes_h(microbatch),
        sets.replayed_hn,
        np.ascontiguousarray(op_time_s_n, dtype=np.float64),
        sets.full_bytes.at(microbatch),
        sets.least_bytes.at(microbatch),
        sets.least_replayed_n,
        float(full_s),
    )
    if not 0 < max_points < len(kept_bytes_k):
        return kept_bytes_k, replay_s_k, choice_kd
    spaced = np.linspace(kept_bytes_k[0], kept_bytes_k[-1], max_points)
    # Bytes fall along the front: of those that keep no more, the first is the quickest. The ends are met exactly.
    picked = np.unique(np.searchsorted(-kept_bytes_k, -spaced.astype(np.int64)))
    return kept_bytes_k[picked], replay_s_k[picked], choice_kd[picked]


def compile_kernels() -> None:
    """Make ``pareto_points`` ready."""
    none, one = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
    _front(np.array([0, 1], dtype=np.int64), none, one[:, None], np.zeros(1), 1, 0, one, 0.0)


@kernel
def _front(
    first_choice_d: Ints,
    bytes_h: Ints,
    replayed_hn: Flags,
    op_time_s_n: Floats,
    full_bytes: int,
    least_bytes: int,
    least_replayed_n: Flags,
    full_s: float,
) -> tuple[Ints, Floats, Ints]:
    num_decisions = len(first_choice_d) - 1
    bytes_k, time_s_k = np.zeros(1, dtype=np.int64), np.zeros(1)
    choice_kd = np.zeros((1, num_decisions), dtype=np.int64)
    for decision in range(num_decisions):
        first, end = first_choice_d[decision], first_choice_d[decision + 1]
        added_s = np.empty(end - first)
        for choice in range(first, end):
            added_s[choice - first] = _sum_s(replayed_hn[choice], op_time_s_n)
        bytes_k, time_s_k, choice_kd = _with_decision(
            bytes_k, time_s_k, choice_kd, decision, bytes_h[first:end], added_s
        )
    least_s = min(_sum_s(least_replayed_n, op_time_s_n), full_s)
    # Nothing to make again: there is one point, whatever the inputs count.
    has_least = least_replayed_n.any()
    front_bytes = np.empty(len(bytes_k) + 1, dtype=np.int64)
    front_s = np.empty(len(bytes_k) + 1)
    front_choice = np.empty((len(bytes_k) + 1, num_decisions), dtype=np.int64)
    length = 0
    for k in range(len(bytes_k)):
        kept = full_bytes + bytes_k[k]
        if bytes_k[k] < 0:
            kept = max(kept, least_bytes)
        replay_s = min(time_s_k[k], full_s)
        if length and has_least and replay_s >= least_s:
            break
        if length and kept >= front_bytes[length - 1]:
            continue
        if not (length and replay_s == front_s[length - 1]):
            length += 1
        front_bytes[length - 1], front_s[length - 1] = kept, replay_s
        _copy(choice_kd[k], front_choice[length - 1])
    if has_least and least_bytes < front_bytes[length - 1]:
        if least_s > front_s[length - 1]:
            length += 1
        front_bytes[length - 1], front_s[length - 1] = least_bytes, least_s
        front_choice[length - 1] = LEAST
    return front_bytes[:length].copy(), front_s[:length].copy(), front_choice[:length].copy()


@inner_in_place
def _copy(choice_d: Ints, into_d: Ints) -> None:
    """One by one: of a whole row, numba compiles for seconds what is said if the lengths differ."""
    for decision in range(len(choice_d)):
        into_d[decision] = choice_d[decision]


@inner_in_place
def _sum_s(replayed_n: Flags, op_time_s_n: Floats) -> float:
    found_s = 0.0
    for n in range(len(replayed_n)):
        if replayed_n[n]:
            found_s += op_time_s_n[n]
    return found_s


@inner
def _with_decision(
    bytes_k: Ints, time_s_k: Floats, choice_kd: Ints, decision: int, added_bytes: Ints, added_s: Floats
) -> tuple[Ints, Floats, Ints]:
    """The front of all that was decided before, with one more decision: times rise, bytes fall."""
    num_points, num_choices = len(bytes_k), len(added_bytes)
    most = num_points * num_choices
    new_bytes, new_s = np.empty(most, dtype=np.int64), np.empty(most)
    new_from, new_choice = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    # With each choice the old front is a list in order of time: these are merged.
    next_h = np.zeros(num_choices, dtype=np.int64)
    length = 0
    for _ in range(most):
        best = -1
        best_s, best_bytes = 0.0, 0
        for choice in range(num_choices):
            k = next_h[choice]
            if k == num_points:
                continue
            time_s, kept = time_s_k[k] + added_s[choice], bytes_k[k] + added_bytes[choice]
            if best < 0 or time_s < best_s or (time_s == best_s and kept < best_bytes):
                best, best_s, best_bytes = choice, time_s, kept
        k = next_h[best]
        next_h[best] += 1
        if length and best_bytes >= new_bytes[length - 1]:
            continue
        if not (length and best_s == new_s[length - 1]):
            length += 1
        new_bytes[length - 1], new_s[length - 1] = best_bytes, best_s
        new_from[length - 1], new_choice[length - 1] = k, best
    choices = np.empty((length, choice_kd.shape[1]), dtype=np.int64)
    for k in range(length):
        _copy(choice_kd[new_from[k]], choices[k])
        choices[k, decision] = new_choice[k]
    return new_bytes[:length].copy(), new_s[:length].copy(), choices
