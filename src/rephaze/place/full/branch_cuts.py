"""The best cuts of a graph whose layers branch, exactly: by layout, labels from the last stage to the first.

Before labels, the least sum and the least maximum of the loads of so many first stages are found for every set of
layers they can hold, messages and forced replays included (docs/proof.md, 5.10). They bound the layout, and what
every label can still become.

Axis letters: e = candidate stage, y = layout, l = label, q = figure, j = number of first stages, s = set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, kernel_in_place, unfolded
from rephaze.place.full.branch_stages import Stages, fill_messages, least_loads, walk_stage
from rephaze.place.full.cuts import Cuts
from rephaze.place.full.layout_cuts import NUM_ROW, Layout, Problem, layout_of, set_floors
from rephaze.place.full.least_time import ROUNDING, most_load_s
from rephaze.place.full.line_cuts import (
    NEXT,
    NUM_MAXIMA,
    PARENT,
    POINT,
    START,
    is_needless,
    stage_figures,
    stage_time,
)
from rephaze.place.full.lines import Line, Ties, line_of, ties_of
from rephaze.place.full.spans import Costs, first_point

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_LABELS = 1 << 18
"""Of one layout; with more, not every cut is looked at."""
FIRST, ONCE = unfolded(0), unfolded(1)
"""The one graph; microbatches in flight."""
STAGE = START
"""Labels of lines have the first layer of a stage here."""


class BranchState(NamedTuple):
    """The best plan so far."""

    best_s: Floats
    """Its time; then the least bound of layouts of which not every cut was looked at."""
    row_q: Ints
    """Its layout; the graph is -1 if there is none."""
    cut_qc: Ints
    """Its stages and their points of ``keep``."""


class Desk(NamedTuple):
    """Memory to work in."""

    sum_s_js: Floats
    most_s_js: Floats
    mark_qs: Ints
    """The first label of each set, of the depth before and of this one."""
    label_lq: Floats
    label_of_lq: Ints
    most_bq: Floats
    floor_q: Floats
    cut_qc: Ints
    candidate_i: Ints
    """Stages that may be short enough, sorted by the set they end at."""


def make_state(num_layers: int, limit_s: float) -> BranchState:
    """Nothing found yet."""
    row_q = np.zeros(NUM_ROW, dtype=np.int64)
    row_q[0] = -1
    return BranchState(np.array([limit_s, np.inf]), row_q, np.zeros((2, num_layers), dtype=np.int64))


def make_desk(num_layers: int, cuts: Cuts) -> Desk:
    """For a graph of so many layers."""
    num_sets = cuts.num_sets
    return Desk(
        sum_s_js=np.empty((num_layers + 1, num_sets)),
        most_s_js=np.empty((num_layers + 1, num_sets)),
        mark_qs=np.empty((2, num_sets), dtype=np.int64),
        label_lq=np.empty((MAX_LABELS, 1 + NUM_MAXIMA)),
        label_of_lq=np.empty((MAX_LABELS, 4), dtype=np.int64),
        most_bq=np.zeros((3, NUM_MAXIMA)),
        floor_q=np.zeros(NUM_MAXIMA),
        cut_qc=np.zeros((2, num_layers), dtype=np.int64),
        candidate_i=np.zeros(len(cuts.start_e), dtype=np.int64),
    )


class _Asked(NamedTuple):
    """Of one layout."""

    layout: Layout
    limit_s: float
    most_s: float
    """No stage may take longer."""
    num_blocks: int
    """Of an inner stage, and the most of the first and the last; -1: any."""
    num_candidates: int


@kernel_in_place
def cut_branches(
    problem: Problem, cuts: Cuts, blocks_e: Ints, stages: Stages, row_yq: Ints, state: BranchState, desk: Desk
) -> None:
    """Cut layouts one after another, each below the best so far; none of them interleaved."""
    line, ties = line_of(problem.lines, problem.times, FIRST), ties_of(problem.lines, FIRST)
    total_blocks = line.blocks_u[-1]
    for y in range(len(row_yq)):
        layout, limit_s = layout_of(problem, row_yq[y]), state.best_s[0]
        if layout.bound_s >= limit_s:
            continue
        shape, is_complete = layout.shape, True
        fill_messages(layout.costs, stages)
        set_floors(layout.floors, layout.costs.is_zero_bubble, desk.floor_q)
        most_s = most_load_s(layout.floors, shape, limit_s) * (1 + ROUNDING)
        num_candidates = _list_candidates(cuts, layout.costs, stages, most_s, desk)
        is_counted = problem.has_equal_blocks and shape.pp > 2
        for blocks in range(total_blocks + 1 if is_counted else 1):
            if is_counted and not (shape.pp - 2) * blocks <= total_blocks <= shape.pp * blocks:
                continue
            asked = _Asked(layout, state.best_s[0], most_s, blocks if is_counted else -1, num_candidates)
            if _least_s(cuts, blocks_e, stages, asked, desk) >= state.best_s[0]:
                continue
            time_s, is_whole = _best_cut(line, ties, cuts, blocks_e, stages, asked, desk)
            is_complete &= is_whole
            if time_s < state.best_s[0]:
                state.best_s[0] = time_s
                for q in range(NUM_ROW):
                    state.row_q[q] = row_yq[y, q]
                for at in range(shape.pp):
                    state.cut_qc[0, at], state.cut_qc[1, at] = desk.cut_qc[0, at], desk.cut_qc[1, at]
        if not is_complete:
            state.best_s[1] = min(state.best_s[1], layout.bound_s)


@inner_in_place
def _list_candidates(cuts: Cuts, costs: Costs, stages: Stages, most_s: float, desk: Desk) -> int:
    """Put the stages on the desk that may fit and take no longer; gives back how many."""
    found, num_points = 0, stages.compute_s_ek.shape[1]
    for at in range(len(cuts.by_end)):
        e = cuts.by_end[at]
        if least_loads(costs, stages, e, 0)[1] > most_s:
            continue
        if first_point(costs, stages.span_eq[e], ONCE, num_points) < num_points:
            desk.candidate_i[found] = e
            found += 1
    return found


@inner_in_place
def _is_allowed(blocks: int, num_blocks: int, is_end: bool) -> bool:
    return num_blocks < 0 or blocks == num_blocks or (is_end and blocks < num_blocks)


@inner_in_place
def _in_flight(layout: Layout, depth: int) -> int:
    """Microbatches, of a stage so many from the end."""
    pp, count = layout.shape.pp, layout.shape.num_microbatches
    return min(pp if layout.costs.is_zero_bubble else depth, count)


@inner_in_place
def _least_s(cuts: Cuts, blocks_e: Ints, stages: Stages, asked: _Asked, desk: Desk) -> float:
    """A time no cut beats; fills the least sum and the least maximum of the loads of so many first stages."""
    layout, pp, num_points = asked.layout, asked.layout.shape.pp, stages.compute_s_ek.shape[1]
    sum_s_js, most_s_js, last = desk.sum_s_js, desk.most_s_js, cuts.num_sets - 1
    sum_s_js[0, :], most_s_js[0, :] = np.inf, np.inf
    sum_s_js[0, 0], most_s_js[0, 0] = 0.0, 0.0
    for j in range(1, pp + 1):
        sum_s_js[j, :], most_s_js[j, :] = np.inf, np.inf
        in_flight = _in_flight(layout, pp + 1 - j)
        for i in range(asked.num_candidates):
            e = desk.candidate_i[i]
            start, end = cuts.start_e[e], cuts.end_e[e]
            if sum_s_js[j - 1, start] == np.inf or (j == pp) != (end == last):
                continue
            if not _is_allowed(blocks_e[e], asked.num_blocks, j == 1 or j == pp):
                continue
            k = first_point(layout.costs, stages.span_eq[e], in_flight, num_points)
            if k == num_points:
                continue
            load_s, busy_s = least_loads(layout.costs, stages, e, k)
            if busy_s > asked.most_s:
                continue
            sum_s_js[j, end] = min(sum_s_js[j, end], sum_s_js[j - 1, start] + load_s)
            most_s_js[j, end] = min(most_s_js[j, end], max(most_s_js[j - 1, start], busy_s))
    if sum_s_js[pp, last] == np.inf:
        return np.inf
    least_q, floor_q, floors = desk.most_bq[2], desk.floor_q, layout.floors
    for q in range(NUM_MAXIMA):
        least_q[q] = floor_q[q]
    least_q[0] = max(floor_q[0], most_s_js[pp, last])
    is_zero_bubble = layout.costs.is_zero_bubble
    passes_s = 0.0 if is_zero_bubble else sum_s_js[pp, last]
    least_s = stage_time(passes_s, least_q, pp, layout.shape.num_microbatches, is_zero_bubble)
    # The longest step is none of the floors.
    return (least_s + floors.step_s) * (1 - ROUNDING)


@inner_in_place
def _best_cut(
    line: Line, ties: Ties, cuts: Cuts, blocks_e: Ints, stages: Stages, asked: _Asked, desk: Desk
) -> tuple[float, bool]:
    """The least time below the limit, and whether all cuts were looked at; the cut itself is on the desk."""
    layout, costs, num_points = asked.layout, asked.layout.costs, stages.compute_s_ek.shape[1]
    pp, count, is_zero_bubble = layout.shape.pp, layout.shape.num_microbatches, costs.is_zero_bubble
    label_lq, label_of_lq, floor_q = desk.label_lq, desk.label_of_lq, desk.floor_q
    own_q, trial_q, least_q = desk.most_bq[0], desk.most_bq[1], desk.most_bq[2]
    head_s, fresh_s, last = desk.mark_qs[0], desk.mark_qs[1], cuts.num_sets - 1
    num_labels, best_s, best_label, is_complete = 0, asked.limit_s, -1, True
    head_s[:] = -1
    for depth in range(1, pp + 1):
        fresh_s[:] = -1
        left, in_flight = pp - depth, _in_flight(layout, depth)
        for i in range(asked.num_candidates):
            e = desk.candidate_i[i]
            start, end = cuts.start_e[e], cuts.end_e[e]
            if (depth == 1) != (end == last) or (depth > 1 and head_s[end] == -1):
                continue
            if desk.sum_s_js[left, start] == np.inf:
                continue
            if not _is_allowed(blocks_e[e], asked.num_blocks, depth == 1 or left == 0):
                continue
            k = first_point(costs, stages.span_eq[e], in_flight, num_points)
            if k == num_points or least_loads(costs, stages, e, k)[1] > asked.most_s:
                continue
            walk_stage(line, ties, cuts, costs, stages, e, k)
            own_s = stage_figures(costs, stages.span_eq[e], k, own_q)
            if own_q[0] > asked.most_s:
                continue
            behind = -2 if depth == 1 else head_s[end]
            while behind != -1:
                parent = behind
                behind = -1 if parent == -2 else label_of_lq[parent, NEXT]
                total = own_s + (label_lq[parent, 0] if parent >= 0 else 0.0)
                for q in range(NUM_MAXIMA):
                    trial_q[q] = max(own_q[q], label_lq[parent, 1 + q]) if parent >= 0 else own_q[q]
                    least_q[q] = max(trial_q[q], floor_q[q]) if left > 0 else trial_q[q]
                least = total
                if left > 0:
                    least_q[0] = max(least_q[0], desk.most_s_js[left, start])
                    if not is_zero_bubble:
                        least += desk.sum_s_js[left, start]
                time_s = stage_time(least, least_q, pp, count, is_zero_bubble)
                if time_s >= best_s or is_needless(total, trial_q, start, fresh_s, label_lq, label_of_lq):
                    continue
                if num_labels == len(label_lq):
                    is_complete = False
                    continue
                label_lq[num_labels, 0] = total
                for q in range(NUM_MAXIMA):
                    label_lq[num_labels, 1 + q] = trial_q[q]
                label_of_lq[num_labels, STAGE], label_of_lq[num_labels, POINT] = e, k
                label_of_lq[num_labels, PARENT], label_of_lq[num_labels, NEXT] = parent, fresh_s[start]
                fresh_s[start] = num_labels
                if left == 0:
                    best_s, best_label = time_s, num_labels
                num_labels += 1
        head_s, fresh_s = fresh_s, head_s
    label = best_label
    for at in range(pp if best_label >= 0 else 0):
        desk.cut_qc[0, at], desk.cut_qc[1, at] = label_of_lq[label, STAGE], label_of_lq[label, POINT]
        label = label_of_lq[label, PARENT]
    return best_s if best_label >= 0 else np.inf, is_complete
