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
from rephaze.place.full.line_cuts import NUM_MAXIMA, Room, best_line_cut, make_room
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
"""What is known of the best plan: whether there may be plans above the limit, its graph, item and layout."""


class State(NamedTuple):
    """The best plan so far."""

    best_s: Floats
    """Its time; then the least bound of layouts not solved over all cuts, and of those not even over a family."""
    found_q: Ints
    start_c: Ints
    point_c: Ints


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
    fill_rest(line, costs, room.base_link_vq, room.load_s_u, room.busy_s_u)
    messages_s = 2 * (pp * shape.chunks - 1) * floors.message_s
    slowest_s = (room.busy_s_u[num_layers] + messages_s) / pp
    floors = _with_passes(floors, room.load_s_u[num_layers] + messages_s, slowest_s)
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
            for at in range(pp):
                sums.best_start_c[at], sums.best_point_c[at] = room.cut_c[at], room.cut_point_c[at]
    scope = ALL_CUTS
    if not is_complete:
        left = Asked(pp, 1, count, shape.schedule, best_s, most_s, floors.message_s, num_blocks)
        time_s, scope = best_listed_cut(line, ties, costs, left, floors.step_s, room, sums, tools.crew)
        best_s = min(best_s, time_s)
    return best_s if best_s < limit_s else np.inf, scope, True


@inner
def _try_layout(
    line: Line,
    ties: Ties,
    costs: Costs,
    floors: Floors,
    shape: Shape,
    choices: Choices,
    state: State,
    tools: Tools,
) -> bool:
    """Solve a layout below the best known; whether it is the new best."""
    bound_s = floor_time(floors, shape) * (1 - ROUNDING)
    limit_s = state.best_s[0]
    if bound_s >= limit_s:
        state.found_q[PENDING] = 1
        return False
    time_s, scope, may_be = solve_layout(
        line, ties, costs, floors, shape, limit_s, choices.has_equal_blocks, tools
    )
    if may_be:
        state.found_q[PENDING] = 1
    if scope != ALL_CUTS:
        state.best_s[scope] = min(state.best_s[scope], bound_s)
    if not time_s < limit_s:
        return False
    state.best_s[0] = time_s
    num_chunks = shape.pp * shape.chunks
    state.start_c[:num_chunks] = tools.sums.best_start_c[:num_chunks]
    state.point_c[:num_chunks] = tools.sums.best_point_c[:num_chunks]
    return True


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
        if _try_layout(line, ties, costs, floors, shape, choices, state, tools):
            state.found_q[FOUND_GRAPH] = g
            state.found_q[FOUND_ITEM : FOUND_ITEM + NUM_ITEM] = item
            state.found_q[FOUND_LAYOUT:] = layout


@inner
def _search_graph(
    g: int, lines: Lines, times: Times, totals: Totals, tables: Tables, choices: Choices, work: Search
) -> None:
    """All plans of a graph that may beat the best."""
    total, state, item_iq, share_nq = totals.total_gq[g], work.state, work.tools.item_iq, work.tools.share_nq
    work_s = total[FORWARD_S] + total[BACKWARD_S]
    num_items, is_cut = list_items(g, lines, tables, choices, work_s, state.best_s[0], item_iq)
    if is_cut:
        state.found_q[PENDING] = 1
    if num_items == 0:
        return
    fill_shares(totals.type_gtq[g], lines.first_v_g[g + 1] - lines.first_v_g[g], share_nq)
    # Unpacked once: every array that goes into a compiled function counts references.
    tp, cp, count, figures, allowed = (
        lines.tp_g[g],
        lines.cp_g[g],
        lines.count_g[g],
        choices.figures,
        allowed_of(choices),
    )
    row_rq, expert_row_rq, first_row_d = tables.row_rq, tables.expert_row_rq, tables.first_row[tables.width_g[g]]
    first_expert_row = tables.first_kind[tables.kind_g[g]] - first_row_d[0]
    best_s = state.best_s
    for i in range(num_items):
        item = item_iq[i]
        pp = item[PP]
        least = Least(work_of(total), share_of(share_nq[pp]), share_of(share_nq[pp * item[CHUNKS]]))
        at = first_row_d[item[DEGREE]] + pp - 1
        experts = Rate(expert_row_rq[first_expert_row + at, 0], expert_row_rq[first_expert_row + at, 1])
        shape = item_shape(item, count, figures.overlap)
        mesh = item_mesh(item, tp, cp, True)
        bound_s = item_bound_s(shape, mesh, total, row_rq[at], experts, least, allowed, figures)
        if bound_s < best_s[0]:
            _search_item(item, g, lines, times, least, tables, choices, work)
        elif bound_s < np.inf:
            state.found_q[PENDING] = 1


class Answer(NamedTuple):
    """The best plan: its time, layout, where stages start, their points; what was not proven over all cuts."""

    best_s: Floats
    found_q: Ints
    start_c: Ints
    point_c: Ints


@kernel
def search_lines(
    lines: Lines, times: Times, totals: Totals, tables: Tables, choices: Choices, cutoff_s: float
) -> Answer:
    """The fastest plan below the cutoff; its time is infinite where there is none.

    ``best_s``: its time, the least bound of layouts solved only over cuts of equal numbers of blocks, and of those
    not solved over a family; ``found_q[PENDING]``: whether there may be plans above the cutoff.
    """
    num_graphs, num_layers = len(lines.tp_g), 0
    bound_g = np.zeros(num_graphs)
    for g in range(num_graphs):
        num_layers = max(num_layers, lines.first_v_g[g + 1] - lines.first_v_g[g])
        work_s = totals.total_gq[g, FORWARD_S] + totals.total_gq[g, BACKWARD_S]
        width = lines.tp_g[g] * lines.cp_g[g]
        # Device time: no plan has more devices than there are, nor fewer microbatches in all.
        bound_g[g] = lines.count_g[g] * work_s * width / choices.num_devices * (1 - ROUNDING)
    most_chunks = 2
    for at in range(len(choices.chunks)):
        most_chunks = max(most_chunks, choices.chunks[at])
    tools = Tools(
        make_room(num_layers, times.kept_bytes_vk.shape[1]),
        make_sums(num_layers),
        make_crew(num_layers, min(most_chunks, num_layers), times.kept_bytes_vk.shape[1]),
        np.zeros(NUM_MAXIMA),
        np.zeros(MAX_SIZES, dtype=np.int64),
        np.empty((most_items(len(tables.degrees.dp_d), num_layers, choices), NUM_ITEM), dtype=np.int64),
        np.empty((6 * MAX_SIZES, NUM_LAYOUT), dtype=np.int64),
        np.zeros((num_layers + 1, 4)),
    )
    state = State(
        np.full(3, np.inf),
        np.zeros(FOUND_LAYOUT + NUM_LAYOUT, dtype=np.int64),
        np.zeros(num_layers + 1, dtype=np.int64),
        np.zeros(num_layers + 1, dtype=np.int64),
    )
    search = Search(state, totals.total_gq, tools)
    least_s, step = np.min(bound_g), FIRST_STEP
    threshold_s = least_s * (1 + step)
    state.found_q[FOUND_GRAPH] = -1
    by_bound = np.argsort(bound_g)
    while True:
        limit_s = min(threshold_s, cutoff_s)
        if not 0 < threshold_s <= LAST_THRESHOLD * least_s:
            limit_s = cutoff_s
        state.best_s[0] = limit_s
        state.found_q[PENDING] = 0
        for at in range(num_graphs):
            if bound_g[by_bound[at]] >= state.best_s[0]:
                state.found_q[PENDING] = 1
                break
            _search_graph(by_bound[at], lines, times, totals, tables, choices, search)
        if state.found_q[FOUND_GRAPH] >= 0 or state.found_q[PENDING] == 0 or limit_s >= cutoff_s:
            break
        step *= 2
        threshold_s *= 1 + step
    if state.found_q[FOUND_GRAPH] < 0:
        state.best_s[0] = np.inf
    return Answer(state.best_s, state.found_q, state.start_c, state.point_c)
