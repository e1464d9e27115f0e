"""The fastest plan of all lines of a problem: bounds of (dp, pp), then of layouts, then exact cuts; compiled.

In rounds: a round looks for plans faster than a threshold, which rises from round to round until one is found. So every
exact cut is asked for little more than its bound allows, and most say at once that there is none.

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
    ONE_F_ONE_B,
    ROUNDING,
    ZERO_BUBBLE,
    Floors,
    Shape,
    floor_time,
    least_floors,
    most_load_s,
)
from rephaze.place.full.line_cuts import NUM_MAXIMA, Room, best_line_cut, make_room
from rephaze.place.full.line_fits import Asked, can_be_cut, fill_rest
from rephaze.place.full.line_layouts import (
    BACKWARD_S,
    FORWARD_S,
    GRADIENTS_TOO,
    NONE,
    OPTIMIZER,
    WEIGHTS_TOO,
    Choices,
    Sharded,
    Totals,
    item_links,
    layout_links,
    memory_costs,
    mesh_costs,
    sharded_costs,
    share_of,
    work_of,
)
from rephaze.place.full.lines import DP_OUTER_BIT, PP_OUTER_BIT, Line, Lines, Ties, Times, line_of, ties_of
from rephaze.place.full.rates import (
    MAX_SIZES,
    Degrees,
    Levels,
    Mesh,
    Rate,
    are_experts_legal,
    list_sizes,
    shard_rates,
)
from rephaze.place.full.spans import Costs, fill_links

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_STEP = 0.02
"""By how much the first threshold is above the least bound; the steps double."""
LAST_THRESHOLD = 64.0
"""After so many times the least bound any plan will do."""


class Tables(NamedTuple):
    """The network and its least rates."""

    levels: Levels
    degrees: Degrees
    width_g: Ints
    first_row: Ints
    """By width and degree: where the rows of pp = 1, 2, ... begin."""
    row_rq: Floats
    kind_g: Ints
    first_kind: Ints
    expert_row_rq: Floats


class Tools(NamedTuple):
    """Memory for the work on one layout."""

    room: Room
    sums: Sums
    crew: Crew
    floor_q: Floats
    size_s: Ints


NUM_STATE = 10
(PENDING, GRAPH, DP, PP, IS_DP_OUTER, SHARDING, SHARD_GROUP, RESHARD, SCHEDULE, CHUNKS) = range(NUM_STATE)


class State(NamedTuple):
    """The best plan so far."""

    best_s: Floats
    """Its time; then the least bound of layouts not solved over all cuts, and of those not even over a family."""
    layout_q: Ints
    start_c: Ints
    point_c: Ints


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
        state.layout_q[PENDING] = 1
        return False
    time_s, scope, may_be = solve_layout(
        line, ties, costs, floors, shape, limit_s, choices.has_equal_blocks, tools
    )
    if may_be:
        state.layout_q[PENDING] = 1
    if scope != ALL_CUTS:
        state.best_s[scope] = min(state.best_s[scope], bound_s)
    if not time_s < limit_s:
        return False
    state.best_s[0] = time_s
    num_chunks = shape.pp * shape.chunks
    state.start_c[:num_chunks] = tools.sums.best_start_c[:num_chunks]
    state.point_c[:num_chunks] = tools.sums.best_point_c[:num_chunks]
    state.layout_q[PP], state.layout_q[SCHEDULE], state.layout_q[CHUNKS] = shape.pp, shape.schedule, shape.chunks
    return True


class Item(NamedTuple):
    """Layouts of one graph, degrees and schedule."""

    g: int
    d: int
    """Position of the data-parallel degree."""
    dp: int
    mesh: Mesh
    shape: Shape
    num_experts: int
    num_expert_replicas: int


@inner
def _search_item(
    item: Item,
    line: Line,
    ties: Ties,
    totals: Totals,
    tables: Tables,
    choices: Choices,
    orders: int,
    state_tools: tuple[State, Tools],
) -> None:
    """All orders and shardings of an item."""
    state, tools = state_tools
    mesh, shape, total = item.mesh, item.shape, totals.total_gq[item.g]
    pp, replicas = shape.pp, mesh.cp * mesh.dp
    work = work_of(total)
    stage = share_of(totals.type_gtq[item.g], pp)
    chunk = share_of(totals.type_gtq[item.g], pp * shape.chunks)
    is_zero_bubble = shape.schedule == ZERO_BUBBLE
    is_free = mesh.dp == 1 or pp == 1
    num_sizes = list_sizes(tables.degrees, item.d, mesh.cp, choices.sizes, tools.size_s) if replicas > 1 else 0
    for bit in (DP_OUTER_BIT, PP_OUTER_BIT):
        if (is_free and bit != DP_OUTER_BIT) or (not is_free and not orders & bit):
            continue
        placed = Mesh(mesh.tp, mesh.cp, mesh.dp, pp, bit == DP_OUTER_BIT)
        base = mesh_costs(tables.levels, placed, item.num_experts, is_zero_bubble)
        for sharding in range(4):
            if replicas == 1 and sharding != NONE:
                continue
            if replicas > 1 and not choices.is_sharding_o[sharding]:
                continue
            if shape.gathers and sharding != WEIGHTS_TOO:
                continue
            if not shape.gathers and sharding == WEIGHTS_TOO:
                # Never better than to shard gradients too: the same times, more memory.
                if not choices.may_keep or choices.is_sharding_o[GRADIENTS_TOO]:
                    continue
            for at in range(1 if sharding == NONE else num_sizes):
                size = 1 if sharding == NONE else tools.size_s[at]
                costs = base
                if sharding != NONE:
                    shards, copies = shard_rates(tables.levels, placed, size)
                    costs = sharded_costs(base, shards, copies)
                sharded = Sharded(sharding, size, shape.gathers)
                costs = memory_costs(costs, choices, sharded, item.num_expert_replicas)
                floors = least_floors(work, stage, chunk, layout_links(total, costs, pp), shape)
                if _try_layout(line, ties, costs, floors, shape, choices, state, tools):
                    layout_q = state.layout_q
                    layout_q[GRAPH], layout_q[DP], layout_q[IS_DP_OUTER] = item.g, item.dp, int(placed.is_dp_outer)
                    layout_q[SHARDING], layout_q[SHARD_GROUP] = sharding, size
                    layout_q[RESHARD] = int(shape.gathers)


@inner
def _item_bound(item: Item, totals: Totals, row: Floats, experts: Rate, choices: Choices) -> float:
    """No plan of the item is faster."""
    mesh, shape, total, types = item.mesh, item.shape, totals.total_gq[item.g], totals.type_gtq[item.g]
    work, stage = work_of(total), share_of(types, shape.pp)
    chunk = share_of(types, shape.pp * shape.chunks) if shape.chunks > 1 else stage
    held = 1.0 / item.num_expert_replicas
    is_single = mesh.cp * mesh.dp == 1
    least_s = np.inf
    if shape.gathers or (
        not is_single
        and (
            choices.is_sharding_o[OPTIMIZER]
            or choices.is_sharding_o[GRADIENTS_TOO]
            or choices.is_sharding_o[WEIGHTS_TOO]
        )
    ):
        links = item_links(total, row, experts, choices, mesh, True, shape.gathers, held)
        least_s = floor_time(least_floors(work, stage, chunk, links, shape), shape)
    if not shape.gathers and (is_single or choices.is_sharding_o[NONE]):
        links = item_links(total, row, experts, choices, mesh, False, False, held)
        least_s = min(least_s, floor_time(least_floors(work, stage, chunk, links, shape), shape))
    return least_s * (1 - ROUNDING)


@inner
def _is_gathering_legal(choices: Choices, replicas: int, schedule: int) -> bool:
    is_sharded = choices.is_sharding_o[WEIGHTS_TOO] and choices.may_reshard
    return is_sharded and replicas > 1 and schedule != ZERO_BUBBLE


@inner
def _search_graph(
    g: int,
    lines: Lines,
    times: Times,
    totals: Totals,
    tables: Tables,
    choices: Choices,
    state: State,
    tools: Tools,
) -> None:
    """All plans of a graph that may beat the best."""
    tp, cp, count, num_experts = lines.tp_g[g], lines.cp_g[g], lines.count_g[g], lines.experts_g[g]
    width, w, x = tp * cp, tables.width_g[g], tables.kind_g[g]
    num_layers = lines.first_v_g[g + 1] - lines.first_v_g[g]
    total = totals.total_gq[g]
    work_s = total[FORWARD_S] + total[BACKWARD_S]
    line, ties = line_of(lines, times, g), ties_of(lines, g)
    for d in range(len(tables.degrees.dp_d)):
        dp = tables.degrees.dp_d[d]
        most = min(num_layers, choices.num_devices // (width * dp))
        if dp > count or most == 0:
            break
        if choices.is_exact and choices.global_batch % (dp * lines.microbatch_g[g]) != 0:
            continue
        if not are_experts_legal(tp, cp, dp, num_experts):
            continue
        per_replica = -(-count // dp)
        for pp in range(1, most + 1):
            if choices.uses_all and dp * pp * width != choices.num_devices:
                continue
            if per_replica * (work_s / pp) * (1 - ROUNDING) >= state.best_s[0]:
                state.layout_q[PENDING] = 1
                continue
            at = tables.first_row[w, d] + pp - 1
            expert_row = tables.expert_row_rq[tables.first_kind[x] + at - tables.first_row[w, 0]]
            experts = Rate(expert_row[0], expert_row[1])
            mesh = Mesh(tp, cp, dp, pp, True)
            for schedule in (ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE):
                if not choices.is_schedule[schedule]:
                    continue
                if schedule == ZERO_BUBBLE and (pp < choices.least_zero_bubble or not lines.is_split_g[g]):
                    continue
                for variant in range(len(choices.chunks) if schedule == INTERLEAVED else 1):
                    chunks = choices.chunks[variant] if schedule == INTERLEAVED else 1
                    if schedule == INTERLEAVED and (pp < 2 or per_replica % pp or pp * chunks > num_layers):
                        continue
                    for gathers in (False, True):
                        if gathers and not _is_gathering_legal(choices, cp * dp, schedule):
                            continue
                        shape = Shape(pp, chunks, per_replica, schedule, gathers, choices.overlap)
                        item = Item(g, d, dp, mesh, shape, num_experts, width * dp // num_experts)
                        bound_s = _item_bound(item, totals, tables.row_rq[at], experts, choices)
                        if bound_s >= state.best_s[0]:
                            if bound_s < np.inf:
                                state.layout_q[PENDING] = 1
                            continue
                        _search_item(item, line, ties, totals, tables, choices, lines.orders_g[g], (state, tools))


class Answer(NamedTuple):
    """The best plan: its time, layout, where stages start, their points; what was not proven over all cuts."""

    best_s: Floats
    layout_q: Ints
    start_c: Ints
    point_c: Ints


@kernel
def search_lines(
    lines: Lines, times: Times, totals: Totals, tables: Tables, choices: Choices, cutoff_s: float
) -> Answer:
    """The fastest plan below the cutoff; its time is infinite where there is none.

    ``best_s``: its time, the least bound of layouts solved only over cuts of equal numbers of blocks, and of those not
    solved over a family; ``layout_q[PENDING]``: whether there may be plans above the cutoff.
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
        make_crew(num_layers, min(most_chunks, num_layers)),
        np.zeros(NUM_MAXIMA),
        np.zeros(MAX_SIZES, dtype=np.int64),
    )
    state = State(
        np.full(3, np.inf),
        np.zeros(NUM_STATE, dtype=np.int64),
        np.zeros(num_layers + 1, dtype=np.int64),
        np.zeros(num_layers + 1, dtype=np.int64),
    )
    least_s, step = np.min(bound_g), FIRST_STEP
    threshold_s = least_s * (1 + step)
    state.layout_q[GRAPH] = -1
    by_bound = np.argsort(bound_g)
    while True:
        limit_s = min(threshold_s, cutoff_s)
        if not 0 < threshold_s <= LAST_THRESHOLD * least_s:
            limit_s = cutoff_s
        state.best_s[0] = limit_s
        state.layout_q[PENDING] = 0
        for at in range(num_graphs):
            if bound_g[by_bound[at]] >= state.best_s[0]:
                state.layout_q[PENDING] = 1
                break
            _search_graph(by_bound[at], lines, times, totals, tables, choices, state, tools)
        if state.layout_q[GRAPH] >= 0 or state.layout_q[PENDING] == 0 or limit_s >= cutoff_s:
            break
        step *= 2
        threshold_s *= 1 + step
    if state.layout_q[GRAPH] < 0:
        state.best_s[0] = np.inf
    return Answer(state.best_s, state.layout_q, state.start_c, state.point_c)
