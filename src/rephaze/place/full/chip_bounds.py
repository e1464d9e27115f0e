"""A lower bound on the batch time for many chips at once: the first sieve of a search over chips.

What depends on a chip are the layers' times; which layouts fit, their microbatches and their transfers do not. So
those that fit and are not worse than another in every transfer and in memory are listed once (``chip_layouts``),
and each chip takes the least of their closed forms (``least_time``), those with the least work a device first.
What must be replayed to fit is found once for a set of chips (``replayed_stages``).

Axis letters: c = chip, t = layer type, n = layout, m = (dp, pp) of layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, kernel_in_place, unfolded
from rephaze.errors import SpecError
from rephaze.place.full.chip_layouts import ITEM, LAYOUT, LINKS, Classes, FittingLayouts, Space, links_of
from rephaze.place.full.least_time import ROUNDING, Shape, Share, Work, floor_time, least_floors
from rephaze.place.full.line_items import CHUNKS, GATHERS, SCHEDULE, layout_costs
from rephaze.place.full.line_solver import LineSolver
from rephaze.place.full.lines import is_line, line_of, times_of
from rephaze.place.full.replayed_stages import least_stage, with_slowest
from rephaze.place.full.solver import FullPlacer
from rephaze.place.full.spans import NUM_LINKS, NUM_POINT
from rephaze.place.full.times import LayerTimes, recorded_times
from rephaze.types.full import FullProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UNKNOWN = -1.0
"""No stage takes less than nothing."""
FIRST = unfolded(0)
"""The one graph."""


class LeastReplays(NamedTuple):
    """Replays of a set of chips, measured by both passes of a layer of one type on the same chip."""

    of_type: int
    ratio_tk: Floats
    """On none of the chips a layer type replays in less than this part, at each position of its list."""


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
        # Where layers branch the first and the last may share a stage, so tied weights may cost nothing; and a
        # stage may need no message.
        solver = LineSolver(problem, [graph if has_line else replace(graph, tied=(), links=())])
        times = times_of([_least_kept(recorded_times(graph))])
        memory_bytes = problem.device_memory_bytes * (1 + ROUNDING)
        choices = solver.choices._replace(figures=solver.choices.figures._replace(memory_bytes=memory_bytes))
        self._has_line, self._space = has_line, Space(solver.lines, times, solver.tables, choices)
        self._layouts = FittingLayouts(self._space, has_line=has_line)

    @property
    def num_layouts(self) -> int:
        """That a chip's bound may come from."""
        while not self._layouts.is_whole:
            self._layouts.list_more()
        return self._layouts.num_layouts

    def batch_s(
        self,
        forward_s_ct: Floats,
        backward_s_ct: Floats,
        weight_backward_s_ct: Floats | None = None,
        replays: LeastReplays | None = None,
        longest_s_c: Floats | None = None,
    ) -> Floats:
        """For each chip, a time no plan beats; infinite where no plan fits.

        Args:
            forward_s_ct: Chips x layer types; times that are themselves lower bounds give a lower bound.
            backward_s_ct: The same of the backward pass, input and weight part together.
            weight_backward_s_ct: The most the weight part can be; where not given, all of the backward pass.
            replays: The least that replays take on any of these chips; where not given, nothing.
            longest_s_c: Longer batches are of no use, and need not be told apart: a bound that reaches this, but
                for rounding, may be poor.
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
            least_n=np.full(self._layouts.num_layouts, UNKNOWN),
            link_vq=np.zeros((num_layers + 1, NUM_LINKS)),
            run_kq=np.zeros((num_points, NUM_POINT)),
        )
        layers, bound_c, done = (
            LayersOnChips(forward, backward, weight, unit_s_c),
            np.full(len(forward), np.inf) if longest_s_c is None else longest_s_c.copy(),
            0,
        )
        while done < len(bound_c):
            layouts, is_whole = self._layouts.classes(), self._layouts.is_whole
            done = _lower(layers, self._num_t, layouts, is_whole, space, memo, done, bound_c)
            if done < len(bound_c):
                self._layouts.list_more()
                more = np.full(self._layouts.num_layouts - len(memo.least_n), UNKNOWN)
                memo = memo._replace(least_n=np.concatenate([memo.least_n, more]))
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


def _least_kept(times: LayerTimes) -> LayerTimes:
    """Two points alone, the first and the last; memory is least at the last."""
    ends = [0, -1]
    return times._replace(
        replay_s_vk=np.zeros_like(times.replay_s_vk[:, ends]),
        kept_bytes_vk=np.ascontiguousarray(times.kept_bytes_vk[:, ends]),
    )


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
def _least_stage(space: Space, item: Ints, layout: Ints, shape: Shape, memo: Memo) -> float:
    """What the slowest device takes at least under a layout, with what it must replay to fit, in units."""
    lines, choices = space.lines, space.choices
    costs = layout_costs(
        item,
        layout,
        lines.tp_g[0],
        lines.cp_g[0],
        lines.experts_g[0],
        space.tables.levels,
        choices.figures,
    )
    return least_stage(line_of(lines, space.times, FIRST), costs, shape, memo.link_vq, memo.run_kq)


@kernel_in_place
def _lower(
    layers: LayersOnChips,
    num_t: Ints,
    classes: Classes,
    is_whole: bool,
    space: Space,
    memo: Memo,
    first_c: int,
    bound_c: Floats,
) -> int:
    """The least of all layouts, for each chip from the first on; gives back the first that needs more layouts.

    Bounds come with what they need not exceed.
    """
    forward_ct, backward_ct, weight_ct, unit_s_c = layers
    least_n, row_nq, first_n_m = memo.least_n, classes.row_nq, classes.first_n_m
    for c in range(first_c, len(bound_c)):
        forward_t, backward_t, weight_t = forward_ct[c], backward_ct[c], weight_ct[c]
        forward_s, backward_s, weight_s, best, is_done = 0.0, 0.0, 0.0, bound_c[c], is_whole
        for t in range(len(num_t)):
            forward_s += num_t[t] * forward_t[t]
            backward_s += num_t[t] * backward_t[t]
            weight_s += num_t[t] * weight_t[t]
        work = Work(forward_s, backward_s, weight_s)
        for m in range(len(first_n_m) - 1):
            first, pp, count = first_n_m[m], classes.pp_m[m], classes.count_m[m]
            if count * ((forward_s + backward_s) / pp) >= best:
                is_done = True
                break  # all that follow have more work a device
            stage = _share(forward_t, backward_t, weight_t, num_t, pp)
            chunk, chunks = stage, 1
            for n in range(first, first_n_m[m + 1]):
                item = classes.item_iq[row_nq[n, ITEM]]
                if item[CHUNKS] != chunks:
                    chunks = item[CHUNKS]
                    chunk = _share(forward_t, backward_t, weight_t, num_t, pp * chunks)
                shape = Shape(pp, chunks, count, item[SCHEDULE], item[GATHERS] == 1, classes.overlap)
                floors = least_floors(work, stage, chunk, links_of(classes.link_lq[row_nq[n, LINKS]]), shape)
                if floor_time(floors, shape) >= best:
                    continue
                if unit_s_c[c] > 0:
                    if least_n[n] < 0:
                        least_n[n] = _least_stage(space, item, row_nq[n, LAYOUT:], shape, memo)
                    floors = with_slowest(floors, unit_s_c[c] * least_n[n])
                best = min(best, floor_time(floors, shape))
        if not is_done:
            return c
        bound_c[c] = best * (1 - ROUNDING)
    return len(bound_c)
