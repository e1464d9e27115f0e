"""Operators merged as one kernel would run them: products with what follows, chains of elementwise work.

A merged operator reads what its parts read from outside and writes what others read; what passes between its
parts stays on the chip. Its vector work is listed part by part: it overlaps the product and costs time per
element.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, replace

from rephaze.types.graph import LayerType, ModelGraph, Op, OpGraph, OpKind, TensorRole
from rephaze.workload.derived_sizes import layer_type, op_graph
from rephaze.workload.passes.copies import merged
from rephaze.workload.passes.made_once import MadeOnce
from rephaze.workload.passes.pass_shape import pass_shape
from rephaze.workload.passes.row_kernels import is_of_tokens, row_groups

ROW_WISE_FUNCTIONS = frozenset(
    [
        "softmax",
        "softmax_backward",
        "log_softmax",
        "log_softmax_backward",
        "layer_norm",
        "layer_norm_backward",
        "rms_norm",
        "rms_norm_backward",
        "batch_norm",
        "batch_norm_backward",
        "nll_loss",
        "nll_loss_backward",
        "sum",
        "mean",
        "max",
        "var",
        "cumsum",
        "sort",
        "topk",
        "pool",
        "pool_backward",
        "mse_loss",
    ]
)
"""Cost rules that look along an axis before they can write: they start a kernel rather than join one."""


_PRODUCTS = (OpKind.GEMM, OpKind.ATTENTION)


def fuse_graph(graph: ModelGraph, fuser: Fuser | None = None) -> ModelGraph:
    """The graph with each layer's operators merged to a fixed point; what backward keeps is unchanged.

    Args:
        graph: Not yet fused; one that is, is given back.
        fuser: Of graphs before, which may have had the same layers, or layers of the same shape.
    """
    if graph.is_fused:
        return graph
    fuser = fuser or Fuser()
    return replace(graph, layer_types=tuple(fuser.layer(layer) for layer in graph.layer_types), is_fused=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kernel:
    """What becomes one operator; positions are those before fusion."""

    lead: int
    members: tuple[int, ...]
    target: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Fuser:
    """Fuses layers, each once; what is merged is found once for all passes that differ only in sizes."""

    def __init__(self) -> None:
        self._layers = MadeOnce[LayerType]()
        self._kernels: dict[Hashable, tuple[_Kernel, ...]] = {}

    def layer(self, layer: LayerType) -> LayerType:
        """A layer with its operators merged."""
        return self._layers.get(layer, None, lambda: self._fused_layer(layer))

    def _fused_layer(self, layer: LayerType) -> LayerType:
        return layer_type(
            layer.name,
            self._fused(layer.forward, frozenset(tensor.name for tensor in layer.saved)),
            self._fused(layer.backward, frozenset()),
            parameters=layer.parameters,
            saved=layer.saved,
            saved_inputs=layer.saved_inputs,
            inputs=layer.inputs,
        )

    def _fused(self, graph: OpGraph, saved: frozenset[str]) -> OpGraph:
        shape = _shape(graph, saved)
        if shape not in self._kernels:
            self._kernels[shape] = _kernels(graph, saved)
        return op_graph([_written(graph, kernel) for kernel in self._kernels[shape]], graph.tensors, graph)


def _written(graph: OpGraph, kernel: _Kernel) -> Op:
    lead = graph.ops[kernel.lead]
    if len(kernel.members) == 1:
        return lead
    vector = tuple(work for member in kernel.members for work in graph.ops[member].vector)
    return merged(lead, target=kernel.target, vector=vector, inputs=kernel.inputs, outputs=kernel.outputs)


def _shape(graph: OpGraph, saved: frozenset[str]) -> Hashable:
    """All of a pass that decides what is merged."""
    elementwise = tuple([_is_elementwise(op) for op in graph.ops])
    return pass_shape(graph), elementwise, tuple([is_of_tokens(t) for t in graph.tensors]), saved


def _is_elementwise(op: Op) -> bool:
    return op.kind is OpKind.VECTOR and all(work.function not in ROW_WISE_FUNCTIONS for work in op.vector)


def _kernels(graph: OpGraph, saved: frozenset[str]) -> tuple[_Kernel, ...]:
    """Groups grown along edges with a single reader, then chains of vector work, each to be one operator.

    Operators stand in topological order, so one sweep reaches the fixed point: a group only grows at its
    tail, and everything its tail's reader reads stands before that reader.
    """
    maker = {t: number for number, op in enumerate(graph.ops) for t in op.outputs}
    readers = _readers(graph)
    group_of: list[list[int]] = []
    for number, op in enumerate(graph.ops):
        group = _absorber(number, op, graph, maker, readers, group_of)
        if group is None:
            group_of.append([number])
        else:
            group.append(number)
            group_of.append(group)
    groups = [group for number, group in enumerate(group_of) if group[-1] == number]
    grown = op_graph([_merged(graph, group, readers, saved) for group in groups], graph.tensors)
    rows, readers = row_groups(grown), _readers(grown)
    position_of = {op.name: number for number, op in enumerate(graph.ops)}
    found = []
    for row in rows:
        op = _merged(grown, row, readers, saved)
        members = tuple(member for part in row for member in groups[part])
        lead = position_of[op.name]
        found.append(_Kernel(lead=lead, members=members, target=op.target, inputs=op.inputs, outputs=op.outputs))
    return tuple(found)


def _readers(graph: OpGraph) -> dict[int, set[int]]:
    readers: dict[int, set[int]] = defaultdict(set)
    for number, op in enumerate(graph.ops):
        for tensor in op.inputs:
            readers[tensor].add(number)
    return readers


def _absorber(
    number: int,
    op: Op,
    graph: OpGraph,
    maker: dict[int, int],
    readers: dict[int, set[int]],
    group_of: list[list[int]],
) -> list[int] | None:
    """The group an operator joins: one whose results only it reads, a product's before a chain's."""
    if not (op.kind is OpKind.VIEW or _is_elementwise(op)):
        return None
    found: list[int] | None = None
    for tensor in op.inputs:
        producer = maker.get(tensor)
        if producer is None or group_of[producer][-1] != producer:
            continue
        group = group_of[producer]
        tail, head = graph.ops[producer], graph.ops[group[0]]
        grows = tail.kind in _PRODUCTS or tail.kind is OpKind.VIEW or _is_elementwise(tail)
        alone = {r for t in tail.outputs for r in readers[t]} == {number}
        starts_well = head.kind in (*_PRODUCTS, OpKind.VIEW, OpKind.VECTOR)
        if not (grows and alone and starts_well and tail.gradient is op.gradient):
            continue
        if found is None or _has_product(graph, group) > _has_product(graph, found):
            found = group
    return found


def _has_product(graph: OpGraph, group: list[int]) -> bool:
    return any(graph.ops[member].kind in _PRODUCTS for member in group)


def _merged(graph: OpGraph, group: list[int], readers: dict[int, set[int]], saved: frozenset[str]) -> Op:
    parts = [graph.ops[member] for member in group]
    if len(parts) == 1:
        return parts[0]
    inside = {t for part in parts for t in part.outputs}
    members = set(group)

    def leaves(number: int) -> bool:
        tensor = graph.tensors[number]
        is_kept = tensor.name in saved or tensor.storage in saved
        return is_kept or tensor.role is TensorRole.OUTPUT or not readers[number] <= members

    last = parts[-1].outputs
    outputs = tuple(t for part in parts for t in part.outputs if t in last or leaves(t))
    real = [part for part in parts if part.kind is not OpKind.VIEW] or parts[:1]
    lead = next((part for part in real if part.kind in _PRODUCTS), real[0])
    return replace(
        lead,
        target="+".join(part.target for part in real),
        vector=tuple(work for part in parts for work in part.vector),
        inputs=tuple(dict.fromkeys(t for part in parts for t in part.inputs if t not in inside)),
        outputs=_one_a_storage(graph, outputs),
    )


def _one_a_storage(graph: OpGraph, outputs: tuple[int, ...]) -> tuple[int, ...]:
    """Outputs without those that only show another's memory in a different shape.

    The last view of a storage stands for it: it is the one read next.
    """
    by_storage: dict[str, int] = {}
    for number in outputs:
        tensor = graph.tensors[number]
        by_storage[tensor.storage or tensor.name] = number
    return tuple(by_storage.values())
