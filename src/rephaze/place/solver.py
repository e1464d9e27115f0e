"""The fastest plan over all degrees, microbatch sizes, stages and recompute modes, proven.

``Placer`` prepares what does not depend on the layers' times (order, cuts, which stages fit in memory) once, and
then solves for one set of times after another: the inner loop of a search over chips.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rephaze.place.arrays import Floats, GraphArrays, GraphShape, Ints, arrays_of, shape_of
from rephaze.place.bottleneck import least_bottleneck_plan
from rephaze.place.degrees import (
    UNLIMITED,
    candidate_degrees,
    fewest_microbatches,
    quickest_pipeline,
    shallowest_depth,
)
from rephaze.place.loads import load_stages
from rephaze.place.network import links_of
from rephaze.place.stages import MemoryRules, StageTable, tabulate_stages
from rephaze.place.tradeoff import MAX_LABELS, least_time_plan
from rephaze.types.placement import (
    CostModel,
    LayerGraph,
    Plan,
    PlacementProblem,
    PlanLimits,
    PlannedStage,
    Recompute,
    RecomputePolicy,
    SolveStatus,
)

PAPER_LONGEST_LOAD_S = 5e29
"""The paper's program takes a load this long as impossible."""

_MODES = (Recompute.NONE, Recompute.BLOCK, Recompute.STAGE)


_Run = tuple[Ints, Ints, int, int, int]


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
class _PreparedGraph:
    """One graph with everything that does not depend on times."""

    position: int
    graph: LayerGraph
    arrays: GraphArrays
    table: StageTable
    rare_e: np.ndarray[tuple[int], np.dtype[np.uint8]]
    num_rare_most: int
    common_devices: int
    rare_devices: int
    count_c: Ints
    dp_c: Ints
    stages_least: int
    """Asked for, or the fewest that fit in memory."""
    stages_most: int
    depth_matters: bool
    """Some stage's load or fit depends on how many microbatches are in flight."""
    fewest_s: Ints
    """Fewest microbatches of a pipeline by its depth."""
    transfer_s_l: Floats
    """Least time of a transfer between two stages, by network level."""
    runs_l: list[list[_Run]] = field(default_factory=list)
    """Searches of the 1f1b model, by network level."""

    def fewest_devices(self, num_stages: int) -> int:
        """Devices of the narrowest pipeline of so many stages."""
        num_rare = min(num_stages, self.num_rare_most) if self.rare_devices < self.common_devices else 0
        return (num_stages - num_rare) * self.common_devices + num_rare * self.rare_devices

    def most_stages(self, num_devices: int) -> int:
        """Stages of the longest pipeline on so many devices."""
        low, high = 0, self.stages_most
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.fewest_devices(middle) <= num_devices else (low, middle - 1)
        return low


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
        self._order = np.array(self.shape.order, dtype=np.int64)
        policy = limits.recompute or problem.recompute
        self._rules = MemoryRules(
            memory_bytes=float(problem.device_memory_bytes),
            resident_ratio=problem.precision.resident_ratio,
            count_each_link=problem.cost_model is CostModel.PAPER,
            mode_limit_r=mode_limits(policy, problem.cluster.num_devices),
        )
        precision = problem.precision
        self._gradient_ratio = precision.gradient_bytes / precision.weight_bytes
        self._step_s_per_byte = (
            precision.step_bytes / precision.weight_bytes / problem.hbm_bytes_per_s
            if problem.hbm_bytes_per_s
            else 0.0
        )
        self._graphs = [
            self._prepare(position, graph)
            for position, graph in enumerate(problem.graphs)
            if limits.tp in (None, graph.tp) and limits.microbatch in (None, graph.microbatch)
        ]

    def _prepare(self, position: int, graph: LayerGraph) -> _PreparedGraph:
        problem, limits = self.problem, self.limits
        num_devices = problem.cluster.num_devices
        arrays = arrays_of(graph, self.shape)
        table = tabulate_stages(arrays, self.shape, self._rules)
        num_wide = int(arrays.wide_v.sum())
        num_narrow = len(arrays.wide_v) - num_wide
        if graph.tp == 1 or num_wide == 0:
            common, rare, num_rare, rare_e = 1, 1, 0, np.zeros_like(table.wide_e)
        elif num_narrow <= num_wide:
            common, rare, num_rare, rare_e = graph.tp, 1, num_narrow, (1 - table.wide_e).astype(np.uint8)
        else:
            common, rare, num_rare, rare_e = 1, graph.tp, num_wide, table.wide_e
        count_c, dp_c = candidate_degrees(problem.microbatches_of(graph), num_devices, limits.dp)
        prepared = _PreparedGraph(
            position=position,
            graph=graph,
            arrays=arrays,
            table=table,
            rare_e=rare_e,
            num_rare_most=num_rare,
            common_devices=common,
            rare_devices=rare,
            count_c=count_c,
            dp_c=dp_c,
            stages_least=1,
            stages_most=min(len(graph.layers), limits.pp or len(graph.layers)),
            fewest_s=np.zeros(1, dtype=np.int64),
            transfer_s_l=self._least_transfers(graph),
            depth_matters=bool((table.limit_er[:, 0] < min(len(graph.layers), num_devices)).any()),
        )
        stages_most = prepared.most_stages(num_devices // int(dp_c[-1])) if len(dp_c) else 0
        fewest_s = fewest_microbatches(stages_most, num_rare, common, rare, num_devices, count_c, dp_c, False)
        fitting = shallowest_depth(
            table.start_k,
            table.limit_er,
            fewest_s,
            self.shape.is_line,
            problem.cost_model is CostModel.PAPER,
        )
        prepared = replace(
            prepared,
            stages_least=max(limits.pp or 1, int(fitting)),
            stages_most=stages_most,
            fewest_s=fewest_s,
        )
        return replace(prepared, runs_l=[self._runs(prepared, at) for at in range(self.links.num_levels)])

    def solve(
        self,
        times: Sequence[tuple[Floats, Floats]] | None = None,
        cutoff_s: float = math.inf,
        max_labels: int = MAX_LABELS,
    ) -> Solution:
        """The fastest plan below ``cutoff_s``, or word that there is none.

        Args:
            times: For each graph of the problem, (forward_s, backward_s) of its layers in the problem's order.
            cutoff_s: Plans at least this long are of no interest; cuts the search short.
            max_labels: Work limit of one refinement; past it the answer is a plan and a bound.
        """
        is_paper = self.problem.cost_model is CostModel.PAPER
        jobs = []
        for prepared in self._graphs:
            if times is None:
                forward, backward = prepared.arrays.forward_s_v, prepared.arrays.backward_s_v
            else:
                forward, backward = (
                    np.ascontiguousarray(part, dtype=np.float64)[self._order]
                    for part in times[prepared.position]
                )
            work = forward + backward
            total, largest = float(work.sum()), float(work.max())
            bound = quickest_pipeline(
                prepared.fewest_s,
                prepared.stages_least,
                total,
                largest,
                float(prepared.transfer_s_l[0]),
                is_paper,
            )
            jobs.append((bound, prepared, forward, backward, total, largest))
        # The most promising first: a good plan early spares the others most of their work.
        jobs.sort(key=lambda job: job[0])
        best = Solution(status=SolveStatus.INFEASIBLE, batch_s=cutoff_s, bound_s=cutoff_s)
        bound_s = cutoff_s
        for least, prepared, forward, backward, total, largest in jobs:
            if least >= best.batch_s:
                break
            search = self._search_paper if self.problem.cost_model is CostModel.PAPER else self._search_1f1b
            best, bound = search(prepared, forward, backward, total, largest, best, max_labels)
            bound_s = min(bound_s, bound)
        bound_s = min(bound_s, best.batch_s)
        if best.graph < 0:
            status = SolveStatus.INFEASIBLE if math.isinf(cutoff_s) else SolveStatus.CUTOFF
            if bound_s < cutoff_s:  # work limit met with no plan in hand
                status = SolveStatus.CUTOFF
            return Solution(status=status, batch_s=math.inf, bound_s=bound_s)
        status = SolveStatus.OPTIMAL if bound_s >= best.batch_s else SolveStatus.FEASIBLE
        return Solution(
            status=status,
            batch_s=best.batch_s,
            bound_s=bound_s,
            graph=best.graph,
            dp=best.dp,
            cuts=best.cuts,
        )

    def _search_paper(
        self,
        prepared: _PreparedGraph,
        forward: Floats,
        backward: Floats,
        total: float,
        largest: float,
        best: Solution,
        max_labels: int,  # noqa: ARG002 (the bottleneck search needs no limit)
    ) -> tuple[Solution, float]:
        if prepared.stages_most < prepared.stages_least:
            return best, best.batch_s
        table, bytes_per_s = prepared.table, float(self.links.bytes_per_s_l[-1])
        load_er, work_e = load_stages(prepared.arrays, self.shape, table, forward, backward, bytes_per_s, 0.0)
        limit_er = table.limit_er
        if total * 3 >= PAPER_LONGEST_LOAD_S or load_er.max(initial=0.0) >= PAPER_LONGEST_LOAD_S:
            limit_er = np.where(load_er >= PAPER_LONGEST_LOAD_S, 0, limit_er).astype(np.int32)
        time, dp, cuts = least_bottleneck_plan(
            table.start_k, table.end_e, self.shape.is_line, load_er, limit_er, work_e, table.param_bytes_e,
            prepared.rare_e, prepared.num_rare_most, prepared.common_devices, prepared.rare_devices,
            self.problem.cluster.num_devices, prepared.count_c, prepared.dp_c, prepared.stages_least,
            prepared.stages_most, 4.0 / bytes_per_s, total,
            float(prepared.transfer_s_l[-1]), best.batch_s,
        )  # fmt: skip
        return _better(best, prepared, time, dp, cuts), time

    def _search_1f1b(
        self,
        prepared: _PreparedGraph,
        forward: Floats,
        backward: Floats,
        total: float,
        largest: float,
        best: Solution,
        max_labels: int,
    ) -> tuple[Solution, float]:
        table, links = prepared.table, self.links
        num_devices = self.problem.cluster.num_devices
        bound_s = math.inf
        for level in range(links.num_levels - 1, -1, -1):
            bytes_per_s, latency_s = float(links.bytes_per_s_l[level]), float(links.latency_s_l[level])
            if not prepared.runs_l[level]:
                continue
            load_er, work_e = load_stages(
                prepared.arrays, self.shape, table, forward, backward, bytes_per_s, latency_s
            )
            tied_s_e = (
                table.tied_bytes_e * (self._gradient_ratio / bytes_per_s) + table.num_tied_e * latency_s
            )
            for count_c, dp_c, least, most, flight_cap in prepared.runs_l[level]:
                if flight_cap < UNLIMITED:
                    # The bound the search would start from, before the call.
                    if total + (flight_cap - 1) * max(total / most, largest) >= best.batch_s:
                        continue
                time, bound, dp, cuts = least_time_plan(
                    table.start_k, table.end_e, self.shape.is_line, load_er, table.limit_er, work_e, tied_s_e,
                    table.param_bytes_e, prepared.rare_e, prepared.num_rare_most, prepared.common_devices,
                    prepared.rare_devices, num_devices, count_c, dp_c, least, most, flight_cap,
                    prepared.depth_matters and flight_cap == UNLIMITED, level, links.num_devices_l,
                    links.bytes_per_s_l, links.latency_s_l, self._gradient_ratio, self._step_s_per_byte,
                    total, float(prepared.transfer_s_l[level]), best.batch_s, max_labels,
                )  # fmt: skip
                bound_s = min(bound_s, bound)
                best = _better(best, prepared, time, dp, cuts)
        return best, bound_s

    def _least_transfers(self, graph: LayerGraph) -> Floats:
        """Every cut of a line crosses a link between neighbours; other graphs may have cuts that cross none."""
        links = self.links
        step = {pair: 0 for pair in zip(self.shape.order, self.shape.order[1:], strict=False)}
        payloads = [link.payload_bytes for link in graph.links if (link.src, link.dst) in step]
        least = min(payloads, default=0.0) if self.shape.is_line else 0.0
        latency_s_l = links.latency_s_l * (self.problem.cost_model is not CostModel.PAPER)
        return least / links.bytes_per_s_l + latency_s_l if least > 0 else np.zeros(links.num_levels)

    def _runs(self, prepared: _PreparedGraph, level: int) -> list[_Run]:
        """The searches one network level takes: (microbatches, dp, least and most stages, cap in flight).

        One covers the plans with at least as many microbatches as stages. Where depth matters, those with fewer
        have one each: memory then holds only so many.
        """
        num_devices, is_outermost = self.problem.cluster.num_devices, level == self.links.num_levels - 1
        reach = num_devices if is_outermost else min(num_devices, int(self.links.num_devices_l[level]))
        least, most = prepared.stages_least, min(prepared.stages_most, prepared.most_stages(reach))
        if most < least:
            return []
        runs = [(prepared.count_c, prepared.dp_c, least, most, UNLIMITED)]
        for c in range(len(prepared.dp_c) if prepared.depth_matters else 0):
            count = int(prepared.count_c[c])
            if count >= most:
                break
            own_most = min(most, prepared.most_stages(min(reach, num_devices // int(prepared.dp_c[c]))))
            if max(least, count + 1) <= own_most:
                one = slice(c, c + 1)
                runs.append(
                    (prepared.count_c[one], prepared.dp_c[one], max(least, count + 1), own_most, count)
                )
        return runs

    def plan(self, solution: Solution) -> Plan:
        """The plan a solution stands for, with each stage's fastest recompute mode that fits."""
        prepared = next(one for one in self._graphs if one.position == solution.graph)
        table, order = prepared.table, self.shape.order
        num_stages = len(solution.cuts) - 1
        count = -(-self.problem.microbatches_of(prepared.graph) // solution.dp)
        stages = []
        for at in range(num_stages):
            first, last = solution.cuts[at], solution.cuts[at + 1]
            row = slice(table.start_k[first], table.start_k[first + 1])
            e = int(row.start) + int(np.flatnonzero(table.end_e[row] == last)[0])
            depth = num_stages - at
            in_flight = depth if self.problem.cost_model is CostModel.PAPER else min(depth, count)
            # In order of their loads: block and stage replay the same work, stage hides more of the transfers.
            mode = next(r for r in (0, 2, 1) if table.limit_er[e, r] >= in_flight)
            layers = [order[v] for v in self._layers_between(first, last)]
            stages.append(PlannedStage(layers=tuple(layers), recompute=_MODES[mode]))
        return Plan(
            tp=prepared.graph.tp,
            dp=solution.dp,
            microbatch=prepared.graph.microbatch,
            stages=tuple(stages),
        )

    def _layers_between(self, first: int, last: int) -> list[int]:
        if self.shape.is_line:
            return list(range(first, last))
        members = self.shape.members_kv
        return [int(v) for v in np.flatnonzero(members[last] & (1 - members[first]))]


def mode_limits(policy: RecomputePolicy, num_devices: int) -> tuple[int, int, int]:
    """Most microbatches in flight with which none, block and stage recompute may be used."""
    return {
        RecomputePolicy.NONE: (num_devices, 0, 0),
        RecomputePolicy.BLOCK: (0, num_devices, 0),
        RecomputePolicy.STAGE: (1, 0, num_devices),
        RecomputePolicy.AUTO: (num_devices, num_devices, num_devices),
    }[policy]


def _better(best: Solution, prepared: _PreparedGraph, time: float, dp: int, cuts: Ints) -> Solution:
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


__all__ = ["GraphShape", "Placer", "Solution", "mode_limits"]
