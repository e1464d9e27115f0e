"""What devices do for one microbatch of each stage or chunk, as the replay takes it: transfers and compute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from rephaze.place.full.groups import Network, groups_of
from rephaze.place.full.pass_replay import replay_pass
from rephaze.types.full import FullGraph, FullPlan, FullProblem


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerWork:
    """One layer at its point of ``keep``."""

    forward_s: float
    backward_s: float
    """Replay included."""
    replay_s: float
    weight_s: float
    """The part of the backward pass that nothing waits for."""
    gather_s: float
    scatter_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PassEnds:
    """How long the passes of a chunk take without their messages."""

    forward_s: float
    backward_s: float
    weight_s: float
    tail_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkWork:
    """A stage, or a chunk of one."""

    layers: tuple[LayerWork, ...]
    message_s: float
    """To receive what comes into it."""
    returned_s: float
    """To receive the gradients of what left it."""
    is_gathering: bool

    def ends(self, *, is_split: bool) -> PassEnds:
        """Its passes replayed one by one, the weight part apart or not."""
        on_the_way_back = self.layers[::-1]
        compute_s = [layer.backward_s - (layer.weight_s if is_split else 0.0) for layer in on_the_way_back]
        weight_s = sum(layer.weight_s for layer in self.layers) if is_split else 0.0
        if not self.is_gathering:
            forward_s = sum(layer.forward_s for layer in self.layers)
            return PassEnds(forward_s=forward_s, backward_s=sum(compute_s), weight_s=weight_s, tail_s=0.0)
        there = replay_pass([one.forward_s for one in self.layers], [one.gather_s for one in self.layers])
        gather_s = [one.gather_s for one in on_the_way_back]
        back = replay_pass(compute_s, gather_s, [one.scatter_s for one in on_the_way_back])
        tail_s = back.link_s - back.compute_s
        return PassEnds(forward_s=there.compute_s, backward_s=back.compute_s, weight_s=weight_s, tail_s=tail_s)


def chunk_works(problem: FullProblem, graph: FullGraph, plan: FullPlan) -> tuple[ChunkWork, ...]:
    """The work of every stage or chunk of a plan, in order."""
    network, groups = Network(problem.cluster, plan.num_devices), groups_of(plan)
    chunk_of = {v: at for at, stage in enumerate(plan.stages) for v in stage.layers}
    ratio = problem.precision.gradient_bytes / problem.precision.weight_bytes
    held = [layer.param_bytes for layer in graph.layers]
    for v, copied in _tied_copies(graph, chunk_of, plan.pp):
        held[v] += copied

    def layer_work(v: int, keep: int) -> LayerWork:
        layer = graph.layers[v]
        experts = layer.expert_param_bytes
        replay_s = layer.keep[min(keep, len(layer.keep) - 1)].replay_s
        gather_s = network.reduce_scatter_s(held[v], groups.shards)
        scatter_s = network.reduce_scatter_s(ratio * held[v], groups.shards)
        return LayerWork(
            forward_s=layer.forward_s,
            backward_s=replay_s + layer.backward_s,
            replay_s=replay_s,
            weight_s=layer.weight_backward_s or 0.0,
            gather_s=gather_s + network.reduce_scatter_s(experts, groups.expert_replicas),
            scatter_s=scatter_s + network.reduce_scatter_s(ratio * experts, groups.expert_replicas),
        )

    comes, returns = _received_bytes(graph, chunk_of)
    return tuple(
        ChunkWork(
            layers=tuple(layer_work(v, stage.keep) for v in stage.layers),
            message_s=network.message_s(comes.get(at, 0.0), groups.stages),
            returned_s=network.message_s(returns.get(at, 0.0), groups.stages),
            is_gathering=plan.is_gathering,
        )
        for at, stage in enumerate(plan.stages)
    )


def _tied_copies(graph: FullGraph, chunk_of: dict[int, int], pp: int) -> Iterator[tuple[int, float]]:
    """Layers that hold a copy of tied weights, with its bytes: the first on each device without the owner."""
    for tied in graph.tied:
        first_on = {chunk_of[v] % pp: v for v in sorted(tied.layers, reverse=True)}
        for device, v in first_on.items():
            if device != chunk_of[tied.layers[0]] % pp:
                yield v, tied.param_bytes


def _received_bytes(graph: FullGraph, chunk_of: dict[int, int]) -> tuple[dict[int, float], dict[int, float]]:
    """By chunk, what comes into it, and what comes back of what left it: an output is sent once."""
    comes: dict[tuple[int, int], float] = defaultdict(float)
    returns: dict[int, float] = defaultdict(float)
    for link in graph.links:
        if chunk_of[link.src] != chunk_of[link.dst]:
            into = chunk_of[link.dst], link.src
            comes[into] = max(comes[into], link.payload_bytes)
            returns[link.src] = max(returns[link.src], link.payload_bytes)
    by_chunk: dict[int, float] = defaultdict(float)
    back_by_chunk: dict[int, float] = defaultdict(float)
    for (chunk, _), num_bytes in comes.items():
        by_chunk[chunk] += num_bytes
    for src, num_bytes in returns.items():
        back_by_chunk[chunk_of[src]] += num_bytes
    return by_chunk, back_by_chunk
