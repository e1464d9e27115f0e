"""Stages of a graph whose layers branch: what each holds and computes, and what a layout makes of it.

The figures of a stage stand in a row as those of a run of a line do (``spans``). What does not depend on the
layout is there for all stages; the transfers of a stage are filled in when a cut comes to it.

Axis letters: e = candidate stage, k = point of ``keep``, v = layer, q = figure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, kernel_in_place, unfolded
from rephaze.place.full.cuts import Cuts
from rephaze.place.full.lines import Line, Lines, Ties, Times, line_of, ties_of
from rephaze.place.full.rates import take
from rephaze.place.full.spans import (
    ALL_TIED,
    BACKWARD,
    COMES,
    COMPUTE,
    EXPERTS,
    EXPOSED,
    FORWARD,
    INPUT,
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
    span_rows,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

FIRST = unfolded(0)
"""The one graph."""
NUM_MOVED = 4
COMES_BYTES, RETURNS_BYTES, NUM_OWN, NUM_EXPERTS = range(NUM_MOVED)
"""Bytes of messages into a stage and back; how many of its layers have parameters, and experts."""
NUM_WALKED = 4
HELD, GATHER, SCATTER, SYNC = range(NUM_WALKED)
"""Of a layer in a stage: bytes of its parameters with copies of tied weights, seconds of its transfers."""


class Links(NamedTuple):
    """Of the graph."""

    src_l: Ints
    dst_l: Ints
    payload_bytes_l: Floats


class Stages(NamedTuple):
    """All candidates, and memory to work on one."""

    span_eq: Floats
    compute_s_ek: Floats
    """Backward pass with replays, nothing gathered."""
    moved_eq: Floats
    walked_e: Ints
    """At which point of ``keep`` the transfers of a stage are filled in; -1: at none."""
    is_inside_v: Flags
    walked_vq: Floats


def stages_of(cuts: Cuts, links: Links, lines: Lines, times: Times) -> Stages:
    """What does not depend on the layout, of the one graph in ``lines``."""
    num_stages, num_layers, num_points = len(cuts.start_e), len(lines.param_bytes_v), times.kept_bytes_vk.shape[1]
    stages = Stages(
        span_eq=np.zeros((num_stages, span_rows(num_points))),
        compute_s_ek=np.zeros((num_stages, num_points)),
        moved_eq=np.zeros((num_stages, NUM_MOVED)),
        walked_e=np.full(num_stages, -1, dtype=np.int64),
        is_inside_v=np.zeros(num_layers, dtype=np.bool_),
        walked_vq=np.zeros((num_layers, NUM_WALKED)),
    )
    _add_up(cuts, links, lines, times, stages)
    return stages


@kernel_in_place
def _add_up(cuts: Cuts, links: Links, lines: Lines, times: Times, stages: Stages) -> None:
    line, ties, walked_vq = line_of(lines, times, FIRST), ties_of(lines, FIRST), stages.walked_vq
    for e in range(len(cuts.start_e)):
        members = cuts.layer_i[cuts.first_i_e[e] : cuts.first_i_e[e + 1]]
        row, compute_s_k, moved = stages.span_eq[e], stages.compute_s_ek[e], stages.moved_eq[e]
        _hold(line, ties, members, stages)
        before = 0.0
        for v in members:
            held, experts = walked_vq[v, HELD], line.expert_bytes_v[v]
            row[OWN] += held
            row[EXPERTS] += experts
            row[PAIR] = max(row[PAIR], before + held + experts)
            row[LARGEST] = max(row[LARGEST], held + experts)
            row[WORKING] = max(row[WORKING], line.working_bytes_v[v])
            row[COMPUTE] += line.forward_s_v[v]
            before = held + experts
            moved[NUM_OWN] += 1.0 if held > 0 else 0.0
            moved[NUM_EXPERTS] += 1.0 if experts > 0 else 0.0
            for k in range(len(compute_s_k)):
                point = row[NUM_SPAN + NUM_POINT * k :]
                compute_s_k[k] += line.compute_s_vk[v, k]
                point[KEPT] += line.kept_bytes_vk[v, k]
                point[LOST] = max(point[LOST], line.lost_bytes_vk[v, k])
                point[INPUT] += line.compute_s_vk[v, k] - line.weight_backward_s_v[v]
        moved[COMES_BYTES], moved[RETURNS_BYTES] = _messages(links, stages)
        for v in members:
            stages.is_inside_v[v] = False


@inner_in_place
def _messages(links: Links, stages: Stages) -> tuple[float, float]:
    """Bytes into the stage marked, and back: of each source the largest payload."""
    most_v, comes, returns = stages.walked_vq[:, SYNC], 0.0, 0.0
    most_v[:] = 0.0
    for at in range(len(links.src_l)):
        src, dst, size = links.src_l[at], links.dst_l[at], links.payload_bytes_l[at]
        if stages.is_inside_v[src] == stages.is_inside_v[dst] or size <= most_v[src]:
            continue
        # A source is inside or not, so its links all count in one direction.
        if stages.is_inside_v[dst]:
            comes += size - most_v[src]
        else:
            returns += size - most_v[src]
        most_v[src] = size
    return comes, returns


@inner_in_place
def _hold(line: Line, ties: Ties, members: Ints, stages: Stages) -> None:
    """Mark the layers of a stage, and fill what each holds: the first without the owner of a tie, a copy."""
    for v in members:
        stages.is_inside_v[v] = True
        stages.walked_vq[v, HELD] = line.param_bytes_v[v]
    for t in range(len(ties.owner_t)):
        first = _copied_to(ties, t, stages.is_inside_v)
        if first >= 0:
            stages.walked_vq[first, HELD] += ties.tied_bytes_t[t]


@inner_in_place
def _copied_to(ties: Ties, t: int, is_inside_v: Flags) -> int:
    """The layer of the stage marked that holds a copy of a tied weight; -1: none does."""
    if not is_inside_v[ties.owner_t[t]]:
        for i in range(ties.first_i_t[t], ties.first_i_t[t + 1]):
            if is_inside_v[ties.member_i[i]]:
                return int(ties.member_i[i])
    return -1


@inner_in_place
def fill_messages(costs: Costs, stages: Stages) -> None:
    """The messages of all stages under a layout; no stage is walked yet."""
    for e in range(len(stages.walked_e)):
        row, moved = stages.span_eq[e], stages.moved_eq[e]
        row[COMES], row[RETURNS] = (
            take(costs.message, moved[COMES_BYTES]),
            take(costs.message, moved[RETURNS_BYTES]),
        )
        stages.walked_e[e] = -1


@inner_in_place
def least_loads(costs: Costs, stages: Stages, e: int, k: int) -> tuple[float, float]:
    """What a stage's passes take at least, alone and with their tail; exact where nothing is gathered."""
    row, compute_s = stages.span_eq[e], stages.compute_s_ek[e, k]
    messages_s = row[COMES] + row[RETURNS]
    if not costs.gathers:
        load_s = messages_s + row[COMPUTE] + compute_s
        return load_s, load_s
    moved, shards, experts, ratio = stages.moved_eq[e], costs.shards, costs.experts, costs.gradient_ratio
    latency_s = shards.latency_s * moved[NUM_OWN] + experts.latency_s * moved[NUM_EXPERTS]
    bytes_s = shards.s_per_byte * row[OWN] + experts.s_per_byte * row[EXPERTS]
    gather_s = latency_s + bytes_s
    linked_s = gather_s + latency_s + ratio * bytes_s
    ahead_s = messages_s + max(row[COMPUTE], gather_s)
    return ahead_s + max(compute_s, gather_s), ahead_s + max(compute_s, linked_s)


@inner_in_place
def walk_stage(line: Line, ties: Ties, cuts: Cuts, costs: Costs, stages: Stages, e: int, k: int) -> None:
    """Fill in the passes and transfers of a stage at a point of ``keep``, layer by layer as they are issued."""
    if stages.walked_e[e] == k:
        return
    stages.walked_e[e] = k
    members, row, walked_vq = (
        cuts.layer_i[cuts.first_i_e[e] : cuts.first_i_e[e + 1]],
        stages.span_eq[e],
        stages.walked_vq,
    )
    _hold(line, ties, members, stages)
    row[ALL_TIED] = 0.0
    for t in range(len(ties.owner_t)):
        if _copied_to(ties, t, stages.is_inside_v) >= 0:
            row[ALL_TIED] += take(costs.message, costs.gradient_ratio * ties.tied_bytes_t[t])
    copies_s = _fill_transfers(line, costs, members, stages)
    regather_s, moved_s, computed_s, forward_s, link_s, issued_s = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for v in members:
        f, gather = line.forward_s_v[v], walked_vq[v, GATHER]
        if costs.gathers:
            link_s = max(issued_s, link_s) + gather
            issued_s = max(forward_s, link_s)
            forward_s = issued_s + f
        else:
            forward_s += f
            moved_s += gather
            regather_s = max(regather_s, moved_s - computed_s) if costs.overlap else moved_s
            computed_s += f
    row[FORWARD], row[REGATHER] = forward_s, regather_s
    point = row[NUM_SPAN + NUM_POINT * k :]
    backward_s, sync_s, summed_s, computed_s = 0.0, 0.0, 0.0, 0.0
    link_s, issued_s, waiting_s, scattered_s = 0.0, 0.0, -1.0, 0.0
    for at in range(len(members) - 1, -1, -1):
        v = members[at]
        compute, sync = line.compute_s_vk[v, k], walked_vq[v, SYNC]
        computed_s += line.weight_backward_s_v[v] if costs.is_zero_bubble else compute
        summed_s = max(computed_s, summed_s) + sync
        sync_s += sync
        if not costs.gathers:
            backward_s += compute
            continue
        link_s = max(issued_s, link_s) + walked_vq[v, GATHER]
        issued_s = max(backward_s, link_s)
        if waiting_s >= 0:
            link_s = max(scattered_s, link_s) + waiting_s
        backward_s = issued_s + compute
        waiting_s, scattered_s = walked_vq[v, SCATTER], backward_s
    point[BACKWARD], point[TAIL] = backward_s, 0.0
    if costs.gathers:
        point[TAIL] = max(scattered_s, link_s) + waiting_s - backward_s
        point[EXPOSED] = point[TAIL] + copies_s
    else:
        point[EXPOSED] = summed_s - computed_s if costs.overlap else sync_s
    for v in members:
        stages.is_inside_v[v] = False


@inner_in_place
def _fill_transfers(line: Line, costs: Costs, members: Ints, stages: Stages) -> float:
    """Of each layer of a stage; gives back what sums over copies of shards take in all."""
    walked_vq, ratio, copies_s = stages.walked_vq, costs.gradient_ratio, 0.0
    for v in members:
        held, experts = walked_vq[v, HELD], line.expert_bytes_v[v]
        if not costs.is_sharded:
            walked_vq[v, GATHER] = walked_vq[v, SCATTER] = 0.0
            walked_vq[v, SYNC] = take(costs.gradients, ratio * held) + 2 * take(costs.experts, ratio * experts)
            continue
        walked_vq[v, GATHER] = take(costs.shards, held) + take(costs.experts, experts)
        walked_vq[v, SCATTER] = take(costs.shards, ratio * held) + take(costs.experts, ratio * experts)
        copy_s = take(costs.copies, ratio * held / costs.shard_group)
        copies_s += copy_s
        walked_vq[v, SYNC] = walked_vq[v, SCATTER] + copy_s
    return copies_s
