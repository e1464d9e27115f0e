"""Graphs whose layers stand in a line, as arrays of one search: all graphs one after another.

A graph is a line when each layer feeds the next: stages are then runs of layers. It may have further links.

Axis letters: g = graph, v = layer of any graph, k = point of ``keep``, u = place between layers (one more a graph
than layers), t = tied weights, i = member of tied weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place
from rephaze.place.full.layouts import has_split_backward
from rephaze.place.full.times import LayerTimes
from rephaze.types.full import DeviceOrder, FullGraph, FullProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

DP_OUTER_BIT, PP_OUTER_BIT = 1, 2


class Lines(NamedTuple):
    """What does not depend on times."""

    first_v_g: Ints
    """Where a graph's layers begin; one more entry at the end, as in all of this kind."""
    tp_g: Ints
    cp_g: Ints
    experts_g: Ints
    """Devices its experts take: ep times etp."""
    microbatch_g: Ints
    count_g: Ints
    """Microbatches of a batch."""
    orders_g: Ints
    is_split_g: Flags
    """The backward pass comes in two parts."""
    param_bytes_v: Floats
    expert_bytes_v: Floats
    working_bytes_v: Floats
    link_bytes_v: Floats
    """To the next layer."""
    blocks_u: Ints
    """Repeated blocks before a place."""
    first_t_g: Ints
    tied_bytes_t: Floats
    first_i_t: Ints
    member_i: Ints
    """Layers that share a weight, counted from the graph's first, in order."""
    owner_t: Ints
    first_message_g: Ints
    """Where the messages of a graph with further links begin, a table of (first layer, end); -1: it has none."""
    enter_bytes_m: Floats
    leave_bytes_m: Floats


class Times(NamedTuple):
    """Of all layers."""

    forward_s_v: Floats
    backward_s_v: Floats
    weight_backward_s_v: Floats
    compute_s_vk: Floats
    """Backward pass with replays."""
    kept_bytes_vk: Floats
    lost_bytes_vk: Floats
    """What of the first point is not kept."""


class Line(NamedTuple):
    """One graph of them."""

    forward_s_v: Floats
    weight_backward_s_v: Floats
    compute_s_vk: Floats
    kept_bytes_vk: Floats
    lost_bytes_vk: Floats
    param_bytes_v: Floats
    expert_bytes_v: Floats
    working_bytes_v: Floats
    link_bytes_v: Floats
    blocks_u: Ints
    enter_bytes_ab: Floats
    """By first layer and end; empty where each layer feeds the next alone."""
    leave_bytes_ab: Floats


class Ties(NamedTuple):
    """Tied weights of one graph."""

    tied_bytes_t: Floats
    first_i_t: Ints
    member_i: Ints
    owner_t: Ints


@inner_in_place
def line_of(lines: Lines, times: Times, g: int) -> Line:
    """One graph's layers."""
    a, b = lines.first_v_g[g], lines.first_v_g[g + 1]
    size = b - a + 1
    at = lines.first_message_g[g]
    end = at + size * size if at >= 0 else 0
    at = max(at, 0)
    side = size if end > 0 else 0
    return Line(
        times.forward_s_v[a:b],
        times.weight_backward_s_v[a:b],
        times.compute_s_vk[a:b],
        times.kept_bytes_vk[a:b],
        times.lost_bytes_vk[a:b],
        lines.param_bytes_v[a:b],
        lines.expert_bytes_v[a:b],
        lines.working_bytes_v[a:b],
        lines.link_bytes_v[a:b],
        lines.blocks_u[a + g : b + g + 1],
        lines.enter_bytes_m[at:end].reshape((side, side)),
        lines.leave_bytes_m[at:end].reshape((side, side)),
    )


@inner_in_place
def ties_of(lines: Lines, g: int) -> Ties:
    """One graph's tied weights."""
    a, b = lines.first_t_g[g], lines.first_t_g[g + 1]
    return Ties(lines.tied_bytes_t[a:b], lines.first_i_t[a : b + 1], lines.member_i, lines.owner_t[a:b])


_ENDS = attrgetter("src", "dst")
_PAYLOAD = attrgetter("payload_bytes")
_FIXED = attrgetter("param_bytes", "expert_param_bytes", "working_bytes", "is_block")


def is_line(graph: FullGraph) -> bool:
    """Whether each layer feeds the next."""
    return _is_chain(graph) or set(map(_ENDS, graph.links)).issuperset(_chain(len(graph.layers)))


def _is_chain(graph: FullGraph) -> bool:
    """Whether there is no other link either, and they stand in order: the records of most graphs do."""
    return len(graph.links) == len(graph.layers) - 1 and list(map(_ENDS, graph.links)) == _chain(len(graph.layers))


@lru_cache(maxsize=64)
def _chain(num_layers: int) -> list[tuple[int, int]]:
    return [(v, v + 1) for v in range(num_layers - 1)]


def lines_of(problem: FullProblem, graphs: Sequence[FullGraph]) -> Lines:
    """The graphs as arrays; each must be a line."""
    layers = [layer for graph in graphs for layer in graph.layers]
    figures = chain.from_iterable(map(_FIXED, layers))
    fixed_vq = np.fromiter(figures, dtype=np.float64, count=4 * len(layers)).reshape(len(layers), 4)
    sizes = [len(graph.layers) for graph in graphs]
    first_v_g = np.array([0, *accumulate(sizes)], dtype=np.int64)
    is_block_v = fixed_vq[:, 3].astype(np.int64)
    blocks_u = np.zeros(len(layers) + len(graphs), dtype=np.int64)
    link_bytes_v = np.zeros(len(layers))
    messages = _Messages()
    for g, graph in enumerate(graphs):
        a, b = first_v_g[g], first_v_g[g + 1]
        np.cumsum(is_block_v[a:b], out=blocks_u[a + g + 1 : b + g + 1])
        if _is_chain(graph):
            link_bytes_v[a : b - 1] = list(map(_PAYLOAD, graph.links))
            messages.add_none()
            continue
        for link in graph.links:
            if link.dst == link.src + 1:
                link_bytes_v[a + link.src] = link.payload_bytes
        messages.add(graph)
    tied = [one for graph in graphs for one in graph.tied]
    members = [sorted(set(one.layers)) for one in tied]
    return Lines(
        first_v_g=first_v_g,
        tp_g=_ints(graph.tp for graph in graphs),
        cp_g=_ints(graph.cp for graph in graphs),
        experts_g=_ints(graph.ep * graph.etp for graph in graphs),
        microbatch_g=_ints(graph.microbatch for graph in graphs),
        count_g=_ints(problem.num_microbatches(graph) for graph in graphs),
        orders_g=_ints(_order_bits(problem, graph) for graph in graphs),
        is_split_g=np.array([has_split_backward(graph) for graph in graphs], dtype=np.bool_),
        param_bytes_v=np.ascontiguousarray(fixed_vq[:, 0]),
        expert_bytes_v=np.ascontiguousarray(fixed_vq[:, 1]),
        working_bytes_v=np.ascontiguousarray(fixed_vq[:, 2]),
        link_bytes_v=link_bytes_v,
        blocks_u=blocks_u,
        first_t_g=_ints([0, *accumulate(len(graph.tied) for graph in graphs)]),
        tied_bytes_t=np.array([one.param_bytes for one in tied], dtype=np.float64),
        first_i_t=_ints([0, *accumulate(len(one) for one in members)]),
        member_i=_ints(v for one in members for v in one),
        owner_t=_ints(one.layers[0] for one in tied),
        first_message_g=_ints(messages.first_g),
        enter_bytes_m=messages.table(0),
        leave_bytes_m=messages.table(1),
    )


def times_of(by_graph: Sequence[LayerTimes]) -> Times:
    """The times of all graphs, with as many points of ``keep`` each as the one that has most."""
    num_points = max(one.replay_s_vk.shape[1] for one in by_graph)

    def joined(name: str) -> Floats:
        return np.concatenate([getattr(one, name) for one in by_graph])

    def padded(name: str) -> Floats:
        arrays = [getattr(one, name) for one in by_graph]
        last = [np.repeat(one[:, -1:], num_points - one.shape[1], axis=1) for one in arrays]
        return np.concatenate([np.concatenate(pair, axis=1) for pair in zip(arrays, last, strict=True)])

    is_even = all(one.replay_s_vk.shape[1] == num_points for one in by_graph)
    replay_s_vk, kept_bytes_vk = (
        (joined(name) if is_even else padded(name)) for name in ("replay_s_vk", "kept_bytes_vk")
    )
    backward_s_v = joined("backward_s_v")
    return Times(
        forward_s_v=joined("forward_s_v"),
        backward_s_v=backward_s_v,
        weight_backward_s_v=joined("weight_backward_s_v"),
        # Always in C order: kernels are compiled for it.
        compute_s_vk=np.add(replay_s_vk, backward_s_v[:, None], order="C"),
        kept_bytes_vk=kept_bytes_vk,
        lost_bytes_vk=np.subtract(kept_bytes_vk[:, :1], kept_bytes_vk, order="C"),
    )


class _Messages:
    """Bytes into and out of every run of layers, of graphs with further links."""

    def __init__(self) -> None:
        self.first_g: list[int] = []
        self._tables: list[tuple[Floats, Floats]] = []
        self._size = 0

    def add_none(self) -> None:
        self.first_g.append(-1)

    def add(self, graph: FullGraph) -> None:
        num_layers = len(graph.layers)
        self.first_g.append(self._size)
        self._tables.append(_message_tables(graph))
        self._size += (num_layers + 1) ** 2

    def table(self, which: int) -> Floats:
        return np.concatenate([np.zeros(0), *(pair[which].ravel() for pair in self._tables)])


def _message_tables(graph: FullGraph) -> tuple[Floats, Floats]:
    """By first layer and end of a run: of each source outside, or inside, the largest payload over its ends."""
    size = len(graph.layers) + 1
    enter, leave = np.zeros((size, size)), np.zeros((size, size))
    payload_by_source: dict[int, Floats] = {}
    for link in graph.links:
        payload = payload_by_source.setdefault(link.src, np.zeros(size))
        payload[link.dst] = max(payload[link.dst], link.payload_bytes)
    for src, payload in payload_by_source.items():
        # Runs that start behind the source, and those that hold it and end before some layer that reads it.
        behind = np.triu(np.broadcast_to(payload, (size, size)))[src + 1 :]
        enter[src + 1 :, 1:] += np.maximum.accumulate(behind, axis=1)[:, :-1]
        leave[: src + 1, src + 1 :] += np.maximum.accumulate(payload[::-1])[::-1][src + 1 :]
    return enter, leave


def _order_bits(problem: FullProblem, graph: FullGraph) -> int:
    bits = {DeviceOrder.DP_OUTER: DP_OUTER_BIT, DeviceOrder.PP_OUTER: PP_OUTER_BIT}
    return sum(bits[order] for order in set(problem.options.order) & set(graph.orders))


def _ints(values: object) -> Ints:
    return np.array(list(values), dtype=np.int64)  # type: ignore[call-overload]
