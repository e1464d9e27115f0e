"""A layer laid out so that tensor parallelism leaves its experts whole, while the rest is sharded as before.

A graph carries one layout, in which each expert is cut like an MLP. Experts that work on a chip's own tokens are
not: what is split around their products becomes whole, and their results are no partial sums.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from rephaze.types.graph import LayerType, OpGraph, OpKind, Split, Tensor, TensorRole
from rephaze.workload.derived_sizes import expert_modules, is_one_of, layer_type, op_graph


def with_whole_experts(layer: LayerType) -> LayerType:
    """The layer with experts that tensor parallelism does not cut; one without experts as it is."""
    if not expert_modules(layer.forward):
        return layer
    forward, backward = _Region(layer.forward), _Region(layer.backward)
    names = forward.names

    def whole(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(replace(t, num_split_units=0) if is_one_of(t.name, names) else t for t in tensors)

    return layer_type(
        layer.name,
        forward.whole(),
        backward.whole(),
        parameters=whole(layer.parameters),
        saved=whole(layer.saved),
        saved_inputs=layer.saved_inputs,
        inputs=layer.inputs,
    )


@dataclass(slots=True, init=False)
class _Region:
    """The experts of one pass: their products, and all that is joined to them by split tensors."""

    graph: OpGraph
    ops: set[int]
    tensors: set[int]
    modules: frozenset[str]

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self.modules = expert_modules(graph)
        self.ops, self.tensors = set(), set()
        touching: dict[int, set[int]] = defaultdict(set)
        for number, op in enumerate(graph.ops):
            for t in (*op.inputs, *op.outputs):
                touching[t].add(number)
        found = [n for n, op in enumerate(graph.ops) if op.gemm is not None and op.gemm.num_experts]
        while found:
            number = found.pop()
            if number in self.ops:
                continue
            self.ops.add(number)
            op = graph.ops[number]
            joined = {t for t in (*op.inputs, *op.outputs) if graph.tensors[t].num_split_units} - self.tensors
            self.tensors |= joined
            found.extend(n for t in joined for n in touching[t])

    @property
    def names(self) -> frozenset[str]:
        """Names and storages of the region's tensors."""
        inside = [self.graph.tensors[t] for t in self.tensors]
        return frozenset(name for t in inside for name in (t.name, t.storage) if name)

    def whole(self) -> OpGraph:
        """The pass with nothing split in the region, and partial sums only outside it."""
        reduced = self._reduced()
        tensors = tuple(
            replace(
                t,
                num_split_units=0 if number in self.tensors else t.num_split_units,
                is_reduced=number in reduced,
            )
            for number, t in enumerate(self.graph.tensors)
        )
        ops = [
            replace(op, split=Split.NONE, num_split_units=0) if number in self.ops else op
            for number, op in enumerate(self.graph.ops)
        ]
        return op_graph(ops, tensors)

    def _reduced(self) -> set[int]:
        """Tensors that are summed over the group, after the sums made in the region are not partial any more.

        A sum that joins a result of the region to another partial sum (a shared expert's) was reduced after
        both: now the other is reduced before it.
        """
        graph = self.graph
        maker = {t: number for number, op in enumerate(graph.ops) for t in op.outputs}
        parts: dict[int, frozenset[int]] = {}
        """By tensor, the products whose partial sums it still carries."""
        found: set[int] = set()
        for number, op in enumerate(graph.ops):
            carried = frozenset(part for t in op.inputs for part in parts.get(t, ()))
            if op.split is Split.K:
                carried |= {number}
            if carried & self.ops and carried - self.ops:
                found |= {self._home(t, maker) for t in op.inputs if parts.get(t) and not parts[t] & self.ops}
            for t in op.outputs:
                if not graph.tensors[t].is_reduced:
                    parts[t] = carried
                elif carried:
                    found |= set() if carried & self.ops else {t}
                elif op.module not in self.modules:
                    # What carries no product's sum is an embedding's, or comes from a kept partial sum.
                    found.add(t)
        return found

    def _home(self, tensor: int, maker: dict[int, int]) -> int:
        """What a tensor is a view of."""
        while tensor in maker and self.graph.ops[maker[tensor]].kind is OpKind.VIEW:
            source = self.graph.ops[maker[tensor]].inputs[0]
            if self.graph.tensors[source].role is TensorRole.PARAMETER:
                break
            tensor = source
        return tensor
