"""What one run of a model leaves behind: every ATen operator with the tensors it read and made.

A trace belongs to one microbatch size; two of them make the affine graph. Nothing here needs torch.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod


_CUTS = frozenset({"unbind", "split", "split_with_sizes", "select", "slice"})
"""Views that take a tensor apart."""


class Origin(StrEnum):
    """Where a traced tensor comes from."""

    PARAMETER = "parameter"
    DATA = "data"
    """Made from the batch (tokens, images, labels) or from parameters: it belongs to the training step."""
    CONSTANT = "constant"
    """Made from neither: position numbers, rotation tables, masks. Every chip can make its own."""


@dataclass(slots=True)
class TracedTensor:
    """One tensor value: a geometry over a storage at one moment."""

    shape: tuple[int, ...]
    dtype: str
    element_bytes: int
    storage: int
    storage_bytes: int
    origin: Origin
    num_distinct: int
    """Elements that differ in address: an expanded tensor has fewer than its shape says."""
    parameter: str = ""
    """The parameter this is, or is a view of; empty for everything else."""
    is_index: bool = False
    """Made from whole-number model inputs (token ids), so that it can select rows of a vocabulary."""

    @property
    def num_elements(self) -> int:
        """Elements the shape says."""
        return prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Bytes that must move to read or write it."""
        return self.num_distinct * self.element_bytes


@dataclass(frozen=True, slots=True)
class Ref:
    """Stands for a tensor among an operator's recorded arguments."""

    tensor: int


Argument = Ref | bool | int | float | str | None | tuple["Argument", ...]
"""A recorded argument; lists are tuples, and what is none of these (a dtype, a device) is its text."""


@dataclass(slots=True)
class TracedOp:
    """One operator as it ran."""

    target: str
    """Such as ``aten.mm``, without the overload."""
    args: tuple[Argument, ...]
    """In schema order, those not given with their defaults."""
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    module: str
    is_backward: bool
    sequence: int
    """Autograd's sequence number: a backward operator has that of the forward operator it undoes."""

    @property
    def name(self) -> str:
        """The operator without its namespace: ``mm`` for ``aten.mm``."""
        return self.target.partition(".")[2]

    def tensor_at(self, position: int) -> int:
        """The tensor that is the argument at a position."""
        return tensor_of(self.args[position])


@dataclass(slots=True)
class SavedTensor:
    """A tensor autograd kept for the backward pass, and the forward operator count when it did."""

    tensor: int
    num_ops_before: int
    module: str


@dataclass(slots=True)
class Trace:
    """All operators of one training step at one microbatch size, in the order they ran."""

    microbatch: int
    tensors: list[TracedTensor] = field(default_factory=list)
    ops: list[TracedOp] = field(default_factory=list)
    saved: list[SavedTensor] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    """The model's own inputs: tokens, labels, images."""


def tensor_of(argument: Argument) -> int:
    """The tensor an argument stands for."""
    assert isinstance(argument, Ref), f"a tensor was expected, not {argument!r}"
    return argument.tensor


def integers_of(argument: Argument) -> tuple[int, ...]:
    """An argument that is one integer or a list of them, such as an axis or axes, always as a tuple."""
    found = []
    for item in argument if isinstance(argument, tuple) else (argument,):
        assert isinstance(item, int), f"an integer was expected, not {item!r}"
        found.append(item)
    return tuple(found)


def without_unread_constants(trace: Trace) -> Trace:
    """The trace without operators that make constants nothing reads, such as an unused random number."""
    read = {t for op in trace.ops for t in op.inputs} | {kept.tensor for kept in trace.saved}
    keep = [True] * len(trace.ops)
    for number in range(len(trace.ops) - 1, -1, -1):
        op = trace.ops[number]
        makes_constants = all(trace.tensors[t].origin is Origin.CONSTANT for t in op.outputs)
        # An operator in place makes a new value of a storage that others read under its old number.
        if makes_constants and not read.intersection(op.outputs) and not op.target.endswith("_"):
            keep[number] = False
    before = [0]
    for kept in keep:
        before.append(before[-1] + kept)
    return Trace(
        microbatch=trace.microbatch,
        tensors=trace.tensors,
        ops=[op for op, kept in zip(trace.ops, keep, strict=True) if kept],
        saved=[
            SavedTensor(tensor=s.tensor, num_ops_before=before[s.num_ops_before], module=s.module)
            for s in trace.saved
        ],
        inputs=trace.inputs,
    )


def without_dead_views(trace: Trace) -> Trace:
    """The trace without views nobody reads and without the tensors that leaves unused, numbered anew."""
    ops = list(trace.ops)
    while True:
        read = {t for op in ops for t in op.inputs} | {kept.tensor for kept in trace.saved}
        alive = [op for op in ops if op.name not in _CUTS or read.intersection(op.outputs)]
        if len(alive) == len(ops):
            break
        ops = alive
    position = {id(op): number for number, op in enumerate(trace.ops)}
    kept_positions = [position[id(op)] for op in ops]
    used = sorted({t for op in ops for t in (*op.inputs, *op.outputs)} | {s.tensor for s in trace.saved})
    number = {tensor: new for new, tensor in enumerate(used)}

    def renamed(argument: Argument) -> Argument:
        if isinstance(argument, Ref):
            return Ref(number[argument.tensor])
        return tuple(renamed(item) for item in argument) if isinstance(argument, tuple) else argument

    for op in ops:
        op.args = tuple(renamed(argument) for argument in op.args)
        op.inputs = tuple(number[t] for t in op.inputs)
        op.outputs = tuple(number[t] for t in op.outputs)
    return Trace(
        microbatch=trace.microbatch,
        tensors=[trace.tensors[t] for t in used],
        ops=ops,
        saved=[
            SavedTensor(
                tensor=number[s.tensor],
                num_ops_before=bisect_left(kept_positions, s.num_ops_before),
                module=s.module,
            )
            for s in trace.saved
        ],
        inputs=[number[t] for t in trace.inputs if t in number],
    )
