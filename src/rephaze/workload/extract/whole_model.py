"""The whole model from the few blocks that were traced: layers in order, edges, parameters, ties."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from rephaze.types.graph import (
    Affine,
    LayerEdge,
    LayerType,
    ModelGraph,
    OpKind,
    Tensor,
    TensorRole,
    TiedParameter,
)
from rephaze.workload.extract.affine import AffineTrace
from rephaze.workload.extract.assemble import Assembler
from rephaze.workload.extract.aten import kind_of
from rephaze.workload.extract.blocks import Stack
from rephaze.workload.extract.layer_index import LayerIndex
from rephaze.workload.extract.partition import Partition, TracedLayer
from rephaze.workload.extract.source import Source
from rephaze.workload.extract.tp_propagate import lay_out


@dataclass(frozen=True, slots=True)
class _Placed:
    """One layer of the whole model."""

    name: str
    traced: int
    """The traced layer that shows what it does."""
    stack: int = -1
    block: int = -1
    """Position in its stack, in the whole model."""


def whole_model(
    source: Source,
    stacks: tuple[Stack, ...],
    trace: AffineTrace,
    layers: Partition,
    *,
    dtype: str,
    attention: str,
    training: bool,
) -> ModelGraph:
    """The graph of the model, every block in its place."""
    layout = lay_out(trace)
    index = LayerIndex(trace=trace, partition=layers)
    shared = Assembler(index=index, layout=layout, seq_len=source.seq_len)
    placed = _place_layers(stacks, trace, layers)
    owners = _owners(source, stacks, trace, layers)
    used = sorted({layer.traced for layer in placed}, key=[layer.traced for layer in placed].index)
    types: list[LayerType] = []
    type_of: dict[int, int] = {}
    for traced in used:
        type_of[traced] = len(types)
        parameters = tuple(_parameter(name, size, owners.numbers, shared) for name, size in owners.of(traced))
        types.append(shared.build(traced, _type_name(layers.layers[traced], stacks, used, layers), parameters))
    return ModelGraph(
        name=source.name,
        seq_len=source.seq_len,
        dtype=dtype,
        attention=attention,
        tp=1,
        legal_tp=layout.legal_degrees(),
        layer_types=tuple(types),
        layer_names=tuple(layer.name for layer in placed),
        layer_type_of=tuple(type_of[layer.traced] for layer in placed),
        edges=_edges(index, placed, stacks),
        tied=_tied(trace, layers, placed),
        num_parameters=sum(p.numel() for p in source.module.parameters()),
        is_training=training,
        made_by=_made_by(source),
    )


def _place_layers(stacks: tuple[Stack, ...], trace: AffineTrace, layers: Partition) -> list[_Placed]:
    placed: list[_Placed] = []
    done: set[int] = set()
    shown_by = [_shown_by(stacks, trace, layers, number) for number in range(len(stacks))]
    for number, layer in enumerate(layers.layers):
        if not layer.is_block:
            placed.append(_Placed(name=layer.name, traced=number))
        elif layer.stack not in done:
            done.add(layer.stack)
            placed += [
                _Placed(name=f"{stacks[layer.stack].path}.{k}", traced=t, stack=layer.stack, block=k)
                for k, t in enumerate(shown_by[layer.stack])
            ]
    return placed


def _shown_by(stacks: tuple[Stack, ...], trace: AffineTrace, layers: Partition, number: int) -> list[int]:
    """For each block of a stack, the traced layer that shows what it does."""
    stack = stacks[number]
    traced = {layer.block: i for i, layer in enumerate(layers.layers) if layer.stack == number}
    groups: dict[tuple[int, str], list[int]] = defaultdict(list)
    group_of: dict[int, tuple[int, str]] = {}
    for position, original in enumerate(stack.traced):
        if position in traced:
            key = (stack.signatures[original], _forward_hash(trace, layers.layers[traced[position]]))
            groups[key].append(traced[position])
            group_of[original] = key
    shown: list[int] = []
    for block, signature in enumerate(stack.signatures):
        # An untraced block does what the last traced one of its signature does.
        key = group_of.get(block) or [k for k in group_of.values() if k[0] == signature][-1]
        members = groups[key]
        # Not the last: gradients are summed differently at a stack's end.
        shown.append(members[(len(members) - 1) // 2])
    return shown


def _forward_hash(trace: AffineTrace, layer: TracedLayer) -> str:
    """Equal for blocks that run the same forward operators on the same shapes."""
    digest = hashlib.sha256()
    for number in layer.forward:
        op = trace.ops[number]
        # A view that an earlier block made already is not made again: views do not tell blocks apart.
        if not op.module.startswith(layer.prefix) or kind_of(op.target) is OpKind.VIEW:
            continue
        shapes = [trace.shapes[t] for t in (*op.inputs, *op.outputs)]
        digest.update(f"{op.target}|{op.module.removeprefix(layer.prefix)}|{shapes}".encode())
    return digest.hexdigest()


def _type_name(layer: TracedLayer, stacks: tuple[Stack, ...], used: list[int], layers: Partition) -> str:
    if not layer.is_block:
        return layer.name
    siblings = [t for t in used if layers.layers[t].stack == layer.stack]
    return layer.name if len(siblings) > 1 else stacks[layer.stack].path


@dataclass(frozen=True, slots=True)
class _Owners:
    names_of: dict[int, list[tuple[str, int]]]
    numbers: dict[str, int]
    """The traced tensor of each traced parameter, by its name in the cut-down module."""

    def of(self, traced: int) -> list[tuple[str, int]]:
        return self.names_of.get(traced, [])


def _owners(source: Source, stacks: tuple[Stack, ...], trace: AffineTrace, layers: Partition) -> _Owners:
    """For each traced layer, its parameters: (name in the cut-down module, elements)."""
    numbers: dict[str, int] = {}
    for number, tensor in enumerate(trace.tensors):
        if tensor.parameter:
            numbers.setdefault(tensor.parameter, number)
    first_user: dict[str, int] = {}
    for number, layer in enumerate(layers.layers):
        for op in layer.forward:
            for read in trace.ops[op].inputs:
                name = trace.tensors[read].parameter
                if name:
                    first_user.setdefault(name, number)
    blocks = {(layer.stack, layer.block): i for i, layer in enumerate(layers.layers) if layer.is_block}
    last_outer = max((i for i, layer in enumerate(layers.layers) if not layer.is_block), default=0)
    names_of: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for name, parameter in source.module.named_parameters():
        home, cut_name = _block_of_parameter(name, stacks, blocks)
        if home is None and cut_name:
            continue  # belongs to a block that was not traced
        owner = home if home is not None else first_user.get(name, last_outer)
        names_of[owner].append((cut_name or name, parameter.numel()))
    return _Owners(names_of=dict(names_of), numbers=numbers)


def _block_of_parameter(
    name: str, stacks: tuple[Stack, ...], blocks: dict[tuple[int, int], int]
) -> tuple[int | None, str]:
    for number, stack in enumerate(stacks):
        if not name.startswith(f"{stack.path}."):
            continue
        head, _, rest = name[len(stack.path) + 1 :].partition(".")
        original = int(head)
        if original not in stack.traced:
            return None, name
        position = stack.traced.index(original)
        return blocks.get((number, position)), f"{stack.path}.{position}.{rest}"
    return None, ""


def _parameter(name: str, num_elements: int, numbers: dict[str, int], shared: Assembler) -> Tensor:
    number = numbers.get(name)
    return Tensor(
        name=name,
        num_elements=Affine(num_elements),
        element_bytes=shared.trace.tensors[number].element_bytes if number is not None else 2,
        role=TensorRole.PARAMETER,
        num_split_units=shared.layout.units_of(number) if number is not None else 0,
    )


def _edges(index: LayerIndex, placed: list[_Placed], stacks: tuple[Stack, ...]) -> tuple[LayerEdge, ...]:
    layers = index.partition.layers
    place_of_outer = {layer.traced: i for i, layer in enumerate(placed) if layer.stack < 0}
    place_of_block = {(layer.stack, layer.block): i for i, layer in enumerate(placed) if layer.stack >= 0}
    payload: dict[tuple[int, int], Affine] = {}
    for dst, layer in enumerate(placed):
        traced = layer.traced
        if layer.stack >= 0 and layer.block in stacks[layer.stack].traced:
            own = stacks[layer.stack].traced.index(layer.block)
            traced = next(i for i, t in enumerate(layers) if t.stack == layer.stack and t.block == own)
        for tensor in index.crossing_inputs(traced):
            maker = index.layer_of_tensor(tensor)
            assert maker is not None
            source = layers[maker]
            if not source.is_block:
                src = place_of_outer[maker]
            elif source.stack != layer.stack:
                src = place_of_block[source.stack, _outside_source(source, stacks[source.stack])]
            elif _is_broadcast(index, tensor, source):
                src = place_of_block[source.stack, stacks[source.stack].traced[source.block]]
            else:
                distance = layers[traced].block - source.block
                src = place_of_block[source.stack, max(layer.block - distance, 0)]
            element_bytes = index.trace.tensors[tensor].element_bytes
            size = index.trace.num_elements[tensor].times(element_bytes)
            payload[src, dst] = payload.get((src, dst), Affine()) + size
    return tuple(LayerEdge(src=src, dst=dst, payload_bytes=size) for (src, dst), size in sorted(payload.items()))


def _outside_source(source: TracedLayer, stack: Stack) -> int:
    """The block, in the whole stack, whose result a layer outside the stack reads."""
    is_last = source.block == len(stack.traced) - 1
    return stack.num_blocks - 1 if is_last else stack.traced[source.block]


def _is_broadcast(index: LayerIndex, tensor: int, source: TracedLayer) -> bool:
    """Whether several later blocks read it, as T5's do the position bias of the first."""
    layers = index.partition.layers
    later = [
        r
        for r in index.layers_reading(tensor)
        if layers[r].stack == source.stack and layers[r].block > source.block
    ]
    return len(later) > 1


def _tied(trace: AffineTrace, layers: Partition, placed: list[_Placed]) -> tuple[TiedParameter, ...]:
    """Parameters that more than one layer outside the blocks reads."""
    place_of = {layer.traced: i for i, layer in reversed(list(enumerate(placed)))}
    users: dict[str, list[int]] = defaultdict(list)
    size: dict[str, int] = {}
    for number, layer in enumerate(layers.layers):
        if number not in place_of:
            continue
        for op in layer.forward:
            for tensor in trace.ops[op].inputs:
                traced = trace.tensors[tensor]
                if traced.parameter and place_of[number] not in users[traced.parameter]:
                    users[traced.parameter].append(place_of[number])
                    size.setdefault(traced.parameter, traced.num_bytes)
    return tuple(
        TiedParameter(name=name, layers=tuple(sorted(places)), param_bytes=size[name])
        for name, places in users.items()
        if len(places) > 1
    )


def _made_by(source: Source) -> tuple[tuple[str, str], ...]:
    found = [("config_hash", source.config_hash)]
    for library in ("rephaze", "torch", "transformers"):
        try:
            found.append((library, version(library)))
        except PackageNotFoundError:
            continue
    return tuple(found)
