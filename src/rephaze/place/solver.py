"""The fastest plan over all degrees, microbatch sizes, stages and recompute modes, proven.

``Placer`` prepares what does not depend on the layers' times (order, cuts, which stages fit in memory) once,
and then solves for one set of times after another: the inner loop of a search over chips.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rephaze.place.arrays import shape_of
from rephaze.place.bottleneck import least_bottleneck_plan
from rephaze.place.degrees import UNLIMITED, quickest_pipeline
from rephaze.place.labels import MAX_LABELS
from rephaze.place.loads import load_stages
from rephaze.place.network import links_of
from rephaze.place.prepare import PreparedGraph, prepare_graph, update_rates
from rephaze.place.tables import (
    MODES_BY_LOAD,
    RECOMPUTE_R,
    Depths,
    Floats,
    Ints,
    LayerTimes,
    Loads,
    Wire,
)
from rephaze.place.tradeoff import SearchLimits, least_time_plan
from rephaze.types.placement import (
    PlacementModel,
    PlacementProblem,
    Plan,
    PlanLimits,
    PlannedStage,
    SolveStatus,
)

PAPER_LONGEST_LOAD_S = 5e29
"""The paper's program takes a load this long as impossible."""

_NO_TIES: Floats = np.empty(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Solution:
    """What one solve found, in positions; ``Placer.plan`` turns it into a plan."""

    status: SolveStatus
    batch_s: float
    """Of the plan; infinite without one."""
    bound_s: float
    """No plan is faster than this."""
    graph: int = -1
    """Position of the chosen graph in the problem."""
    dp: int = 0
    cuts: tuple[int, ...] = ()
    """Ideals between stages; on a line, the number of layers before each stage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    """A graph to be solved with a set of layer times, in topological order."""

    prepared: PreparedGraph
    times: LayerTimes
    total_s: float
    largest_s: float
    least_s: float
    """No plan of this graph is faster."""

    def quickest_s(self, num_microbatches: int, num_stages: int) -> float:
        """No pipeline of so many stages or fewer is faster with so many microbatches."""
        slowest = max(self.total_s / num_stages, self.largest_s)
        return self.total_s + (num_microbatches - 1) * slowest


class Placer:
    """A placement problem made ready to be solved for many sets of layer times.

    Args:
        problem: The problem; its own times are used unless ``solve`` is given others.
        limits: Choices made beforehand.
    """

    def __init__(self, problem: PlacementProblem, limits: PlanLimits | None = None) -> None:
        limits = limits or PlanLimits()
        self.problem = problem
        self.limits = limits
        self.shape = shape_of(problem.graphs[0])
        self.links = links_of(problem.cluster)
        self.rates = update_rates(problem)
        self.prepared = [
            prepare_graph(problem, limits, self.shape, self.links, position)
            for position, graph in enumerate(problem.graphs)
            if limits.tp in (None, graph.tp) and limits.microbatch in (None, graph.microbatch)
        ]
        self._wire_l = [
            Wire(*pair)
            for pair in zip(self.links.bytes_per_s_l.tolist(), self.links.latency_s_l.tolist(), strict=True)
        ]
        self._order = np.array(self.shape.order, dtype=np.int64)

    def solve(
        self,
        times: Sequence[tuple[Floats, Floats]] | None = None,
        cutoff_s: float = math.inf,
        max_labels: int = MAX_LABELS,
    ) -> Solution:
        """The fastest plan below ``cutoff_s``, or word that there is none.

        Args:
            times: For each graph of the problem, (forward_s, backward_s) of its layers in their given order.
            cutoff_s: Plans at least this long are of no interest; cuts the search short.
            max_labels: Work limit of one refinement; past it the answer is a plan and a bound.
        """
        jobs = [self._job(prepared, times) for prepared in self.prepared]
        # The most promising first: a good plan early spares the others most of their work.
        jobs.sort(key=lambda job: job.least_s)
        is_paper = self.problem.cost_model is PlacementModel.PAPER
        best = Solution(status=SolveStatus.INFEASIBLE, batch_s=cutoff_s, bound_s=cutoff_s)
        bound_s = cutoff_s
        for job in jobs:
            if job.least_s >= best.batch_s:
                break
            best, bound = self._search_paper(job, best) if is_paper else self._search_1f1b(job, best, max_labels)
            bound_s = min(bound_s, bound)
        bound_s = min(bound_s, best.batch_s)
        if best.graph < 0:
            # Nothing is cut off below an infinite cutoff, unless the work limit came before the first plan.
            is_proof = math.isinf(cutoff_s) and math.isinf(bound_s)
            status = SolveStatus.INFEASIBLE if is_proof else SolveStatus.CUTOFF
            return Solution(status=status, batch_s=math.inf, bound_s=bound_s)
        return Solution(
            status=SolveStatus.OPTIMAL if bound_s >= best.batch_s else SolveStatus.FEASIBLE,
            batch_s=best.batch_s,
            bound_s=bound_s,
            graph=best.graph,
            dp=best.dp,
            cuts=best.cuts,
        )

    def plan(self, solution: Solution) -> Plan:
        """The plan a solution stands for, with each stage's fastest recompute mode that fits."""
        prepared = next(one for one in self.prepared if one.position == solution.graph)
        table = prepared.table
        num_stages = len(solution.cuts) - 1
        count = -(-self.problem.microbatches_of(prepared.graph) // solution.dp)
        stages = []
        for at in range(num_stages):
            first, last = solution.cuts[at], solution.cuts[at + 1]
            row = slice(table.start_k[first], table.start_k[first + 1])
            e = int(row.start) + int(np.flatnonzero(table.end_e[row] == last)[0])
            depth = num_stages - at
            in_flight = depth if self.problem.cost_model is PlacementModel.PAPER else min(depth, count)
            mode = next(r for r in MODES_BY_LOAD if table.limit_er[e, r] >= in_flight)
            layers = tuple(self.shape.order[v] for v in self._layers_between(first, last))
            stages.append(PlannedStage(layers=layers, recompute=RECOMPUTE_R[mode]))
        return Plan(
            tp=prepared.graph.tp,
            dp=solution.dp,
            microbatch=prepared.graph.microbatch,
            stages=tuple(stages),
        )

    def _job(self, prepared: PreparedGraph, times: Sequence[tuple[Floats, Floats]] | None) -> _Job:
        own = prepared.arrays.times
        if times is not None:
            given = times[prepared.position]
            own = LayerTimes(*(np.asarray(part, dtype=np.float64)[self._order] for part in given))
        forward, backward = own
        work = forward + backward
        total, largest = float(work.sum()), float(work.max())
        busy = total + float(forward.sum()) if prepared.must_replay else total
        options = prepared.options
        least = quickest_pipeline(
            options.depth_o, options.count_o, options.once_s_o, total, busy, largest,
            float(prepared.transfer_s_l[0]), self.problem.cost_model is PlacementModel.PAPER,
        )  # fmt: skip
        return _Job(
            prepared=prepared,
            times=own,
            total_s=total,
            largest_s=largest,
            # A sum in another order may differ in its last digits.
            least_s=least * (1 - 1e-12),
        )

    def _search_paper(self, job: _Job, best: Solution) -> tuple[Solution, float]:
        prepared, table = job.prepared, job.prepared.table
        if prepared.stages_most < prepared.stages_least:
            return best, best.batch_s
        wire = Wire(bytes_per_s=float(self.links.bytes_per_s_l[-1]), latency_s=0.0)
        load_er, work_e, busy_e = load_stages(
            prepared.arrays, self.shape, table, job.times, wire, prepared.must_replay
        )
        if load_er.max(initial=0.0) >= PAPER_LONGEST_LOAD_S:
            limit_er = np.where(load_er >= PAPER_LONGEST_LOAD_S, 0, table.limit_er).astype(np.int32)
            table = table._replace(limit_er=limit_er)
        time, dp, cuts = least_bottleneck_plan(
            table,
            Loads(load_er, work_e, busy_e, _NO_TIES, job.total_s, float(prepared.transfer_s_l[-1])),
            prepared.widths,
            prepared.degrees,
            Depths(prepared.stages_least, prepared.stages_most, UNLIMITED, at_least_depth=False),
            4.0 / wire.bytes_per_s,
            best.batch_s,
        )
        return _better(best, prepared, time, dp, cuts), time

    def _search_1f1b(self, job: _Job, best: Solution, max_labels: int) -> tuple[Solution, float]:
        prepared, table, links = job.prepared, job.prepared.table, self.links
        bound_s = math.inf
        for level in range(links.num_levels - 1, -1, -1):
            if not prepared.runs_l[level]:
                continue
            wire = self._wire_l[level]
            load_er, work_e, busy_e = load_stages(
                prepared.arrays, self.shape, table, job.times, wire, prepared.must_replay
            )
            tied_s_e = prepared.tied.copied_bytes_e * (self.rates.gradient_ratio / wire.bytes_per_s)
            tied_s_e += prepared.tied.num_copied_e * wire.latency_s
            transfer_s = float(prepared.transfer_s_l[level])
            loads = Loads(load_er, work_e, busy_e, tied_s_e, job.total_s, transfer_s)
            for degrees, depths in prepared.runs_l[level]:
                # The bound the search would start from, before the call.
                in_flight = depths.flight_cap
                if in_flight < UNLIMITED and job.quickest_s(in_flight, depths.stages_most) >= best.batch_s:
                    continue
                time, bound, dp, cuts = least_time_plan(
                    table,
                    loads._replace(busy_e=work_e) if in_flight == 1 else loads,
                    prepared.widths,
                    degrees,
                    depths,
                    links,
                    self.rates,
                    SearchLimits(level, best.batch_s, max_labels),
                )
                bound_s = min(bound_s, bound)
                best = _better(best, prepared, time, dp, cuts)
        return best, bound_s

    def _layers_between(self, first: int, last: int) -> list[int]:
        if self.shape.is_line:
            return list(range(first, last))
        members = self.shape.members_kv
        return [int(v) for v in np.flatnonzero(members[last] & (1 - members[first]))]


def _better(best: Solution, prepared: PreparedGraph, time: float, dp: int, cuts: Ints) -> Solution:
    """The solution just found, or the old one when there is none."""
    if not dp:
        return best
    return Solution(
        status=SolveStatus.FEASIBLE,
        batch_s=float(time),
        bound_s=0.0,
        graph=prepared.position,
        dp=int(dp),
        cuts=tuple(cuts.tolist()),
    )
