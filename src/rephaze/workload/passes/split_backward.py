"""The two parts of a backward pass: what the layer before waits for, and what can be done later.

Zero-bubble schedules run weight gradients when there is nothing else to do. What may wait is told by who needs
whom: an operator that works for a weight's gradient is in the first part if an outgoing gradient depends on it.
"""

from __future__ import annotations

from rephaze.types.graph import Gradient, LayerType, OpGraph, TensorRole
from rephaze.workload.passes.storage_values import OUTSIDE, trace_values


def input_part(layer: LayerType, positions: tuple[int, ...] | None = None) -> OpGraph:
    """The operators of the backward pass that gradients flowing to other layers need; the rest is the weight part.

    Empty for a layer that sends no gradient on, such as an embedding.

    Args:
        layer: The layer.
        positions: As ``input_part_positions`` gave them for a layer whose backward pass has the same shape.
    """
    return _part(layer.backward, input_part_positions(layer) if positions is None else positions)


def input_part_positions(layer: LayerType) -> tuple[int, ...]:
    """Where the operators of the input part stand in the backward pass, ascending."""
    graph = layer.backward
    traced = trace_values(graph)
    before: list[set[int]] = [set() for _ in graph.ops]
    for src, dst in graph.edges:
        before[dst].add(src)
    for position, read in enumerate(traced.read_o):
        before[position].update(traced.values[number].maker for number in read)
    # By storage: fusion may write what leaves under the name of a view of it.
    leaving = {
        home for tensor, home in zip(graph.tensors, traced.homes, strict=True) if tensor.role is TensorRole.OUTPUT
    }
    last = [traced.values[number].maker for home in leaving for number in traced.last_of.get(home, ())]
    # A tied weight's gradient leaves its layer as well, to be summed: no pass waits for it.
    waiting = [maker for maker in last if maker != OUTSIDE and graph.ops[maker].gradient is not Gradient.WEIGHT]
    found: set[int] = set()
    while waiting:
        position = waiting.pop()
        if position != OUTSIDE and position not in found:
            found.add(position)
            waiting.extend(before[position])
    return tuple(sorted(found))


def _part(graph: OpGraph, positions: tuple[int, ...]) -> OpGraph:
    new = {position: number for number, position in enumerate(positions)}
    return OpGraph(
        ops=tuple(graph.ops[position] for position in positions),
        edges=tuple((new[src], new[dst]) for src, dst in graph.edges if src in new and dst in new),
        tensors=graph.tensors,
    )
