"""Runs of layers of a line under one layout: what each costs as a stage or a chunk, and what fits at all.

Gathered passes in closed form (docs/proof.md, 6.6): with g the gathers, r the scatters, f and c the compute of the
passes over layers 1 .. n,

    forward   g_1 + sum max(f_i, g_{i+1}) + f_n
    backward  g_n + sum over i = n .. 2 of max(c_i, r_{i+1} + g_{i-1}) + c_1,   r_{n+1} = 0
    tail      r_1 + max(0, r_2 - c_1)

All of a run follows from the run without its first layer, so all runs with one end are walked at once.

Axis letters: v = layer, k = point of ``keep``, q = figure, j = run by its length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place
from rephaze.place.full.lines import Line, Ties
from rephaze.place.full.rates import Rate, take

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUM_LINKS = 5
GATHER, SCATTER, SYNC, COPIES, TIED = range(NUM_LINKS)
"""Transfers of a layer: of its weights, its gradients, once a batch, over copies of shards, to a tied owner."""

NUM_SPAN = 14
(OWN, EXPERTS, PAIR, LARGEST, WORKING, COMES, RETURNS, FORWARD) = range(8)
(COMPUTE, REGATHER, ALL_GATHERS, ALL_SYNCS, ALL_COPIES, ALL_TIED) = range(8, NUM_SPAN)
"""Figures of a run: bytes of parameters, experts, the largest neighbours and layer, the working set; seconds of
messages, of the forward pass and its compute alone, of weights gathered once, and sums of transfers."""
NUM_POINT = 6
KEPT, LOST, BACKWARD, TAIL, EXPOSED, INPUT = range(NUM_POINT)
"""Figures of a run at one point of ``keep``, after those: bytes kept and replayed, the backward pass, its tail,
what of the gradients' sums no compute hides, the input backward pass."""


class Costs(NamedTuple):
    """What a layout makes of bytes."""

    message: Rate
    shards: Rate
    copies: Rate
    """All-reduce."""
    gradients: Rate
    """All-reduce over all replicas."""
    experts: Rate
    shard_group: float
    gradient_ratio: float
    is_sharded: bool
    gathers: bool
    """For every pass."""
    overlap: bool
    is_zero_bubble: bool
    own_ratio: float
    """Bytes held for each byte of parameters; of experts; of two neighbours; of the largest layer."""
    expert_ratio: float
    pair_ratio: float
    largest_ratio: float
    step_own_s: float
    """Seconds of the optimizer's step a byte of parameters; of experts."""
    step_expert_s: float
    memory_bytes: float


def span_rows(num_points: int) -> int:
    """Figures of a run."""
    return NUM_SPAN + NUM_POINT * num_points


@inner_in_place
def fill_links(line: Line, param_bytes_v: Floats, costs: Costs, link_vq: Floats) -> None:
    """Transfers of each layer that holds so many bytes."""
    ratio = costs.gradient_ratio
    for v in range(len(param_bytes_v)):
        p, pe = param_bytes_v[v], line.expert_bytes_v[v]
        if v > 0 and p == param_bytes_v[v - 1] and pe == line.expert_bytes_v[v - 1]:
            for q in range(TIED):
                link_vq[v, q] = link_vq[v - 1, q]
        elif costs.is_sharded:
            link_vq[v, GATHER] = take(costs.shards, p) + take(costs.experts, pe)
            link_vq[v, SCATTER] = take(costs.shards, ratio * p) + take(costs.experts, ratio * pe)
            link_vq[v, COPIES] = take(costs.copies, ratio * p / costs.shard_group)
            link_vq[v, SYNC] = link_vq[v, SCATTER] + link_vq[v, COPIES]
        else:
            link_vq[v, GATHER] = link_vq[v, SCATTER] = link_vq[v, COPIES] = 0.0
            link_vq[v, SYNC] = take(costs.gradients, ratio * p) + 2 * take(costs.experts, ratio * pe)
        link_vq[v, TIED] = 0.0


@inner_in_place
def hold_alone(line: Line, ties: Ties, costs: Costs, param_bytes_v: Floats, link_vq: Floats) -> None:
    """Parameters and transfers of layers in runs with no two that share a weight: all but owners hold a copy."""
    for v in range(len(param_bytes_v)):
        param_bytes_v[v] = line.param_bytes_v[v]
    for t in range(len(ties.owner_t)):
        for i in range(ties.first_i_t[t], ties.first_i_t[t + 1]):
            if ties.member_i[i] != ties.owner_t[t]:
                param_bytes_v[ties.member_i[i]] += ties.tied_bytes_t[t]
    fill_links(line, param_bytes_v, costs, link_vq)
    for t in range(len(ties.owner_t)):
        for i in range(ties.first_i_t[t], ties.first_i_t[t + 1]):
            if ties.member_i[i] != ties.owner_t[t]:
                message_s = take(costs.message, costs.gradient_ratio * ties.tied_bytes_t[t])
                link_vq[ties.member_i[i], TIED] += message_s


@inner_in_place
def hold_by_device(
    line: Line, ties: Ties, costs: Costs, device_v: Ints, param_bytes_v: Floats, link_vq: Floats
) -> None:
    """The same where layers are on these devices: the first of a device without the owner holds its copy."""
    for v in range(len(param_bytes_v)):
        param_bytes_v[v] = line.param_bytes_v[v]
    for t in range(len(ties.owner_t)):
        for i in range(ties.first_i_t[t], ties.first_i_t[t + 1]):
            if _has_copy(ties, t, i, device_v):
                param_bytes_v[ties.member_i[i]] += ties.tied_bytes_t[t]
    fill_links(line, param_bytes_v, costs, link_vq)
    for t in range(len(ties.owner_t)):
        for i in range(ties.first_i_t[t], ties.first_i_t[t + 1]):
            if _has_copy(ties, t, i, device_v):
                message_s = take(costs.message, costs.gradient_ratio * ties.tied_bytes_t[t])
                link_vq[ties.member_i[i], TIED] += message_s


@inner_in_place
def _has_copy(ties: Ties, t: int, i: int, device_v: Ints) -> bool:
    """Whether a member of tied weights is the first on a device that does not have their owner."""
    device = device_v[ties.member_i[i]]
    is_first = device != device_v[ties.owner_t[t]]
    for other in range(ties.first_i_t[t], i):
        is_first = is_first and device_v[ties.member_i[other]] != device
    return bool(is_first)


@inner_in_place
def shares_until(ties: Ties, end: int) -> int:
    """The last layer a run to ``end`` can start at and hold two layers that share a weight; -1: none."""
    latest = -1
    for t in range(len(ties.owner_t)):
        last, before = -1, -1
        for i in range(ties.first_i_t[t], ties.first_i_t[t + 1]):
            if ties.member_i[i] < end:
                last, before = ties.member_i[i], last
        latest = max(latest, before)
    return latest


class Span(NamedTuple):
    """Runs to be walked: all that end at ``end``, start no later than ``start`` and no earlier than ``lowest``."""

    end: int
    start: int
    lowest: int
    most_s: float
    """Longer ones, messages left out, are of no use."""
    fits_once: bool
    """Nor are those that do not fit with one microbatch in flight."""


@inner_in_place
def walk(
    line: Line, costs: Costs, param_bytes_v: Floats, link_vq: Floats, span: Span, run_kq: Floats, span_jq: Floats
) -> int:
    """Fill ``span_jq`` at length - 1 with the figures of each run; gives back the first layer of the longest.

    Args:
        line: The layers.
        costs: The layout.
        param_bytes_v: What each holds.
        link_vq: Its transfers.
        span: Which runs.
        run_kq: Room for figures by point.
        span_jq: The figures.
    """
    forward_v, compute_vk, weight_v = line.forward_s_v, line.compute_s_vk, line.weight_backward_s_v
    kept_vk, lost_vk = line.kept_bytes_vk, line.lost_bytes_vk
    end, num_points, has_further = span.end, line.compute_s_vk.shape[1], line.enter_bytes_ab.shape[0] > 0
    num_layers, last_point = len(forward_v), num_points - 1
    own, experts, pair, largest, working, before = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    passed, computed, regather, gathers, syncs, copies, tied = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    run_kq[:] = 0.0
    found = end
    for a in range(end - 1, span.lowest - 1, -1):
        p, pe, f, g = param_bytes_v[a], line.expert_bytes_v[a], forward_v[a], link_vq[a, GATHER]
        is_last = a == end - 1
        own += p
        experts += pe
        largest = max(largest, p + pe)
        pair = max(pair, p + pe + before)
        before = p + pe
        working = max(working, line.working_bytes_v[a])
        passed += max(f, 0.0 if is_last else link_vq[a + 1, GATHER]) if costs.gathers else f
        computed += f
        gathers += g
        syncs += link_vq[a, SYNC]
        copies += link_vq[a, COPIES]
        tied += link_vq[a, TIED]
        if costs.is_sharded and not costs.gathers:
            regather = g + max(0.0, regather - f) if costs.overlap else gathers
        for k in range(num_points):
            c = compute_vk[a, k]
            run = run_kq[k]
            run[KEPT] += kept_vk[a, k]
            run[LOST] = max(run[LOST], lost_vk[a, k])
            run[INPUT] += c - weight_v[a]
            if costs.gathers:
                # Until its first layer computes: that of the run without it, then the slower of compute and link.
                if is_last:
                    run[BACKWARD] = g
                else:
                    scattered = link_vq[a + 2, SCATTER] if a + 2 < end else 0.0
                    run[BACKWARD] += max(compute_vk[a + 1, k], scattered + g)
                after = 0.0 if is_last else max(0.0, link_vq[a + 1, SCATTER] - c)
                run[TAIL] = link_vq[a, SCATTER] + after
                run[EXPOSED] = run[TAIL] + copies
            else:
                run[BACKWARD] += c
                hidden = weight_v[a] if costs.is_zero_bubble else c
                run[EXPOSED] = link_vq[a, SYNC] + (
                    max(0.0, run[EXPOSED] - hidden) if costs.overlap else run[EXPOSED]
                )
        first_compute = compute_vk[a, 0] if costs.gathers else 0.0
        passes_s = passed + (g if costs.gathers else 0.0) + run_kq[0, BACKWARD] + first_compute + run_kq[0, TAIL]
        fixed = costs.own_ratio * own + costs.expert_ratio * experts
        fixed += costs.pair_ratio * pair + costs.largest_ratio * largest
        needed = fixed + run_kq[last_point, KEPT] + run_kq[last_point, LOST] + working
        if passes_s > span.most_s or (span.fits_once and needed > costs.memory_bytes):
            break
        if a > span.start:
            continue
        found = a
        row = span_jq[end - 1 - a]
        row[OWN], row[EXPERTS], row[PAIR], row[LARGEST], row[WORKING] = own, experts, pair, largest, working
        comes = line.link_bytes_v[a - 1] if a > 0 else 0.0
        returns = line.link_bytes_v[end - 1] if end < num_layers else 0.0
        if has_further:
            comes, returns = line.enter_bytes_ab[a, end], line.leave_bytes_ab[a, end]
        row[COMES], row[RETURNS] = take(costs.message, comes), take(costs.message, returns)
        row[FORWARD] = passed + (g if costs.gathers else 0.0)
        row[COMPUTE], row[REGATHER], row[ALL_GATHERS] = computed, regather, gathers
        row[ALL_SYNCS], row[ALL_COPIES], row[ALL_TIED] = syncs, copies, tied
        for k in range(num_points):
            at = NUM_SPAN + NUM_POINT * k
            for q in range(NUM_POINT):
                row[at + q] = run_kq[k, q]
            if costs.gathers:
                row[at + BACKWARD] += compute_vk[a, k]
    return found


@inner_in_place
def fixed_bytes(costs: Costs, row: Floats) -> float:
    """What a stage holds whatever is in flight, without its working set."""
    own = costs.own_ratio * row[OWN] + costs.expert_ratio * row[EXPERTS]
    return float(own + costs.pair_ratio * row[PAIR] + costs.largest_ratio * row[LARGEST])


@inner_in_place
def first_point(costs: Costs, row: Floats, in_flight: int, num_points: int) -> int:
    """The fastest point of ``keep`` at which a stage fits; as many as there are if none does."""
    fixed = fixed_bytes(costs, row) + row[WORKING]
    for k in range(num_points):
        at = NUM_SPAN + NUM_POINT * k
        if fixed + in_flight * row[at + KEPT] + row[at + LOST] <= costs.memory_bytes:
            return k
    return num_points
