"""Layouts of one graph that fit, for the bounds of many chips: those with the least work a device first.

They are listed as far as some chip's bound needs them: what follows has more work a device than its best takes.

Axis letters: i = item, n = layout, m = (dp, pp) of layouts, l = transfers, q = figure.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, kernel_in_place, unfolded
from rephaze.place.full import line_items as codes
from rephaze.place.full.least_time import INTERLEAVED, LinkTimes, Shape
from rephaze.place.full.line_fits import Asked, can_be_cut
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
from rephaze.place.full.line_layouts import Choices, Totals, graph_totals, layout_links
from rephaze.place.full.line_memory import fits_on_average, least_kept_bytes
from rephaze.place.full.lines import Line, Lines, Times, line_of
from rephaze.place.full.rates import MAX_SIZES
from rephaze.place.full.spans import NUM_LINKS, NUM_POINT, Costs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUM_ROW = 2 + NUM_LAYOUT
ITEM, LINKS, LAYOUT = range(3)
"""Of a layout: where its item and its transfers stand, then the layout of the item."""
NUM_LINK_TIMES = 12
NUM_HELD = 4
"""Bytes held of a byte of parameters, of experts, of two neighbours, of the largest layer."""
NUM_KEPT = 2
"""Points of ``keep`` that memory is looked at with."""
FIRST_ITEMS = 48
"""That are listed at once at first; then as many as there are already."""
FIRST_LAYOUTS = 1 << 8
"""There is room for at first: searches of several models keep layouts of thousands of units."""
NUM_KNOWN = 8
"""Layouts of an item that are remembered to fit, and not to."""
NEVER, EVER = 0, 1
ITEMS = -1
"""Instead of a (dp, pp): all of them."""
FIRST = unfolded(0)
"""The one graph, and no layout."""


class Space(NamedTuple):
    """What layouts are made from, and the line they cut."""

    lines: Lines
    times: Times
    tables: Tables
    choices: Choices


class Classes(NamedTuple):
    """Layouts that fit, by (dp, pp)."""

    item_iq: Ints
    """As ``line_items`` lists them."""
    row_nq: Ints
    link_lq: Floats
    """Fields of ``LinkTimes``, each once: most layouts have those of another, with another schedule."""
    pp_m: Ints
    count_m: Ints
    """Microbatches of a replica."""
    first_n_m: Ints
    """Where the layouts of a (dp, pp) begin; one more entry at the end."""
    overlap: bool


class _Listing(NamedTuple):
    """Items by (dp, pp), and the layouts that fit."""

    item_iq: Ints
    first_i_m: Ints
    first_n_m: Ints
    row_nq: Ints
    link_lq: Floats
    num_links: Ints


class _Room(NamedTuple):
    """Memory to list layouts; nothing in it outlasts a call."""

    layout_yq: Ints
    link_yq: Floats
    held_yq: Floats
    """With the transfers, of the layouts of an item that are listed."""
    size_s: Ints
    free_vq: Floats
    """Transfers that take no time."""
    run_kq: Floats
    known_kbq: Floats
    """What layouts of an item hold that do not fit, and that do."""
    num_known_b: Ints


class FittingLayouts:
    """Layouts of the one graph of a space, more of them whenever they are asked for.

    Args:
        space: The graph; times are not looked at.
        has_line: Stages are runs of its layers.
    """

    def __init__(self, space: Space, *, has_line: bool) -> None:
        lines, tables, choices = space.lines, space.tables, space.choices
        num_layers = len(lines.param_bytes_v)
        self._space, self._has_line = space, has_line
        self._totals = graph_totals(lines, space.times)
        num_items = most_items(len(tables.degrees.dp_d), num_layers, len(choices.chunks))
        self._first_i_m = self._first_n_m = np.zeros(1, dtype=np.int64)
        self._item_iq = np.empty((num_items, NUM_ITEM), dtype=np.int64)
        self._row_nq = np.empty((FIRST_LAYOUTS, NUM_ROW), dtype=np.int64)
        self._link_lq = np.empty((FIRST_LAYOUTS, NUM_LINK_TIMES))
        self._num_links = np.zeros(1, dtype=np.int64)
        item_iq = self._item_iq[: self._list(ITEMS, ITEMS)]
        count_i = -(-int(lines.count_g[0]) // item_iq[:, codes.DP])
        # By rising work of a device, the layouts of one (dp, pp) together.
        order = np.lexsort((item_iq[:, codes.SCHEDULE], item_iq[:, codes.PP], count_i / item_iq[:, codes.PP]))
        self._item_iq, count_i = np.ascontiguousarray(item_iq[order]), count_i[order]
        pairs = np.stack([self._item_iq[:, codes.PP], count_i])
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)
        self._first_i_m = np.append(np.flatnonzero(is_first), len(order)).astype(np.int64)
        self._pp_m, self._count_m = (np.ascontiguousarray(row[is_first]) for row in pairs)
        self._num_listed = 0
        """Of the (dp, pp)."""
        self._first_n_m = np.zeros(len(self._first_i_m), dtype=np.int64)

    @property
    def is_whole(self) -> bool:
        """All are listed."""
        return self._num_listed == len(self._pp_m)

    @property
    def num_layouts(self) -> int:
        """Listed so far."""
        return int(self._first_n_m[self._num_listed])

    def classes(self) -> Classes:
        """What is listed so far."""
        m, n = self._num_listed, self.num_layouts
        return Classes(
            self._item_iq,
            self._row_nq[:n],
            self._link_lq,
            self._pp_m[:m],
            self._count_m[:m],
            self._first_n_m[: m + 1],
            self._space.choices.figures.overlap,
        )

    def list_more(self) -> None:
        """Twice as many, or all."""
        listed = int(self._first_i_m[self._num_listed])
        most = listed + max(listed, FIRST_ITEMS)
        end_m = int(np.searchsorted(self._first_i_m, most, side="right")) - 1
        end_m = min(max(end_m, self._num_listed + 1), len(self._pp_m))
        while True:
            self._num_listed = self._list(self._num_listed, end_m)
            if self._num_listed == end_m:
                break
            more = max(len(self._row_nq), FIRST_LAYOUTS)
            self._row_nq = np.concatenate([self._row_nq, np.empty((more, NUM_ROW), dtype=np.int64)])
            self._link_lq = np.concatenate([self._link_lq, np.empty((more, NUM_LINK_TIMES))])
        # Most are asked for no more, and a search keeps hundreds of these lists.
        self._row_nq = self._row_nq[: self.num_layouts].copy()
        self._link_lq = self._link_lq[: self._num_links[0]].copy()

    def _list(self, first_m: int, end_m: int) -> int:
        listing = _Listing(
            self._item_iq, self._first_i_m, self._first_n_m, self._row_nq, self._link_lq, self._num_links
        )
        room = _room_for(len(self._space.lines.param_bytes_v))
        return _list_fitting(self._space, self._totals, self._has_line, first_m, end_m, listing, room)


_rooms = threading.local()


def _room_for(num_layers: int) -> _Room:
    """The same for all graphs of so many layers, of a thread."""
    known: dict[int, _Room] = _rooms.__dict__.setdefault("by_layers", {})
    if num_layers not in known:
        known[num_layers] = _Room(
            layout_yq=np.empty((6 * MAX_SIZES, NUM_LAYOUT), dtype=np.int64),
            link_yq=np.empty((6 * MAX_SIZES, NUM_LINK_TIMES)),
            held_yq=np.empty((6 * MAX_SIZES, NUM_HELD)),
            size_s=np.zeros(MAX_SIZES, dtype=np.int64),
            free_vq=np.zeros((num_layers + 1, NUM_LINKS)),
            run_kq=np.zeros((NUM_KEPT, NUM_POINT)),
            known_kbq=np.zeros((NUM_KNOWN, 2, NUM_HELD)),
            num_known_b=np.zeros(2, dtype=np.int64),
        )
    return known[num_layers]


@kernel_in_place
def _list_fitting(
    space: Space, totals: Totals, has_line: bool, first_m: int, end_m: int, listing: _Listing, room: _Room
) -> int:
    """List layouts of some (dp, pp) that may fit and are better than each other of their item in something.

    Gives back the first (dp, pp) for which there was no room, or the end. Or lists the items, and gives back how
    many: in one kernel, since a way in from Python with so many arrays takes a second to compile.
    """
    lines, tables, choices = space.lines, space.tables, space.choices
    if first_m == ITEMS:
        num_items, _ = list_items(FIRST, lines, tables, choices, 0.0, np.inf, listing.item_iq)
        return num_items
    total, line = totals.total_gq[0], line_of(lines, space.times, FIRST)
    least_kept, layout_yq, link_yq, held_yq = least_kept_bytes(line), room.layout_yq, room.link_yq, room.held_yq
    for m in range(first_m, end_m):
        found, num_links = listing.first_n_m[m], listing.num_links[0]
        for i in range(listing.first_i_m[m], listing.first_i_m[m + 1]):
            item, first = listing.item_iq[i], found
            shape = item_shape(item, lines.count_g[0], choices.figures.overlap)
            room.num_known_b[:] = 0
            num_layouts = list_layouts(
                item, lines.cp_g[0], lines.orders_g[0], tables.degrees, choices, room.size_s, layout_yq
            )
            if found + num_layouts > len(listing.row_nq) or num_links + num_layouts > len(listing.link_lq):
                return m
            for y in range(num_layouts):
                costs = layout_costs(
                    item, layout_yq[y], lines.tp_g[0], lines.cp_g[0], lines.experts_g[0], tables.levels,
                    choices.figures,
                )  # fmt: skip
                if not fits_on_average(total, least_kept, costs, shape):
                    continue
                last = found - first
                link_q, held_q = link_yq[last], held_yq[last]
                _put_links(layout_links(total, costs, shape.pp), link_q)
                _put_held(costs, held_q)
                if _is_worse(link_yq, held_yq, last):
                    continue
                if has_line and shape.schedule != INTERLEAVED and not _fits(line, costs, shape, held_q, room):
                    continue
                at = _put_once(link_q, listing.link_lq, num_links)
                num_links = max(num_links, at + 1)
                listing.row_nq[found, ITEM], listing.row_nq[found, LINKS] = i, at
                for q in range(NUM_LAYOUT):
                    listing.row_nq[found, LAYOUT + q] = layout_yq[y, q]
                found += 1
        listing.first_n_m[m + 1], listing.num_links[0] = found, num_links
    return end_m


@inner_in_place
def _fits(line: Line, costs: Costs, shape: Shape, held_q: Floats, room: _Room) -> bool:
    """Whether the line can be cut so that each stage fits; known of what holds no more than one that fits."""
    for answer in (NEVER, EVER):
        for at in range(room.num_known_b[answer]):
            is_like = True
            for q in range(NUM_HELD):
                known = room.known_kbq[at, answer, q]
                is_like = is_like and (held_q[q] <= known if answer == EVER else held_q[q] >= known)
            if is_like:
                return answer == EVER
    asked = Asked(shape.pp, 1, shape.num_microbatches, shape.schedule, np.inf, np.inf, 0.0, -1)
    fits = can_be_cut(line, costs, room.free_vq, asked, room.run_kq)
    answer = EVER if fits else NEVER
    at = room.num_known_b[answer]
    if at < NUM_KNOWN:
        for q in range(NUM_HELD):
            room.known_kbq[at, answer, q] = held_q[q]
        room.num_known_b[answer] += 1
    return fits


@inner_in_place
def _put_links(links: LinkTimes, link_q: Floats) -> None:
    link_q[0], link_q[1], link_q[2], link_q[3] = (
        links.message_s,
        links.sync_s,
        links.first_sync_s,
        links.regather_s,
    )
    link_q[4], link_q[5], link_q[6] = links.first_regather_s, links.once_s, links.gather_s
    link_q[7], link_q[8], link_q[9] = links.scatter_s, links.copies_s, links.step_s
    link_q[10], link_q[11] = links.longest_step_s, links.tied_s


@inner_in_place
def _put_held(costs: Costs, held_q: Floats) -> None:
    held_q[0], held_q[1] = costs.own_ratio, costs.expert_ratio
    held_q[2], held_q[3] = costs.pair_ratio, costs.largest_ratio


@inner_in_place
def links_of(link_q: Floats) -> LinkTimes:
    """As a record."""
    return LinkTimes(
        link_q[0], link_q[1], link_q[2], link_q[3], link_q[4], link_q[5],
        link_q[6], link_q[7], link_q[8], link_q[9], link_q[10], link_q[11],
    )  # fmt: skip


@inner_in_place
def _is_worse(link_yq: Floats, held_yq: Floats, last: int) -> bool:
    """Whether some layout before takes no longer in any transfer, and holds no more."""
    for other in range(last):
        is_worse = True
        for q in range(NUM_LINK_TIMES):
            if link_yq[other, q] > link_yq[last, q]:
                is_worse = False
                break
        for q in range(NUM_HELD):
            is_worse = is_worse and held_yq[other, q] <= held_yq[last, q]
        if is_worse:
            return True
    return False


@inner_in_place
def _put_once(link_q: Floats, link_lq: Floats, num_links: int) -> int:
    """Where these transfers stand among those listed, behind which they are put if they are new."""
    for at in range(num_links - 1, -1, -1):
        is_same = True
        for q in range(NUM_LINK_TIMES):
            if link_lq[at, q] != link_q[q]:
                is_same = False
                break
        if is_same:
            return at
    for q in range(NUM_LINK_TIMES):
        link_lq[num_links, q] = link_q[q]
    return num_links
