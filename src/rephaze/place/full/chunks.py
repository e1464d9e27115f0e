"""One cut into chunks (``interleaved``): the best choice of what each chunk keeps, and its time.

Devices share no choice: each has some choices that fit, told apart by its own time, its longest chunk, and when it
is done with the sums of its gradients. A batch takes the largest of each over the devices, so devices are joined
one after another, and of two sets of choices the one that is nowhere better goes.

Axis letters: d = device, c = chunk of a device, m = moment, x = choice of a device, l = label, q = figure,
k = point of ``keep``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place
from rephaze.place.full.line_fits import Asked
from rephaze.place.full.spans import (
    ALL_COPIES,
    ALL_GATHERS,
    ALL_SYNCS,
    BACKWARD,
    COMES,
    COMPUTE,
    EXPERTS,
    EXPOSED,
    FORWARD,
    KEPT,
    LARGEST,
    LOST,
    NUM_POINT,
    NUM_SPAN,
    OWN,
    PAIR,
    REGATHER,
    RETURNS,
    TAIL,
    WORKING,
    Costs,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_CHOICES = 256
"""Of one device that are nowhere worse than another."""
MAX_JOINED = 2048
MAX_TRIALS = 1 << 15
"""Choices of one device that are looked at; where there are more, those with one point for all its chunks too."""
OWN_S, LONGEST_S, LATE_S = 0, 1, 2
"""Figures of a choice."""
NUM_CHUNK = 6
LOAD_S, BUSY_S, KEPT_BYTES, LOST_BYTES, EXPOSED_S, COMPUTE_S = range(NUM_CHUNK)
"""Figures of a chunk at one point of ``keep``."""


class Crew(NamedTuple):
    """Memory for the work on one cut."""

    num_moments_d: Ints
    in_flight_dmc: Ints
    """Microbatches of each chunk a device holds at the moments that can be its fullest."""
    moments_of: Ints
    """(pp, chunks, microbatches) they are for."""
    num_choices_d: Ints
    choice_dxq: Floats
    choice_points_dx: Ints
    joined_blq: Floats
    """Two buffers."""
    joined_points_bld: Ints
    point_c: Ints
    chunk_ckq: Floats
    sum_cq: Floats
    """Of a device's chunks: sums of gradients, weights gathered once, and their sum less the forward compute."""
    trial_c: Ints
    rest_s_c: Floats
    """The least that a chunk and those after it take."""


def make_crew(num_layers: int, most_chunks: int, num_points: int) -> Crew:
    """For pipelines of up to half as many devices as layers."""
    most_devices = num_layers // 2 + 1
    return Crew(
        np.zeros(most_devices, dtype=np.int64),
        np.zeros((most_devices, 2 * most_chunks + 3, most_chunks), dtype=np.int64),
        np.zeros(3, dtype=np.int64),
        np.zeros(most_devices, dtype=np.int64),
        np.zeros((most_devices, MAX_CHOICES, 3)),
        np.zeros((most_devices, MAX_CHOICES), dtype=np.int64),
        np.zeros((2, MAX_JOINED, 3)),
        np.empty((2, MAX_JOINED, most_devices), dtype=np.int64),
        np.zeros(max(num_layers, 1), dtype=np.int64),
        np.zeros((most_chunks, num_points, NUM_CHUNK)),
        np.zeros((most_chunks, 3)),
        np.zeros(most_chunks, dtype=np.int64),
        np.zeros(most_chunks + 1),
    )


@inner_in_place
def fill_moments(pp: int, num_chunks: int, count: int, crew: Crew) -> None:
    """The moments at which a device can be fullest.

    Once it runs forward and backward passes in turn, what it holds of each chunk rises or falls evenly between
    moments at which one of the two goes on to another chunk, and repeats after pp passes of each chunk.
    """
    if crew.moments_of[0] == pp and crew.moments_of[1] == num_chunks and crew.moments_of[2] == count:
        return
    crew.moments_of[0], crew.moments_of[1], crew.moments_of[2] = pp, num_chunks, count
    total, period = count * num_chunks, pp * num_chunks
    for device in range(pp):
        ahead = min(total, 2 * (pp - device - 1) + (num_chunks - 1) * pp)
        last = min(total - 1 - ahead, period - 1)
        num_moments = 0
        if last < 0:  # all forward passes come first
            for c in range(num_chunks):
                crew.in_flight_dmc[device, 0, c] = count
            crew.num_moments_d[device] = 1
            continue
        begin = pp - 1 - (ahead % pp)  # forward passes go on to another chunk after this many more
        for step in range(2 * num_chunks + 3):
            half = step // 2
            at = half * pp if step % 2 == 0 else begin + half * pp
            if step == 2 * num_chunks + 2:
                at = last
            if at > last:
                continue
            for c in range(num_chunks):
                begun = _passes_of(at + ahead + 1, c, pp, num_chunks)
                done = _passes_of(at, num_chunks - 1 - c, pp, num_chunks)
                crew.in_flight_dmc[device, num_moments, c] = begun - done
            num_moments += 1
        crew.num_moments_d[device] = num_moments


@inner_in_place
def _passes_of(num_passes: int, chunk: int, pp: int, num_chunks: int) -> int:
    """How many of the first passes are of a chunk, pp of each in turn."""
    turns, left = num_passes // (pp * num_chunks), num_passes % (pp * num_chunks)
    return turns * pp + min(max(left - chunk * pp, 0), pp)


class Spread(NamedTuple):
    """A cut: where chunks start, one more entry at the end, and the figures of runs by end and length."""

    start_c: Ints
    span_ejq: Floats


@inner_in_place
def _fill_rows(device: int, spread: Spread, costs: Costs, asked: Asked, num_points: int, crew: Crew) -> float:
    """The figures of a device's chunks by point; gives back the bytes it holds whatever is kept."""
    own, experts, pair, largest, working = 0.0, 0.0, 0.0, 0.0, 0.0
    for at in range(asked.chunks):
        c = device + at * asked.pp
        row = spread.span_ejq[spread.start_c[c + 1], spread.start_c[c + 1] - spread.start_c[c] - 1]
        own += row[OWN]
        experts += row[EXPERTS]
        pair = max(pair, row[PAIR])
        largest = max(largest, row[LARGEST])
        working = max(working, row[WORKING])
        crew.sum_cq[at, 0] = row[ALL_COPIES] if costs.gathers else row[ALL_SYNCS]
        crew.sum_cq[at, 1], crew.sum_cq[at, 2] = row[REGATHER], row[ALL_GATHERS] - row[COMPUTE]
        for k in range(num_points):
            point = NUM_SPAN + NUM_POINT * k
            figures = crew.chunk_ckq[at, k]
            figures[LOAD_S] = row[COMES] + row[FORWARD] + row[RETURNS] + row[point + BACKWARD]
            figures[BUSY_S] = figures[LOAD_S] + row[point + TAIL]
            figures[KEPT_BYTES], figures[LOST_BYTES] = row[point + KEPT], row[point + LOST]
            figures[EXPOSED_S], figures[COMPUTE_S] = row[point + EXPOSED], row[point + BACKWARD]
    fixed = costs.own_ratio * own + costs.expert_ratio * experts + working
    return fixed + costs.pair_ratio * pair + costs.largest_ratio * largest


@inner_in_place
def _fits(device: int, fixed: float, memory_bytes: float, num_chunks: int, crew: Crew) -> bool:
    """Whether so many bytes and what is kept at the points ``crew.trial_c`` fit at every moment."""
    for m in range(crew.num_moments_d[device]):
        held = 0.0
        for at in range(num_chunks):
            held += crew.in_flight_dmc[device, m, at] * crew.chunk_ckq[at, crew.trial_c[at], KEPT_BYTES]
        if fixed + held > memory_bytes:
            return False
    return True


@inner_in_place
def _late_s(costs: Costs, num_chunks: int, crew: Crew) -> float:
    """What of a device's sums nothing hides, at the points ``crew.trial_c``."""
    sync_s, regather_s = 0.0, 0.0
    for at in range(num_chunks - 1, -1, -1):  # the backward pass starts with the last layers
        figures = crew.chunk_ckq[at, crew.trial_c[at]]
        if costs.gathers or not costs.overlap:
            sync_s += crew.sum_cq[at, 0]
            regather_s += crew.sum_cq[at, 1]
        else:
            sync_s = max(figures[EXPOSED_S], sync_s + crew.sum_cq[at, 0] - figures[COMPUTE_S])
            regather_s = max(crew.sum_cq[at, 1], crew.sum_cq[at, 2] + regather_s)
    return sync_s + regather_s


@inner_in_place
def _list_choices(device: int, spread: Spread, costs: Costs, asked: Asked, num_points: int, crew: Crew) -> bool:
    """The choices of a device that fit and are nowhere worse than another; whether all were kept.

    Chunk by chunk: a choice for the first ones goes if it does not fit though the others keep least, or takes too
    long though they take least.
    """
    num_chunks, memory_bytes, trial_c, rest_s_c = asked.chunks, costs.memory_bytes, crew.trial_c, crew.rest_s_c
    fixed = _fill_rows(device, spread, costs, asked, num_points, crew)
    crew.num_choices_d[device] = 0
    rest_s_c[num_chunks] = 0.0
    for at in range(num_chunks - 1, -1, -1):
        least_s = crew.chunk_ckq[at, 0, BUSY_S]
        for k in range(1, num_points):
            least_s = min(least_s, crew.chunk_ckq[at, k, BUSY_S])
        rest_s_c[at] = rest_s_c[at + 1] + least_s
    at, num_trials = 0, 0
    trial_c[0] = -1
    while at >= 0:
        trial_c[at] = _next_point(crew.chunk_ckq[at], trial_c[at], num_points)
        if trial_c[at] == num_points:
            at -= 1
            continue
        num_trials += 1
        if num_trials > MAX_TRIALS:
            for k in range(num_points):
                for c in range(num_chunks):
                    trial_c[c] = k
                _add_choice(device, fixed, costs, asked, num_points, crew)
            return False
        own_s = rest_s_c[at + 1]
        for c in range(at + 1):
            own_s += crew.chunk_ckq[c, trial_c[c], BUSY_S]
        for c in range(at + 1, num_chunks):
            trial_c[c] = num_points - 1
        if own_s > asked.most_s or not _fits(device, fixed, memory_bytes, num_chunks, crew):
            continue
        if at < num_chunks - 1:
            at += 1
            trial_c[at] = -1
            continue
        if not _add_choice(device, fixed, costs, asked, num_points, crew):
            return False
        if crew.num_choices_d[device] == 1 and crew.choice_points_dx[device, 0] == 0:
            return True  # to keep everything is the fastest
    return True


@inner_in_place
def _next_point(figures_kq: Floats, k: int, num_points: int) -> int:
    """The next point of a chunk that differs from the one before it."""
    for later in range(k + 1, num_points):
        if later == 0:
            return 0
        for q in range(NUM_CHUNK):
            if figures_kq[later, q] != figures_kq[later - 1, q]:
                return later
    return num_points


@inner_in_place
def _add_choice(device: int, fixed: float, costs: Costs, asked: Asked, num_points: int, crew: Crew) -> bool:
    """Add the points ``crew.trial_c`` to a device's choices if they are worth it; False if there is no room."""
    num_chunks, trial_c, found = asked.chunks, crew.trial_c, crew.num_choices_d[device]
    code, own_s, longest_s, lost = 0, 0.0, 0.0, 0.0
    for at in range(num_chunks - 1, -1, -1):
        figures = crew.chunk_ckq[at, trial_c[at]]
        code = code * num_points + trial_c[at]
        own_s += figures[BUSY_S]
        longest_s = max(longest_s, figures[LOAD_S])
        lost = max(lost, figures[LOST_BYTES])
    if own_s > asked.most_s or not _fits(device, fixed + lost, costs.memory_bytes, num_chunks, crew):
        return True
    late_s = own_s + _late_s(costs, num_chunks, crew)
    for x in range(found):
        figures = crew.choice_dxq[device, x]
        if figures[OWN_S] <= own_s and figures[LONGEST_S] <= longest_s and figures[LATE_S] <= late_s:
            return True
    kept = 0
    for x in range(found):
        figures = crew.choice_dxq[device, x]
        if own_s <= figures[OWN_S] and longest_s <= figures[LONGEST_S] and late_s <= figures[LATE_S]:
            continue
        for q in range(3):
            crew.choice_dxq[device, kept, q] = figures[q]
        crew.choice_points_dx[device, kept] = crew.choice_points_dx[device, x]
        kept += 1
    crew.num_choices_d[device] = kept
    if kept == MAX_CHOICES:
        return False
    crew.choice_dxq[device, kept, OWN_S] = own_s
    crew.choice_dxq[device, kept, LONGEST_S] = longest_s
    crew.choice_dxq[device, kept, LATE_S] = late_s
    crew.choice_points_dx[device, kept] = code
    crew.num_choices_d[device] = kept + 1
    return True


@inner_in_place
def best_points(
    spread: Spread, costs: Costs, asked: Asked, num_points: int, once_s: float, crew: Crew
) -> tuple[float, bool]:
    """The least time of the cut below the limit, and whether every choice was looked at; points are in ``crew``.

    ``once_s``: what is added once a batch whatever is kept.
    """
    pp, count = asked.pp, asked.num_microbatches
    is_complete = True
    for device in range(pp):
        is_complete &= _list_choices(device, spread, costs, asked, num_points, crew)
        if crew.num_choices_d[device] == 0:
            return np.inf, is_complete
    joined_lq, next_lq = crew.joined_blq[0], crew.joined_blq[1]
    joined_points_ld, next_points_ld = crew.joined_points_bld[0], crew.joined_points_bld[1]
    num_joined = 1
    joined_lq[0] = 0.0
    for device in range(pp):
        num_next = 0
        for at in range(num_joined):
            for x in range(crew.num_choices_d[device]):
                own_s = max(joined_lq[at, OWN_S], crew.choice_dxq[device, x, OWN_S])
                longest_s = max(joined_lq[at, LONGEST_S], crew.choice_dxq[device, x, LONGEST_S])
                late_s = max(joined_lq[at, LATE_S], crew.choice_dxq[device, x, LATE_S])
                if (count - 1) * own_s + (pp - 1) * longest_s + max(own_s, late_s) + once_s >= asked.limit_s:
                    continue
                is_needless = False
                for other in range(num_next):
                    figures = next_lq[other]
                    if figures[OWN_S] <= own_s and figures[LONGEST_S] <= longest_s and figures[LATE_S] <= late_s:
                        is_needless = True
                        break
                if is_needless:
                    continue
                if num_next == MAX_JOINED:
                    is_complete = False
                    continue
                next_lq[num_next, OWN_S] = own_s
                next_lq[num_next, LONGEST_S] = longest_s
                next_lq[num_next, LATE_S] = late_s
                for before in range(device):
                    next_points_ld[num_next, before] = joined_points_ld[at, before]
                next_points_ld[num_next, device] = crew.choice_points_dx[device, x]
                num_next += 1
        joined_lq, next_lq = next_lq, joined_lq
        joined_points_ld, next_points_ld = next_points_ld, joined_points_ld
        num_joined = num_next
    best_s, best = np.inf, -1
    for at in range(num_joined):
        own_s, late_s = joined_lq[at, OWN_S], joined_lq[at, LATE_S]
        time_s = (count - 1) * own_s + (pp - 1) * joined_lq[at, LONGEST_S] + max(own_s, late_s) + once_s
        if time_s < best_s:
            best_s, best = time_s, at
    for device in range(pp if best >= 0 else 0):
        code = joined_points_ld[best, device]
        for at in range(asked.chunks):
            crew.point_c[device + at * pp] = code % num_points
            code //= num_points
    return best_s, is_complete
