"""Which layer each traced operator belongs to: blocks by module, the rest by place and by what it feeds."""

from __future__ import annotations

from dataclasses import dataclass, field

from rephaze.workload.extract.blocks import Stack
from rephaze.workload.extract.trace import Origin, Trace


@dataclass(slots=True)
class TracedLayer:
    """One layer of the cut-down module: a block, or a group of operators before, between or after blocks."""

    name: str
    stack: int = -1
    """Position of its stack, or -1 outside blocks."""
    block: int = -1
    """Position among the traced blocks of its stack."""
    prefix: str = ""
    """Path of the block's module."""
    forward: list[int] = field(default_factory=list)
    backward: list[int] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    """Tensors autograd kept while the layer ran."""

    @property
    def is_block(self) -> bool:
        """Whether the layer is one of a stack's blocks."""
        return self.stack >= 0


@dataclass(slots=True)
class Partition:
    """The layers of a trace in the order they first ran, and the layer of every operator."""

    layers: list[TracedLayer]
    layer_of_op: list[int]


def partition(trace: Trace, stacks: tuple[Stack, ...]) -> Partition:
    """The trace's operators grouped into layers.

    Operators between two blocks of a stack go with the earlier one. Other operators outside blocks form a
    layer per stretch and per connected part of it: an encoder's last norm and the decoder's embedding, which
    run one after the other, stay apart.
    """
    block_of_op = _blocks_of_ops(trace, stacks)
    num_forward = len(block_of_op)
    layers: list[TracedLayer] = []
    layer_of_op = [-1] * len(trace.ops)
    layer_of_block: dict[tuple[int, int], int] = {}

    def place(op: int, layer: int) -> None:
        layer_of_op[op] = layer
        layers[layer].forward.append(op)

    position = 0
    while position < num_forward:
        block = block_of_op[position]
        if block is not None:
            if block not in layer_of_block:
                layer_of_block[block] = len(layers)
                layers.append(_block_layer(stacks, block))
            place(position, layer_of_block[block])
            position += 1
            continue
        end = position
        while end < num_forward and block_of_op[end] is None:
            end += 1
        before = block_of_op[position - 1] if position else None
        after = block_of_op[end] if end < num_forward else None
        if before is not None and after is not None and before[0] == after[0]:
            for op in range(position, end):
                place(op, layer_of_block[before])
        else:
            for part in _connected_parts(trace, position, end):
                layers.append(TracedLayer(name=""))
                for op in part:
                    place(op, len(layers) - 1)
        position = end

    _name_outer_layers(trace, layers)
    _place_backward(trace, layers, layer_of_op)
    _place_saved(trace, layers, layer_of_op, layer_of_block, stacks, num_forward)
    return Partition(layers=layers, layer_of_op=layer_of_op)


def _blocks_of_ops(trace: Trace, stacks: tuple[Stack, ...]) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for op in trace.ops:
        if op.is_backward:
            break
        found.append(_block_of_module(op.module, stacks))
    return found


def _block_of_module(module: str, stacks: tuple[Stack, ...]) -> tuple[int, int] | None:
    for number, stack in enumerate(stacks):
        if module.startswith(f"{stack.path}."):
            head = module[len(stack.path) + 1 :].split(".", 1)[0]
            if head.isdigit():
                return number, int(head)
    return None


def _block_layer(stacks: tuple[Stack, ...], block: tuple[int, int]) -> TracedLayer:
    stack = stacks[block[0]]
    return TracedLayer(
        name=f"{stack.path}.{stack.traced[block[1]]}",
        stack=block[0],
        block=block[1],
        prefix=f"{stack.path}.{block[1]}",
    )


def _connected_parts(trace: Trace, start: int, end: int) -> list[list[int]]:
    """Operators ``start`` to ``end`` split where no tensor of the step joins them, each part in order."""
    group: dict[int, int] = {op: op for op in range(start, end)}

    def root(op: int) -> int:
        while group[op] != op:
            group[op] = group[group[op]]
            op = group[op]
        return op

    producer: dict[int, int] = {}
    for op in range(start, end):
        producer.update((t, op) for t in trace.ops[op].outputs)

    def is_step(tensor: int) -> bool:
        return trace.tensors[tensor].origin is Origin.DATA

    real = {op for op in range(start, end) if any(is_step(t) for t in trace.ops[op].outputs)}
    for op in range(start, end):
        for tensor in trace.ops[op].inputs:
            made_by = producer.get(tensor)
            if made_by is not None and ((made_by in real) == (op in real)):
                group[root(op)] = root(made_by)
    # Constants go with the first operator that reads them, else with the first part.
    parts: dict[int, list[int]] = {}
    for op in sorted(real):
        parts.setdefault(root(op), []).append(op)
    if not parts:
        return [list(range(start, end))]
    home: dict[int, int] = {}
    for op in range(start, end):
        if op in real:
            for tensor in trace.ops[op].inputs:
                made_by = producer.get(tensor)
                if made_by is not None and made_by not in real:
                    home.setdefault(root(made_by), root(op))
    first = next(iter(parts))
    for op in range(start, end):
        if op not in real:
            parts[home.get(root(op), first)].append(op)
    return [sorted(part) for part in parts.values()]


def _name_outer_layers(trace: Trace, layers: list[TracedLayer]) -> None:
    """Names from the modules that ran: their common path, or what the layer does first and last."""
    taken: set[str] = set()
    outer = [layer for layer in layers if not layer.is_block]
    for layer in outer:
        is_first, is_last = layer is layers[0], layer is layers[-1]
        paths = [trace.ops[op].module for op in layer.forward if trace.ops[op].module]
        name = "embedding" if is_first else "head" if is_last else _common_path(paths) or "between"
        if is_first and is_last:
            name = "model"
        number = 2
        unique = name
        while unique in taken:
            unique, number = f"{name}.{number}", number + 1
        taken.add(unique)
        layer.name = unique


def _common_path(paths: list[str]) -> str:
    if not paths:
        return ""
    split = [path.split(".") for path in paths]
    common = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common)


def _place_backward(trace: Trace, layers: list[TracedLayer], layer_of_op: list[int]) -> None:
    layer_of_sequence: dict[int, int] = {}
    for number, op in enumerate(trace.ops):
        if op.is_backward:
            break
        layer_of_sequence.setdefault(op.sequence, layer_of_op[number])
    last = len(layers) - 1
    for number, op in enumerate(trace.ops):
        if op.is_backward:
            last = layer_of_sequence.get(op.sequence, last)
            layer_of_op[number] = last
            layers[last].backward.append(number)


def _place_saved(
    trace: Trace,
    layers: list[TracedLayer],
    layer_of_op: list[int],
    layer_of_block: dict[tuple[int, int], int],
    stacks: tuple[Stack, ...],
    num_forward: int,
) -> None:
    for saved in trace.saved:
        block = _block_of_module(saved.module, stacks)
        if block is not None and block in layer_of_block:
            layers[layer_of_block[block]].saved.append(saved.tensor)
            continue
        # Inputs are kept just before their operator runs, outputs just after.
        nearest = min(saved.num_ops_before, num_forward - 1)
        for op in (nearest, max(nearest - 1, 0)):
            touched = trace.ops[op].inputs + trace.ops[op].outputs
            if saved.tensor in touched and not layers[layer_of_op[op]].is_block:
                layers[layer_of_op[op]].saved.append(saved.tensor)
                break
        else:
            layers[layer_of_op[nearest]].saved.append(saved.tensor)
