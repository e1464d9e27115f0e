"""Operators merged as one kernel would run them: products with what follows, chains of elementwise work.

A merged operator reads what its parts read from outside and writes what others read; what passes between its parts
stays on the chip. Its vector work is listed part by part: it overlaps the product and costs time per element.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from rephaze.types.graph import Gradient, ModelGraph, Op, OpGraph, OpKind, Tensor, VectorWork
from rephaze.workload.figures import layer_type, op_graph

ROW_WISE_FUNCTIONS = frozenset(
    """softmax softmax_backward log_softmax log_softmax_backward layer_norm layer_norm_backward rms_norm
    rms_norm_backward batch_norm batch_norm_backward nll_loss nll_loss_backward sum mean max var cumsum sort
    topk pool pool_backward mse_loss""".split()
)
"""Cost rules that look along an axis before they can write: they end a kernel rather than join one."""


def fuse_graph(graph: ModelGraph) -> ModelGraph:
    """The graph with each layer's operators merged to a fixed point; memory kept for backward is unchanged."""
    if graph.is_fused:
        return graph
    layers = tuple(
        layer_type(
            layer.name,
            _fused(layer.forward),
            _fused(layer.backward),
            parameters=layer.parameters,
            saved=layer.saved,
            saved_inputs=layer.saved_inputs,
            inputs=layer.inputs,
        )
        for layer in graph.layer_types
    )
    return replace(graph, layer_types=layers, is_fused=True)


def _is_elementwise(op: Op) -> bool:
    return op.kind is OpKind.VECTOR and all(work.function not in ROW_WISE_FUNCTIONS for work in op.vector)


@dataclass(slots=True)
class _Group:
    """Operators that become one."""

    members: list[int]
    has_product: bool
    is_view: bool


def _fused(graph: OpGraph) -> OpGraph:
    """Groups grown along edges with a single reader, each written as one operator."""
    ops = graph.ops
    readers: dict[int, set[int]] = defaultdict(set)
    for number, op in enumerate(ops):
        for tensor in op.inputs:
            readers[tensor].add(number)
    group_of = list(range(len(ops)))
    groups = {
        number: _Group(
            members=[number],
            has_product=op.kind in (OpKind.GEMM, OpKind.ATTENTION),
            is_view=op.kind is OpKind.VIEW,
        )
        for number, op in enumerate(ops)
    }
    for number, op in enumerate(ops):
        # Operators stand in topological order, so one sweep reaches the fixed point: a group's tail only grows on.
        source = _absorber(number, op, graph, readers, group_of, groups)
        if source is None:
            continue
        target = groups[source]
        target.members.append(number)
        target.is_view = target.is_view and op.kind is OpKind.VIEW
        group_of[number] = source
        del groups[number]
    return _rewritten(graph, readers, group_of, groups)


def _absorber(
    number: int,
    op: Op,
    graph: OpGraph,
    readers: dict[int, set[int]],
    group_of: list[int],
    groups: dict[int, _Group],
) -> int | None:
    """The group an operator joins: that of its one producer whose results only it reads."""
    if not (op.kind is OpKind.VIEW or _is_elementwise(op)):
        return None
    found: int | None = None
    for tensor in op.inputs:
        producer = _producer(graph, tensor, number)
        if producer is None:
            continue
        group = groups[group_of[producer]]
        outside = {
            r for t in graph.ops[group.members[-1]].outputs for r in readers[t] if group_of[r] != group_of[producer]
        }
        is_tail = producer == group.members[-1]
        tail = graph.ops[group.members[-1]]
        can_grow = group.has_product or tail.kind is OpKind.VIEW or _is_elementwise(tail)
        first = graph.ops[group.members[0]]
        is_chain = first.kind in (OpKind.GEMM, OpKind.ATTENTION, OpKind.VIEW, OpKind.VECTOR)
        if is_tail and outside == {number} and can_grow and is_chain and first.gradient is op.gradient:
            # A product is preferred to a chain: it has idle vector lanes beside it.
            if found is None or (group.has_product and not groups[found].has_product):
                found = group_of[producer]
    if found is None or _would_cycle(number, op, graph, group_of, found):
        return None
    return found


def _producer(graph: OpGraph, tensor: int, before: int) -> int | None:
    for number in range(before - 1, -1, -1):
        if tensor in graph.ops[number].outputs:
            return number
    return None


def _would_cycle(number: int, op: Op, graph: OpGraph, group_of: list[int], group: int) -> bool:
    """Whether another input of the operator depends on the group it would join."""
    seen: set[int] = set()
    stack = [
        p
        for t in op.inputs
        if (p := _producer(graph, t, number)) is not None and group_of[p] != group
    ]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if group_of[current] == group:
            return True
        stack += [p for t in graph.ops[current].inputs if (p := _producer(graph, t, current)) is not None]
        stack += [m for m in range(current) if group_of[m] == group_of[current] and m not in seen]
    return False


def _rewritten(
    graph: OpGraph, readers: dict[int, set[int]], group_of: list[int], groups: dict[int, _Group]
) -> OpGraph:
    merged: list[tuple[int, Op]] = []
    for key, group in groups.items():
        parts = [graph.ops[m] for m in group.members]
        inside = {t for part in parts for t in part.outputs}
        inputs = tuple(dict.fromkeys(t for part in parts for t in part.inputs if t not in inside))
        outputs = tuple(
            t
            for part in parts
            for t in part.outputs
            if _is_read_outside(graph.tensors[t], t, readers, group_of, key)
        ) or parts[-1].outputs
        real = [part for part in parts if part.kind is not OpKind.VIEW]
        lead = next((p for p in real if p.kind in (OpKind.GEMM, OpKind.ATTENTION)), real[0] if real else parts[0])
        work: tuple[VectorWork, ...] = tuple(w for part in parts for w in part.vector)
        merged.append(
            (
                group.members[-1],
                replace(
                    lead,
                    target="+".join(part.target for part in real) or parts[0].target,
                    vector=work,
                    inputs=inputs,
                    outputs=outputs,
                ),
            )
        )
    merged.sort(key=lambda pair: pair[0])
    return op_graph(_ordered([op for _, op in merged]), graph.tensors)


def _is_read_outside(
    tensor: Tensor, number: int, readers: dict[int, set[int]], group_of: list[int], key: int
) -> bool:
    leaves = not readers[number] or any(group_of[r] != key for r in readers[number])
    return leaves or tensor.role == "output"


def _ordered(ops: list[Op]) -> list[Op]:
    """Operators so that each comes after those whose results it reads."""
    producer = {t: op.name for op in ops for t in op.outputs}
    waiting = {op.name: {producer[t] for t in op.inputs if t in producer} - {op.name} for op in ops}
    done: set[str] = set()
    order: list[Op] = []
    pending = list(ops)
    while pending:
        ready = [op for op in pending if waiting[op.name] <= done]
        assert ready, "fusion made a cycle"
        order += ready
        done.update(op.name for op in ready)
        pending = [op for op in pending if op.name not in done]
    return order
