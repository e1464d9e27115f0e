"""Whether a line can be cut into stages that all fit and are all fast enough; and the least its first layers take.

Both look at parameters without copies of tied weights and at the least message: what they say holds of every cut.

Axis letters: v = layer, u = place between layers, k = point of ``keep``, q = figure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place
from rephaze.place.full.least_time import Shape
from rephaze.place.full.lines import Line
from rephaze.place.full.spans import BACKWARD, GATHER, KEPT, LOST, SCATTER, Costs

Floats = NDArray[np.float64]


class Asked(NamedTuple):
    """What is asked of a cut."""

    pp: int
    chunks: int
    num_microbatches: int
    """Of a replica."""
    schedule: int
    limit_s: float
    """Plans no faster are of no use."""
    most_s: float
    """Nor are those with a stage that takes longer, tail and messages included."""
    message_s: float
    """The least message."""
    num_blocks: int
    """Of all stages but the first and the last, which may have fewer; -1: any number."""


@inner_in_place
def asked_of(shape: Shape, most_s: float) -> Asked:
    """Any cut of a layout without messages whose stages take no longer than this."""
    return Asked(shape.pp, shape.chunks, shape.num_microbatches, shape.schedule, np.inf, most_s, 0.0, -1)


@inner_in_place
def can_be_cut(line: Line, costs: Costs, link_vq: Floats, asked: Asked, run_kq: Floats) -> bool:
    """Whether stages filled from the last to the first, each as far as memory and time allow, hold all layers.

    A run that fits still does without some of its layers, and with fewer microbatches in flight: so if these
    stages do not hold all layers, none do. Of ``interleaved`` this is not asked.
    """
    forward_v, compute_vk, weight_ratio = line.forward_s_v, line.compute_s_vk, costs.own_ratio
    kept_vk, lost_vk, num_points = line.kept_bytes_vk, line.lost_bytes_vk, line.compute_s_vk.shape[1]
    end, pp = len(forward_v), asked.pp
    for depth in range(1, pp + 1):
        in_flight = min(pp if costs.is_zero_bubble else depth, asked.num_microbatches)
        ends = (1 if depth == 1 else 0) + (1 if depth == pp else 0)
        room_s = asked.most_s - (2 - ends) * asked.message_s
        own, experts, pair, largest, working, before, passed = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(num_points):
            run_kq[k, KEPT] = run_kq[k, LOST] = run_kq[k, BACKWARD] = 0.0
        point, start = 0, end
        while start > pp - depth:
            a = start - 1
            p, pe, is_last = line.param_bytes_v[a], line.expert_bytes_v[a], start == end
            own += p
            experts += pe
            largest = max(largest, p + pe)
            pair = max(pair, p + pe + before)
            before = p + pe
            working = max(working, line.working_bytes_v[a])
            fixed = weight_ratio * own + costs.expert_ratio * experts + working
            fixed += costs.pair_ratio * pair + costs.largest_ratio * largest
            gather = link_vq[a, GATHER] if costs.gathers else 0.0
            passed += max(forward_v[a], 0.0 if is_last or not costs.gathers else link_vq[a + 1, GATHER])
            for k in range(point, num_points):
                run = run_kq[k]
                run[KEPT] += kept_vk[a, k]
                run[LOST] = max(run[LOST], lost_vk[a, k])
                if not costs.gathers:
                    run[BACKWARD] += compute_vk[a, k]
                elif is_last:
                    run[BACKWARD] = gather
                else:
                    scattered = link_vq[a + 2, SCATTER] if a + 2 < end else 0.0
                    run[BACKWARD] += max(compute_vk[a + 1, k], scattered + gather)
            while point < num_points:
                if fixed + in_flight * run_kq[point, KEPT] + run_kq[point, LOST] <= costs.memory_bytes:
                    break
                point += 1
            if point == num_points:
                break
            busy_s = passed + gather + run_kq[point, BACKWARD]
            if costs.gathers:
                compute, next_s = compute_vk[a, point], 0.0 if is_last else link_vq[a + 1, SCATTER]
                busy_s += max(compute, next_s) + link_vq[a, SCATTER]
            if busy_s > room_s:
                break
            start = a
        if start == end:
            return False
        end = start
    return end == 0


@inner_in_place
def fill_rest(line: Line, costs: Costs, link_vq: Floats, load_s_u: Floats, busy_s_u: Floats) -> None:
    """The least that the layers before a place take however they are cut: passes alone, and with their tails.

    Where a stage ends, gathers hide less; so no cut takes less than none.
    """
    forward_v, compute_vk = line.forward_s_v, line.compute_s_vk
    load_s_u[0] = busy_s_u[0] = 0.0
    if not costs.gathers:
        for v in range(len(forward_v)):
            load_s_u[v + 1] = load_s_u[v] + forward_v[v] + compute_vk[v, 0]
            busy_s_u[v + 1] = load_s_u[v + 1]
        return
    passed, plain, linked = 0.0, 0.0, 0.0
    """Sums of max(f, g), of max(c, g), of max(c, r + g), without those of the last layer."""
    for v in range(len(forward_v)):
        gather = link_vq[v, GATHER]
        if v > 0:
            passed += max(forward_v[v - 1], gather)
        ahead = link_vq[v - 1, GATHER] if v > 0 else 0.0
        first = gather + max(compute_vk[v, 0], ahead)  # the backward pass starts with the last layer
        begin = link_vq[0, GATHER] + passed + forward_v[v]
        load_s_u[v + 1] = begin + first + plain
        tail = link_vq[0, SCATTER] + (max(0.0, link_vq[1, SCATTER] - compute_vk[0, 0]) if v > 0 else 0.0)
        busy_s_u[v + 1] = begin + first + linked + tail
        plain += max(compute_vk[v, 0], ahead)
        following = link_vq[v + 1, SCATTER] if v + 1 < len(forward_v) else 0.0
        linked += compute_vk[v, 0] if v == 0 else max(compute_vk[v, 0], following + ahead)
