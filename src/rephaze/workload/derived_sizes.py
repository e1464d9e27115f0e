"""What follows from the tensors of operators and layers: their bytes, edges and memory.

Worked out here for every graph, whether just extracted, read from a file, sharded or fused.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from rephaze.types.graph import (
    Affine,
    Gradient,
    LayerType,
    Op,
    OpGraph,
    OpKind,
    Split,
    Tensor,
    TensorRole,
)

COMPARED_MICROBATCH = 4
"""Where sizes are compared: at one sample, what grows with it can look like what does not."""

_FROM_OUTSIDE = (TensorRole.PARAMETER, TensorRole.INPUT, TensorRole.CONSTANT, TensorRole.KEPT)


def total(sizes: Iterable[Affine]) -> Affine:
    """The sum of affine numbers."""
    const = per_sample = 0
    for size in sizes:
        const += size.const
        per_sample += size.per_sample
    return Affine(const, per_sample)


def op_graph(ops: Iterable[Op], tensors: tuple[Tensor, ...], source: OpGraph | None = None) -> OpGraph:
    """The graph of operators in topological order, with their bytes and edges worked out.

    Args:
        ops: The operators.
        tensors: What they read and make.
        source: A graph that some of the operators are taken from as they are. Where their tensors are the same
            records too, nothing needs to be worked out again.
    """
    sizes = [(t.num_elements.const, t.num_elements.per_sample, t.element_bytes) for t in tensors]
    known: set[int] = set()
    changed: set[int] = set()
    if source is not None:
        known = {id(op) for op in source.ops}
        changed = {n for n, (old, new) in enumerate(zip(source.tensors, tensors, strict=False)) if old is not new}
    measured = []
    producer: dict[int, int] = {}
    edges: set[tuple[int, int]] = set()
    for position, op in enumerate(ops):
        is_same = id(op) in known and changed.isdisjoint(op.inputs) and changed.isdisjoint(op.outputs)
        measured.append(op if is_same else _measured(op, tensors, sizes))
        for t in op.inputs:
            if t in producer:
                edges.add((producer[t], position))
        for t in op.outputs:
            producer[t] = position
    return OpGraph(ops=tuple(measured), edges=tuple(sorted(edges)), tensors=tensors)


def layer_type(
    name: str,
    forward: OpGraph,
    backward: OpGraph,
    *,
    parameters: tuple[Tensor, ...],
    saved: tuple[Tensor, ...],
    saved_inputs: tuple[Tensor, ...],
    inputs: tuple[Tensor, ...],
) -> LayerType:
    """A layer with its memory worked out from its tensors."""
    return LayerType(
        name=name,
        forward=forward,
        backward=backward,
        num_parameters=total(t.num_elements for t in parameters).const,
        param_bytes=total(t.num_bytes for t in parameters).const,
        saved_bytes=total(t.num_bytes for t in saved),
        input_bytes=total(t.num_bytes for t in inputs),
        working_bytes=_larger(
            _peak_bytes(forward, kept={t.name for t in saved}), _peak_bytes(backward, kept=set())
        ),
        # A vocabulary-parallel embedding has no split operator: every chip looks up all tokens in its own rows.
        is_sharded=any(op.split is not Split.NONE for graph in (forward, backward) for op in graph.ops)
        or any(t.num_split_units > 0 for t in parameters),
        saved_input_bytes=total(t.num_bytes for t in saved_inputs),
        parameters=parameters,
        saved=saved,
        saved_inputs=saved_inputs,
        inputs=inputs,
        expert_param_bytes=_expert_bytes(forward, parameters),
    )


def expert_modules(graph: OpGraph) -> frozenset[str]:
    """Modules of a pass whose products are those of experts."""
    return frozenset(op.module for op in graph.ops if op.gemm is not None and op.gemm.num_experts)


def expert_parameters(graph: OpGraph) -> frozenset[str]:
    """Names of the parameters that a forward pass reads as experts' weights, or looks up by expert as biases."""
    modules = expert_modules(graph)
    if not modules:
        return frozenset()
    readers = [
        op
        for op in graph.ops
        if op.module in modules and (op.kind is OpKind.GATHER or (op.gemm is not None and op.gemm.num_experts))
    ]
    read = [graph.tensors[t] for op in readers for t in op.inputs]
    return frozenset(t.storage or t.name for t in read if t.role is TensorRole.PARAMETER)


def is_one_of(parameter: str, names: frozenset[str]) -> bool:
    """Whether a parameter of a layer, named from the model's root, is one of these, named from the layer's."""
    return parameter in names or any(parameter.endswith(f".{name}") for name in names)


def _expert_bytes(forward: OpGraph, parameters: tuple[Tensor, ...]) -> int:
    names = expert_parameters(forward)
    return sum(t.num_bytes.const for t in parameters if is_one_of(t.name, names)) if names else 0


def _measured(op: Op, tensors: tuple[Tensor, ...], sizes: list[tuple[int, int, int]]) -> Op:
    """An operator with its elements and bytes, in plain numbers: this runs for every operator of every cut."""
    const = per_sample = out_const = out_per_sample = in_const = in_per_sample = param_bytes = 0
    for t in op.outputs:
        elements, elements_per_sample, width = sizes[t]
        const += elements
        per_sample += elements_per_sample
        out_const += elements * width
        out_per_sample += elements_per_sample * width
    if op.kind is OpKind.VIEW:
        out_const = out_per_sample = 0
    elif op.collective is not None:
        moved = op.collective.payload_bytes.times(op.collective.num_messages)
        in_const, in_per_sample = out_const, out_per_sample = moved.const, moved.per_sample
    else:
        for t in op.inputs:
            elements, elements_per_sample, width = sizes[t]
            if op.kind is OpKind.GATHER and op.vector:
                read = _rows_read(op, tensors[t])
                elements, elements_per_sample = read.const, read.per_sample
            in_const += elements * width
            in_per_sample += elements_per_sample * width
            if tensors[t].role is TensorRole.PARAMETER:
                param_bytes += elements * width
        # Every step of a ring reads queries, keys and values anew and adds to the result.
        num_times = op.attention.num_ring_steps if op.attention is not None else 1
        in_const, in_per_sample = in_const * num_times, in_per_sample * num_times
        out_const, out_per_sample = out_const * num_times, out_per_sample * num_times
    return _with_sizes(
        op,
        Affine(const, per_sample),
        Affine(in_const, in_per_sample),
        Affine(out_const, out_per_sample),
        param_bytes,
    )


def _with_sizes(op: Op, elements: Affine, input_bytes: Affine, output_bytes: Affine, param_bytes: int) -> Op:
    # Written out because dataclasses.replace takes twice as long, and this runs for every operator.
    return Op(
        name=op.name,
        target=op.target,
        kind=op.kind,
        module=op.module,
        gradient=op.gradient,
        gemm=op.gemm,
        attention=op.attention,
        collective=op.collective,
        vector=op.vector,
        num_flops=op.num_flops,
        num_elements=elements,
        input_bytes=input_bytes,
        output_bytes=output_bytes,
        param_bytes=param_bytes,
        inputs=op.inputs,
        outputs=op.outputs,
        split=op.split,
        num_split_units=op.num_split_units,
    )


def _rows_read(op: Op, tensor: Tensor) -> Affine:
    """Elements of one operand that a gather reads: the rows it selects, not the table."""
    return _smaller(tensor.num_elements, op.vector[0].num_elements)


def _smaller(one: Affine, other: Affine) -> Affine:
    return one if one.at(COMPARED_MICROBATCH) <= other.at(COMPARED_MICROBATCH) else other


def _larger(one: Affine, other: Affine) -> Affine:
    return other if one.at(COMPARED_MICROBATCH) < other.at(COMPARED_MICROBATCH) else one


def _peak_bytes(graph: OpGraph, kept: set[str]) -> Affine:
    """The largest sum of tensors alive at once beside parameters, kept tensors and forward inputs.

    The largest is chosen at a few samples: with tensors that all grow alike it is the largest at any.
    """
    end, tensors = len(graph.ops), graph.tensors
    # Gradients of weights go into buffers that a memory model counts for all weights.
    is_fixed = [not t.num_elements.per_sample for t in tensors]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for position, op in enumerate(graph.ops):
        touched = op.inputs + op.outputs
        if op.gradient is Gradient.WEIGHT:
            touched = tuple(number for number in touched if not is_fixed[number])
        for number in touched:
            if number not in first:
                first[number] = position
            last[number] = position
    names = {t.name for t in tensors}
    last_use: dict[str, int] = {}
    born: dict[str, tuple[int, Tensor]] = {}
    for number, position in first.items():
        tensor = tensors[number]
        home = tensor.storage if tensor.storage in names else tensor.name
        if home not in born:
            born[home] = position, tensor
        until = end if tensor.role is TensorRole.OUTPUT else last[number]
        last_use[home] = max(last_use.get(home, 0), until)
    const, per_sample = [0] * (end + 2), [0] * (end + 2)
    for home, (position, tensor) in born.items():
        if tensor.role in _FROM_OUTSIDE or home in kept:
            continue
        size, after = tensor.num_bytes, last_use[home] + 1
        const[position] += size.const
        per_sample[position] += size.per_sample
        const[after] -= size.const
        per_sample[after] -= size.per_sample
    alive = zip(accumulate(const), accumulate(per_sample), strict=True)
    most = max(alive, key=lambda size: size[0] + size[1] * COMPARED_MICROBATCH)
    return Affine(*most)
