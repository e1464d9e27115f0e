"""The best cut of a line into stages under one layout, exactly: labels from the last stage to the first.

A label is a cut of the last layers into so many stages: what adds up over stages, and the largest of each quantity
of which a schedule takes the largest. A batch's time falls with none of them, so of two labels of the same layers
the one that is nowhere better goes; and so does one whose time, with the least that the layers before it can add,
does not beat the limit.

Axis letters: l = label, q = kind of maximum, e = end of a run, j = run by its length, v = layer, u = place between
layers, k = point of ``keep``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place
from rephaze.place.full.least_time import ROUNDING, zero_bubble_fill
from rephaze.place.full.line_fits import Asked
from rephaze.place.full.lines import Line, Ties
from rephaze.place.full.spans import (
    ALL_TIED,
    BACKWARD,
    COMES,
    EXPERTS,
    EXPOSED,
    FORWARD,
    INPUT,
    NUM_LINKS,
    NUM_POINT,
    NUM_SPAN,
    OWN,
    REGATHER,
    RETURNS,
    TAIL,
    Costs,
    Span,
    first_point,
    hold_alone,
    hold_by_device,
    shares_until,
    span_rows,
    walk,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUM_MAXIMA = 6
MAX_LABELS = 1 << 19
"""Of one layout; with more, not every cut is looked at."""


LOAD, BUSY = 0, 1
"""Rows of what the layers before a place take at least: passes alone, and with their tails."""
WALKED, HEAD, FRESH = 0, 1, 2
"""Rows of marks by the end of a run: first layer of the longest run that is of use, -1 if not walked; the first
label of the layers behind it, of the depth before and of this one."""
START, POINT, PARENT, NEXT = 0, 1, 2, 3
"""Columns of a label."""


class Room(NamedTuple):
    """Memory for the work on one layout."""

    link_vq: Floats
    base_link_vq: Floats
    """Without copies of tied weights."""
    other_link_vq: Floats
    param_bytes_v: Floats
    other_param_bytes_v: Floats
    device_v: Ints
    run_kq: Floats
    rest_s_qu: Floats
    span_ejq: Floats
    """Walked runs, by end and length."""
    mark_qe: Ints
    label_lq: Floats
    """What adds up, then the maxima."""
    label_of_lq: Ints
    most_bq: Floats
    """Maxima: of a stage, of a label, and the least of what it may become."""
    cut_qc: Ints
    """The best cut found: where each stage starts, and its point of ``keep``."""


class Labels(NamedTuple):
    """Memory for labels: most of what a room takes, and the same for rooms of any size."""

    label_lq: Floats
    label_of_lq: Ints


def make_labels(max_labels: int) -> Labels:
    """For so many labels of a layout."""
    return Labels(np.empty((max_labels, 1 + NUM_MAXIMA)), np.empty((max_labels, 4), dtype=np.int64))


def make_room(num_layers: int, num_points: int, labels: Labels) -> Room:
    """For graphs of up to so many layers; rooms may share labels, which outlast no work on a layout."""
    return Room(
        np.zeros((num_layers + 1, NUM_LINKS)),
        np.zeros((num_layers + 1, NUM_LINKS)),
        np.zeros((num_layers + 1, NUM_LINKS)),
        np.zeros(num_layers),
        np.zeros(num_layers),
        np.zeros(num_layers, dtype=np.int64),
        np.zeros((num_points, NUM_POINT)),
        np.zeros((2, num_layers + 1)),
        np.empty((num_layers + 1, num_layers, span_rows(num_points))),
        np.zeros((3, num_layers + 1), dtype=np.int64),
        labels.label_lq,
        labels.label_of_lq,
        np.zeros((3, NUM_MAXIMA)),
        np.zeros((2, num_layers + 1), dtype=np.int64),
    )


@inner_in_place
def stage_time(total_s: float, most_q: Floats, pp: int, count: int, is_zero_bubble: bool) -> float:
    """The time of a batch from what adds up and from the largest figures of any stage."""
    if not is_zero_bubble:
        return float(total_s + (count - 1) * most_q[0] + most_q[1] + most_q[2] + most_q[3])
    fill_s = zero_bubble_fill(pp, count, most_q[0], most_q[2], most_q[1], most_q[3])
    return float(total_s + (count - 1) * most_q[0] + fill_s + max(most_q[0], most_q[4]) + most_q[5])


@inner_in_place
def stage_figures(costs: Costs, row: Floats, k: int, most_q: Floats) -> float:
    """What of a stage adds up; and in ``most_q`` the figures of which the largest counts.

    1F1B: load with tail, sync, step, regather. Zero-bubble: load, input backward pass, forward and input backward
    pass, forward pass, load with sync and regather, step.
    """
    at = NUM_SPAN + NUM_POINT * k
    ahead_s, returns_s = row[COMES] + row[FORWARD], row[RETURNS]
    load_s = ahead_s + returns_s + row[at + BACKWARD]
    step_s = costs.step_own_s * row[OWN] + costs.step_expert_s * row[EXPERTS]
    if costs.is_zero_bubble:
        input_s = returns_s + row[at + INPUT]
        most_q[0], most_q[1], most_q[2], most_q[3] = load_s, input_s, ahead_s + input_s, ahead_s
        most_q[4], most_q[5] = load_s + row[at + EXPOSED] + row[REGATHER], step_s
        return float(row[ALL_TIED])
    most_q[0], most_q[1], most_q[2] = load_s + row[at + TAIL], row[at + EXPOSED], step_s
    most_q[3] = row[REGATHER]
    most_q[4] = most_q[5] = 0.0
    return float(load_s + row[ALL_TIED])


@inner_in_place
def _walk_to(line: Line, ties: Ties, costs: Costs, end: int, most_s: float, room: Room) -> None:
    """All runs to one end; rows of runs of no use between others have a negative size."""
    shared = shares_until(ties, end)
    span_jq = room.span_ejq[end]
    span = Span(end, end - 1, shared + 1, most_s, True)
    found = walk(line, costs, room.param_bytes_v, room.link_vq, span, room.run_kq, span_jq)
    if shared < 0:
        room.mark_qe[WALKED, end] = found
        return
    for a in range(found - 1, -1, -1):
        span_jq[end - 1 - a, OWN] = -1.0
    for a in range(shared, -1, -1):
        for v in range(len(line.forward_s_v)):
            room.device_v[v] = 1 if a <= v < end else 0
        param_bytes_v = room.other_param_bytes_v[: len(line.forward_s_v)]
        hold_by_device(line, ties, costs, room.device_v, param_bytes_v, room.other_link_vq)
        span = Span(end, a, a, most_s, False)
        walk(line, costs, param_bytes_v, room.other_link_vq, span, room.run_kq, span_jq)
    room.mark_qe[WALKED, end] = 0


@inner_in_place
def best_line_cut(
    line: Line, ties: Ties, costs: Costs, asked: Asked, floor_q: Floats, room: Room
) -> tuple[float, bool]:
    """The least time below the limit, and whether all cuts were looked at; the cut itself is in ``room``.

    ``room`` must hold the least times of the first layers. ``floor_q``: the least of each maximum.
    """
    num_layers, num_points = len(line.forward_s_v), line.compute_s_vk.shape[1]
    pp, count, is_zero_bubble = asked.pp, asked.num_microbatches, costs.is_zero_bubble
    hold_alone(line, ties, costs, room.param_bytes_v[:num_layers], room.link_vq)
    walked_e, head_e, fresh_e = room.mark_qe[WALKED], room.mark_qe[HEAD], room.mark_qe[FRESH]
    load_s_u, busy_s_u = room.rest_s_qu[LOAD], room.rest_s_qu[BUSY]
    label_lq, label_of_lq, span_ejq = room.label_lq, room.label_of_lq, room.span_ejq
    walked_e[:] = -1
    head_e[:] = -1
    num_labels, best_s, best_label, is_complete = 0, asked.limit_s, -1, True
    own_q, trial_q, least_q = room.most_bq[0], room.most_bq[1], room.most_bq[2]
    most_s = asked.most_s * (1 + ROUNDING)
    for depth in range(1, pp + 1):
        fresh_e[:] = -1
        left = pp - depth
        in_flight = min(pp if is_zero_bubble else depth, count)
        rest_messages_s = (2 * left - 1) * asked.message_s if left > 0 else 0.0
        for end in range(num_layers, 0, -1):
            if (depth == 1) != (end == num_layers) or (depth > 1 and head_e[end] == -1):
                continue
            if walked_e[end] < 0:
                _walk_to(line, ties, costs, end, most_s, room)
            first = end - 1 if left > 0 else 0
            for a in range(first, max(left, walked_e[end]) - 1, -1):
                row = span_ejq[end, end - 1 - a]
                if row[OWN] < 0:
                    continue
                if asked.num_blocks >= 0:
                    blocks = line.blocks_u[end] - line.blocks_u[a]
                    is_inner = depth > 1 and left > 0
                    if blocks > asked.num_blocks or (is_inner and blocks < asked.num_blocks):
                        continue
                rest_s = busy_s_u[a] + rest_messages_s
                if left > 0 and rest_s > left * most_s:
                    continue
                k = first_point(costs, row, in_flight, num_points)
                if k == num_points:
                    continue
                own_s = stage_figures(costs, row, k, own_q)
                if own_q[0] > most_s:
                    continue
                behind = -2 if depth == 1 else head_e[end]
                while behind != -1:
                    parent = behind
                    behind = -1 if parent == -2 else label_of_lq[parent, NEXT]
                    total = own_s + (label_lq[parent, 0] if parent >= 0 else 0.0)
                    for q in range(NUM_MAXIMA):
                        trial_q[q] = max(own_q[q], label_lq[parent, 1 + q]) if parent >= 0 else own_q[q]
                        least_q[q] = max(trial_q[q], floor_q[q]) if left > 0 else trial_q[q]
                    least = total
                    if left > 0:
                        least_q[0] = max(least_q[0], rest_s / left)
                        if not is_zero_bubble:
                            least += load_s_u[a] + rest_messages_s
                    time_s = stage_time(least, least_q, pp, count, is_zero_bubble)
                    if time_s >= best_s or is_needless(total, trial_q, a, fresh_e, label_lq, label_of_lq):
                        continue
                    if num_labels == len(label_lq):
                        is_complete = False
                        continue
                    label_lq[num_labels, 0] = total
                    for q in range(NUM_MAXIMA):
                        label_lq[num_labels, 1 + q] = trial_q[q]
                    label_of_lq[num_labels, START], label_of_lq[num_labels, POINT] = a, k
                    label_of_lq[num_labels, PARENT], label_of_lq[num_labels, NEXT] = parent, fresh_e[a]
                    fresh_e[a] = num_labels
                    if left == 0:
                        best_s, best_label = time_s, num_labels
                    num_labels += 1
        head_e, fresh_e = fresh_e, head_e
    label = best_label
    for at in range(pp if best_label >= 0 else 0):
        room.cut_qc[START, at], room.cut_qc[POINT, at] = label_of_lq[label, START], label_of_lq[label, POINT]
        label = label_of_lq[label, PARENT]
    return best_s if best_label >= 0 else np.inf, is_complete


@inner_in_place
def is_needless(
    total: float, trial_q: Floats, start: int, fresh_e: Ints, label_lq: Floats, label_of_lq: Ints
) -> bool:
    """Whether a label of the same layers and depth is nowhere worse; those that are nowhere better go."""
    previous, other = -1, fresh_e[start]
    while other != -1:
        no_worse, no_better = label_lq[other, 0] <= total, label_lq[other, 0] >= total
        for q in range(NUM_MAXIMA):
            no_worse = no_worse and label_lq[other, 1 + q] <= trial_q[q]
            no_better = no_better and label_lq[other, 1 + q] >= trial_q[q]
        if no_worse:
            return True
        following = label_of_lq[other, NEXT]
        if not no_better:
            previous = other
        elif previous == -1:
            fresh_e[start] = following
        else:
            label_of_lq[previous, NEXT] = following
        other = following
    return False
