"""A layer graph as arrays in topological order, and the ideals a pipeline can be cut at.

An *ideal* is a set of layers closed under predecessors: what the first k stages can hold. Where the layers
form a line (a path through all of them; further links may skip ahead) the ideals are its prefixes.
Otherwise they are enumerated, up to ``MAX_IDEALS``.

Axis letters: v = layer (topological position), k = ideal.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np

from rephaze.errors import SpecError, UnsupportedError
from rephaze.place.tables import Flags, Ints, LayerBytes, LayerTimes, LinkRows, TieRows
from rephaze.types.placement import LayerGraph

MAX_IDEALS = 20_000
"""A graph with more cuts than this is refused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphShape:
    """What all graphs of a problem share: the order of layers and the cuts between stages."""

    order: tuple[int, ...]
    """Original position of each layer, in topological order."""
    is_line: bool
    members_kv: Flags
    """1 where layer v is in ideal k, ideals by rising size; empty for a line."""

    @property
    def num_ideals(self) -> int:
        """Number of ideals, the empty and the full one included."""
        return len(self.order) + 1 if self.is_line else len(self.members_kv)


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphArrays:
    """One graph's numbers, in topological order."""

    times: LayerTimes
    """The problem's own; solves may be given others."""
    layers: LayerBytes
    entering: LinkRows
    leaving: LinkRows
    ties: TieRows


def shape_of(graph: LayerGraph) -> GraphShape:
    """The topological order and the ideals of a graph.

    Raises:
        SpecError: The links form a cycle.
        UnsupportedError: It branches so much that it has more than ``MAX_IDEALS`` ideals.
    """
    num_layers = len(graph.layers)
    successors: list[list[int]] = [[] for _ in range(num_layers)]
    num_before = [0] * num_layers
    for link in graph.links:
        successors[link.src].append(link.dst)
        num_before[link.dst] += 1
    ready = [v for v in range(num_layers) if not num_before[v]]
    heapify(ready)
    order: list[int] = []
    while ready:
        v = heappop(ready)
        order.append(v)
        for u in successors[v]:
            num_before[u] -= 1
            if not num_before[u]:
                heappush(ready, u)
    if len(order) < num_layers:
        stuck = [graph.layers[v].name for v in range(num_layers) if num_before[v]]
        raise SpecError("edges", stuck[:6], "form a cycle", "layers must only feed later ones")
    links = {(link.src, link.dst) for link in graph.links}
    is_line = all(pair in links for pair in pairwise(order))
    if is_line:
        return GraphShape(order=tuple(order), is_line=True, members_kv=np.empty((0, 0), dtype=np.uint8))
    position = {v: at for at, v in enumerate(order)}
    before = [0] * num_layers
    for link in graph.links:
        before[position[link.dst]] |= 1 << position[link.src]
    ideals = _ideals(before)
    members = np.zeros((len(ideals), num_layers), dtype=np.uint8)
    for k, ideal in enumerate(ideals):
        for v in range(num_layers):
            members[k, v] = ideal >> v & 1
    return GraphShape(order=tuple(order), is_line=False, members_kv=members)


def _ideals(before: list[int]) -> list[int]:
    """All ideals as bit sets, smaller ones first. ``before`` holds each layer's direct predecessors."""
    num_layers = len(before)
    found, level = [0], {0}
    while level:
        larger: set[int] = set()
        for ideal in level:
            for v in range(num_layers):
                if not ideal >> v & 1 and before[v] & ~ideal == 0:
                    larger.add(ideal | 1 << v)
        found.extend(sorted(larger))
        if len(found) > MAX_IDEALS:
            raise UnsupportedError(
                f"the layer graph branches too much: over {MAX_IDEALS} ways to cut it; "
                "merge layers of parallel branches, or give them an order by edges of 0 bytes"
            )
        level = larger
    return found


def arrays_of(graph: LayerGraph, shape: GraphShape) -> GraphArrays:
    """One graph's numbers in the order of ``shape``."""
    order = shape.order
    layers = [graph.layers[v] for v in order]
    num_layers = len(order)
    position = np.empty(num_layers, dtype=np.int64)
    position[list(order)] = np.arange(num_layers)
    src = position[[link.src for link in graph.links]] if graph.links else np.empty(0, dtype=np.int64)
    dst = position[[link.dst for link in graph.links]] if graph.links else np.empty(0, dtype=np.int64)
    payload = np.array([link.payload_bytes for link in graph.links], dtype=np.float64)
    by_dst, by_src = np.lexsort((src, dst)), np.lexsort((dst, src))
    brought = np.bincount(dst, weights=payload, minlength=num_layers)
    given = np.array([np.nan if layer.input_bytes is None else layer.input_bytes for layer in layers])
    is_fed = np.bincount(dst, minlength=num_layers) > 0
    ties = sorted(
        (int(position[v]), group, v == tied.layers[0], tied.param_bytes)
        for group, tied in enumerate(graph.tied)
        for v in set(tied.layers)
    )
    return GraphArrays(
        times=LayerTimes(
            forward_s_v=np.array([layer.forward_s for layer in layers], dtype=np.float64),
            backward_s_v=np.array([layer.backward_s for layer in layers], dtype=np.float64),
        ),
        layers=LayerBytes(
            param_bytes_v=np.array([layer.param_bytes for layer in layers], dtype=np.float64),
            activation_bytes_v=np.array([layer.activation_bytes for layer in layers], dtype=np.float64),
            input_bytes_v=np.where(np.isnan(given), brought, given),
            working_bytes_v=np.array([layer.working_bytes for layer in layers], dtype=np.float64),
            source_bytes_v=np.where(is_fed | np.isnan(given), 0.0, given),
            wide_v=np.array([layer.is_sharded for layer in layers], dtype=np.uint8),
        ),
        entering=LinkRows(start_v=_starts(dst, num_layers), other=src[by_dst], payload_bytes=payload[by_dst]),
        leaving=LinkRows(start_v=_starts(src, num_layers), other=dst[by_src], payload_bytes=payload[by_src]),
        ties=TieRows(
            start_v=_starts(np.array([tie[0] for tie in ties], dtype=np.int64), num_layers),
            group=np.array([tie[1] for tie in ties], dtype=np.int64),
            is_owner=np.array([tie[2] for tie in ties], dtype=np.uint8),
            param_bytes=np.array([tie[3] for tie in ties], dtype=np.float64),
            num_groups=len(graph.tied),
        ),
    )


def _starts(rows: Ints, num_rows: int) -> Ints:
    """Where each row starts when entries are sorted by row."""
    starts = np.zeros(num_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=num_rows), out=starts[1:])
    return starts
