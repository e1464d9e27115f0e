"""One graph made ready to be solved: everything that does not depend on the layers' times.

Axis letters: e = stage, c = candidate degree, s = depth of a pipeline, l = network level.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rephaze.place.arrays import Floats, GraphArrays, GraphShape, Ints, arrays_of
from rephaze.place.degrees import (
    UNLIMITED,
    candidate_degrees,
    fewest_microbatches,
    list_options,
    shallowest_depth,
)
from rephaze.place.network import Links
from rephaze.place.stages import MemoryRules, StageTable, tabulate_stages
from rephaze.types.placement import LayerGraph, PlacementModel, PlacementProblem, PlanLimits, RecomputePolicy

Run = tuple[Ints, Ints, int, int, int]
"""One search: microbatches and dp of its candidates, least and most stages, most microbatches in flight."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Depths and degrees a plan of a graph can have, with the least time of what happens once a batch."""

    depth_o: Ints
    count_o: Ints
    """Microbatches a pipeline works through."""
    once_s_o: Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedGraph:
    """One graph with its candidate stages and degrees."""

    position: int
    """In the problem."""
    graph: LayerGraph
    arrays: GraphArrays
    table: StageTable
    rare_e: NDArray[np.uint8]
    """1 where a stage has the rarer of the two widths (one device, or the tensor-parallel group)."""
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
    options: Options
    must_replay: bool
    """Every stage with two or more microbatches in flight runs its forward pass again."""
    runs_l: list[list[Run]] = field(default_factory=list)
    """Searches of the 1f1b model, by network level."""

    def fewest_devices(self, num_stages: int) -> int:
        """Devices of the narrowest pipeline of so many stages; where some layer is wide, one stage is."""
        if self.rare_devices < self.common_devices:
            num_rare = min(num_stages - 1, self.num_rare_most)
        else:
            num_rare = min(num_stages, self.num_rare_most, 1)
        return (num_stages - num_rare) * self.common_devices + num_rare * self.rare_devices

    def most_stages(self, num_devices: int) -> int:
        """Stages of the longest pipeline on so many devices."""
        num_rare = 0
        if self.rare_devices < self.common_devices:
            num_rare = min(self.num_rare_most, num_devices // self.rare_devices)
        rest = num_devices - num_rare * self.rare_devices
        return min(self.stages_most, num_rare + rest // self.common_devices)


_NO_OPTIONS = Options(
    depth_o=np.empty(0, dtype=np.int64), count_o=np.empty(0, dtype=np.int64), once_s_o=np.empty(0)
)


def prepare_graph(
    problem: PlacementProblem, limits: PlanLimits, shape: GraphShape, links: Links, position: int
) -> PreparedGraph:
    """The problem's graph at ``position``, ready to be solved under ``limits``."""
    graph = problem.graphs[position]
    is_paper = problem.cost_model is PlacementModel.PAPER
    num_devices, num_layers = problem.cluster.num_devices, len(graph.layers)
    arrays = arrays_of(graph, shape)
    rules = memory_rules(problem, limits)
    table = tabulate_stages(arrays, shape, rules)
    num_wide = int(arrays.wide_v.sum())
    num_narrow = num_layers - num_wide
    if graph.tp == 1 or num_wide == 0:
        common, rare, num_rare, rare_e = 1, 1, 0, np.zeros_like(table.wide_e)
    elif num_narrow <= num_wide:
        common, rare, num_rare, rare_e = graph.tp, 1, num_narrow, (1 - table.wide_e).astype(np.uint8)
    else:
        common, rare, num_rare, rare_e = 1, graph.tp, num_wide, table.wide_e
    count_c, dp_c = candidate_degrees(problem.microbatches_of(graph), num_devices, limits.dp)
    prepared = PreparedGraph(
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
        stages_least=limits.pp or 1,
        stages_most=min(num_layers, limits.pp or num_layers),
        depth_matters=bool((table.limit_er[:, 0] < min(num_layers, num_devices)).any()),
        fewest_s=np.zeros(1, dtype=np.int64),
        transfer_s_l=_least_transfers(graph, shape, links, is_paper),
        options=_NO_OPTIONS,
        must_replay=rules.mode_limit_r[0] <= 1 < num_devices,
    )
    stages_most = prepared.most_stages(num_devices // int(dp_c[-1])) if len(dp_c) else 0
    fewest_s = fewest_microbatches(stages_most, num_rare, common, rare, num_devices, count_c, dp_c, False)
    fitting = shallowest_depth(table.start_k, table.end_e, table.limit_er, fewest_s, is_paper)
    prepared = replace(
        prepared,
        stages_least=max(prepared.stages_least, int(fitting)),
        stages_most=stages_most,
        fewest_s=fewest_s,
    )
    # Some stage holds an even share of the parameters, and some stage the largest layer.
    depths = np.arange(1, stages_most + 1)
    even_s = np.maximum(arrays.param_bytes_v.sum() / depths, arrays.param_bytes_v.max())
    prepared = replace(prepared, options=options_of(prepared, problem, shape, links, even_s))
    if is_paper:
        return prepared
    runs_l = [_runs(prepared, num_devices, links, level) for level in range(links.num_levels)]
    return replace(prepared, runs_l=runs_l)


def options_of(
    prepared: PreparedGraph,
    problem: PlacementProblem,
    shape: GraphShape,
    links: Links,
    heaviest_bytes_s: Floats,
) -> Options:
    """What a plan can be, given the least parameters of its heaviest stage by depth (from 1)."""
    is_paper = problem.cost_model is PlacementModel.PAPER
    depths = range(1, prepared.stages_most + 1)
    if is_paper:
        # Only the first stage's count: on a line it holds the first layer.
        first = float(prepared.arrays.param_bytes_v[0]) if shape.is_line else 0.0
        heaviest_bytes_s = np.full(len(depths), first)
    gradient_ratio, step_s_per_byte = batch_end_rates(problem)
    depth_o, count_o, once_s_o = list_options(
        prepared.stages_least, np.array([0, *map(prepared.fewest_devices, depths)], dtype=np.int64),
        np.concatenate([[0.0], heaviest_bytes_s]), problem.cluster.num_devices, prepared.count_c, prepared.dp_c,
        links.num_devices_l, links.bytes_per_s_l, links.latency_s_l, gradient_ratio, step_s_per_byte, is_paper,
    )  # fmt: skip
    return Options(depth_o=depth_o, count_o=count_o, once_s_o=once_s_o)


def batch_end_rates(problem: PlacementProblem) -> tuple[float, float]:
    """Gradient bytes a weight byte, and seconds of the optimizer's step a weight byte."""
    precision = problem.precision
    step_s_per_byte = 0.0
    if problem.hbm_bytes_per_s:
        step_s_per_byte = precision.step_bytes / precision.weight_bytes / problem.hbm_bytes_per_s
    return precision.gradient_bytes / precision.weight_bytes, step_s_per_byte


def memory_rules(problem: PlacementProblem, limits: PlanLimits) -> MemoryRules:
    """How bytes add up in this problem, and where each recompute mode may be used."""
    most = problem.cluster.num_devices
    return MemoryRules(
        memory_bytes=float(problem.device_memory_bytes),
        resident_ratio=problem.precision.resident_ratio,
        is_paper=problem.cost_model is PlacementModel.PAPER,
        mode_limit_r={
            RecomputePolicy.NONE: (most, 0, 0),
            RecomputePolicy.BLOCK: (0, most, 0),
            RecomputePolicy.STAGE: (1, 0, most),
            RecomputePolicy.AUTO: (most, most, most),
        }[limits.recompute or problem.recompute],
    )


def _least_transfers(graph: LayerGraph, shape: GraphShape, links: Links, is_paper: bool) -> Floats:
    """By level. Every cut of a line crosses a link between neighbours; other graphs may cross none."""
    neighbours = set(pairwise(shape.order))
    payloads = [link.payload_bytes for link in graph.links if (link.src, link.dst) in neighbours]
    least = min(payloads, default=0.0) if shape.is_line else 0.0
    if least == 0.0:
        return np.zeros(links.num_levels)
    return least / links.bytes_per_s_l + (0.0 if is_paper else links.latency_s_l)


def _runs(prepared: PreparedGraph, num_devices: int, links: Links, level: int) -> list[Run]:
    """The searches one network level takes.

    One covers the plans with at least as many microbatches as stages. Where depth matters, those with fewer
    have one each: memory then holds only so many.
    """
    is_outermost = level == links.num_levels - 1
    reach = num_devices if is_outermost else min(num_devices, int(links.num_devices_l[level]))
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
            own_least = max(least, count + 1)
            runs.append((prepared.count_c[one], prepared.dp_c[one], own_least, own_most, count))
    return runs
