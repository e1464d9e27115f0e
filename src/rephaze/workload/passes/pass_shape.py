"""All of a pass but sizes: what is found out about who reads what serves every pass of the same shape."""

from __future__ import annotations

from collections.abc import Hashable

from rephaze.types.graph import OpGraph


def pass_shape(graph: OpGraph) -> Hashable:
    """Operators by what they are and which tensors they touch, tensors by where their memory is."""
    ops = [
        (op.kind, op.target, op.gradient, op.collective and op.collective.kind, op.inputs, op.outputs)
        for op in graph.ops
    ]
    tensors = [(t.name, t.storage, t.role) for t in graph.tensors]
    return tuple(ops), tuple(tensors)
