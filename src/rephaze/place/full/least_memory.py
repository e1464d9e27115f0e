"""The plan that needs the least memory, however slow: what a problem in which nothing fits lacks.

More replicas of the same depth never need more memory, nor more shards of the same kind, nor keeping less. So for
every graph, depth, kind of sharding and schedule one layout is looked at, every layer at its last point, and the
cut whose fullest device needs least is found exactly. Interleaved plans are only cut evenly.

Axis letters: e = candidate stage, q = figure, d = stages from this one to the end, v = layer, t = tied weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import kernel
from rephaze.place.full.cuts import Cuts, cuts_of
from rephaze.place.full.layouts import EQUAL_BLOCKS, Layout, has_equal_blocks, layouts
from rephaze.place.full.price import price_full_plan
from rephaze.types.full import (
    FullGraph,
    FullPlan,
    FullPrice,
    FullProblem,
    FullStage,
    PipelineSchedule,
    ShardGroups,
    Sharding,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class LeastMemory:
    """A plan that would fit with the least memory."""

    graph: FullGraph
    price: FullPrice
    is_least: bool
    """No plan of the options and the family needs less."""

    @property
    def needed_bytes(self) -> float:
        """Of its fullest device."""
        return max(device.total_bytes for device in self.price.devices)


OWN, EXPERTS, LARGEST, PAIR, KEPT, ONCE = range(6)
"""Figures of a stage: bytes of its parameters without experts, of experts, of the largest layer, of the largest
two neighbours; kept of a microbatch; and what is there once, rebuilt and working."""
NUM_FIGURES = 6


class LayerBytes(NamedTuple):
    """One graph's layers at one position of ``keep``, and its tied weights."""

    own_v: Floats
    experts_v: Floats
    kept_v: Floats
    full_v: Floats
    working_v: Floats
    tied_tv: Flags
    tied_owner_t: Ints
    tied_bytes_t: Floats


class StageBytes(NamedTuple):
    """By candidate stage: what it holds whatever is in flight, and what each microbatch in flight adds."""

    fixed_e: Floats
    kept_e: Floats


class Allowed(NamedTuple):
    """Which candidates may be the first, an inner and the last stage."""

    first_e: Flags
    inner_e: Flags
    last_e: Flags


def least_memory(problem: FullProblem) -> LeastMemory | None:
    """The plan that needs least; None where no plan is legal. Of all stages at one position, if limits say so."""
    searches = [_GraphSearch(problem, graph) for graph in problem.graphs]
    waiting = [
        (search.bound_bytes(layout), number, layout)
        for number, search in enumerate(searches)
        for layout in _leanest_layouts(problem, search.graph)
    ]
    is_least = all(layout.schedule is not PipelineSchedule.INTERLEAVED for _, _, layout in waiting)
    best: LeastMemory | None = None
    for bound_bytes, number, layout in sorted(waiting, key=lambda one: one[0]):
        cutoff_bytes = np.inf if best is None else best.needed_bytes
        if bound_bytes >= cutoff_bytes:
            break
        search = searches[number]
        plan = search.leanest_plan(layout, cutoff_bytes)
        if plan is not None:
            price = price_full_plan(problem, search.graph, plan)
            found = LeastMemory(graph=search.graph, price=price, is_least=is_least)
            best = found if found.needed_bytes < cutoff_bytes else best
    return best


def _leanest_layouts(problem: FullProblem, graph: FullGraph) -> Iterator[Layout]:
    """Of each depth, kind of sharding and schedule the one with the most replicas and shards."""
    options = problem.options
    if problem.limits is None or problem.limits.shard_group is None:
        # All replicas are one of the groups that any list has.
        problem = replace(problem, options=replace(options, shard_group=(ShardGroups.ALL,)))
    leanest: dict[tuple[object, ...], Layout] = {}
    for one in layouts(problem, graph):
        kind = (one.pp, one.sharding, one.reshard, one.schedule, one.chunks)
        other = leanest.get(kind)
        if other is None or (one.dp, one.shard_group) > (other.dp, other.shard_group):
            leanest[kind] = one
    for one in leanest.values():
        # Zero-bubble holds no less than 1F1B of the same layout.
        plain = (one.pp, one.sharding, one.reshard, PipelineSchedule.ONE_F_ONE_B, 1)
        if one.schedule is not PipelineSchedule.ZERO_BUBBLE or plain not in leanest:
            yield one


class _GraphSearch:
    def __init__(self, problem: FullProblem, graph: FullGraph) -> None:
        self.problem, self.graph = problem, graph
        self.cuts: Cuts = cuts_of(graph)
        limits = problem.limits
        last = max(len(layer.keep) for layer in graph.layers) - 1
        self.keep = last if limits is None or limits.keep is None else limits.keep
        self._figures_eq = stage_figures(self.cuts, self._layer_bytes())

    def _layer_bytes(self) -> LayerBytes:
        layers, tied = self.graph.layers, self.graph.tied
        tied_tv = np.zeros((len(tied), len(layers)), dtype=np.bool_)
        for t, one in enumerate(tied):
            tied_tv[t, list(one.layers)] = True
        kept = [layer.keep[min(self.keep, len(layer.keep) - 1)].kept_bytes for layer in layers]
        return LayerBytes(
            own_v=np.array([layer.param_bytes for layer in layers], dtype=np.float64),
            experts_v=np.array([layer.expert_param_bytes for layer in layers], dtype=np.float64),
            kept_v=np.array(kept, dtype=np.float64),
            full_v=np.array([layer.keep[0].kept_bytes for layer in layers], dtype=np.float64),
            working_v=np.array([layer.working_bytes for layer in layers], dtype=np.float64),
            tied_tv=tied_tv,
            tied_owner_t=np.array([one.layers[0] for one in tied], dtype=np.int64),
            tied_bytes_t=np.array([one.param_bytes for one in tied], dtype=np.float64),
        )

    def bound_bytes(self, layout: Layout) -> float:
        """The fullest device of no plan of the layout needs less: an even share of what adds up."""
        layers = self.graph.layers
        figures = np.zeros((1, NUM_FIGURES))
        figures[0, OWN] = sum(layer.param_bytes for layer in layers)
        figures[0, EXPERTS] = sum(layer.expert_param_bytes for layer in layers)
        kept = sum(layer.keep[min(self.keep, len(layer.keep) - 1)].kept_bytes for layer in layers)
        return float((self._fixed_bytes(layout, figures)[0] + kept) / layout.pp) * (1 - 1e-9)

    def leanest_plan(self, layout: Layout, cutoff_bytes: float) -> FullPlan | None:
        """The plan of a layout that needs least, if less than the cutoff."""
        if layout.schedule is PipelineSchedule.INTERLEAVED:
            return self._even_plan(layout)
        count = -(-self.problem.num_microbatches(self.graph) // layout.dp)
        in_flight = np.minimum(np.arange(1, layout.pp + 1), count)
        if layout.schedule is PipelineSchedule.ZERO_BUBBLE:
            in_flight[:] = min(layout.pp, count)
        held = StageBytes(self._fixed_bytes(layout, self._figures_eq), self._figures_eq[:, KEPT])
        chosen: Ints | None = None
        for allowed in self._allowed(layout):
            found, needed_bytes = leanest_cut(self.cuts, held, allowed, in_flight, cutoff_bytes)
            if len(found):
                chosen, cutoff_bytes = found, needed_bytes
        if chosen is None:
            return None
        stages = tuple(FullStage(layers=self._members(e), keep=self.keep) for e in chosen.tolist())
        return layout.plan(self.graph, stages)

    def _even_plan(self, layout: Layout) -> FullPlan | None:
        parts = np.array_split(np.arange(len(self.graph.layers)), layout.pp * layout.chunks)
        cut = [tuple(part.tolist()) for part in parts]
        if self.problem.options.family in EQUAL_BLOCKS and not has_equal_blocks(self.graph, cut):
            return None
        return layout.plan(self.graph, tuple(FullStage(layers=layers, keep=self.keep) for layers in cut))

    def _members(self, e: int) -> tuple[int, ...]:
        return tuple(self.cuts.layer_i[self.cuts.first_i_e[e] : self.cuts.first_i_e[e + 1]].tolist())

    def _fixed_bytes(self, layout: Layout, figures_eq: Floats) -> Floats:
        own, experts, largest, pair = figures_eq[:, :KEPT].T
        whole = own + experts
        cut = own / layout.shard_group + experts / layout.groups(self.graph).num_expert_replicas
        weights, gradients, state = whole, whole, whole
        if layout.sharding is not Sharding.NONE:
            state = cut
        if layout.sharding in (Sharding.GRADIENTS, Sharding.WEIGHTS):
            gradients = cut + largest
        if layout.sharding is Sharding.WEIGHTS:
            weights = cut + (pair if layout.reshard else whole)
        precision = self.problem.precision
        beside = precision.gradient_bytes * gradients + precision.state_bytes * state
        return np.asarray(weights + beside / precision.weight_bytes + figures_eq[:, ONCE])

    def _allowed(self, layout: Layout) -> Iterator[Allowed]:
        every = np.ones(len(self.cuts.start_e), dtype=np.bool_)
        if self.problem.options.family not in EQUAL_BLOCKS or layout.pp < 3:
            yield Allowed(every, every, every)
            return
        is_block = np.array([layer.is_block for layer in self.graph.layers], dtype=np.int64)
        blocks_e = np.add.reduceat(is_block[self.cuts.layer_i], self.cuts.first_i_e[:-1])
        total = int(is_block.sum())
        for size in range(-(-total // layout.pp), total // (layout.pp - 2) + 1):
            yield Allowed(blocks_e <= size, blocks_e == size, blocks_e <= size)


@kernel
def stage_figures(cuts: Cuts, layers: LayerBytes) -> Floats:
    """Of every candidate stage."""
    figures_eq = np.zeros((len(cuts.start_e), NUM_FIGURES))
    own_v = layers.own_v.copy()
    for e in range(len(cuts.start_e)):
        members = cuts.layer_i[cuts.first_i_e[e] : cuts.first_i_e[e + 1]]
        for v in members:
            own_v[v] = layers.own_v[v]
        for t in range(len(layers.tied_owner_t)):
            first = -1
            for v in members:
                if v == layers.tied_owner_t[t]:
                    first = -1
                    break
                if layers.tied_tv[t, v] and first < 0:
                    first = v
            if first >= 0:
                own_v[first] += layers.tied_bytes_t[t]
        figures = figures_eq[e]
        rebuilt, working, before = 0.0, 0.0, 0.0
        for v in members:
            both = own_v[v] + layers.experts_v[v]
            figures[OWN] += own_v[v]
            figures[EXPERTS] += layers.experts_v[v]
            figures[LARGEST] = max(figures[LARGEST], both)
            figures[PAIR] = max(figures[PAIR], before + both)
            figures[KEPT] += layers.kept_v[v]
            rebuilt = max(rebuilt, layers.full_v[v] - layers.kept_v[v])
            working = max(working, layers.working_v[v])
            before = both
        figures[ONCE] = rebuilt + working
    return figures_eq


@kernel
def leanest_cut(
    cuts: Cuts, held: StageBytes, allowed: Allowed, in_flight: Ints, cutoff_bytes: float
) -> tuple[Ints, float]:
    """The stages, first to last, of the cut whose fullest one needs least, and its bytes; none from the cutoff on.

    Args:
        cuts: Candidate stages.
        held: Their bytes.
        allowed: Which may stand where.
        in_flight: Microbatches in flight of the last stage, of the one before it, and so on.
        cutoff_bytes: Only cuts that need less.
    """
    pp, last_set = len(in_flight), cuts.num_sets - 1
    least = np.full((pp + 1, cuts.num_sets), np.inf)
    least[0, last_set] = 0.0
    chosen = np.full((pp + 1, cuts.num_sets), -1)
    for d in range(1, pp + 1):
        for e in range(len(cuts.start_e)):
            start = cuts.start_e[e]
            is_first = d == pp
            if is_first != (start == 0) or least[d - 1, cuts.end_e[e]] >= cutoff_bytes:
                continue
            is_allowed = (allowed.first_e[e] or not is_first) and (allowed.last_e[e] or d > 1)
            if not is_allowed or not (allowed.inner_e[e] or is_first or d == 1):
                continue
            needed = max(held.fixed_e[e] + in_flight[d - 1] * held.kept_e[e], least[d - 1, cuts.end_e[e]])
            if needed < least[d, start] and needed < cutoff_bytes:
                least[d, start] = needed
                chosen[d, start] = e
    if chosen[pp, 0] < 0:
        return np.zeros(0, dtype=np.int64), np.inf
    stages = np.zeros(pp, dtype=np.int64)
    at = 0
    for d in range(pp, 0, -1):
        stages[pp - d] = chosen[d, at]
        at = cuts.end_e[chosen[d, at]]
    return stages, least[pp, 0]
