"""The fastest plan of all lines of a problem: bounds of (dp, pp), then of layouts, then exact cuts.

In rounds: a round looks for plans faster than a threshold, which rises from round to round until one is found. So
every exact cut is asked for little more than its bound allows, and most say at once that there is none. In a round
layouts are looked at by rising bound.

Axis letters: g = graph, y = layout, q = figure, c = chunk.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import kernel_in_place
from rephaze.place.full.layout_cuts import (
    GRAPH,
    ITEM,
    LAYOUT,
    NUM_ROW,
    Problem,
    State,
    Tools,
    cut_layouts,
    list_cuts,
    make_tools,
)
from rephaze.place.full.least_time import (
    INTERLEAVED,
    ROUNDING,
    ZERO_BUBBLE,
    floor_time,
    free_links,
    least_floors,
    most_load_s,
)
from rephaze.place.full.line_cuts import MAX_LABELS, Labels, make_labels
from rephaze.place.full.line_fits import asked_of, can_be_cut
from rephaze.place.full.line_items import (
    CHUNKS,
    DEGREE,
    DP,
    GATHERS,
    NO,
    NUM_ITEM,
    NUM_LAYOUT,
    PP,
    SCHEDULE,
    YES,
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
from rephaze.place.full.line_memory import Replicas, fits_on_average, least_held, least_kept_bytes, may_fit_alone
from rephaze.place.full.lines import Lines, Times, line_of
from rephaze.place.full.rates import MAX_SIZES, Rate
from rephaze.place.full.spans import NUM_LINKS, NUM_POINT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_STEP = 0.02
"""By how much the first threshold is above the least bound; the steps double."""
LAST_THRESHOLD = 64.0
"""After so many times the least bound any plan will do."""
FIRST_ROWS = 1 << 14
"""Layouts that are looked at together; more where one graph has more."""


class Listing(NamedTuple):
    """Layouts with bounds below the limit, and memory to list them."""

    bound_s_y: Floats
    row_yq: Ints
    item_iq: Ints
    layout_yq: Ints
    size_s: Ints
    share_nq: Floats
    link_vq: Floats
    """Transfers that take no time."""
    run_kq: Floats


class Order(NamedTuple):
    """Graphs by a time none of their plans beats."""

    by_bound: Ints
    bound_s_g: Floats
    first: int
    """Where to begin."""


@kernel_in_place
def bound_layouts(
    lines: Lines,
    times: Times,
    totals: Totals,
    tables: Tables,
    choices: Choices,
    order: Order,
    state: State,
    listing: Listing,
) -> tuple[int, int]:
    """List layouts of graphs that may be faster than the limit and fit: how many, and the position to go on from.

    Graphs are listed whole: if there is no room for the first, none are.
    """
    best_s, may_be, figures, allowed = state.best_s[0], state.may_be, choices.figures, allowed_of(choices)
    row_rq, expert_row_rq, share_nq = tables.row_rq, tables.expert_row_rq, listing.share_nq
    item_iq, layout_yq, row_yq, bound_s_y = listing.item_iq, listing.layout_yq, listing.row_yq, listing.bound_s_y
    found = 0
    for position in range(order.first, len(order.by_bound)):
        g = order.by_bound[position]
        if order.bound_s_g[g] >= best_s:
            may_be[0] = True
            return found, len(order.by_bound)
        total, start = totals.total_gq[g], found
        work_s = total[FORWARD_S] + total[BACKWARD_S]
        num_items, is_cut = list_items(g, lines, tables, choices, work_s, best_s, item_iq)
        may_be[0] |= is_cut
        if num_items == 0:
            continue
        line = line_of(lines, times, g)
        tp, cp, count, num_experts = lines.tp_g[g], lines.cp_g[g], lines.count_g[g], lines.experts_g[g]
        may_gather = may_fit_alone(line, choices, tp, cp, num_experts, count, YES)
        may_keep = may_fit_alone(line, choices, tp, cp, num_experts, count, NO)
        if not (may_gather or may_keep):
            continue
        least_kept = least_kept_bytes(line)
        fill_shares(totals.type_gtq[g], lines.first_v_g[g + 1] - lines.first_v_g[g], share_nq)
        first_row_d = tables.first_row[tables.width_g[g]]
        first_expert_row = tables.first_kind[tables.kind_g[g]] - first_row_d[0]
        for i in range(num_items):
            item = item_iq[i]
            pp = item[PP]
            if not (may_gather if item[GATHERS] == 1 else may_keep):
                continue
            least = Least(work_of(total), share_of(share_nq[pp]), share_of(share_nq[pp * item[CHUNKS]]))
            at = first_row_d[item[DEGREE]] + pp - 1
            experts = Rate(expert_row_rq[first_expert_row + at, 0], expert_row_rq[first_expert_row + at, 1])
            shape, mesh = item_shape(item, count, figures.overlap), item_mesh(item, tp, cp, YES)
            bound_s = item_bound_s(shape, mesh, total, row_rq[at], experts, least, allowed, figures)
            if bound_s >= best_s:
                may_be[0] |= bound_s < np.inf
                continue
            replicas = Replicas(cp * item[DP], tp * cp * item[DP] // num_experts)
            held = least_held(choices, replicas, shape.gathers, shape.schedule == ZERO_BUBBLE)
            if not fits_on_average(total, least_kept, held, shape):
                continue
            if shape.schedule != INTERLEAVED:
                floors = least_floors(least.work, least.stage, least.chunk, free_links(), shape)
                most_s = most_load_s(floors, shape, best_s) * (1 + ROUNDING)
                if not can_be_cut(line, held, listing.link_vq, asked_of(shape, most_s), listing.run_kq):
                    any_time = asked_of(shape, np.inf)
                    may_be[0] |= can_be_cut(line, held, listing.link_vq, any_time, listing.run_kq)
                    continue
            num_layouts = list_layouts(
                item, cp, lines.orders_g[g], tables.degrees, choices, listing.size_s, layout_yq
            )
            if found + num_layouts > len(row_yq):
                return start, position
            for y in range(num_layouts):
                costs = layout_costs(item, layout_yq[y], tp, cp, num_experts, tables.levels, figures)
                links = layout_links(total, costs, pp)
                floors = least_floors(least.work, least.stage, least.chunk, links, shape)
                bound_s_y[found] = floor_time(floors, shape) * (1 - ROUNDING)
                if bound_s_y[found] >= best_s:
                    may_be[0] = True
                    continue
                row_yq[found, GRAPH] = g
                for q in range(NUM_ITEM):
                    row_yq[found, ITEM + q] = item[q]
                for q in range(NUM_LAYOUT):
                    row_yq[found, LAYOUT + q] = layout_yq[y, q]
                found += 1
    return found, len(order.by_bound)


class Sizes(NamedTuple):
    """How much memory a search works in."""

    num_layers: int
    num_points: int
    most_chunks: int
    max_labels: int
    num_items: int


@dataclass(slots=True)
class _Desk:
    """Memory to work in; nothing in it outlasts a search."""

    tools: Tools
    listing: Listing


_desks = threading.local()
MAX_DESKS = 4


def _desk_for(sizes: Sizes) -> _Desk:
    """Memory of these sizes, the same for all searches of a thread; what labels take is the same for all sizes."""
    known: dict[Sizes, _Desk] = _desks.__dict__.setdefault("by_size", {})
    if sizes not in known:
        if len(known) == MAX_DESKS:
            del known[next(iter(known))]
        num_layers, num_points, most_chunks, max_labels, num_items = sizes
        labels: dict[int, Labels] = _desks.__dict__.setdefault("labels", {})
        if max_labels not in labels:
            labels[max_labels] = make_labels(max_labels)
        listing = Listing(
            bound_s_y=np.empty(FIRST_ROWS),
            row_yq=np.empty((FIRST_ROWS, NUM_ROW), dtype=np.int64),
            item_iq=np.empty((num_items, NUM_ITEM), dtype=np.int64),
            layout_yq=np.empty((6 * MAX_SIZES, NUM_LAYOUT), dtype=np.int64),
            size_s=np.zeros(MAX_SIZES, dtype=np.int64),
            share_nq=np.zeros((num_layers + 1, 4)),
            link_vq=np.zeros((num_layers + 1, NUM_LINKS)),
            run_kq=np.zeros((num_points, NUM_POINT)),
        )
        known[sizes] = _Desk(make_tools(num_layers, num_points, most_chunks, labels[max_labels]), listing)
    return known[sizes]


class LineSearch:
    """Looks for the fastest plan of lines, again and again with other times.

    Args:
        lines: The graphs.
        tables: The network.
        num_points: Most points of ``keep`` of a layer.
        chunks: Of interleaved plans.
        max_labels: Of one layout; with more, not every cut is looked at.
    """

    def __init__(
        self, lines: Lines, tables: Tables, num_points: int, chunks: Ints, max_labels: int = MAX_LABELS
    ) -> None:
        self._lines, self._tables = lines, tables
        num_layers = int(np.diff(lines.first_v_g).max())
        self._sizes = Sizes(
            num_layers=num_layers,
            num_points=num_points,
            most_chunks=min(max([2, *chunks.tolist()]), max(num_layers, 2)),
            max_labels=max_labels,
            num_items=most_items(len(tables.degrees.dp_d), num_layers, len(chunks)),
        )
        self._state = State(
            best_s=np.full(3, np.inf),
            row_q=np.zeros(NUM_ROW, dtype=np.int64),
            cut_qc=np.zeros_like(_desk_for(self._sizes).tools.sums.best_qc),
            may_be=np.zeros(1, dtype=np.bool_),
            any_will_do=np.zeros(1, dtype=np.bool_),
        )

    def run(
        self, times: Times, totals: Totals, choices: Choices, cutoff_s: float, *, any_will_do: bool = False
    ) -> State:
        """The fastest plan below the cutoff, or some plan; its time is infinite where there is none."""
        lines, state = self._lines, self._state
        work_s_g = totals.total_gq[:, FORWARD_S] + totals.total_gq[:, BACKWARD_S]
        # Device time: no plan has more devices than there are, nor fewer microbatches in all.
        devices_g = lines.tp_g * lines.cp_g / choices.num_devices
        bound_s_g = lines.count_g * work_s_g * devices_g * (1 - ROUNDING)
        order = Order(np.argsort(bound_s_g), bound_s_g, 0)
        least_s, step = float(bound_s_g.min()), FIRST_STEP
        threshold_s = cutoff_s if any_will_do else least_s * (1 + step)
        state.any_will_do[0] = any_will_do
        while True:
            is_last = not 0 < threshold_s <= LAST_THRESHOLD * least_s or threshold_s >= cutoff_s
            # What a round with a lower threshold left open, this one looks at again.
            state.best_s[:] = cutoff_s if is_last else threshold_s, np.inf, np.inf
            state.row_q[GRAPH], state.may_be[0] = -1, False
            self._round(times, totals, choices, order)
            if state.row_q[GRAPH] >= 0:
                return state
            if is_last or not state.may_be[0]:
                state.best_s[0] = np.inf
                return state
            step *= 2
            threshold_s *= 1 + step

    def _round(self, times: Times, totals: Totals, choices: Choices, order: Order) -> None:
        position, lines, desk = 0, self._lines, _desk_for(self._sizes)
        levels, has_equal_blocks = self._tables.levels, choices.has_equal_blocks
        problem = Problem(lines, times, totals, levels, choices.figures, has_equal_blocks)
        while position < len(order.by_bound):
            rest = order._replace(first=position)
            found, after = bound_layouts(
                lines, times, totals, self._tables, choices, rest, self._state, desk.listing
            )
            if after == position:
                size = 2 * len(desk.listing.bound_s_y)
                desk.listing = desk.listing._replace(
                    bound_s_y=np.empty(size), row_yq=np.empty((size, NUM_ROW), dtype=np.int64)
                )
                continue
            position = after
            row_yq = desk.listing.row_yq[:found]
            # Interleaved cuts are looked at one by one: with the best of the others as limit.
            is_listed_y = row_yq[:, ITEM + SCHEDULE] == INTERLEAVED
            by_bound = np.lexsort((desk.listing.bound_s_y[:found], is_listed_y))
            self._cut(problem, row_yq[by_bound], found - int(is_listed_y.sum()), desk.tools)

    def _cut(self, problem: Problem, row_yq: Ints, num_cut: int, tools: Tools) -> None:
        """Cut the layouts, the first ones exactly by labels where those come to an end."""
        first = 0
        while first < num_cut:
            y, before_s = cut_layouts(problem, row_yq[:num_cut], first, self._state, tools)
            if y < num_cut:
                list_cuts(problem, row_yq[y : y + 1], before_s, self._state, tools)
            first = y + 1
        if num_cut < len(row_yq):
            list_cuts(problem, row_yq[num_cut:], 0.0, self._state, tools)
