"""The plan that needs the least memory, however slow: what a problem in which nothing fits lacks.

More replicas of the same depth never need more memory, nor more shards of the same kind, nor keeping less. So for
every graph, depth, kind of sharding and schedule one layout is looked at, every layer at its last point, and the
cut whose fullest device needs least is found exactly. Interleaved plans are only cut evenly.

Axis letters: e = candidate stage, d = stages from this one to the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import kernel
from rephaze.place.full.cuts import Cuts, cuts_of
from rephaze.place.full.layouts import EQUAL_BLOCKS, Layout, has_equal_blocks, layouts
from rephaze.place.full.price import price_full_plan
from rephaze.types.full import FullGraph, FullPlan, FullPrice, FullProblem, FullStage, PipelineSchedule, Sharding

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
    best: LeastMemory | None = None
    is_least = True
    for graph in problem.graphs:
        search = _GraphSearch(problem, graph)
        for layout in _leanest_layouts(problem, graph):
            is_least &= layout.schedule is not PipelineSchedule.INTERLEAVED
            plan = search.leanest_plan(layout, np.inf if best is None else best.needed_bytes)
            if plan is None:
                continue
            price = price_full_plan(problem, graph, plan)
            found = LeastMemory(graph=graph, price=price, is_least=False)
            if best is None or found.needed_bytes < best.needed_bytes:
                best = found
    if best is None:
        return None
    return LeastMemory(graph=best.graph, price=best.price, is_least=is_least)


def _leanest_layouts(problem: FullProblem, graph: FullGraph) -> Iterator[Layout]:
    """Of each depth, kind of sharding and schedule the one with the most replicas and shards."""
    leanest: dict[tuple[object, ...], Layout] = {}
    for one in layouts(problem, graph):
        kind = (one.pp, one.sharding, one.reshard, one.schedule, one.chunks)
        other = leanest.get(kind)
        if other is None or (one.dp, one.shard_group) > (other.dp, other.shard_group):
            leanest[kind] = one
    yield from leanest.values()


class _GraphSearch:
    def __init__(self, problem: FullProblem, graph: FullGraph) -> None:
        self.problem, self.graph = problem, graph
        self.cuts: Cuts = cuts_of(graph)
        limits = problem.options.limits
        last = max(len(layer.keep) for layer in graph.layers) - 1
        self.keep = last if limits is None or limits.keep is None else limits.keep
        self._stages = [
            tuple(self.cuts.layer_i[first:end].tolist())
            for first, end in zip(self.cuts.first_i_e[:-1], self.cuts.first_i_e[1:], strict=True)
        ]
        # Of each stage, whole: own parameters, experts', the largest layer, the largest neighbours.
        self._held = np.array([self._held_bytes(members) for members in self._stages])
        self._moving = np.array([self._moving_bytes(members) for members in self._stages])

    def leanest_plan(self, layout: Layout, cutoff_bytes: float) -> FullPlan | None:
        """The plan of a layout that needs least, if less than the cutoff."""
        if layout.schedule is PipelineSchedule.INTERLEAVED:
            return self._even_plan(layout)
        count = -(-self.problem.num_microbatches(self.graph) // layout.dp)
        in_flight = np.minimum(np.arange(1, layout.pp + 1), count)
        if layout.schedule is PipelineSchedule.ZERO_BUBBLE:
            in_flight[:] = min(layout.pp, count)
        held = StageBytes(self._fixed_bytes(layout), self._moving[:, 0])
        chosen: Ints | None = None
        for allowed in self._allowed(layout):
            found, needed_bytes = leanest_cut(self.cuts, held, allowed, in_flight, cutoff_bytes)
            if len(found):
                chosen, cutoff_bytes = found, needed_bytes
        if chosen is None:
            return None
        stages = tuple(FullStage(layers=self._stages[e], keep=self.keep) for e in chosen.tolist())
        return layout.plan(self.graph, stages)

    def _even_plan(self, layout: Layout) -> FullPlan | None:
        parts = np.array_split(np.arange(len(self.graph.layers)), layout.pp * layout.chunks)
        cut = [tuple(part.tolist()) for part in parts]
        if self.problem.options.family in EQUAL_BLOCKS and not has_equal_blocks(self.graph, cut):
            return None
        return layout.plan(self.graph, tuple(FullStage(layers=layers, keep=self.keep) for layers in cut))

    def _held_bytes(self, members: tuple[int, ...]) -> tuple[float, float, float, float]:
        own = {v: self.graph.layers[v].param_bytes for v in members}
        for tied in self.graph.tied:
            here = [v for v in members if v in tied.layers]
            if here and tied.layers[0] not in here:
                own[here[0]] += tied.param_bytes
        both = [own[v] + self.graph.layers[v].expert_param_bytes for v in members]
        pairs = [a + b for a, b in pairwise(both)] or both
        experts = sum(self.graph.layers[v].expert_param_bytes for v in members)
        return sum(own.values()), experts, max(both), max(pairs)

    def _moving_bytes(self, members: tuple[int, ...]) -> tuple[float, float]:
        """Kept of a microbatch, and what is there once: rebuilt and working."""
        layers = [self.graph.layers[v] for v in members]
        kept = [layer.keep[min(self.keep, len(layer.keep) - 1)].kept_bytes for layer in layers]
        rebuilt = max(layer.keep[0].kept_bytes - bytes_ for layer, bytes_ in zip(layers, kept, strict=True))
        return sum(kept), rebuilt + max(layer.working_bytes for layer in layers)

    def _fixed_bytes(self, layout: Layout) -> Floats:
        own, experts, largest, pair = self._held.T
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
        return np.asarray(weights + beside / precision.weight_bytes + self._moving[:, 1])

    def _allowed(self, layout: Layout) -> Iterator[Allowed]:
        every = np.ones(len(self._stages), dtype=np.bool_)
        if self.problem.options.family not in EQUAL_BLOCKS or layout.pp < 3:
            yield Allowed(every, every, every)
            return
        is_block = [layer.is_block for layer in self.graph.layers]
        blocks_e = np.array([sum(is_block[v] for v in members) for members in self._stages])
        for size in range(sum(is_block) + 1):
            yield Allowed(blocks_e <= size, blocks_e == size, blocks_e <= size)


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
