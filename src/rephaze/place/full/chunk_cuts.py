"""Cuts that are looked at one by one: all of them where they are few, else those of equal numbers of blocks.

Equal numbers of blocks: every chunk (stage) has as many repeated blocks as every other, the first and the last may
have fewer; layers that are no blocks go with the block before them, those before the first block with the first
chunk. Where no layer is marked as a block, all count as one.

Axis letters: c = chunk, d = device, u = place between layers, q = figure, i = block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, unfolded
from rephaze.place.full.chunks import Crew, Spread, best_points, fill_moments
from rephaze.place.full.least_time import INTERLEAVED, ROUNDING
from rephaze.place.full.line_cuts import NUM_MAXIMA, POINT, START, WALKED, Room, stage_figures, stage_time
from rephaze.place.full.line_fits import Asked
from rephaze.place.full.lines import Line, Ties
from rephaze.place.full.spans import (
    ALL_TIED,
    EXPERTS,
    GATHER,
    OWN,
    SCATTER,
    Costs,
    Span,
    first_point,
    hold_alone,
    hold_by_device,
    walk,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_CUTS = 20_000
"""Of one layout, if all are to be looked at."""
ALL_CUTS, EQUAL_BLOCKS, SOME_CUTS = 0, 1, 2
"""Over which cuts a layout was solved."""
NOT_ALL = unfolded(False)

NUM_SUMS = 6
FORWARD_S, BACKWARD_S, GATHER_S, SCATTER_S, OWN_BYTES, EXPERT_BYTES = range(NUM_SUMS)
"""Rows of sums over the layers before a place."""


class Sums(NamedTuple):
    """Sums over layers, and room for a cut."""

    sum_qu: Floats
    kept_ku: Floats
    replay_ku: Floats
    """Bytes kept and seconds replayed by the layers before a place, at each point."""
    block_i: Ints
    """The layers that are blocks."""
    start_c: Ints
    best_qc: Ints
    """The best cut found: where each chunk starts, and its point of ``keep``."""


def make_sums(num_layers: int, num_points: int) -> Sums:
    """For graphs of up to so many layers."""
    size = num_layers + 2
    return Sums(
        np.zeros((NUM_SUMS, size)),
        np.zeros((num_points, size)),
        np.zeros((num_points, size)),
        np.zeros(size, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        np.zeros((2, size), dtype=np.int64),
    )


@inner_in_place
def _fill_sums(line: Line, costs: Costs, link_vq: Floats, sums: Sums) -> int:
    """Gives back how many blocks there are."""
    num_layers, num_blocks = len(line.forward_s_v), 0
    has_blocks, sum_qu = line.blocks_u[num_layers] > 0, sums.sum_qu
    for v in range(num_layers):
        is_counted = costs.gathers
        sum_qu[FORWARD_S, v + 1] = sum_qu[FORWARD_S, v] + line.forward_s_v[v]
        sum_qu[BACKWARD_S, v + 1] = sum_qu[BACKWARD_S, v] + line.compute_s_vk[v, 0]
        sum_qu[GATHER_S, v + 1] = sum_qu[GATHER_S, v] + (link_vq[v, GATHER] if is_counted else 0.0)
        sum_qu[SCATTER_S, v + 1] = sum_qu[SCATTER_S, v] + (link_vq[v, SCATTER] if is_counted else 0.0)
        sum_qu[OWN_BYTES, v + 1] = sum_qu[OWN_BYTES, v] + line.param_bytes_v[v]
        sum_qu[EXPERT_BYTES, v + 1] = sum_qu[EXPERT_BYTES, v] + line.expert_bytes_v[v]
        for k in range(len(sums.kept_ku)):
            sums.kept_ku[k, v + 1] = sums.kept_ku[k, v] + line.kept_bytes_vk[v, k]
            replay_s = line.compute_s_vk[v, k] - line.compute_s_vk[v, 0]
            sums.replay_ku[k, v + 1] = sums.replay_ku[k, v] + replay_s
        if not has_blocks or line.blocks_u[v + 1] > line.blocks_u[v]:
            sums.block_i[num_blocks] = v
            num_blocks += 1
    return num_blocks


@inner_in_place
def _least_s(asked: Asked, sums: Sums, once_s: float, replay_s: float) -> float:
    """The least the cut takes: transfers hidden as well as can be, only the first device replays, so much."""
    pp, num_chunks, start_c = asked.pp, asked.pp * asked.chunks, sums.start_c
    longest_s, slowest_s, sum_qu = 0.0, 0.0, sums.sum_qu
    for device in range(pp):
        own_s, computed_s = 0.0, replay_s if device == 0 else 0.0
        for c in range(device, num_chunks, pp):
            a, b = start_c[c], start_c[c + 1]
            gather_s = sum_qu[GATHER_S, b] - sum_qu[GATHER_S, a]
            backward_s = sum_qu[BACKWARD_S, b] - sum_qu[BACKWARD_S, a]
            scatter_s = sum_qu[SCATTER_S, b] - sum_qu[SCATTER_S, a]
            messages = (1 if c > 0 else 0) + (1 if c < num_chunks - 1 else 0)
            ahead_s = max(sum_qu[FORWARD_S, b] - sum_qu[FORWARD_S, a], gather_s) + messages * asked.message_s
            longest_s = max(longest_s, ahead_s + max(backward_s, gather_s))
            own_s += ahead_s + max(backward_s, gather_s + scatter_s)
            computed_s += ahead_s + backward_s
        slowest_s = max(slowest_s, own_s, computed_s)
    if asked.schedule == INTERLEAVED:
        return asked.num_microbatches * slowest_s + (pp - 1) * longest_s + once_s
    return asked.num_microbatches * slowest_s + once_s


@inner_in_place
def _least_replay_s(costs: Costs, asked: Asked, sums: Sums, crew: Crew) -> float:
    """What the first device, of which most is in flight, must replay to fit; infinite if it cannot.

    What it lacks times the least that a byte in flight costs to rebuild.
    """
    pp, num_chunks, start_c, sum_qu = asked.pp, asked.chunks, sums.start_c, sums.sum_qu
    fixed, least_s, num_points = 0.0, 0.0, len(sums.kept_ku)
    for at in range(num_chunks):
        a, b = start_c[at * pp], start_c[at * pp + 1]
        fixed += costs.own_ratio * (sum_qu[OWN_BYTES, b] - sum_qu[OWN_BYTES, a])
        fixed += costs.expert_ratio * (sum_qu[EXPERT_BYTES, b] - sum_qu[EXPERT_BYTES, a])
    for m in range(crew.num_moments_d[0]):
        lacking, saved, price_s = fixed - costs.memory_bytes * (1 + ROUNDING), 0.0, np.inf
        for at in range(num_chunks):
            a, b, in_flight = start_c[at * pp], start_c[at * pp + 1], crew.in_flight_dmc[0, m, at]
            full = in_flight * (sums.kept_ku[0, b] - sums.kept_ku[0, a])
            lacking += full
            less = 0.0
            for k in range(1, num_points):
                less = full - in_flight * (sums.kept_ku[k, b] - sums.kept_ku[k, a])
                if less > 0:
                    price_s = min(price_s, (sums.replay_ku[k, b] - sums.replay_ku[k, a]) / less)
            saved += less
        if lacking > saved:
            return np.inf
        if lacking > 0:
            least_s = max(least_s, lacking * price_s)
    return least_s


@inner_in_place
def _look_at(
    line: Line, ties: Ties, costs: Costs, asked: Asked, room: Room, sums: Sums, crew: Crew
) -> tuple[float, bool]:
    """The least time of the cut ``sums.start_c`` below the limit, and whether every choice was looked at."""
    pp, num_chunks, start_c = asked.pp, asked.pp * asked.chunks, sums.start_c
    num_layers, num_points = len(line.forward_s_v), line.compute_s_vk.shape[1]
    walked_e = room.mark_qe[WALKED]
    for c in range(num_chunks):
        for v in range(start_c[c], start_c[c + 1]):
            room.device_v[v] = c % pp
    is_apart = True
    for t in range(len(ties.owner_t)):
        for i in range(ties.first_i_t[t], ties.first_i_t[t + 1]):
            for other in range(ties.first_i_t[t], i):
                if room.device_v[ties.member_i[i]] == room.device_v[ties.member_i[other]]:
                    is_apart = False
    other_param_bytes_v = room.other_param_bytes_v[:num_layers]
    if not is_apart:
        hold_by_device(line, ties, costs, room.device_v, other_param_bytes_v, room.other_link_vq)
    step_s, tied_s = 0.0, 0.0
    for device in range(pp):
        own, experts = 0.0, 0.0
        for c in range(device, num_chunks, pp):
            a, end = start_c[c], start_c[c + 1]
            if not is_apart:
                span = Span(end, a, a, np.inf, False)
                walk(line, costs, other_param_bytes_v, room.other_link_vq, span, room.run_kq, room.span_ejq[end])
                walked_e[end] = -1
            elif walked_e[end] < 0 or walked_e[end] > a:
                span = Span(end, end - 1, a, np.inf, False)
                walked_e[end] = walk(
                    line, costs, room.param_bytes_v, room.link_vq, span, room.run_kq, room.span_ejq[end]
                )
            row = room.span_ejq[end, end - 1 - a]
            own += row[OWN]
            experts += row[EXPERTS]
            tied_s += row[ALL_TIED]
        step_s = max(step_s, costs.step_own_s * own + costs.step_expert_s * experts)
    if asked.schedule == INTERLEAVED:
        spread = Spread(start_c, room.span_ejq)
        return best_points(spread, costs, asked, num_points, step_s + tied_s, crew)
    own_q, most_q, total_s = room.most_bq[0], room.most_bq[1], 0.0
    most_q[:] = 0.0
    for c in range(num_chunks):
        row = room.span_ejq[start_c[c + 1], start_c[c + 1] - start_c[c] - 1]
        in_flight = min(pp if costs.is_zero_bubble else pp - c, asked.num_microbatches)
        crew.point_c[c] = first_point(costs, row, in_flight, num_points)
        if crew.point_c[c] == num_points:
            return np.inf, True
        total_s += stage_figures(costs, row, crew.point_c[c], own_q)
        for q in range(NUM_MAXIMA):
            most_q[q] = max(most_q[q], own_q[q])
    return stage_time(total_s, most_q, pp, asked.num_microbatches, costs.is_zero_bubble), True


@inner_in_place
def _num_cuts(num_layers: int, num_chunks: int) -> int:
    """Ways to cut a line, or one more than are looked at."""
    ways = 1
    for at in range(1, num_chunks):
        ways = ways * (num_layers - at) // at
        if ways > MAX_CUTS:
            return MAX_CUTS + 1
    return ways


@inner_in_place
def best_listed_cut(
    line: Line, ties: Ties, costs: Costs, asked: Asked, once_s: float, room: Room, sums: Sums, crew: Crew
) -> tuple[float, int]:
    """The least time below the limit, and over which cuts; the cut and its points are in ``sums``.

    ``room.base_link_vq`` must hold the layers' transfers. ``once_s``: what every cut adds once a batch, at least.
    """
    num_layers, num_chunks = len(line.forward_s_v), asked.pp * asked.chunks
    hold_alone(line, ties, costs, room.param_bytes_v[:num_layers], room.link_vq)
    room.mark_qe[WALKED, :] = -1
    num_blocks = _fill_sums(line, costs, room.base_link_vq, sums)
    if asked.schedule == INTERLEAVED:
        fill_moments(asked.pp, asked.chunks, asked.num_microbatches, crew)
    start_c = sums.start_c
    start_c[0], start_c[num_chunks] = 0, num_layers
    best_s, is_complete = asked.limit_s, True
    is_all = asked.schedule == INTERLEAVED and _num_cuts(num_layers, num_chunks) <= MAX_CUTS
    state = _first_cut(num_layers, num_blocks, num_chunks, is_all, sums)
    while state >= 0:
        is_legal = True
        if is_all and asked.num_blocks >= 0:
            most = 0
            for c in range(num_chunks):
                most = max(most, line.blocks_u[start_c[c + 1]] - line.blocks_u[start_c[c]])
            for c in range(1, num_chunks - 1):
                is_legal = is_legal and line.blocks_u[start_c[c + 1]] - line.blocks_u[start_c[c]] == most
        for c in range(num_chunks):
            is_legal = is_legal and start_c[c] < start_c[c + 1]
        if is_legal and _least_s(asked, sums, once_s, 0.0) * (1 - ROUNDING) >= best_s:
            is_legal = False
        if is_legal and asked.schedule == INTERLEAVED:
            replay_s = _least_replay_s(costs, asked, sums, crew)
            is_legal = _least_s(asked, sums, once_s, replay_s) * (1 - ROUNDING) < best_s
        if is_legal:
            below = Asked(
                asked.pp, asked.chunks, asked.num_microbatches, asked.schedule, best_s, asked.most_s,
                asked.message_s, asked.num_blocks,
            )  # fmt: skip
            time_s, is_whole = _look_at(line, ties, costs, below, room, sums, crew)
            is_complete &= is_whole
            if time_s < best_s:
                best_s = time_s
                for c in range(num_chunks):
                    sums.best_qc[START, c], sums.best_qc[POINT, c] = start_c[c], crew.point_c[c]
        state = _next_cut(state, num_layers, num_blocks, num_chunks, is_all, sums)
    scope = (ALL_CUTS if is_all else EQUAL_BLOCKS) if is_complete else SOME_CUTS
    return best_s if best_s < asked.limit_s else np.inf, scope


@inner_in_place
def _first_cut(num_layers: int, num_blocks: int, num_chunks: int, is_all: bool, sums: Sums) -> int:
    """Put the first cut into ``sums.start_c``; -1: there is none."""
    if num_chunks > num_layers:
        return -1
    if is_all:
        for c in range(num_chunks):
            sums.start_c[c] = c
        return 0
    # States count blocks of a chunk and of the first: see _next_cut.
    each = -(-num_blocks // num_chunks)
    return _next_cut(each * (num_blocks + 1) - 1, num_layers, num_blocks, num_chunks, NOT_ALL, sums)


@inner_in_place
def _next_cut(state: int, num_layers: int, num_blocks: int, num_chunks: int, is_all: bool, sums: Sums) -> int:
    """Put the cut after the last into ``sums.start_c``; -1: there is none."""
    start_c = sums.start_c
    if is_all:
        at = num_chunks - 1
        while at > 0 and start_c[at] == num_layers - num_chunks + at:
            at -= 1
        if at <= 0:
            return -1
        start_c[at] += 1
        for c in range(at + 1, num_chunks):
            start_c[c] = start_c[c - 1] + 1
        return 0
    side = num_blocks + 1
    while True:
        state += 1
        each, first = state // side, state % side
        inside = (num_chunks - 2) * each
        if each > num_blocks or inside > num_blocks or num_chunks < 2:
            return -1
        last = num_blocks - inside - first
        if first > each or last > each or last < 0 or each == 0:
            continue
        for c in range(1, num_chunks):
            before = first + (c - 1) * each
            start_c[c] = sums.block_i[before] if before < num_blocks else sums.block_i[num_blocks - 1] + 1
        return state
