"""Graphs whose layers branch: every layout bounded, then cut exactly by rising bound (docs/proof.md, 5.10)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rephaze.place.full.branch_cuts import BranchState, Desk, cut_branches, make_desk, make_state
from rephaze.place.full.branch_layouts import branch_layouts, branch_totals
from rephaze.place.full.branch_stages import Links, stages_of
from rephaze.place.full.cuts import Cuts, cuts_of
from rephaze.place.full.interleaved import best_interleaved, is_too_much
from rephaze.place.full.layout_cuts import GRAPH, ITEM, Problem
from rephaze.place.full.least_time import INTERLEAVED, MEMORY_ROUNDING
from rephaze.place.full.line_items import SCHEDULE
from rephaze.place.full.line_layouts import Figures
from rephaze.place.full.line_solver import LineSolver, layout_at
from rephaze.place.full.lines import Ints, Times, times_of
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.times import LayerTimes, recorded_times, retimed_graph
from rephaze.types.full import FullGraph, FullPlan, FullPrice, FullProblem, FullStage, PipelineSchedule
from rephaze.types.stopping import UNSTOPPED, StopSignal

AT_ONCE = 64
"""Layouts that are cut before a look at the clock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchAnswer:
    """The fastest plan of one graph below a cutoff."""

    best: FullPrice | None
    open_s: float
    """The least bound of interleaved layouts with too many cuts to look at; infinite if there are none."""
    unsolved_s: float
    """The least bound of others of which not every cut was looked at."""
    may_exist: bool
    """Whether there may be plans above the cutoff."""


class BranchingSolver:
    """One graph: what does not depend on times.

    Args:
        problem: The problem.
        graph: One of its graphs.
    """

    def __init__(self, problem: FullProblem, graph: FullGraph) -> None:
        self.problem, self.graph = problem, graph
        self.lines = LineSolver(problem, [graph])
        """The graph as if it were a line: its stages then follow the file's order."""

    @cached_property
    def interleaved_lines(self) -> LineSolver:
        """The same for interleaved plans alone."""
        return self.lines.only(PipelineSchedule.INTERLEAVED)

    @cached_property
    def _cuts(self) -> Cuts:
        return cuts_of(self.graph)

    @cached_property
    def _links(self) -> Links:
        links = self.graph.links
        return Links(
            src_l=np.array([link.src for link in links], dtype=np.int64),
            dst_l=np.array([link.dst for link in links], dtype=np.int64),
            payload_bytes_l=np.array([link.payload_bytes for link in links], dtype=np.float64),
        )

    @cached_property
    def _blocks_e(self) -> Ints:
        is_block_i = np.array([layer.is_block for layer in self.graph.layers], dtype=np.int64)[self._cuts.layer_i]
        return np.add.reduceat(is_block_i, self._cuts.first_i_e[:-1])

    @cached_property
    def _desk(self) -> Desk:
        return make_desk(len(self.graph.layers), self._cuts)

    def solve(
        self, cutoff_s: float, times: LayerTimes | None = None, stop: StopSignal = UNSTOPPED
    ) -> BranchAnswer:
        """The best plan over all layouts and cuts.

        Args:
            cutoff_s: Only faster plans are of use.
            times: Of the layers, instead of those of their records.
            stop: When to end without an answer.

        Raises:
            StoppedError: The work was cut.
        """
        graph = self.graph if times is None else retimed_graph(self.graph, times)
        problem = replace(self.problem, graphs=(graph,))
        line_times = times_of([recorded_times(graph) if times is None else times])
        for rounding in (MEMORY_ROUNDING, -MEMORY_ROUNDING):
            memory_bytes = self.problem.device_memory_bytes * (1 + rounding)
            answer, is_priced = self._solve(problem, line_times, memory_bytes, cutoff_s, stop)
            if is_priced:
                return answer
        return replace(answer, may_exist=True)

    def _solve(
        self, problem: FullProblem, times: Times, memory_bytes: float, cutoff_s: float, stop: StopSignal
    ) -> tuple[BranchAnswer, bool]:
        """The answer, and whether its plan keeps to memory and cutoff as priced."""
        graph, solver = problem.graphs[0], self.lines
        figures = solver.choices.figures._replace(memory_bytes=memory_bytes)
        choices = solver.choices._replace(figures=figures)
        listed = branch_layouts(solver, times, choices, cutoff_s)
        state = make_state(len(graph.layers), cutoff_s)
        is_interleaved_y = listed.row_yq[:, ITEM + SCHEDULE] == INTERLEAVED
        self._cut(times, choices.has_equal_blocks, figures, listed.row_yq[~is_interleaved_y], state, stop)
        best, limit_s, is_priced = None, cutoff_s, True
        if state.row_q[GRAPH] >= 0:
            best = price_full_plan(problem, graph, self._plan(state))
            is_priced = best.fits and best.batch_s < cutoff_s
            best, limit_s = (best, best.batch_s) if is_priced else (None, cutoff_s)
        open_s, looked_at = math.inf, dict[int, bool]()
        for y in np.flatnonzero(is_interleaved_y):
            bound_s, layout = float(listed.bound_s_y[y]), layout_at(listed.row_yq[y])
            if bound_s >= limit_s:
                break
            stop.check()
            num_chunks = layout.pp * layout.chunks
            if num_chunks not in looked_at:
                looked_at[num_chunks] = not is_too_much(graph, self._cuts, num_chunks)
            if not looked_at[num_chunks]:
                open_s = min(open_s, bound_s)
                continue
            plan = best_interleaved(problem, graph, self._cuts, layout, limit_s)
            if plan is not None:
                best = price_full_plan(problem, graph, plan)
                limit_s = best.batch_s
        may_exist = not math.isinf(cutoff_s) and (listed.is_cut or len(listed.row_yq) > 0)
        unsolved_s = float(state.best_s[1])
        return BranchAnswer(best=best, open_s=open_s, unsolved_s=unsolved_s, may_exist=may_exist), is_priced

    def _cut(
        self,
        times: Times,
        has_equal_blocks: bool,
        figures: Figures,
        row_yq: Ints,
        state: BranchState,
        stop: StopSignal,
    ) -> None:
        """Cut these layouts, by rising bound."""
        if not len(row_yq):
            return
        lines, levels = self.lines.lines, self.lines.tables.levels
        totals = branch_totals(lines, times)
        problem = Problem(lines, times, totals, levels, figures, has_equal_blocks)
        stages = stages_of(self._cuts, self._links, lines, times)
        for first in range(0, len(row_yq), AT_ONCE):
            stop.check()
            some = row_yq[first : first + AT_ONCE]
            cut_branches(problem, self._cuts, self._blocks_e, stages, some, state, self._desk)

    def _plan(self, state: BranchState) -> FullPlan:
        layout = layout_at(state.row_q)
        first_i_e, layer_i = self._cuts.first_i_e, self._cuts.layer_i
        stages = tuple(
            FullStage(layers=tuple(layer_i[first_i_e[e] : first_i_e[e + 1]].tolist()), keep=k)
            for e, k in state.cut_qc[:, : layout.pp].T.tolist()
        )
        return layout.plan(self.graph, stages)
