"""The fastest plan under cost model ``full``: lines by ``line_search``, graphs that branch by ``branching``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rephaze.place.full.branching import BranchingSolver
from rephaze.place.full.least_time import ROUNDING
from rephaze.place.full.line_solver import LineSolver
from rephaze.place.full.lines import Times, is_line, times_of
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.times import LayerTimes, checked_times, recorded_times, retimed_graph
from rephaze.types.full import FullPlan, FullPrice, FullProblem
from rephaze.types.placement import SolveStatus

MEMORY_ROUNDING = 1e-12
"""Relative: what fits to the last byte is priced in another order of sums."""
EQUAL_BLOCKS_SCOPE = (
    "cuts into chunks of equal numbers of repeated blocks, the first and the last may have fewer; layers that are "
    "no blocks go with the block before them"
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


class FullPlacer:
    """Solves one problem.

    Args:
        problem: The problem.
    """

    def __init__(self, problem: FullProblem) -> None:
        self.problem = problem
        # Degrees chosen beforehand leave few layouts: one by one they are quick enough.
        limits = problem.limits
        is_limited = limits is not None and (limits.dp, limits.pp, limits.shard_group) != (None, None, None)
        self._lines = [g for g, graph in enumerate(problem.graphs) if not is_limited and is_line(graph)]
        graphs = [problem.graphs[g] for g in self._lines]
        self._line_solver = LineSolver(problem, graphs) if graphs else None
        self._branching = {
            g: BranchingSolver(problem, graph)
            for g, graph in enumerate(problem.graphs)
            if g not in set(self._lines)
        }
        self._recorded: Times | None = None

    def solve(self, cutoff_s: float = math.inf, times: Sequence[LayerTimes] | None = None) -> FullPlacement:
        """The best plan over all graphs, layouts and cuts.

        Args:
            cutoff_s: Only plans faster than this are of use: without one the status is ``CUTOFF``.
            times: One for each graph, instead of those of its records.
        """
        if times is not None:
            pairs = zip(self.problem.graphs, times, strict=True)
            times = [checked_times(graph, given) for graph, given in pairs]
        best, open_s, unsolved_s, may_exist = self._solve_lines(cutoff_s, times)
        for g, solver in self._branching.items():
            one = solver if times is None else solver.retimed(times[g])
            found = one.solve(best.batch_s if best else cutoff_s)
            best = found.best or best
            unsolved_s = min(unsolved_s, found.unsolved_s)
            may_exist |= found.may_exist
        # Bounds are lowered for rounding; so is what they are held against.
        limit_s = (best.batch_s if best else cutoff_s) * (1 - 2 * ROUNDING)
        if unsolved_s < limit_s:
            status = SolveStatus.FEASIBLE if best else SolveStatus.CUTOFF
            reason = f"not every cut was looked at; none is faster than {unsolved_s:.6g} s"
            return FullPlacement(status=status, bound_s=min(unsolved_s, open_s), best=best, reason=reason)
        scope = ""
        if open_s < limit_s:
            scope = f"{EQUAL_BLOCKS_SCOPE}; of all cuts none is faster than {open_s:.6g} s"
        if best is None:
            status = SolveStatus.CUTOFF if may_exist or scope else SolveStatus.INFEASIBLE
            bound_s = cutoff_s if status is SolveStatus.CUTOFF else math.inf
            return FullPlacement(status=status, bound_s=bound_s, best=None, scope=scope)
        return FullPlacement(status=SolveStatus.OPTIMAL, bound_s=best.batch_s, best=best, scope=scope)

    def _solve_lines(
        self, cutoff_s: float, times: Sequence[LayerTimes] | None
    ) -> tuple[FullPrice | None, float, float, bool]:
        """The best plan of all lines; the least bounds not proven over all cuts and not at all; what may exist."""
        if self._line_solver is None:
            return None, math.inf, math.inf, False
        solver = self._line_solver
        if times is not None:
            line_times = times_of([times[g] for g in self._lines])
        else:
            if self._recorded is None:
                self._recorded = times_of([recorded_times(graph) for graph in solver.graphs])
            line_times = self._recorded
        found = None
        for rounding in (MEMORY_ROUNDING, -MEMORY_ROUNDING):
            memory_bytes = self.problem.device_memory_bytes * (1 + rounding)
            found = solver.solve(line_times, cutoff_s, memory_bytes)
            if found.plan is None:
                return None, found.open_s, found.unsolved_s, found.may_exist
            g = self._lines[found.position]
            price = self._price(g, found.plan, None if times is None else times[g])
            if price.fits and price.batch_s < cutoff_s:
                return price, found.open_s, found.unsolved_s, True
        assert found is not None
        return None, found.open_s, found.unsolved_s, True

    def _price(self, g: int, plan: FullPlan, times: LayerTimes | None) -> FullPrice:
        problem, graph = self.problem, self.problem.graphs[g]
        if times is not None:
            graph = retimed_graph(graph, times)
            problem = replace(problem, graphs=(graph,))
        return price_full_plan(problem, graph, plan)
