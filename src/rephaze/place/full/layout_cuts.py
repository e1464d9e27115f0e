"""The best cut of a line under one layout: what its bound leaves room for, then exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner
from rephaze.place.full.chunk_cuts import ALL_CUTS, Sums, best_listed_cut, make_sums
from rephaze.place.full.chunks import Crew, make_crew
from rephaze.place.full.least_time import INTERLEAVED, ROUNDING, Floors, Shape, floor_time, most_load_s
from rephaze.place.full.line_cuts import BUSY, LOAD, NUM_MAXIMA, Room, best_line_cut, make_room
from rephaze.place.full.line_fits import Asked, can_be_cut, fill_rest
from rephaze.place.full.lines import Line, Ties
from rephaze.place.full.spans import Costs, fill_links

Floats = NDArray[np.float64]


class Tools(NamedTuple):
    """Memory for the work on one layout."""

    room: Room
    sums: Sums
    crew: Crew
    floor_q: Floats


def make_tools(num_layers: int, num_points: int, most_chunks: int, max_labels: int) -> Tools:
    """For graphs of up to so many layers and points of ``keep``, and devices of up to so many chunks."""
    return Tools(
        room=make_room(num_layers, num_points, max_labels),
        sums=make_sums(num_layers),
        crew=make_crew(num_layers, most_chunks, num_points),
        floor_q=np.zeros(NUM_MAXIMA),
    )


@inner
def _set_floors(floors: Floors, is_zero_bubble: bool, floor_q: Floats) -> None:
    """What the largest figures of stages are at least, in the order of ``stage_figures``."""
    floor_q[0] = floors.slowest_s
    if is_zero_bubble:
        floor_q[1], floor_q[2], floor_q[3] = floors.input_s, floors.ahead_s, floors.forward_s
        floor_q[4], floor_q[5] = floors.late_s, 0.0
        return
    floor_q[1], floor_q[2], floor_q[3] = floors.sync_s, 0.0, floors.regather_s
    floor_q[4] = floor_q[5] = 0.0


@inner
def _with_passes(floors: Floors, passes_s: float, slowest_s: float) -> Floors:
    return Floors(
        max(floors.passes_s, passes_s), max(floors.slowest_s, slowest_s), floors.longest_s, floors.sync_s,
        floors.regather_s, floors.once_s, floors.late_s, floors.step_s, floors.ahead_s, floors.input_s,
        floors.forward_s, floors.message_s,
    )  # fmt: skip


@inner
def solve_layout(
    line: Line,
    ties: Ties,
    costs: Costs,
    floors: Floors,
    shape: Shape,
    limit_s: float,
    has_equal_blocks: bool,
    tools: Tools,
) -> tuple[float, int, bool]:
    """The least time below the limit, over which cuts, and whether there may be one above it.

    The cut and its points are in ``tools.sums``.
    """
    room, sums, pp, count = tools.room, tools.sums, shape.pp, shape.num_microbatches
    num_layers = len(line.forward_s_v)
    fill_links(line, line.param_bytes_v, costs, room.base_link_vq)
    load_s_u, busy_s_u = room.rest_s_qu[LOAD], room.rest_s_qu[BUSY]
    fill_rest(line, costs, room.base_link_vq, load_s_u, busy_s_u)
    messages_s = 2 * (pp * shape.chunks - 1) * floors.message_s
    slowest_s = (busy_s_u[num_layers] + messages_s) / pp
    floors = _with_passes(floors, load_s_u[num_layers] + messages_s, slowest_s)
    if floor_time(floors, shape) * (1 - ROUNDING) >= limit_s:
        return np.inf, ALL_CUTS, True
    most_s = most_load_s(floors, shape, limit_s) * (1 + ROUNDING)
    num_blocks = 0 if has_equal_blocks else -1
    asked = Asked(pp, shape.chunks, count, shape.schedule, limit_s, most_s, floors.message_s, num_blocks)
    if shape.schedule == INTERLEAVED:
        time_s, scope = best_listed_cut(line, ties, costs, asked, floors.step_s, room, sums, tools.crew)
        return time_s, scope, limit_s < np.inf
    if not can_be_cut(line, costs, room.base_link_vq, asked, room.run_kq):
        any_time = Asked(pp, 1, count, shape.schedule, np.inf, np.inf, 0.0, -1)
        return np.inf, ALL_CUTS, can_be_cut(line, costs, room.base_link_vq, any_time, room.run_kq)
    _set_floors(floors, costs.is_zero_bubble, tools.floor_q)
    total_blocks = line.blocks_u[num_layers]
    is_counted = has_equal_blocks and pp > 2
    best_s, is_complete = limit_s, True
    for blocks in range(total_blocks + 1 if is_counted else 1):
        if is_counted and not (pp - 2) * blocks <= total_blocks <= pp * blocks:
            continue
        at_most = Asked(
            pp, 1, count, shape.schedule, best_s, most_s, floors.message_s, blocks if is_counted else -1
        )
        time_s, is_whole = best_line_cut(line, ties, costs, at_most, tools.floor_q, room)
        is_complete &= is_whole
        if time_s < best_s:
            best_s = time_s
            sums.best_qc[:, :pp] = room.cut_qc[:, :pp]
    scope = ALL_CUTS
    if not is_complete:
        left = Asked(pp, 1, count, shape.schedule, best_s, most_s, floors.message_s, num_blocks)
        time_s, scope = best_listed_cut(line, ties, costs, left, floors.step_s, room, sums, tools.crew)
        best_s = min(best_s, time_s)
    return best_s if best_s < limit_s else np.inf, scope, best_s < np.inf
