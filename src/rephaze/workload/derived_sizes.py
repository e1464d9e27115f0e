"""What follows from the tensors of operators and layers: their bytes, edges and memory.

Worked out here for every graph, whether just extracted, read from a file, sharded or fused.
"""

from __future__ import annotations

from collections.abc import Iterable

from rephaze.types.graph import (
    ZERO,
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


def op_graph(ops: Iterable[Op], tensors: tuple[Tensor, ...]) -> OpGraph:
    """The graph of operators in topological order, with their bytes and edges worked out."""
    measured = tuple(_measured(op, tensors) for op in ops)
    producer: dict[int, int] = {}
    edges: set[tuple[int, int]] = set()
    for position, op in enumerate(measured):
        edges.update((producer[t], position) for t in op.inputs if t in producer)
        producer.update((t, position) for t in op.outputs)
    edges = {(src, dst) for src, dst in edges if src != dst}
    return OpGraph(ops=measured, edges=tuple(sorted(edges)), tensors=tensors)


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


def _measured(op: Op, tensors: tuple[Tensor, ...]) -> Op:
    elements = total(tensors[t].num_elements for t in op.outputs)
    if op.kind is OpKind.VIEW:
        return _with_sizes(op, elements, ZERO, ZERO, 0)
    if op.collective is not None:
        moved = op.collective.payload_bytes.times(op.collective.num_messages)
        return _with_sizes(op, elements, moved, moved, 0)
    reads = [(tensors[t], _bytes_read(op, tensors[t])) for t in op.inputs]
    # Every step of a ring reads queries, keys and values anew and adds to the result.
    num_times = op.attention.num_ring_steps if op.attention is not None else 1
    return _with_sizes(
        op,
        elements,
        total(size for _, size in reads).times(num_times),
        total(tensors[t].num_bytes for t in op.outputs).times(num_times),
        sum(size.const for tensor, size in reads if tensor.role is TensorRole.PARAMETER),
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


def _bytes_read(op: Op, tensor: Tensor) -> Affine:
    """Bytes of one operand; a gather reads the rows it selects, not the table."""
    if op.kind is not OpKind.GATHER or not op.vector:
        return tensor.num_bytes
    selected = op.vector[0].num_elements.times(tensor.element_bytes)
    return _smaller(tensor.num_bytes, selected)


def _smaller(one: Affine, other: Affine) -> Affine:
    return one if one.at(COMPARED_MICROBATCH) <= other.at(COMPARED_MICROBATCH) else other


def _larger(one: Affine, other: Affine) -> Affine:
    return other if one.at(COMPARED_MICROBATCH) < other.at(COMPARED_MICROBATCH) else one


def _peak_bytes(graph: OpGraph, kept: set[str]) -> Affine:
    """The largest sum of tensors alive at once beside parameters, kept tensors and forward inputs.

    The largest is chosen at a few samples: with tensors that all grow alike it is the largest at any.
    """
    last_use: dict[str, int] = {}
    size: dict[str, Affine] = {}
    born: dict[str, int] = {}
    is_outer: dict[str, bool] = {}
    end = len(graph.ops)
    names = {t.name for t in graph.tensors}
    for position, op in enumerate(graph.ops):
        for number in (*op.inputs, *op.outputs):
            tensor = graph.tensors[number]
            home = tensor.storage if tensor.storage in names else tensor.name
            # Gradients of weights go into buffers that a memory model counts for all weights.
            if op.gradient is Gradient.WEIGHT and not tensor.num_elements.per_sample:
                continue
            last_use[home] = end if tensor.role is TensorRole.OUTPUT else max(last_use.get(home, 0), position)
            if home not in born:
                born[home] = position
                size[home] = tensor.num_bytes
                is_outer[home] = tensor.role in _FROM_OUTSIDE
    change = [ZERO] * (end + 2)
    for home, position in born.items():
        if is_outer[home] or home in kept:
            continue
        change[position] += size[home]
        after = min(last_use[home], end) + 1
        change[after] += size[home].times(-1)
    alive = peak = ZERO
    for step in change:
        alive += step
        peak = _larger(peak, alive)
    return peak
