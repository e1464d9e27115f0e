"""The fastest plan under cost model ``full``: lines by ``line_search``, graphs that branch by ``branching``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rephaze.place.full.branching import BranchingSolver
from rephaze.place.full.least_time import MEMORY_ROUNDING, ROUNDING
from rephaze.place.full.legality import graph_like
from rephaze.place.full.line_solver import LineSolver
from rephaze.place.full.lines import Times, is_line, times_of
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.times import LayerTimes, checked_times, recorded_times, retimed_graph
from rephaze.types.full import FullPlan, FullPrice, FullProblem, PipelineSchedule
from rephaze.types.placement import SolveStatus
from rephaze.types.stopping import UNSTOPPED, StopSignal

EQUAL_BLOCKS_SCOPE = (
    "cuts into stages or chunks of equal numbers of repeated blocks, the first and the last may have fewer; "
    "layers that are no blocks go with the block before them"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FullPlacement:
    """The answer: the fastest plan with its proof, or why there is none."""

    status: SolveStatus
    bound_s: float
    """No plan of the options and the family, within ``scope``, is faster; infinite when infeasible."""
    best: FullPrice | None
    reason: str = ""
    scope: str = ""
    """Over which cuts into stages the plan is optimal, where not over all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """The best plan of some graphs, and what is not proven of them."""

    best: FullPrice | None
    open_s: float = math.inf
    """The least bound of layouts solved only over cuts of equal numbers of blocks."""
    unsolved_s: float = math.inf
    """The least bound of layouts not solved over a family of cuts."""
    may_exist: bool = False
    """Whether there may be plans above the cutoff."""

    def joined(self, other: _Found) -> _Found:
        """Both together; a plan of the other is the better one."""
        return _Found(
            best=other.best or self.best,
            open_s=min(self.open_s, other.open_s),
            unsolved_s=min(self.unsolved_s, other.unsolved_s),
            may_exist=self.may_exist or other.may_exist,
        )


class FullPlacer:
    """Solves one problem; one call at a time.

    Args:
        problem: The problem.
    """

    def __init__(self, problem: FullProblem) -> None:
        self.problem = problem
        are_lines = [is_line(graph) for graph in problem.graphs]
        self._positions = [g for g, has_line in enumerate(are_lines) if has_line]
        graphs = [problem.graphs[g] for g in self._positions]
        self._lines = LineSolver(problem, graphs) if graphs else None
        self._branching = {
            g: BranchingSolver(problem, problem.graphs[g]) for g, has_line in enumerate(are_lines) if not has_line
        }
        self._recorded: Times | None = None

    def solve(
        self,
        cutoff_s: float = math.inf,
        times: Sequence[LayerTimes] | None = None,
        stop: StopSignal = UNSTOPPED,
    ) -> FullPlacement:
        """The best plan over all graphs, layouts and cuts.

        Args:
            cutoff_s: Only plans faster than this are of use: without one the status is ``CUTOFF``.
            times: One for each graph, instead of those of its records.
            stop: When to end without an answer; looked at between graphs, and often in those that branch.

        Raises:
            StoppedError: The work was cut.
        """
        stop.check()
        if times is not None:
            times = self._checked(times)
        found = self._solve_lines(cutoff_s, times)
        for g in self._branching:
            limit_s = found.best.batch_s if found.best else cutoff_s
            found = found.joined(self._solve_branching(g, limit_s, times, stop))
        best = self._plainly_named(found.best, times)
        # Bounds are lowered for rounding; so is what they are held against.
        limit_s = (best.batch_s if best else cutoff_s) * (1 - 2 * ROUNDING)
        if found.unsolved_s < limit_s:
            status = SolveStatus.FEASIBLE if best else SolveStatus.CUTOFF
            bound_s = min(found.unsolved_s, found.open_s)
            reason = f"not every cut was looked at; none is faster than {bound_s:.6g} s"
            return FullPlacement(status=status, bound_s=bound_s, best=best, reason=reason)
        scope = ""
        if found.open_s < limit_s:
            scope = f"{EQUAL_BLOCKS_SCOPE}; of all cuts none is faster than {found.open_s:.6g} s"
        if best is None and scope and math.isinf(cutoff_s):
            reason = "no cut within the scope fits, and not every other was looked at"
            return FullPlacement(
                status=SolveStatus.CUTOFF, bound_s=found.open_s, best=None, reason=reason, scope=scope
            )
        if best is None:
            status = SolveStatus.CUTOFF if found.may_exist or scope else SolveStatus.INFEASIBLE
            bound_s = cutoff_s if status is SolveStatus.CUTOFF else math.inf
            return FullPlacement(status=status, bound_s=bound_s, best=None, scope=scope)
        return FullPlacement(status=SolveStatus.OPTIMAL, bound_s=best.batch_s, best=best, scope=scope)

    def bound_s(self, cutoff_s: float, times: Sequence[LayerTimes], stop: StopSignal = UNSTOPPED) -> float:
        """A time no plan of the scope beats; ``cutoff_s`` if it is no less, infinite where none fits.

        Spares the price of the plan it comes from: with times that are bounds nobody will run it.
        """
        if self._lines is None or self._branching:
            found = self.solve(cutoff_s, times, stop)
            return math.inf if found.best is None and found.scope and found.reason else found.bound_s
        line_times = times_of(self._checked(times))
        memory_bytes = self.problem.device_memory_bytes * (1 + MEMORY_ROUNDING)
        answer = self._lines.solve(line_times, cutoff_s, memory_bytes)
        bound_s = answer.batch_s * (1 - 2 * ROUNDING)
        limit_s = min(bound_s, cutoff_s * (1 - 2 * ROUNDING))
        if answer.unsolved_s < limit_s:
            return min(answer.unsolved_s, answer.open_s)
        if answer.plan is not None:
            return bound_s
        is_open = answer.open_s < limit_s
        if math.isinf(cutoff_s) or not (is_open or answer.may_exist):
            return math.inf
        return cutoff_s

    def is_there(self, cutoff_s: float, times: Sequence[LayerTimes], stop: StopSignal = UNSTOPPED) -> bool:
        """Whether a plan below the cutoff may exist within the scope of ``solve``; False is certain."""
        if math.isinf(cutoff_s):
            return self.bound_s(cutoff_s, times, stop) < cutoff_s
        times = self._checked(times)
        memory_bytes = self.problem.device_memory_bytes * (1 + MEMORY_ROUNDING)
        # What is as fast as the cutoff but for rounding may be below it.
        limit_s = cutoff_s * (1 + 2 * ROUNDING)
        if self._lines is not None:
            line_times = times_of([times[g] for g in self._positions])
            answer = self._lines.solve(line_times, limit_s, memory_bytes, any_will_do=True)
            if answer.plan is not None or answer.unsolved_s < limit_s:
                return True
        for g, solver in self._branching.items():
            # Most often a plan along the file's order will do.
            answer = solver.lines.solve(times_of([times[g]]), limit_s, memory_bytes, any_will_do=True)
            if answer.plan is not None:
                return True
        return any(self._may_beat(g, cutoff_s, times, stop) for g in self._branching)

    def _may_beat(self, g: int, cutoff_s: float, times: Sequence[LayerTimes], stop: StopSignal) -> bool:
        """Whether a graph that branches may have a plan below the cutoff."""
        found = self._solve_branching(g, cutoff_s, times, stop)
        return found.best is not None or found.unsolved_s < cutoff_s * (1 - 2 * ROUNDING)

    def _checked(self, times: Sequence[LayerTimes]) -> list[LayerTimes]:
        return [checked_times(graph, given) for graph, given in zip(self.problem.graphs, times, strict=True)]

    def _solve_lines(self, cutoff_s: float, times: Sequence[LayerTimes] | None) -> _Found:
        """The best plan of all lines."""
        if self._lines is None:
            return _Found(best=None)
        if times is not None:
            line_times = times_of([times[g] for g in self._positions])
        else:
            if self._recorded is None:
                self._recorded = times_of([recorded_times(graph) for graph in self._lines.graphs])
            line_times = self._recorded
        return self._best_line(self._lines, self._positions, cutoff_s, line_times, times)

    def _solve_branching(
        self, g: int, cutoff_s: float, times: Sequence[LayerTimes] | None, stop: StopSignal
    ) -> _Found:
        """The best plan of a graph that branches."""
        solver = self._branching[g]
        line_times = times_of([recorded_times(self.problem.graphs[g]) if times is None else times[g]])
        # Stages along the file's order are soon found, and often the best there are.
        along = self._best_line(solver.lines, [g], cutoff_s, line_times, times)
        limit_s = along.best.batch_s if along.best else cutoff_s
        answer = solver.solve(limit_s, None if times is None else times[g], stop)
        found = _Found(
            best=answer.best or along.best,
            open_s=answer.open_s,
            unsolved_s=answer.unsolved_s,
            may_exist=answer.may_exist or along.may_exist,
        )
        limit_s = found.best.batch_s if found.best else cutoff_s
        if answer.open_s >= limit_s:
            return found
        # Too many interleaved cuts: those along the file's order are cuts of a line.
        return found.joined(self._best_line(solver.interleaved_lines, [g], limit_s, line_times, times))

    def _best_line(
        self,
        solver: LineSolver,
        positions: Sequence[int],
        cutoff_s: float,
        line_times: Times,
        times: Sequence[LayerTimes] | None,
    ) -> _Found:
        """The solver's answer, priced."""
        for rounding in (MEMORY_ROUNDING, -MEMORY_ROUNDING):
            answer = solver.solve(line_times, cutoff_s, self.problem.device_memory_bytes * (1 + rounding))
            best = None
            if answer.plan is not None:
                g = positions[answer.position]
                best = self._price(g, answer.plan, None if times is None else times[g])
                if not best.fits or best.batch_s >= cutoff_s:
                    continue
            return _Found(
                best=best, open_s=answer.open_s, unsolved_s=answer.unsolved_s, may_exist=answer.may_exist
            )
        return _Found(best=None, may_exist=True)

    def _plainly_named(self, best: FullPrice | None, times: Sequence[LayerTimes] | None) -> FullPrice | None:
        """With one stage zero-bubble puts nothing off: where 1F1B may be chosen, and is no slower, it is that."""
        if best is None or best.plan.pp > 1 or best.plan.schedule is not PipelineSchedule.ZERO_BUBBLE:
            return best
        if PipelineSchedule.ONE_F_ONE_B not in self.problem.options.schedule:
            return best
        g = self.problem.graphs.index(graph_like(self.problem, best.plan))
        plan = replace(best.plan, schedule=PipelineSchedule.ONE_F_ONE_B)
        named = self._price(g, plan, None if times is None else times[g])
        return named if named.fits and named.batch_s <= best.batch_s else best

    def _price(self, g: int, plan: FullPlan, times: LayerTimes | None) -> FullPrice:
        problem, graph = self.problem, self.problem.graphs[g]
        if times is not None:
            graph = retimed_graph(graph, times)
            problem = replace(problem, graphs=(graph,))
        return price_full_plan(problem, graph, plan)
