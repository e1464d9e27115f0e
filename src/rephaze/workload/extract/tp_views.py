"""What one chip of a tensor-parallel group holds of a tensor, and how views carry it along.

A tensor is whole on every chip (``None``), a partial sum on each (``PARTIAL``), or dealt out along one axis
(``Shard``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Shard:
    """Dealt out along ``dim``, whose length is outer x num_units x (elements of a unit).

    ``outer`` counts what stands before the dealt-out units on the same axis: the samples of a merged
    batch-and-heads axis, or the three parts of a packed query-key-value weight.
    """

    dim: int
    num_units: int
    outer: int = 1
    is_padded: bool = False
    """A vocabulary: padded where a degree does not divide it."""
    blame: frozenset[str] = frozenset()
    """The weights whose split made this so."""


@dataclass(frozen=True, slots=True)
class Partial:
    """Every chip holds a summand."""


PARTIAL: Final = Partial()
State = Shard | Partial | None
Shape = tuple[int, ...]


class SplitConflictError(Exception):
    """A layout that cannot be carried through an operator; ``blame`` are the weights to keep whole."""

    def __init__(self, blame: frozenset[str]) -> None:
        self.blame = blame
        super().__init__(", ".join(sorted(blame)))


def joined(one: Shard, other: Shard, dim: int) -> Shard:
    """The layout of a result that both operands' layouts allow."""
    return Shard(
        dim=dim,
        num_units=gcd(one.num_units, other.num_units) if not one.is_padded else one.num_units,
        outer=max(one.outer, other.outer),
        is_padded=one.is_padded and other.is_padded,
        blame=one.blame | other.blame,
    )


def through_view(name: str, args: tuple[Any, ...], shard: Shard, source: Shape, out: Shape) -> Shard:
    """The layout of a view of a dealt-out tensor.

    Args:
        name: The ATen operator.
        args: Its arguments after the tensor.
        shard: The tensor's layout.
        source: The tensor's shape.
        out: The view's shape.

    Raises:
        SplitConflictError: If the view mixes what different chips hold.
    """
    rank = len(source)
    dim = shard.dim
    if name in ("view", "_unsafe_view", "_reshape_alias", "reshape"):
        return _reshaped(shard, source, out)
    if name == "t":
        return replace(shard, dim=rank - 1 - dim)
    if name == "transpose":
        first, second = (int(a) % rank for a in args[:2])
        return replace(shard, dim={first: second, second: first}.get(dim, dim))
    if name == "permute":
        return replace(shard, dim=[int(a) % rank for a in args[0]].index(dim))
    if name == "expand":
        return replace(shard, dim=dim + len(out) - rank)
    if name == "unsqueeze":
        added = int(args[0]) % (rank + 1)
        return replace(shard, dim=dim + (added <= dim))
    if name == "squeeze":
        given = args[0] if args else tuple(i for i, size in enumerate(source) if size == 1)
        removed = [int(a) % rank for a in (given if isinstance(given, tuple) else (given,))]
        removed = [axis for axis in removed if source[axis] == 1]
        return replace(shard, dim=dim - sum(axis < dim for axis in removed))
    if name in ("slice", "narrow", "split", "split_with_sizes"):
        axis = int(args[0] if name in ("slice", "narrow") else args[1]) % rank
        return shard if axis != dim or source[dim] == out[dim] else cut(shard, source[dim], out[dim])
    if name in ("select", "unbind"):
        axis = int(args[0]) % rank if args else 0
        if axis == dim:
            raise SplitConflictError(shard.blame)
        return replace(shard, dim=dim - (axis < dim))
    raise SplitConflictError(shard.blame)


def cut(shard: Shard, length: int, piece: int) -> Shard:
    """The layout of a piece of the dealt-out axis.

    A weight that packs several (query, key, value; gate and up) is dealt out part by part, so that each piece
    is dealt out alike.
    """
    unit = length // (shard.outer * shard.num_units)
    if shard.outer > 1:
        if piece * shard.outer == length:
            return replace(shard, outer=1)
        raise SplitConflictError(shard.blame)
    if piece % unit or piece // unit < 2:
        raise SplitConflictError(shard.blame)
    return replace(shard, num_units=piece // unit)


def _reshaped(shard: Shard, source: Shape, out: Shape) -> Shard:
    """Finds the axis of ``out`` in which the dealt-out units now stand."""
    before = prod(source[: shard.dim]) * shard.outer
    prefix = 1
    for axis, length in enumerate(out):
        if prefix * length > before and length > 1:
            if before % prefix:
                break
            outer = before // prefix
            if length % outer:
                break
            rest = length // outer
            if rest % shard.num_units == 0:
                return replace(shard, dim=axis, outer=outer)
            if shard.num_units % rest == 0:
                return replace(shard, dim=axis, outer=outer, num_units=rest)
            break
        prefix *= length
    raise SplitConflictError(shard.blame)
