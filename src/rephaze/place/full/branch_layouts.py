"""Layouts of a graph whose layers branch, with the closed form of each: what a line's have, without messages.

Axis letters: y = layout, i = item, q = figure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import kernel_in_place, unfolded
from rephaze.place.full.layout_cuts import GRAPH, ITEM, LAYOUT, NUM_ROW
from rephaze.place.full.least_time import ROUNDING, floor_time, least_floors
from rephaze.place.full.line_items import (
    NUM_ITEM,
    NUM_LAYOUT,
    Tables,
    item_shape,
    layout_costs,
    list_items,
    list_layouts,
    most_items,
)
from rephaze.place.full.line_layouts import (
    BACKWARD_S,
    END_TIED_BYTES,
    FORWARD_S,
    LINK_BYTES,
    Choices,
    Totals,
    graph_totals,
    layout_links,
    type_share,
    work_of,
)
from rephaze.place.full.line_memory import fits_on_average
from rephaze.place.full.line_solver import LineSolver
from rephaze.place.full.lines import Lines, Times
from rephaze.place.full.rates import MAX_SIZES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_ROWS = 1 << 12
FIRST = unfolded(0)
"""The one graph."""


class Listed(NamedTuple):
    """Layouts by rising bound."""

    bound_s_y: Floats
    row_yq: Ints
    is_cut: bool
    """Others may fit, and take longer than the limit."""


class _Listing(NamedTuple):
    """Memory to list them."""

    bound_s_y: Floats
    row_yq: Ints
    item_iq: Ints
    layout_yq: Ints
    size_s: Ints
    is_cut: NDArray[np.bool_]


def branch_totals(lines: Lines, times: Times) -> Totals:
    """Sums over all layers, without what a line has and a graph that branches need not have."""
    totals = graph_totals(lines, times)
    # A stage may need nothing of any other, and the first and the last layer may share one.
    totals.total_gq[:, [LINK_BYTES, END_TIED_BYTES]] = 0.0
    return totals


def branch_layouts(solver: LineSolver, times: Times, choices: Choices, limit_s: float) -> Listed:
    """The layouts that may fit and have a plan faster than the limit.

    Args:
        solver: Of the graph alone, as if its layers were a line.
        times: Of its layers.
        choices: What a plan may choose from.
        limit_s: Of a batch.
    """
    totals = branch_totals(solver.lines, times)
    num_items = most_items(len(solver.tables.degrees.dp_d), len(solver.lines.param_bytes_v), len(choices.chunks))
    found, num_rows = -1, FIRST_ROWS
    while found < 0:
        num_rows *= 2
        listing = _Listing(
            bound_s_y=np.empty(num_rows),
            row_yq=np.zeros((num_rows, NUM_ROW), dtype=np.int64),
            item_iq=np.empty((num_items, NUM_ITEM), dtype=np.int64),
            layout_yq=np.empty((6 * MAX_SIZES, NUM_LAYOUT), dtype=np.int64),
            size_s=np.zeros(MAX_SIZES, dtype=np.int64),
            is_cut=np.zeros(1, dtype=np.bool_),
        )
        least_kept = float(times.kept_bytes_vk[:, -1].sum())
        found = _list_bounded(solver.lines, totals, solver.tables, choices, least_kept, limit_s, listing)
    by_bound = np.argsort(listing.bound_s_y[:found], kind="stable")
    return Listed(listing.bound_s_y[by_bound], listing.row_yq[by_bound], bool(listing.is_cut[0]))


@kernel_in_place
def _list_bounded(
    lines: Lines,
    totals: Totals,
    tables: Tables,
    choices: Choices,
    least_kept: float,
    limit_s: float,
    listing: _Listing,
) -> int:
    """Fill the listing; -1: there is no room."""
    total, types = totals.total_gq[0], totals.type_gtq[0]
    item_iq, layout_yq, row_yq = listing.item_iq, listing.layout_yq, listing.row_yq
    work_s, found = total[FORWARD_S] + total[BACKWARD_S], 0
    num_items, is_cut = list_items(FIRST, lines, tables, choices, work_s, limit_s, item_iq)
    for i in range(num_items):
        item = item_iq[i]
        shape = item_shape(item, lines.count_g[0], choices.figures.overlap)
        stage, chunk = type_share(types, shape.pp), type_share(types, shape.pp * shape.chunks)
        num_layouts = list_layouts(
            item, lines.cp_g[0], lines.orders_g[0], tables.degrees, choices, listing.size_s, layout_yq
        )
        for y in range(num_layouts):
            costs = layout_costs(
                item, layout_yq[y], lines.tp_g[0], lines.cp_g[0], lines.experts_g[0], tables.levels,
                choices.figures,
            )  # fmt: skip
            if not fits_on_average(total, least_kept, costs, shape):
                continue
            floors = least_floors(work_of(total), stage, chunk, layout_links(total, costs, shape.pp), shape)
            bound_s = floor_time(floors, shape) * (1 - ROUNDING)
            if bound_s >= limit_s:
                is_cut = True
                continue
            if found == len(row_yq):
                return -1
            listing.bound_s_y[found] = bound_s
            row_yq[found, GRAPH] = 0
            for q in range(NUM_ITEM):
                row_yq[found, ITEM + q] = item[q]
            for q in range(NUM_LAYOUT):
                row_yq[found, LAYOUT + q] = layout_yq[y, q]
            found += 1
    listing.is_cut[0] = is_cut
    return found
