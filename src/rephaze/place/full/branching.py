"""Graphs whose layers branch: every layout bounded, the promising ones cut exactly, one after another."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from rephaze.place.full.cuts import Cuts, cuts_of
from rephaze.place.full.groups import Network
from rephaze.place.full.interleaved import best_interleaved
from rephaze.place.full.layouts import EQUAL_BLOCKS, Layout, layouts
from rephaze.place.full.least_time import ROUNDING
from rephaze.place.full.pipelines import Found, Pipeline, best_cut
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.stage_costs import LayerArrays, LayoutRules, Rates, StageCosts, stage_costs
from rephaze.place.full.times import LayerTimes, recorded_times, retimed_graph
from rephaze.types.full import FullGraph, FullPlan, FullPrice, FullProblem, FullStage, PipelineSchedule, Sharding


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
    """One graph: what does not depend on the layout."""

    def __init__(self, problem: FullProblem, graph: FullGraph, cuts: Cuts | None = None) -> None:
        self.problem, self.graph = problem, graph
        self.cuts: Cuts = cuts_of(graph) if cuts is None else cuts
        self.layers = _layer_arrays(graph)
        both_v = self.layers.forward_s_v + self.layers.backward_s_v
        self.work_s, self.longest_s = float(both_v.sum()), float(both_v.max())
        self.work_s_by_set = np.zeros(self.cuts.num_sets)
        is_from_empty = self.cuts.start_e == 0
        for e in np.flatnonzero(is_from_empty):
            members = self.cuts.layer_i[self.cuts.first_i_e[e] : self.cuts.first_i_e[e + 1]]
            self.work_s_by_set[self.cuts.end_e[e]] = both_v[members].sum()
        self.blocks_e = np.array(
            [
                sum(graph.layers[v].is_block for v in self.cuts.layer_i[first:last])
                for first, last in zip(self.cuts.first_i_e[:-1], self.cuts.first_i_e[1:], strict=True)
            ]
        )

    def retimed(self, times: LayerTimes) -> BranchingSolver:
        """The same graph with these times."""
        graph = retimed_graph(self.graph, times)
        return BranchingSolver(replace(self.problem, graphs=(graph,)), graph, self.cuts)

    def solve(self, cutoff_s: float) -> BranchAnswer:
        """The best plan over all layouts and cuts."""
        number = count()
        queue = [(self.bound_s(layout), next(number), layout) for layout in layouts(self.problem, self.graph)]
        heapq.heapify(queue)
        best: FullPrice | None = None
        open_s, unsolved_s, limit_s, may_exist = np.inf, np.inf, cutoff_s, False
        while queue:
            bound_s, _, layout = heapq.heappop(queue)
            if bound_s >= limit_s:
                may_exist = True
                break
            plan, is_whole = self.best_plan(layout, limit_s)
            may_exist |= cutoff_s < np.inf
            if not is_whole and layout.schedule is PipelineSchedule.INTERLEAVED:
                open_s = min(open_s, bound_s)
            elif not is_whole:
                unsolved_s = min(unsolved_s, bound_s)
            if plan is None:
                continue
            price = price_full_plan(self.problem, self.graph, plan)
            if price.fits and price.batch_s < limit_s:
                best, limit_s = price, price.batch_s
        return BranchAnswer(best=best, open_s=open_s, unsolved_s=unsolved_s, may_exist=may_exist)

    def bound_s(self, layout: Layout) -> float:
        """No plan of the layout is faster: an even cut, nothing exposed."""
        num_microbatches = self._count(layout)
        even_s = max(self.work_s / layout.pp, self.longest_s)
        if layout.schedule is PipelineSchedule.ONE_F_ONE_B:
            least_s = self.work_s + (num_microbatches - 1) * even_s
        elif layout.schedule is PipelineSchedule.INTERLEAVED:
            chunk_s = max(self.work_s / (layout.pp * layout.chunks), self.longest_s)
            least_s = num_microbatches * even_s + (layout.pp - 1) * chunk_s
        else:
            least_s = num_microbatches * even_s
        return least_s * (1 - ROUNDING)

    def best_plan(self, layout: Layout, cutoff_s: float) -> tuple[FullPlan | None, bool]:
        """The fastest plan of the layout below the cutoff, and whether every plan was looked at."""
        if layout.schedule is PipelineSchedule.INTERLEAVED:
            return best_interleaved(self.problem, self.graph, self.cuts, layout, cutoff_s)
        costs = stage_costs(self.cuts, self.layers, self._rates(layout), self._rules(layout))
        best: Found | None = None
        is_complete = True
        for allowed in self._allowed(layout):
            found = self._cut(layout, costs, best.batch_s if best else cutoff_s * (1 + ROUNDING), allowed)
            is_complete &= found.is_complete
            if len(found.stages):
                best = found
        if best is None:
            return None, is_complete
        stages = tuple(
            FullStage(layers=self._members(int(e)), keep=int(k))
            for e, k in zip(best.stages, best.points, strict=True)
        )
        return layout.plan(self.graph, stages), is_complete

    def _cut(self, layout: Layout, costs: StageCosts, cutoff_s: float, allowed: list[np.ndarray]) -> Found:
        found: Found = best_cut(
            self.cuts,
            costs,
            Pipeline(
                pp=layout.pp,
                num_microbatches=self._count(layout),
                is_zero_bubble=layout.schedule is PipelineSchedule.ZERO_BUBBLE,
                memory_bytes=self.problem.device_memory_bytes,
                cutoff_s=cutoff_s,
                work_s_by_set=self.work_s_by_set,
                is_first_allowed_e=allowed[0],
                is_inner_allowed_e=allowed[1],
                is_last_allowed_e=allowed[2],
            ),
        )
        return found

    def _allowed(self, layout: Layout) -> list[list[np.ndarray]]:
        """Which candidates may be the first, an inner and the last stage: all, or by each number of blocks."""
        every = np.ones(len(self.blocks_e), dtype=np.bool_)
        if self.problem.options.family not in EQUAL_BLOCKS or layout.pp < 3:
            return [[every, every, every]]
        total = sum(layer.is_block for layer in self.graph.layers)
        sizes = [c for c in range(total + 1) if (layout.pp - 2) * c <= total <= layout.pp * c]
        return [[self.blocks_e <= c, self.blocks_e == c, self.blocks_e <= c] for c in sizes]

    def _members(self, e: int) -> tuple[int, ...]:
        return tuple(int(v) for v in self.cuts.layer_i[self.cuts.first_i_e[e] : self.cuts.first_i_e[e + 1]])

    def _count(self, layout: Layout) -> int:
        return -(-self.problem.num_microbatches(self.graph) // layout.dp)

    def _rates(self, layout: Layout) -> Rates:
        groups = layout.groups(self.graph)
        network = Network(self.problem.cluster, layout.dp * layout.pp * self.graph.stage_width)
        precision = self.problem.precision

        def all_reduce(pair: tuple[float, float]) -> tuple[float, float]:
            return 2 * pair[0], 2 * pair[1]

        unit = network.message_s(1.0, groups.stages)
        latency = network.message_s(5e-324, groups.stages)
        hbm_bytes_per_s = self.problem.hbm_bytes_per_s
        per_byte = precision.step_bytes / precision.weight_bytes / hbm_bytes_per_s if hbm_bytes_per_s else 0.0
        return Rates(
            message=(unit - latency, latency),
            shards=network.coefficients(groups.shards),
            copies=all_reduce(network.coefficients(groups.copies)),
            gradients=all_reduce(network.coefficients(groups.gradients)),
            experts=network.coefficients(groups.expert_replicas),
            shard_group=layout.shard_group,
            num_expert_replicas=groups.num_expert_replicas,
            gradient_ratio=precision.gradient_bytes / precision.weight_bytes,
            state_ratio=precision.state_bytes / precision.weight_bytes,
            step_s_per_byte=per_byte,
        )

    def _rules(self, layout: Layout) -> LayoutRules:
        return LayoutRules(
            is_sharded=layout.sharding is not Sharding.NONE,
            shards_gradients=layout.sharding in (Sharding.GRADIENTS, Sharding.WEIGHTS),
            shards_weights=layout.sharding is Sharding.WEIGHTS,
            reshard=layout.reshard,
            overlap=self.problem.options.overlap,
            is_zero_bubble=layout.schedule is PipelineSchedule.ZERO_BUBBLE,
        )


def _layer_arrays(graph: FullGraph) -> LayerArrays:
    tied_tv = np.zeros((len(graph.tied), len(graph.layers)), dtype=np.bool_)
    for t, tied in enumerate(graph.tied):
        tied_tv[t, list(tied.layers)] = True
    return LayerArrays(
        **recorded_times(graph)._asdict(),
        working_bytes_v=np.array([layer.working_bytes for layer in graph.layers], dtype=np.float64),
        param_bytes_v=np.array([layer.param_bytes for layer in graph.layers], dtype=np.float64),
        expert_bytes_v=np.array([layer.expert_param_bytes for layer in graph.layers], dtype=np.float64),
        link_src=np.array([link.src for link in graph.links], dtype=np.int64),
        link_dst=np.array([link.dst for link in graph.links], dtype=np.int64),
        link_bytes=np.array([link.payload_bytes for link in graph.links], dtype=np.float64),
        tied_tv=tied_tv,
        tied_owner_t=np.array([tied.layers[0] for tied in graph.tied], dtype=np.int64),
        tied_bytes_t=np.array([tied.param_bytes for tied in graph.tied], dtype=np.float64),
    )
