"""The fastest plan of all lines of a problem: bounds of (dp, pp), then of layouts, then exact cuts; compiled.

In rounds: a round looks for plans faster than a threshold, which rises from round to round until one is found. So
every exact cut is asked for little more than its bound allows, and most say at once that there is none.

Axis letters: g = graph, d = data-parallel degree, q = figure, c = chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner, kernel
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
from rephaze.place.full.line_cuts import BUSY, LOAD, NUM_MAXIMA, Room, best_line_cut, make_room
from rephaze.place.full.line_fits import Asked, can_be_cut, fill_rest
from rephaze.place.full.line_items import (
    CHUNKS,
    DEGREE,
    NUM_ITEM,
    NUM_LAYOUT,
    PP,
    Least,
    Tables,
    allowed_of,
    item_bound_s,
    item_mesh,
    item_shape,
    layout_costs,
    list_items,
    list_layouts,
    most_items,
)
from rephaze.place.full.line_layouts import (
    BACKWARD_S,
    FORWARD_S,
    Choices,
    Totals,
    fill_shares,
    layout_links,
    share_of,
    work_of,
)
from rephaze.place.full.lines import Line, Lines, Ties, Times, line_of, ties_of
from rephaze.place.full.rates import MAX_SIZES, Rate
from rephaze.place.full.spans import Costs, fill_links

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_STEP = 0.02
"""By how much the first threshold is above the least bound; the steps double."""
LAST_THRESHOLD = 64.0
"""After so many times the least bound any plan will do."""


class Tools(NamedTuple):
    """Memory for the work on one layout."""

    room: Room
    sums: Sums
    crew: Crew
    floor_q: Floats
    size_s: Ints
    item_iq: Ints
    layout_yq: Ints
    share_nq: Floats


PENDING, FOUND_GRAPH, FOUND_ITEM = 0, 1, 2
FOUND_LAYOUT = FOUND_ITEM + NUM_ITEM
"""Of the best plan: whether there may be plans above the limit, its graph (-1: none), item and layout."""


class State(NamedTuple):
    """The best plan so far."""

    best_s: Floats
    """Its time; then the least bound of layouts not solved over all cuts, and of those not even over a family."""
    found_q: Ints
    cut_qc: Ints
    """Where each stage starts, and its point of ``keep``."""


class Search(NamedTuple):
    """The best plan, the totals of graphs, and memory for the work."""

    state: State
    total_gq: Floats
    tools: Tools


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
    return best_s if best_s < limit_s else np.inf, scope, True


@inner
def _search_item(
    item: Ints, g: int, lines: Lines, times: Times, least: Least, tables: Tables, choices: Choices, work: Search
) -> None:
    """All orders and shardings of an item."""
    state, tools, total = work.state, work.tools, work.total_gq[g]
    tp, cp, num_experts = lines.tp_g[g], lines.cp_g[g], lines.experts_g[g]
    line, ties = line_of(lines, times, g), ties_of(lines, g)
    shape = item_shape(item, lines.count_g[g], choices.figures.overlap)
    num_layouts = list_layouts(item, cp, lines.orders_g[g], tables.degrees, choices, tools.size_s, tools.layout_yq)
    for y in range(num_layouts):
        layout = tools.layout_yq[y]
        costs = layout_costs(item, layout, tp, cp, num_experts, tables.levels, choices.figures)
        links = layout_links(total, costs, shape.pp)
        floors = least_floors(least.work, least.stage, least.chunk, links, shape)
        bound_s, limit_s = floor_time(floors, shape) * (1 - ROUNDING), state.best_s[0]
        if bound_s >= limit_s:
            state.found_q[PENDING] = 1
            continue
        time_s, scope, may_be = solve_layout(
            line, ties, costs, floors, shape, limit_s, choices.has_equal_blocks, tools
        )
        if may_be:
            state.found_q[PENDING] = 1
        if scope != ALL_CUTS:
            state.best_s[scope] = min(state.best_s[scope], bound_s)
        if time_s < limit_s:
            state.best_s[0] = time_s
            state.cut_qc[:] = tools.sums.best_qc
            state.found_q[FOUND_GRAPH] = g
            state.found_q[FOUND_ITEM : FOUND_ITEM + NUM_ITEM] = item
            state.found_q[FOUND_LAYOUT:] = layout


class Order(NamedTuple):
    """Graphs by a time none of their plans beats."""

    by_bound: Ints
    bound_s_g: Floats


@kernel
def search_round(
    lines: Lines, times: Times, totals: Totals, tables: Tables, choices: Choices, order: Order, work: Search
) -> None:
    """Look for plans faster than ``work.state.best_s[0]`` in all graphs."""
    state, item_iq, share_nq = work.state, work.tools.item_iq, work.tools.share_nq
    best_s, found_q, figures, allowed = state.best_s, state.found_q, choices.figures, allowed_of(choices)
    row_rq, expert_row_rq = tables.row_rq, tables.expert_row_rq
    found_q[PENDING], found_q[FOUND_GRAPH] = 0, -1
    for at_graph in range(len(order.by_bound)):
        g = order.by_bound[at_graph]
        if order.bound_s_g[g] >= best_s[0]:
            found_q[PENDING] = 1
            break
        total = totals.total_gq[g]
        work_s = total[FORWARD_S] + total[BACKWARD_S]
        num_items, is_cut = list_items(g, lines, tables, choices, work_s, best_s[0], item_iq)
        if is_cut:
            found_q[PENDING] = 1
        if num_items > 0:
            fill_shares(totals.type_gtq[g], lines.first_v_g[g + 1] - lines.first_v_g[g], share_nq)
        tp, cp, count, first_row_d = (
            lines.tp_g[g],
            lines.cp_g[g],
            lines.count_g[g],
            tables.first_row[tables.width_g[g]],
        )
        first_expert_row = tables.first_kind[tables.kind_g[g]] - first_row_d[0]
        for i in range(num_items):
            item = item_iq[i]
            pp = item[PP]
            least = Least(work_of(total), share_of(share_nq[pp]), share_of(share_nq[pp * item[CHUNKS]]))
            at = first_row_d[item[DEGREE]] + pp - 1
            experts = Rate(expert_row_rq[first_expert_row + at, 0], expert_row_rq[first_expert_row + at, 1])
            shape, mesh = item_shape(item, count, figures.overlap), item_mesh(item, tp, cp, True)
            bound_s = item_bound_s(shape, mesh, total, row_rq[at], experts, least, allowed, figures)
            if bound_s < best_s[0]:
                _search_item(item, g, lines, times, least, tables, choices, work)
            elif bound_s < np.inf:
                found_q[PENDING] = 1


def make_search(num_layers: int, num_points: int, num_degrees: int, chunks: Ints) -> Search:
    """Memory for problems of up to so many layers, points of ``keep`` and degrees, without totals of graphs."""
    sums = make_sums(num_layers)
    most_chunks = min(max([2, *chunks.tolist()]), max(num_layers, 2))
    return Search(
        state=State(
            best_s=np.full(3, np.inf),
            found_q=np.zeros(FOUND_LAYOUT + NUM_LAYOUT, dtype=np.int64),
            cut_qc=np.zeros_like(sums.best_qc),
        ),
        total_gq=np.zeros((0, 0)),
        tools=Tools(
            room=make_room(num_layers, num_points),
            sums=sums,
            crew=make_crew(num_layers, most_chunks, num_points),
            floor_q=np.zeros(NUM_MAXIMA),
            size_s=np.zeros(MAX_SIZES, dtype=np.int64),
            item_iq=np.empty((most_items(num_degrees, num_layers, len(chunks)), NUM_ITEM), dtype=np.int64),
            layout_yq=np.empty((6 * MAX_SIZES, NUM_LAYOUT), dtype=np.int64),
            share_nq=np.zeros((num_layers + 1, 4)),
        ),
    )


def search_lines(
    lines: Lines, times: Times, totals: Totals, tables: Tables, choices: Choices, cutoff_s: float, work: Search
) -> State:
    """The fastest plan below the cutoff, in rounds; its time is infinite where there is none."""
    work_s_g = totals.total_gq[:, FORWARD_S] + totals.total_gq[:, BACKWARD_S]
    # Device time: no plan has more devices than there are, nor fewer microbatches in all.
    devices_g = lines.tp_g * lines.cp_g / choices.num_devices
    bound_s_g = lines.count_g * work_s_g * devices_g * (1 - ROUNDING)
    order = Order(np.argsort(bound_s_g), bound_s_g)
    work, state = work._replace(total_gq=totals.total_gq), work.state
    state.best_s[:] = np.inf
    least_s, step = float(bound_s_g.min()), FIRST_STEP
    threshold_s = least_s * (1 + step)
    while True:
        limit_s = min(threshold_s, cutoff_s)
        if not 0 < threshold_s <= LAST_THRESHOLD * least_s:
            limit_s = cutoff_s
        state.best_s[0] = limit_s
        search_round(lines, times, totals, tables, choices, order, work)
        if state.found_q[FOUND_GRAPH] >= 0:
            return state
        if not state.found_q[PENDING] or limit_s >= cutoff_s:
            state.best_s[0] = np.inf
            return state
        step *= 2
        threshold_s *= 1 + step
