"""Two traces at two microbatch sizes as one, every size affine in the microbatch; a third size checks it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import zip_longest

from rephaze.errors import UnsupportedError
from rephaze.types.graph import Affine
from rephaze.workload.extract.trace import Trace, TracedOp, TracedTensor

ONE = Affine(1)


class DifferentOperatorsError(UnsupportedError):
    """The number of samples decides which operators run, as where a model goes through them one by one."""


@dataclass(slots=True)
class AffineTrace:
    """A trace whose sizes hold for every microbatch."""

    ops: list[TracedOp]
    tensors: list[TracedTensor]
    """At the first microbatch size: dtypes, origins, names, storages."""
    shapes: list[tuple[Affine, ...]]
    num_elements: list[Affine]
    """At distinct addresses."""
    storage_bytes: list[Affine]


def affine_product(factors: Iterable[Affine]) -> Affine:
    """The product, of which at most one factor may depend on the microbatch."""
    const, varying = 1, None
    for factor in factors:
        if factor.per_sample == 0:
            const *= factor.const
        elif varying is None:
            varying = factor
        else:
            raise UnsupportedError(
                "a tensor grows with the square of the microbatch; only work in proportion to it is handled"
            )
    return Affine(const) if varying is None else varying.times(const)


def without_comparisons(first: Trace, second: Trace, third: Trace) -> tuple[Trace, Trace, Trace]:
    """The traces without comparisons of every sample with every other that nothing else is made from.

    Models of images and texts return them beside what they compare; they grow with the square of the microbatch.
    """
    if any(len(one.tensors) != len(first.tensors) or len(one.ops) != len(first.ops) for one in (second, third)):
        return first, second, third
    squares = {
        number
        for number, (one, two) in enumerate(zip(first.tensors, second.tensors, strict=True))
        if sum(a != b for a, b in zip(one.shape, two.shape, strict=False)) > 1
    }
    dead = {n for n, op in enumerate(first.ops) if op.outputs and squares.issuperset(op.outputs)}
    if not dead or any(squares.intersection(op.inputs) for n, op in enumerate(first.ops) if n not in dead):
        return first, second, third
    return tuple(_without(trace, dead, squares) for trace in (first, second, third))  # type: ignore[return-value]


def _without(trace: Trace, dead: set[int], squares: set[int]) -> Trace:
    return Trace(
        microbatch=trace.microbatch,
        tensors=[
            replace(t, shape=(), num_distinct=1, storage_bytes=0) if n in squares else t
            for n, t in enumerate(trace.tensors)
        ],
        ops=[op for n, op in enumerate(trace.ops) if n not in dead],
        saved=[
            replace(kept, num_ops_before=kept.num_ops_before - sum(n < kept.num_ops_before for n in dead))
            for kept in trace.saved
            if kept.tensor not in squares
        ],
        inputs=trace.inputs,
    )


def merge(first: Trace, second: Trace) -> AffineTrace:
    """The line through two traces; ``UnsupportedError`` if they did not run the same operators."""
    _refuse_different(first, second)
    sizes = (first.microbatch, second.microbatch)
    pairs = list(zip(first.tensors, second.tensors, strict=True))
    shapes = [tuple(_line(sizes, a, b) for a, b in zip(one.shape, two.shape, strict=True)) for one, two in pairs]
    for shape in shapes:
        affine_product(shape)
    return AffineTrace(
        ops=first.ops,
        tensors=first.tensors,
        shapes=shapes,
        num_elements=[_line(sizes, one.num_distinct, two.num_distinct) for one, two in pairs],
        storage_bytes=[_line(sizes, one.storage_bytes, two.storage_bytes) for one, two in pairs],
    )


def check_against(merged: AffineTrace, third: Trace) -> None:
    """Raise unless the merged sizes are those of a trace at yet another microbatch size."""
    b = third.microbatch
    wrong = [op.target for op, other in zip(merged.ops, third.ops, strict=False) if op.target != other.target]
    agrees = (
        not wrong
        and len(merged.ops) == len(third.ops)
        and all(
            tuple(size.at(b) for size in shape) == tensor.shape
            for shape, tensor in zip(merged.shapes, third.tensors, strict=True)
        )
        and all(
            elements.at(b) == tensor.num_distinct
            for elements, tensor in zip(merged.num_elements, third.tensors, strict=True)
        )
    )
    if not agrees:
        raise UnsupportedError(f"the model's sizes are not affine in the microbatch (checked at {b} samples)")


def _refuse_different(first: Trace, second: Trace) -> None:
    for number, (one, two) in enumerate(zip_longest(first.ops, second.ops)):
        same = (
            one is not None
            and two is not None
            and one.target == two.target
            and one.inputs == two.inputs
            and one.outputs == two.outputs
        )
        if not same:
            names = [op.target if op is not None else "nothing" for op in (one, two)]
            if names[0] == names[1]:
                names[1] = "the same with other operands: it goes through the samples one by one"
            where = (one or two).module or "the model"
            raise DifferentOperatorsError(
                f"the model runs different operators for {first.microbatch} and {second.microbatch} samples: "
                f"number {number} in {where} is {names[0]} and {names[1]}"
            )


def _line(sizes: tuple[int, int], at_first: int, at_second: int) -> Affine:
    slope, rest = divmod(at_second - at_first, sizes[1] - sizes[0])
    if rest:
        raise UnsupportedError("the model's sizes are not affine in the microbatch")
    return Affine(at_first - slope * sizes[0], slope)
