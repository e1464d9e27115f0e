"""The best cuts of lines under layouts: what their bounds leave room for, then exactly.

Two kernels, so that the second is compiled only where it is needed: most cuts are labels of ``line_cuts``; those
into chunks, and what labels do not come to an end with, are looked at one by one.

Axis letters: g = graph, y = layout, q = figure, c = chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, kernel_in_place
from rephaze.place.full.chunk_cuts import ALL_CUTS, Sums, best_listed_cut, make_sums
from rephaze.place.full.chunks import Crew, make_crew
from rephaze.place.full.least_time import (
    INTERLEAVED,
    ROUNDING,
    Floors,
    Shape,
    floor_time,
    least_floors,
    most_load_s,
)
from rephaze.place.full.line_cuts import (
    BUSY,
    LOAD,
    NUM_MAXIMA,
    POINT,
    START,
    Labels,
    Room,
    best_line_cut,
    make_room,
)
from rephaze.place.full.line_fits import Asked, can_be_cut, fill_rest
from rephaze.place.full.line_items import NUM_ITEM, NUM_LAYOUT, item_shape, layout_costs
from rephaze.place.full.line_layouts import Figures, Totals, layout_links, type_share, work_of
from rephaze.place.full.line_memory import may_interleave
from rephaze.place.full.lines import Line, Lines, Times, line_of, ties_of
from rephaze.place.full.rates import Levels
from rephaze.place.full.replayed_stages import least_stage, with_slowest
from rephaze.place.full.spans import Costs, fill_links

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GRAPH, ITEM = 0, 1
LAYOUT = ITEM + NUM_ITEM
NUM_ROW = LAYOUT + NUM_LAYOUT
"""Of a layout of any graph: its graph, item and layout of the item."""


class Tools(NamedTuple):
    """Memory for the work on one layout."""

    room: Room
    sums: Sums
    crew: Crew
    floor_q: Floats


def make_tools(num_layers: int, num_points: int, most_chunks: int, labels: Labels) -> Tools:
    """For graphs of up to so many layers and points of ``keep``, and devices of up to so many chunks."""
    return Tools(
        room=make_room(num_layers, num_points, labels),
        sums=make_sums(num_layers, num_points),
        crew=make_crew(num_layers, most_chunks, num_points),
        floor_q=np.zeros(NUM_MAXIMA),
    )


@inner_in_place
def set_floors(floors: Floors, is_zero_bubble: bool, floor_q: Floats) -> None:
    """What the largest figures of stages are at least, in the order of ``stage_figures``."""
    floor_q[0] = floors.slowest_s
    if is_zero_bubble:
        floor_q[1], floor_q[2], floor_q[3] = floors.input_s, floors.ahead_s, floors.forward_s
        floor_q[4], floor_q[5] = floors.late_s, 0.0
        return
    floor_q[1], floor_q[2], floor_q[3] = floors.sync_s, 0.0, floors.regather_s
    floor_q[4] = floor_q[5] = 0.0


@inner_in_place
def _with_passes(floors: Floors, passes_s: float, slowest_s: float) -> Floors:
    return Floors(
        max(floors.passes_s, passes_s), max(floors.slowest_s, slowest_s), floors.longest_s, floors.sync_s,
        floors.regather_s, floors.once_s, floors.late_s, floors.step_s, floors.ahead_s, floors.input_s,
        floors.forward_s, floors.message_s,
    )  # fmt: skip


class Problem(NamedTuple):
    """What is to be cut."""

    lines: Lines
    times: Times
    totals: Totals
    levels: Levels
    figures: Figures
    has_equal_blocks: bool


class State(NamedTuple):
    """The best plan so far."""

    best_s: Floats
    """Its time; then the least bound of layouts not solved over all cuts, and of those not even over a family."""
    row_q: Ints
    """Its layout; the graph is -1 if there is none."""
    cut_qc: Ints
    """Where each stage starts, and its point of ``keep``."""
    may_be: NDArray[np.bool_]
    """Whether there may be plans above the limit."""
    any_will_do: NDArray[np.bool_]
    """Whether to stop at the first plan below the limit."""


class Layout(NamedTuple):
    """One layout, and what the parts of a batch's time are at least."""

    shape: Shape
    costs: Costs
    floors: Floors
    bound_s: float


@inner_in_place
def layout_of(problem: Problem, row: Ints) -> Layout:
    """The layout of a row."""
    lines, g, item = problem.lines, row[GRAPH], row[ITEM:LAYOUT]
    total, types = problem.totals.total_gq[g], problem.totals.type_gtq[g]
    shape = item_shape(item, lines.count_g[g], problem.figures.overlap)
    costs = layout_costs(
        item, row[LAYOUT:], lines.tp_g[g], lines.cp_g[g], lines.experts_g[g], problem.levels, problem.figures
    )
    stage, chunk = type_share(types, shape.pp), type_share(types, shape.pp * shape.chunks)
    floors = least_floors(work_of(total), stage, chunk, layout_links(total, costs, shape.pp), shape)
    return Layout(shape, costs, floors, floor_time(floors, shape) * (1 - ROUNDING))


@inner_in_place
def _walked_floors(line: Line, layout: Layout, room: Room) -> Floors:
    """Its floors with what the line takes however it is cut; fills the transfers of layers and the least times."""
    shape, costs, floors, num_layers = layout.shape, layout.costs, layout.floors, len(line.forward_s_v)
    fill_links(line, line.param_bytes_v, costs, room.base_link_vq)
    load_s_u, busy_s_u = room.rest_s_qu[LOAD], room.rest_s_qu[BUSY]
    fill_rest(line, costs, room.base_link_vq, load_s_u, busy_s_u)
    messages_s = 2 * (shape.pp * shape.chunks - 1) * floors.message_s
    slowest_s = (busy_s_u[num_layers] + messages_s) / shape.pp
    return _with_passes(floors, load_s_u[num_layers] + messages_s, slowest_s)


@inner_in_place
def _walked_layout(problem: Problem, row: Ints, limit_s: float, state: State, room: Room) -> tuple[bool, Layout]:
    """The layout of a row, its floors those of its line, and whether it may be below the limit."""
    layout = layout_of(problem, row)
    if layout.bound_s < limit_s:
        line = line_of(problem.lines, problem.times, row[GRAPH])
        floors = _walked_floors(line, layout, room)
        if floor_time(floors, layout.shape) * (1 - ROUNDING) < limit_s:
            return True, Layout(layout.shape, layout.costs, floors, layout.bound_s)
    state.may_be[0] = True
    return False, layout


@inner_in_place
def _keep_best(time_s: float, row: Ints, cut_qc: Ints, state: State) -> None:
    state.best_s[0] = time_s
    for c in range(state.cut_qc.shape[1]):
        state.cut_qc[START, c], state.cut_qc[POINT, c] = cut_qc[START, c], cut_qc[POINT, c]
    for q in range(NUM_ROW):
        state.row_q[q] = row[q]


@kernel_in_place
def cut_layouts(problem: Problem, row_yq: Ints, first: int, state: State, tools: Tools) -> tuple[int, float]:
    """Cut layouts from the first on, one after another, each below the best so far; none of them interleaved.

    Gives back the first of which not every cut was looked at, and the limit before it; or how many there are.
    """
    room, floor_q, has_equal_blocks = tools.room, tools.floor_q, problem.has_equal_blocks
    for y in range(first, len(row_yq)):
        if state.any_will_do[0] and state.row_q[GRAPH] >= 0:
            break
        limit_s = state.best_s[0]
        may_win, layout = _walked_layout(problem, row_yq[y], limit_s, state, room)
        if not may_win:
            continue
        g, shape, costs, floors = row_yq[y, GRAPH], layout.shape, layout.costs, layout.floors
        line, ties = line_of(problem.lines, problem.times, g), ties_of(problem.lines, g)
        pp, count, message_s = shape.pp, shape.num_microbatches, floors.message_s
        most_s = most_load_s(floors, shape, limit_s) * (1 + ROUNDING)
        asked = Asked(pp, 1, count, shape.schedule, limit_s, most_s, message_s, -1)
        if not can_be_cut(line, costs, room.base_link_vq, asked, room.run_kq):
            any_time = Asked(pp, 1, count, shape.schedule, np.inf, np.inf, 0.0, -1)
            state.may_be[0] |= can_be_cut(line, costs, room.base_link_vq, any_time, room.run_kq)
            continue
        set_floors(floors, costs.is_zero_bubble, floor_q)
        total_blocks, is_counted, is_complete = line.blocks_u[-1], has_equal_blocks and pp > 2, True
        for blocks in range(total_blocks + 1 if is_counted else 1):
            if is_counted and not (pp - 2) * blocks <= total_blocks <= pp * blocks:
                continue
            num_blocks = blocks if is_counted else -1
            at_most = Asked(pp, 1, count, shape.schedule, state.best_s[0], most_s, message_s, num_blocks)
            time_s, is_whole = best_line_cut(line, ties, costs, at_most, floor_q, room)
            is_complete &= is_whole
            if time_s < state.best_s[0]:
                _keep_best(time_s, row_yq[y], room.cut_qc, state)
        state.may_be[0] |= state.best_s[0] < np.inf
        if not is_complete:
            return y, limit_s
    return len(row_yq), np.inf


@kernel_in_place
def list_cuts(problem: Problem, row_yq: Ints, before_s: float, state: State, tools: Tools) -> None:
    """Look at cuts of layouts one by one, each below the best so far.

    ``before_s``: the limit before ``cut_layouts`` began with the layout; 0 where it did not.
    """
    room, sums = tools.room, tools.sums
    for y in range(len(row_yq)):
        if state.any_will_do[0] and state.row_q[GRAPH] >= 0:
            break
        limit_s = max(state.best_s[0], before_s)
        may_win, layout = _walked_layout(problem, row_yq[y], limit_s, state, room)
        if not may_win:
            continue
        g, shape, costs, floors = row_yq[y, GRAPH], layout.shape, layout.costs, layout.floors
        line, ties = line_of(problem.lines, problem.times, g), ties_of(problem.lines, g)
        if shape.schedule == INTERLEAVED and limit_s < np.inf:
            state.may_be[0] = True
            if not may_interleave(line, costs, floors, shape, limit_s):
                continue
        most_s = most_load_s(floors, shape, limit_s) * (1 + ROUNDING)
        asked = Asked(
            shape.pp, shape.chunks, shape.num_microbatches, shape.schedule, state.best_s[0], most_s,
            floors.message_s, 0 if problem.has_equal_blocks else -1,
        )  # fmt: skip
        time_s, scope = best_listed_cut(line, ties, costs, asked, floors.step_s, room, sums, tools.crew)
        if scope != ALL_CUTS:
            # Every cut has a stage that takes this long, whether it was looked at or not.
            held = with_slowest(floors, least_stage(line, costs, shape, room.base_link_vq, room.run_kq))
            bound_s = max(layout.bound_s, floor_time(held, shape) * (1 - ROUNDING))
            state.best_s[scope] = min(state.best_s[scope], bound_s)
        if time_s < state.best_s[0]:
            _keep_best(time_s, row_yq[y], sums.best_qc, state)
            state.may_be[0] |= shape.schedule != INTERLEAVED
