"""One graph made ready to be solved: everything that does not depend on the layers' times.

Axis letters: e = stage, c = candidate degree, s = depth of a pipeline, l = network level.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from rephaze.place.arrays import GraphArrays, GraphShape, arrays_of
from rephaze.place.degrees import (
    UNLIMITED,
    candidate_degrees,
    fewest_microbatches,
    list_options,
    shallowest_depth,
)
from rephaze.place.stages import TiedCopies, tabulate_stages
from rephaze.place.tables import (
    NONE,
    Degrees,
    Depths,
    Floats,
    Ints,
    Links,
    MemoryRules,
    Options,
    StageTable,
    UpdateRates,
    Widths,
)
from rephaze.types.placement import LayerGraph, PlacementModel, PlacementProblem, PlanLimits, RecomputePolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedGraph:
    """One graph with its candidate stages and degrees."""

    position: int
    """In the problem."""
    graph: LayerGraph
    arrays: GraphArrays
    table: StageTable
    tied: TiedCopies
    widths: Widths
    degrees: Degrees
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
    runs_l: list[list[tuple[Degrees, Depths]]] = field(default_factory=list)
    """Searches of the 1f1b model, by network level."""

    def fewest_devices(self, depth_s: Ints) -> Ints:
        """Devices of the narrowest pipelines of so many stages; where some layer is wide, one stage is."""
        widths = self.widths
        if widths.rare_devices < widths.common_devices:
            rare_s = np.minimum(depth_s - 1, widths.num_rare_most)
        else:
            rare_s = np.minimum(depth_s, min(widths.num_rare_most, 1))
        fewest_s: Ints = (depth_s - rare_s) * widths.common_devices + rare_s * widths.rare_devices
        return fewest_s

    @property
    def devices_s(self) -> Ints:
        """The same for every depth a plan can have, from 0, which takes none."""
        return np.concatenate(([0], self.fewest_devices(np.arange(1, self.stages_most + 1))))

    def most_stages(self, num_devices: int) -> int:
        """Stages of the longest pipeline on so many devices."""
        widths = self.widths
        num_rare = 0
        if widths.rare_devices < widths.common_devices:
            num_rare = min(widths.num_rare_most, num_devices // widths.rare_devices)
        rest = num_devices - num_rare * widths.rare_devices
        return min(self.stages_most, num_rare + rest // widths.common_devices)


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
    widths = _widths(graph, arrays, num_devices)
    table, tied = tabulate_stages(arrays, shape, rules, widths)
    degrees = candidate_degrees(problem.microbatches_of(graph), num_devices, limits.dp)
    prepared = PreparedGraph(
        position=position,
        graph=graph,
        arrays=arrays,
        table=table,
        tied=tied,
        widths=widths,
        degrees=degrees,
        stages_least=limits.pp or 1,
        stages_most=min(num_layers, limits.pp or num_layers),
        depth_matters=bool((table.limit_er[:, NONE] < min(num_layers, num_devices)).any()),
        fewest_s=np.zeros(1, dtype=np.int64),
        transfer_s_l=_least_transfers(graph, shape, links, is_paper),
        options=_NO_OPTIONS,
        must_replay=rules.mode_limit_r[NONE] <= 1 < num_devices,
    )
    stages_most = prepared.most_stages(num_devices // int(degrees.dp_c[-1])) if len(degrees.dp_c) else 0
    fewest_s = fewest_microbatches(stages_most, widths, degrees, False)
    fitting = shallowest_depth(table, fewest_s, is_paper)
    prepared = replace(
        prepared,
        stages_least=max(prepared.stages_least, int(fitting)),
        stages_most=stages_most,
        fewest_s=fewest_s,
    )
    # Some stage holds an even share of the parameters, and some stage the largest layer.
    depths = np.arange(1, stages_most + 1)
    params_v = arrays.layers.param_bytes_v
    even_s = np.maximum(params_v.sum() / depths, params_v.max())
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
    if is_paper:
        # Only the first stage's count: on a line it holds the first layer.
        first = float(prepared.arrays.layers.param_bytes_v[0]) if shape.is_line else 0.0
        heaviest_bytes_s = np.full(prepared.stages_most, first)
    depth_o, count_o, once_s_o = list_options(
        prepared.stages_least,
        prepared.devices_s,
        np.concatenate([[0.0], heaviest_bytes_s]),
        problem.cluster.num_devices,
        prepared.degrees,
        links,
        update_rates(problem),
        is_paper,
    )
    return Options(depth_o=depth_o, count_o=count_o, once_s_o=once_s_o)


def update_rates(problem: PlacementProblem) -> UpdateRates:
    """What the end of a batch takes by weight, in this precision and with this HBM."""
    precision = problem.precision
    step_s_per_byte = 0.0
    if problem.hbm_bytes_per_s:
        step_s_per_byte = precision.step_bytes / precision.weight_bytes / problem.hbm_bytes_per_s
    return UpdateRates(
        gradient_ratio=precision.gradient_bytes / precision.weight_bytes, step_s_per_byte=step_s_per_byte
    )


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


def _widths(graph: LayerGraph, arrays: GraphArrays, num_devices: int) -> Widths:
    """A stage with a wide layer takes the tensor-parallel group, any other one device."""
    num_wide = int(arrays.layers.wide_v.sum())
    num_narrow = len(graph.layers) - num_wide
    if graph.tp == 1 or num_wide == 0:
        common, rare, num_rare = 1, 1, 0
    elif num_narrow <= num_wide:
        common, rare, num_rare = graph.tp, 1, num_narrow
    else:
        common, rare, num_rare = 1, graph.tp, num_wide
    return Widths(common_devices=common, rare_devices=rare, num_rare_most=num_rare, num_devices=num_devices)


def _least_transfers(graph: LayerGraph, shape: GraphShape, links: Links, is_paper: bool) -> Floats:
    """By level. Every cut of a line crosses a link between neighbours; other graphs may cross none."""
    neighbours = set(pairwise(shape.order))
    payloads = [link.payload_bytes for link in graph.links if (link.src, link.dst) in neighbours]
    least = min(payloads, default=0.0) if shape.is_line else 0.0
    if least == 0.0:
        return np.zeros(links.num_levels)
    return least / links.bytes_per_s_l + (0.0 if is_paper else links.latency_s_l)


def _runs(prepared: PreparedGraph, num_devices: int, links: Links, level: int) -> list[tuple[Degrees, Depths]]:
    """The searches one network level takes.

    One covers the plans with at least as many microbatches as stages. Where depth matters, those with fewer
    have one each: memory then holds only so many.
    """
    is_outermost = level == links.num_levels - 1
    reach = num_devices if is_outermost else min(num_devices, int(links.num_devices_l[level]))
    least, most = prepared.stages_least, min(prepared.stages_most, prepared.most_stages(reach))
    if most < least:
        return []
    count_c, dp_c = prepared.degrees
    runs = [(prepared.degrees, Depths(least, most, UNLIMITED, at_least_depth=prepared.depth_matters))]
    for c in range(len(dp_c) if prepared.depth_matters else 0):
        count = int(count_c[c])
        if count >= most:
            break
        own_least = max(least, count + 1)
        own_most = min(most, prepared.most_stages(min(reach, num_devices // int(dp_c[c]))))
        if own_least <= own_most:
            one = Degrees(count_c=count_c[c : c + 1], dp_c=dp_c[c : c + 1])
            runs.append((one, Depths(own_least, own_most, count, at_least_depth=False)))
    return runs
