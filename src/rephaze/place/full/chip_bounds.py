"""A lower bound on the batch time for many chips at once: the first sieve of a search over chips.

What depends on a chip are the layers' times; which layouts fit, their microbatches and their transfers do not. So
those that fit and are not worse than another in every transfer are listed once, and each chip takes the least of
their closed forms (``least_time``), those with the least work a device first.

Axis letters: c = chip, t = layer type, n = layout, m = (dp, pp) of layouts, q = figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner, kernel
from rephaze.errors import SpecError
from rephaze.place.full.least_time import (
    INTERLEAVED,
    ROUNDING,
    ZERO_BUBBLE,
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
    EXPERT_BYTES,
    OWN_BYTES,
    Choices,
    Totals,
    graph_totals,
    layout_links,
)
from rephaze.place.full.line_solver import LineSolver
from rephaze.place.full.lines import Lines, Times, is_line, line_of, times_of
from rephaze.place.full.rates import MAX_SIZES
from rephaze.place.full.solver import FullPlacer
from rephaze.place.full.spans import NUM_LINKS, NUM_POINT, Costs
from rephaze.place.full.times import LayerTimes, recorded_times
from rephaze.types.full import FullProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUM_SHAPE = 5
PP, CHUNKS, COUNT, SCHEDULE, GATHERS = range(NUM_SHAPE)
NUM_LINK_TIMES = 12


class Classes(NamedTuple):
    """Layouts that fit, by (dp, pp)."""

    shape_nq: Ints
    link_nq: Floats
    """Fields of ``LinkTimes``."""
    first_n_m: Ints
    """Where the layouts of a (dp, pp) begin; one more entry at the end."""
    overlap: bool


class FullChipBounds:
    """Lower bounds for a problem of one graph, in closed form.

    Args:
        problem: With one graph, or its placer. Each layer's first and last point of ``keep`` must keep no more
            than on any chip.
        layer_type_of: For each layer, its column in the times given later.
    """

    def __init__(self, problem: FullProblem | FullPlacer, layer_type_of: Sequence[int]) -> None:
        if isinstance(problem, FullPlacer):
            problem = problem.problem
        if len(problem.graphs) != 1:
            raise SpecError("problem.graphs", len(problem.graphs), "must be one graph", "a bound for each")
        graph = problem.graphs[0]
        if len(layer_type_of) != len(graph.layers):
            rule = f"must name a type for each of {len(graph.layers)} layers"
            raise SpecError("layer_type_of", len(layer_type_of), rule)
        self._num_t = np.bincount(np.asarray(layer_type_of, dtype=np.int64)).astype(np.int64)
        has_line = is_line(graph)
        # Where layers branch the first and the last may share a stage, so tied weights may cost nothing.
        solver = LineSolver(problem, [graph if has_line else replace(graph, tied=())])
        times = times_of([_least_kept(recorded_times(graph))])
        memory_bytes = problem.device_memory_bytes * (1 + ROUNDING)
        choices = solver.choices._replace(figures=solver.choices.figures._replace(memory_bytes=memory_bytes))
        num_items = most_items(len(solver.tables.degrees.dp_d), len(graph.layers), len(choices.chunks))
        shape_nq, link_nq = _fitting(
            solver.lines,
            times,
            graph_totals(solver.lines, times),
            solver.tables,
            choices,
            has_line,
            np.empty((num_items, NUM_ITEM), dtype=np.int64),
        )
        self._classes = _sorted_classes(shape_nq, link_nq, overlap=problem.options.overlap)

    @property
    def num_layouts(self) -> int:
        """That a chip's bound may come from."""
        return len(self._classes.shape_nq)

    def batch_s(
        self, forward_s_ct: Floats, backward_s_ct: Floats, weight_backward_s_ct: Floats | None = None
    ) -> Floats:
        """For each chip, a time no plan beats, whatever it replays; infinite where no plan fits.

        Args:
            forward_s_ct: Chips x layer types; times that are themselves lower bounds give a lower bound.
            backward_s_ct: The same of the backward pass, input and weight part together.
            weight_backward_s_ct: The most the weight part can be; where not given, all of the backward pass.
        """
        forward = np.ascontiguousarray(forward_s_ct, dtype=np.float64)
        backward = np.ascontiguousarray(backward_s_ct, dtype=np.float64)
        given = backward if weight_backward_s_ct is None else weight_backward_s_ct
        weight = np.ascontiguousarray(given, dtype=np.float64)
        for name, array in (("forward_s_ct", forward), ("backward_s_ct", backward), ("weight", weight)):
            if array.ndim != 2 or array.shape[1] < len(self._num_t):
                raise SpecError(name, array.shape, f"must have {len(self._num_t)} columns, one a layer type")
        bound_c: Floats = _lower(forward, backward, weight, self._num_t, self._classes)
        return bound_c


def _least_kept(times: LayerTimes) -> LayerTimes:
    """Two points alone, the first and the last; memory is least at the last."""
    ends = [0, -1]
    return times._replace(
        replay_s_vk=np.zeros_like(times.replay_s_vk[:, ends]),
        kept_bytes_vk=np.ascontiguousarray(times.kept_bytes_vk[:, ends]),
    )


def _sorted_classes(shape_nq: Ints, link_nq: Floats, *, overlap: bool) -> Classes:
    """By rising work of a device, the layouts of one (dp, pp) together."""
    key = shape_nq[:, COUNT] / shape_nq[:, PP]
    order = np.lexsort((shape_nq[:, SCHEDULE], shape_nq[:, PP], key))
    shape_nq, link_nq = shape_nq[order], link_nq[order]
    pairs = shape_nq[:, [PP, COUNT]]
    is_first = np.ones(len(pairs), dtype=np.bool_)
    is_first[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
    first_n_m = np.append(np.flatnonzero(is_first), len(pairs)).astype(np.int64)
    return Classes(np.ascontiguousarray(shape_nq), np.ascontiguousarray(link_nq), first_n_m, overlap)


@inner
def _fits_on_average(kept_bytes: float, total: Floats, costs: Costs, shape: Shape) -> bool:
    """Whether all devices together can hold what all stages must, at the last point of ``keep``."""
    in_flight = min(shape.pp, shape.num_microbatches) if shape.schedule == ZERO_BUBBLE else 1
    fixed = costs.own_ratio * total[OWN_BYTES] + costs.expert_ratio * total[EXPERT_BYTES]
    return bool(fixed + in_flight * kept_bytes <= shape.pp * costs.memory_bytes)


@kernel
def _fitting(
    lines: Lines, times: Times, totals: Totals, tables: Tables, choices: Choices, has_line: bool, item_iq: Ints
) -> tuple[Ints, Floats]:
    """Layouts of the one graph that may fit and are no worse than another of their item in some transfer."""
    num_layers = lines.first_v_g[1]
    total, line = totals.total_gq[0], line_of(lines, times, 0)
    layout_yq = np.empty((6 * MAX_SIZES, NUM_LAYOUT), dtype=np.int64)
    size_s = np.zeros(MAX_SIZES, dtype=np.int64)
    link_vq, run_kq = np.zeros((num_layers + 1, NUM_LINKS)), np.zeros((line.kept_bytes_vk.shape[1], NUM_POINT))
    least_kept = line.kept_bytes_vk[:, -1].sum()
    capacity, found = 1024, 0
    shape_nq, link_nq = np.empty((capacity, NUM_SHAPE), dtype=np.int64), np.empty((capacity, NUM_LINK_TIMES))
    num_items, _ = list_items(0, lines, tables, choices, 0.0, np.inf, item_iq)
    for i in range(num_items):
        item, first = item_iq[i], found
        shape = item_shape(item, lines.count_g[0], choices.figures.overlap)
        num_layouts = list_layouts(
            item, lines.cp_g[0], lines.orders_g[0], tables.degrees, choices, size_s, layout_yq
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
            if found == capacity:
                shape_nq = np.concatenate((shape_nq, np.empty((capacity, NUM_SHAPE), dtype=np.int64)))
                link_nq = np.concatenate((link_nq, np.empty((capacity, NUM_LINK_TIMES))))
                capacity *= 2
            _put_links(layout_links(total, costs, shape.pp), link_nq[found])
            if _is_worse(link_nq, first, found) or not _fits_on_average(least_kept, total, costs, shape):
                continue
            if has_line and shape.schedule != INTERLEAVED:
                asked = Asked(shape.pp, 1, shape.num_microbatches, shape.schedule, np.inf, np.inf, 0.0, -1)
                if not can_be_cut(line, costs, link_vq, asked, run_kq):
                    continue
            row = shape_nq[found]
            row[PP], row[CHUNKS], row[COUNT] = shape.pp, shape.chunks, shape.num_microbatches
            row[SCHEDULE], row[GATHERS] = shape.schedule, int(shape.gathers)
            found += 1
    return shape_nq[:found].copy(), link_nq[:found].copy()


@inner
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


@inner
def _links_of(link_q: Floats) -> LinkTimes:
    return LinkTimes(
        link_q[0], link_q[1], link_q[2], link_q[3], link_q[4], link_q[5],
        link_q[6], link_q[7], link_q[8], link_q[9], link_q[10], link_q[11],
    )  # fmt: skip


@inner
def _is_worse(link_nq: Floats, first: int, at: int) -> bool:
    """Whether some layout from ``first`` on takes no longer in any transfer."""
    for other in range(first, at):
        is_worse = True
        for q in range(NUM_LINK_TIMES):
            is_worse = is_worse and link_nq[other, q] <= link_nq[at, q]
        if is_worse:
            return True
    return False


@inner
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


@kernel
def _lower(forward_ct: Floats, backward_ct: Floats, weight_ct: Floats, num_t: Ints, classes: Classes) -> Floats:
    """The least of all layouts, for each chip."""
    shape_nq, link_nq, first_n_m = classes.shape_nq, classes.link_nq, classes.first_n_m
    bound_c = np.full(len(forward_ct), np.inf)
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
                best = min(best, floor_time(floors, shape))
        bound_c[c] = best * (1 - ROUNDING)
    return bound_c
