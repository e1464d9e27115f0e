"""What each operator of a pass needs of the others, told by memory rather than by tensor.

Fusion writes one tensor a storage, so an operator may read another view of a storage than the one its maker
lists. A storage has a new value whenever an operator other than a view writes it; the sum over a tensor-parallel
group counts as written in place, since that sum is what everything after it, and the backward pass, reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rephaze.types.graph import Affine, CollectiveKind, Op, OpGraph, OpKind, Tensor, TensorRole

OUTSIDE = -1
"""Maker of what a pass is given."""
_SUMS = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """What one storage holds between two writes."""

    storage: str
    maker: int
    """Position of the operator, or ``OUTSIDE``."""
    role: TensorRole
    """Of the tensor it was first seen as."""
    num_bytes: Affine
    """To hold it: no view of the storage is larger."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassValues:
    """The values of one pass, by position in ``values``."""

    values: tuple[Value, ...]
    read_o: tuple[tuple[int, ...], ...]
    """By operator, ascending."""
    made_o: tuple[tuple[int, ...], ...]
    """By operator; views make nothing: who reads one reads what it shows."""
    last_of: dict[str, tuple[int, ...]]
    """By storage, the values that give its content at the end of the pass: one, or for a storage that only views
    made, what these show."""
    homes: tuple[str, ...]
    """By tensor, its storage."""


def trace_values(graph: OpGraph) -> PassValues:
    """Which values the operators of a pass read and make."""
    homes = _homes(graph)
    sizes = _storage_bytes(graph.tensors, homes)
    values: list[Value] = []
    now: dict[str, tuple[int, ...]] = {}
    read_o: list[tuple[int, ...]] = []
    made_o: list[tuple[int, ...]] = []

    def needed(op: Op) -> set[int]:
        found: set[int] = set()
        for number in op.inputs:
            home, tensor = homes[number], graph.tensors[number]
            if home not in now:
                now[home] = (len(values),)
                values.append(Value(storage=home, maker=OUTSIDE, role=tensor.role, num_bytes=sizes[home]))
            found.update(now[home])
        return found

    for position, op in enumerate(graph.ops):
        needs = needed(op)
        if op.kind is OpKind.VIEW:
            shown = {homes[number] for number in op.inputs}
            for number in op.outputs:
                if homes[number] not in shown:  # memory that only the view's name tells apart
                    now[homes[number]] = tuple(sorted(needs))
            read_o.append(tuple(sorted(needs)))
            made_o.append(())
            continue
        made = []
        for number in op.outputs:
            home, tensor = homes[number], graph.tensors[number]
            needs.update(now.get(home, ()))  # written in place: what was not written over stays
            size = tensor.num_bytes if op.collective is not None else sizes[home]
            made.append(len(values))
            values.append(Value(storage=home, maker=position, role=tensor.role, num_bytes=size))
        read_o.append(tuple(sorted(needs)))
        made_o.append(tuple(made))
        now.update((values[number].storage, (number,)) for number in made)
    return PassValues(
        values=tuple(values), read_o=tuple(read_o), made_o=tuple(made_o), last_of=now, homes=tuple(homes)
    )


def _homes(graph: OpGraph) -> list[str]:
    """For each tensor, the name of its storage."""
    summed: dict[str, str] = {}
    for op in graph.ops:
        if op.collective is not None and op.collective.kind in _SUMS:
            for source, result in zip(op.inputs, op.outputs, strict=False):
                home = graph.tensors[source].storage or graph.tensors[source].name
                summed[graph.tensors[result].name] = summed.get(home, home)
    names = [tensor.storage or tensor.name for tensor in graph.tensors]
    return [summed.get(name, name) for name in names]


def _storage_bytes(tensors: Sequence[Tensor], homes: list[str]) -> dict[str, Affine]:
    sizes: dict[str, tuple[int, int]] = {}
    for tensor, home in zip(tensors, homes, strict=True):
        size, width, before = tensor.num_elements, tensor.element_bytes, sizes.get(home)
        const, per_sample = size.const * width, size.per_sample * width
        if before is not None:
            const, per_sample = max(const, before[0]), max(per_sample, before[1])
        sizes[home] = const, per_sample
    return {home: Affine(*size) for home, size in sizes.items()}
