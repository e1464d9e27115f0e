"""The fastest plan over all degrees, microbatch sizes, stages and recompute modes, proven.

``Placer`` prepares what does not depend on the layers' times (order, cuts, which stages fit in memory) once,
and then solves for one set of times after another: the inner loop of a search over chips.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rephaze.place.arrays import Floats, Ints, shape_of
from rephaze.place.bottleneck import least_bottleneck_plan
from rephaze.place.degrees import UNLIMITED, quickest_pipeline
from rephaze.place.loads import load_stages
from rephaze.place.network import links_of
from rephaze.place.prepare import PreparedGraph, batch_end_rates, prepare_graph
from rephaze.place.tradeoff import MAX_LABELS, least_time_plan
from rephaze.types.placement import (
    PlacementModel,
    PlacementProblem,
    Plan,
    PlanLimits,
    PlannedStage,
    Recompute,
    SolveStatus,
)

PAPER_LONGEST_LOAD_S = 5e29
"""The paper's program takes a load this long as impossible."""

_MODES = (Recompute.NONE, Recompute.BLOCK, Recompute.STAGE)


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
    forward_s_v: Floats
    backward_s_v: Floats
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
        self.gradient_ratio, self.step_s_per_byte = batch_end_rates(problem)
        self.prepared = [
            prepare_graph(problem, limits, self.shape, self.links, position)
            for position, graph in enumerate(problem.graphs)
            if limits.tp in (None, graph.tp) and limits.microbatch in (None, graph.microbatch)
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
            # In order of their loads: block and stage replay the same work, stage hides more transfers.
            mode = next(r for r in (0, 2, 1) if table.limit_er[e, r] >= in_flight)
            layers = tuple(self.shape.order[v] for v in self._layers_between(first, last))
            stages.append(PlannedStage(layers=layers, recompute=_MODES[mode]))
        return Plan(
            tp=prepared.graph.tp,
            dp=solution.dp,
            microbatch=prepared.graph.microbatch,
            stages=tuple(stages),
        )

    def _job(self, prepared: PreparedGraph, times: Sequence[tuple[Floats, Floats]] | None) -> _Job:
        if times is None:
            forward, backward = prepared.arrays.forward_s_v, prepared.arrays.backward_s_v
        else:
            forward, backward = (
                np.asarray(part, dtype=np.float64)[self._order] for part in times[prepared.position]
            )
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
            forward_s_v=forward,
            backward_s_v=backward,
            total_s=total,
            largest_s=largest,
            # A sum in another order may differ in its last digits.
            least_s=least * (1 - 1e-12),
        )

    def _search_paper(self, job: _Job, best: Solution) -> tuple[Solution, float]:
        prepared, table = job.prepared, job.prepared.table
        if prepared.stages_most < prepared.stages_least:
            return best, best.batch_s
        bytes_per_s = float(self.links.bytes_per_s_l[-1])
        load_er, work_e, busy_e = load_stages(
            prepared.arrays, self.shape, table, job.forward_s_v, job.backward_s_v, bytes_per_s, 0.0,
            prepared.must_replay,
        )  # fmt: skip
        limit_er = table.limit_er
        if load_er.max(initial=0.0) >= PAPER_LONGEST_LOAD_S:
            limit_er = np.where(load_er >= PAPER_LONGEST_LOAD_S, 0, limit_er).astype(np.int32)
        time, dp, cuts = least_bottleneck_plan(
            table.start_k, table.end_e, self.shape.is_line, load_er, limit_er, work_e, busy_e,
            table.param_bytes_e, prepared.rare_e, prepared.num_rare_most, prepared.common_devices,
            prepared.rare_devices, self.problem.cluster.num_devices, prepared.count_c, prepared.dp_c,
            prepared.stages_least, prepared.stages_most, 4.0 / bytes_per_s, job.total_s,
            float(prepared.transfer_s_l[-1]), best.batch_s,
        )  # fmt: skip
        return _better(best, prepared, time, dp, cuts), time

    def _search_1f1b(self, job: _Job, best: Solution, max_labels: int) -> tuple[Solution, float]:
        prepared, table, links = job.prepared, job.prepared.table, self.links
        bound_s = math.inf
        for level in range(links.num_levels - 1, -1, -1):
            if not prepared.runs_l[level]:
                continue
            bytes_per_s, latency_s = float(links.bytes_per_s_l[level]), float(links.latency_s_l[level])
            load_er, work_e, busy_e = load_stages(
                prepared.arrays, self.shape, table, job.forward_s_v, job.backward_s_v, bytes_per_s, latency_s,
                prepared.must_replay,
            )  # fmt: skip
            tied_s_e = table.tied_bytes_e * (self.gradient_ratio / bytes_per_s) + table.num_tied_e * latency_s
            for count_c, dp_c, least, most, flight_cap in prepared.runs_l[level]:
                # The bound the search would start from, before the call.
                if flight_cap < UNLIMITED and job.quickest_s(flight_cap, most) >= best.batch_s:
                    continue
                time, bound, dp, cuts = least_time_plan(
                    table.start_k, table.end_e, self.shape.is_line, load_er, table.limit_er, work_e,
                    work_e if flight_cap == 1 else busy_e, tied_s_e, table.param_bytes_e, prepared.rare_e,
                    prepared.num_rare_most, prepared.common_devices, prepared.rare_devices,
                    self.problem.cluster.num_devices, count_c, dp_c, least, most,
                    flight_cap, prepared.depth_matters and flight_cap == UNLIMITED, level,
                    links.num_devices_l, links.bytes_per_s_l, links.latency_s_l, self.gradient_ratio,
                    self.step_s_per_byte, job.total_s, float(prepared.transfer_s_l[level]), best.batch_s,
                    max_labels,
                )  # fmt: skip
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
