"""A lower bound on the batch time for many chips at once: the first sieve of a search over chips.

What depends on a chip are the layers' times; which layouts fit, their microbatches and their transfers do not. So
those that fit and are not worse than another in every transfer and in memory are listed once, and each chip takes
the least of their closed forms (``least_time``), those with the least work a device first. What must be replayed
to fit is found once for a set of chips (``replayed_stages``).

Axis letters: c = chip, t = layer type, n = layout, m = (dp, pp) of layouts, q = figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, kernel_in_place, unfolded
from rephaze.errors import SpecError
from rephaze.place.full.least_time import (
    INTERLEAVED,
    ROUNDING,
    LinkTimes,
    Shape,
    Share,
    Work,
    floor_time,
    least_floors,
)
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
from rephaze.place.full.line_layouts import (
    Choices,
    Totals,
    graph_totals,
    layout_links,
)
from rephaze.place.full.line_memory import fits_on_average, least_kept_bytes
from rephaze.place.full.line_solver import LineSolver
from rephaze.place.full.lines import Lines, Times, is_line, line_of, times_of
from rephaze.place.full.rates import MAX_SIZES
from rephaze.place.full.replayed_stages import least_stage, with_slowest
from rephaze.place.full.solver import FullPlacer
from rephaze.place.full.spans import NUM_LINKS, NUM_POINT
from rephaze.place.full.times import LayerTimes, recorded_times
from rephaze.types.full import FullProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUM_SHAPE = 5
PP, CHUNKS, COUNT, SCHEDULE, GATHERS = range(NUM_SHAPE)
NUM_LINK_TIMES = 12
NUM_HELD = 4
"""Bytes held of a byte of parameters, of experts, of two neighbours, of the largest layer."""
UNKNOWN = -1.0
"""No stage takes less than nothing."""
NUM_KEPT = 2
"""Points of ``keep`` that memory is looked at with."""
FIRST_LAYOUTS = 1 << 13
"""Half of those there is room for at first."""
FIRST = unfolded(0)
"""The one graph, and no layout."""


class Classes(NamedTuple):
    """Layouts that fit, by (dp, pp)."""

    row_nq: Ints
    """Item and layout as ``line_items`` lists them."""
    shape_nq: Ints
    link_nq: Floats
    """Fields of ``LinkTimes``; then what is held of parameters."""
    first_n_m: Ints
    """Where the layouts of a (dp, pp) begin; one more entry at the end."""
    overlap: bool


class LeastReplays(NamedTuple):
    """Replays of a set of chips, measured by both passes of a layer of one type on the same chip."""

    of_type: int
    ratio_tk: Floats
    """On none of the chips a layer type replays in less than this part, at each position of its list."""


class Space(NamedTuple):
    """What layouts are made from, and the line they cut."""

    lines: Lines
    times: Times
    tables: Tables
    choices: Choices


class LayersOnChips(NamedTuple):
    """The times of layer types on chips."""

    forward_s_ct: Floats
    backward_s_ct: Floats
    weight_backward_s_ct: Floats
    unit_s_c: Floats
    """Of the layer that replays are measured by; zero where none are."""


class Memo(NamedTuple):
    """What was found of layouts, and memory to work in."""

    least_n: Floats
    """What some stage takes, in units; or ``UNKNOWN``."""
    link_vq: Floats
    run_kq: Floats


class FullChipBounds:
    """Lower bounds for a problem of one graph, in closed form.

    Args:
        problem: With one graph, or its placer. Each layer's first and last point of ``keep`` must keep no more
            than on any chip.
        layer_type_of: For each layer, its column in the times given later.
        kept_bytes_tk: What a layer of each type keeps at each position of its list; by default at the first and
            the last point of ``keep``.
    """

    def __init__(
        self, problem: FullProblem | FullPlacer, layer_type_of: Sequence[int], kept_bytes_tk: Floats | None = None
    ) -> None:
        if isinstance(problem, FullPlacer):
            problem = problem.problem
        if len(problem.graphs) != 1:
            raise SpecError("problem.graphs", len(problem.graphs), "must be one graph", "a bound for each")
        graph = problem.graphs[0]
        if len(layer_type_of) != len(graph.layers):
            rule = f"must name a type for each of {len(graph.layers)} layers"
            raise SpecError("layer_type_of", len(layer_type_of), rule)
        self._kind_v = np.asarray(layer_type_of, dtype=np.int64)
        self._kept_bytes_tk = kept_bytes_tk
        self._num_t = np.bincount(np.asarray(layer_type_of, dtype=np.int64)).astype(np.int64)
        has_line = is_line(graph)
        # Where layers branch the first and the last may share a stage, so tied weights may cost nothing.
        solver = LineSolver(problem, [graph if has_line else replace(graph, tied=())])
        times = times_of([_least_kept(recorded_times(graph))])
        memory_bytes = problem.device_memory_bytes * (1 + ROUNDING)
        choices = solver.choices._replace(figures=solver.choices.figures._replace(memory_bytes=memory_bytes))
        totals = graph_totals(solver.lines, times)
        listing = _make_listing(
            most_items(len(solver.tables.degrees.dp_d), len(graph.layers), len(choices.chunks)), len(graph.layers)
        )
        found = -1
        while found < 0:
            listing = listing._replace(
                row_nq=np.empty((2 * len(listing.row_nq), NUM_ITEM + NUM_LAYOUT), dtype=np.int64),
                shape_nq=np.empty((2 * len(listing.shape_nq), NUM_SHAPE), dtype=np.int64),
                link_nq=np.empty((2 * len(listing.link_nq), NUM_LINK_TIMES + NUM_HELD)),
            )
            found = _list_fitting(solver.lines, times, totals, solver.tables, choices, has_line, listing)
        row_nq, shape_nq, link_nq = listing.row_nq[:found], listing.shape_nq[:found], listing.link_nq[:found]
        self._classes = _sorted_classes(row_nq, shape_nq, link_nq, overlap=problem.options.overlap)
        self._has_line, self._space = has_line, Space(solver.lines, times, solver.tables, choices)

    @property
    def num_layouts(self) -> int:
        """That a chip's bound may come from."""
        return len(self._classes.shape_nq)

    def batch_s(
        self,
        forward_s_ct: Floats,
        backward_s_ct: Floats,
        weight_backward_s_ct: Floats | None = None,
        replays: LeastReplays | None = None,
    ) -> Floats:
        """For each chip, a time no plan beats; infinite where no plan fits.

        Args:
            forward_s_ct: Chips x layer types; times that are themselves lower bounds give a lower bound.
            backward_s_ct: The same of the backward pass, input and weight part together.
            weight_backward_s_ct: The most the weight part can be; where not given, all of the backward pass.
            replays: The least that replays take on any of these chips; where not given, nothing.
        """
        forward = np.ascontiguousarray(forward_s_ct, dtype=np.float64)
        backward = np.ascontiguousarray(backward_s_ct, dtype=np.float64)
        given = backward if weight_backward_s_ct is None else weight_backward_s_ct
        weight = np.ascontiguousarray(given, dtype=np.float64)
        for name, array in (("forward_s_ct", forward), ("backward_s_ct", backward), ("weight", weight)):
            if array.ndim != 2 or array.shape[1] < len(self._num_t):
                raise SpecError(name, array.shape, f"must have {len(self._num_t)} columns, one a layer type")
        unit_s_c, space = self._units(forward, backward, replays)
        num_layers, num_points = len(self._kind_v), space.times.kept_bytes_vk.shape[1]
        memo = Memo(
            least_n=np.full(self.num_layouts, UNKNOWN),
            link_vq=np.zeros((num_layers + 1, NUM_LINKS)),
            run_kq=np.zeros((num_points, NUM_POINT)),
        )
        bound_c = np.full(len(forward), np.inf)
        _lower(
            LayersOnChips(forward, backward, weight, unit_s_c), self._num_t, self._classes, space, memo, bound_c
        )
        return bound_c

    def _units(
        self, forward_s_ct: Floats, backward_s_ct: Floats, replays: LeastReplays | None
    ) -> tuple[Floats, Space]:
        """The time of one layer that others are measured by, zero where none are; and the line in these units."""
        none_c = np.zeros(len(forward_s_ct))
        if replays is None or self._kept_bytes_tk is None or not self._has_line:
            return none_c, self._space
        both_c = (forward_s_ct + backward_s_ct)[:, replays.of_type]
        is_timed_c = np.isfinite(forward_s_ct + backward_s_ct).all(axis=1) & (both_c > 0)
        if not is_timed_c.any():
            return none_c, self._space
        forward_t, backward_t = (
            (times_ct[is_timed_c] / both_c[is_timed_c, None]).min(axis=0)
            for times_ct in (forward_s_ct, backward_s_ct)
        )
        kinds = self._kind_v
        line = LayerTimes(
            forward_s_v=forward_t[kinds],
            backward_s_v=backward_t[kinds],
            weight_backward_s_v=np.zeros(len(kinds)),
            replay_s_vk=replays.ratio_tk[kinds],
            kept_bytes_vk=self._kept_bytes_tk[kinds],
        )
        return np.where(is_timed_c, both_c, 0.0), self._space._replace(times=times_of([line]))


class _Listing(NamedTuple):
    """Layouts that fit, and memory to list them."""

    row_nq: Ints
    shape_nq: Ints
    link_nq: Floats
    item_iq: Ints
    layout_yq: Ints
    size_s: Ints
    link_vq: Floats
    """Transfers that take no time."""
    run_kq: Floats


def _make_listing(num_items: int, num_layers: int) -> _Listing:
    return _Listing(
        row_nq=np.empty((FIRST_LAYOUTS, NUM_ITEM + NUM_LAYOUT), dtype=np.int64),
        shape_nq=np.empty((FIRST_LAYOUTS, NUM_SHAPE), dtype=np.int64),
        link_nq=np.empty((FIRST_LAYOUTS, NUM_LINK_TIMES + NUM_HELD)),
        item_iq=np.empty((num_items, NUM_ITEM), dtype=np.int64),
        layout_yq=np.empty((6 * MAX_SIZES, NUM_LAYOUT), dtype=np.int64),
        size_s=np.zeros(MAX_SIZES, dtype=np.int64),
        link_vq=np.zeros((num_layers + 1, NUM_LINKS)),
        run_kq=np.zeros((NUM_KEPT, NUM_POINT)),
    )


def _least_kept(times: LayerTimes) -> LayerTimes:
    """Two points alone, the first and the last; memory is least at the last."""
    ends = [0, -1]
    return times._replace(
        replay_s_vk=np.zeros_like(times.replay_s_vk[:, ends]),
        kept_bytes_vk=np.ascontiguousarray(times.kept_bytes_vk[:, ends]),
    )


def _sorted_classes(row_nq: Ints, shape_nq: Ints, link_nq: Floats, *, overlap: bool) -> Classes:
    """By rising work of a device, the layouts of one (dp, pp) together."""
    key = shape_nq[:, COUNT] / shape_nq[:, PP]
    order = np.lexsort((shape_nq[:, SCHEDULE], shape_nq[:, PP], key))
    row_nq, shape_nq, link_nq = row_nq[order], shape_nq[order], link_nq[order]
    pairs = shape_nq[:, [PP, COUNT]]
    is_first = np.ones(len(pairs), dtype=np.bool_)
    is_first[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
    first_n_m = np.append(np.flatnonzero(is_first), len(pairs)).astype(np.int64)
    return Classes(
        np.ascontiguousarray(row_nq),
        np.ascontiguousarray(shape_nq),
        np.ascontiguousarray(link_nq),
        first_n_m,
        overlap,
    )


@kernel_in_place
def _list_fitting(
    lines: Lines, times: Times, totals: Totals, tables: Tables, choices: Choices, has_line: bool, listing: _Listing
) -> int:
    """Layouts of the one graph that may fit and are better than each other of their item in something.

    Gives back how many; -1: there is no room for them.
    """
    total, line = totals.total_gq[0], line_of(lines, times, FIRST)
    shape_nq, link_nq, item_iq, layout_yq = listing.shape_nq, listing.link_nq, listing.item_iq, listing.layout_yq
    least_kept, found = least_kept_bytes(line), FIRST
    num_items, _ = list_items(FIRST, lines, tables, choices, 0.0, np.inf, item_iq)
    for i in range(num_items):
        item, first = item_iq[i], found
        shape = item_shape(item, lines.count_g[0], choices.figures.overlap)
        num_layouts = list_layouts(
            item, lines.cp_g[0], lines.orders_g[0], tables.degrees, choices, listing.size_s, layout_yq
        )
        for y in range(num_layouts):
            costs = layout_costs(
                item,
                layout_yq[y],
                lines.tp_g[0],
                lines.cp_g[0],
                lines.experts_g[0],
                tables.levels,
                choices.figures,
            )
            if found == len(link_nq):
                return -1
            _put_links(layout_links(total, costs, shape.pp), link_nq[found])
            link_nq[found, NUM_LINK_TIMES] = costs.own_ratio
            link_nq[found, NUM_LINK_TIMES + 1] = costs.expert_ratio
            link_nq[found, NUM_LINK_TIMES + 2] = costs.pair_ratio
            link_nq[found, NUM_LINK_TIMES + 3] = costs.largest_ratio
            if _is_worse(link_nq, first, found) or not fits_on_average(total, least_kept, costs, shape):
                continue
            if has_line and shape.schedule != INTERLEAVED:
                asked = Asked(shape.pp, 1, shape.num_microbatches, shape.schedule, np.inf, np.inf, 0.0, -1)
                if not can_be_cut(line, costs, listing.link_vq, asked, listing.run_kq):
                    continue
            row = shape_nq[found]
            row[PP], row[CHUNKS], row[COUNT] = shape.pp, shape.chunks, shape.num_microbatches
            row[SCHEDULE], row[GATHERS] = shape.schedule, int(shape.gathers)
            for q in range(NUM_ITEM):
                listing.row_nq[found, q] = item[q]
            for q in range(NUM_LAYOUT):
                listing.row_nq[found, NUM_ITEM + q] = layout_yq[y, q]
            found += 1
    return found


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
def _links_of(link_q: Floats) -> LinkTimes:
    return LinkTimes(
        link_q[0], link_q[1], link_q[2], link_q[3], link_q[4], link_q[5],
        link_q[6], link_q[7], link_q[8], link_q[9], link_q[10], link_q[11],
    )  # fmt: skip


@inner_in_place
def _is_worse(link_nq: Floats, first: int, at: int) -> bool:
    """Whether some layout from ``first`` on takes no longer in any transfer, and holds no more."""
    for other in range(first, at):
        is_worse = True
        for q in range(link_nq.shape[1]):
            is_worse = is_worse and link_nq[other, q] <= link_nq[at, q]
        if is_worse:
            return True
    return False


@inner_in_place
def _share(forward_t: Floats, backward_t: Floats, weight_t: Floats, num_t: Ints, num_parts: int) -> Share:
    """What some part has at least."""
    both_s, forward_s, input_s, ahead_s = 0.0, 0.0, 0.0, 0.0
    for t in range(len(num_t)):
        held = -(-num_t[t] // num_parts)
        both_s = max(both_s, held * (forward_t[t] + backward_t[t]))
        forward_s = max(forward_s, held * forward_t[t])
        input_s = max(input_s, held * (backward_t[t] - weight_t[t]))
        ahead_s = max(ahead_s, held * (forward_t[t] + backward_t[t] - weight_t[t]))
    return Share(both_s, forward_s, input_s, ahead_s)


@inner_in_place
def _least_stage(space: Space, row: Ints, shape: Shape, memo: Memo) -> float:
    """What the slowest device takes at least under a layout, with what it must replay to fit, in units."""
    lines, choices = space.lines, space.choices
    costs = layout_costs(
        row[:NUM_ITEM],
        row[NUM_ITEM:],
        lines.tp_g[0],
        lines.cp_g[0],
        lines.experts_g[0],
        space.tables.levels,
        choices.figures,
    )
    return least_stage(line_of(lines, space.times, FIRST), costs, shape, memo.link_vq, memo.run_kq)


@kernel_in_place
def _lower(
    layers: LayersOnChips, num_t: Ints, classes: Classes, space: Space, memo: Memo, bound_c: Floats
) -> None:
    """The least of all layouts, for each chip."""
    forward_ct, backward_ct, weight_ct, unit_s_c = layers
    least_n = memo.least_n
    shape_nq, link_nq, first_n_m = classes.shape_nq, classes.link_nq, classes.first_n_m
    for c in range(len(bound_c)):
        forward_t, backward_t, weight_t = forward_ct[c], backward_ct[c], weight_ct[c]
        forward_s, backward_s, weight_s, best = 0.0, 0.0, 0.0, np.inf
        for t in range(len(num_t)):
            forward_s += num_t[t] * forward_t[t]
            backward_s += num_t[t] * backward_t[t]
            weight_s += num_t[t] * weight_t[t]
        work = Work(forward_s, backward_s, weight_s)
        for m in range(len(first_n_m) - 1):
            first = first_n_m[m]
            pp, count = shape_nq[first, PP], shape_nq[first, COUNT]
            if count * ((forward_s + backward_s) / pp) >= best:
                break  # all that follow have more work a device
            stage = _share(forward_t, backward_t, weight_t, num_t, pp)
            chunk, chunks = stage, 1
            for n in range(first, first_n_m[m + 1]):
                if shape_nq[n, CHUNKS] != chunks:
                    chunks = shape_nq[n, CHUNKS]
                    chunk = _share(forward_t, backward_t, weight_t, num_t, pp * chunks)
                shape = Shape(pp, chunks, count, shape_nq[n, SCHEDULE], shape_nq[n, GATHERS] == 1, classes.overlap)
                floors = least_floors(work, stage, chunk, _links_of(link_nq[n]), shape)
                if floor_time(floors, shape) >= best:
                    continue
                if unit_s_c[c] > 0:
                    if least_n[n] < 0:
                        least_n[n] = _least_stage(space, classes.row_nq[n], shape, memo)
                    floors = with_slowest(floors, unit_s_c[c] * least_n[n])
                best = min(best, floor_time(floors, shape))
        bound_c[c] = best * (1 - ROUNDING)
