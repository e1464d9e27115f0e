"""How one chip of a tensor-parallel group holds a tensor, and how views carry that along.

The three ways have the names of torch's DTensor: ``Shard``, ``Replicate``, ``Partial``. Together they are a
``Sharding``; DTensor's word for that, placement, here means the layers spread over a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Final

from rephaze.workload.extract.trace import Argument, integers_of


@dataclass(frozen=True, slots=True)
class Shard:
    """Split along ``dim``, whose length is outer x num_units x (elements of a unit).

    ``outer`` counts what stands before the sharded units on the same axis: the samples of a merged
    batch-and-heads axis, or the three parts of a packed query-key-value weight.
    """

    dim: int
    num_units: int
    outer: int = 1
    is_padded: bool = False
    """A vocabulary: padded where a degree does not divide it."""
    blame: frozenset[str] = frozenset()
    """The weights that were sharded and so made this one."""


@dataclass(frozen=True, slots=True)
class Replicate:
    """Every chip holds the full tensor."""


@dataclass(frozen=True, slots=True)
class Partial:
    """Every chip holds a partial sum of the full shape; an all-reduce makes it ``Replicate``."""


REPLICATE: Final = Replicate()
PARTIAL: Final = Partial()
Sharding = Shard | Replicate | Partial
Shape = tuple[int, ...]


class ShardingConflictError(Exception):
    """A sharding that cannot be carried through an operator; ``blame`` are the weights to replicate instead."""

    def __init__(self, blame: frozenset[str]) -> None:
        self.blame = blame
        super().__init__(", ".join(sorted(blame)))


def joined(one: Shard, other: Shard, dim: int) -> Shard:
    """The shard of a result that both operands' shards allow."""
    return Shard(
        dim=dim,
        num_units=gcd(one.num_units, other.num_units) if not one.is_padded else one.num_units,
        outer=max(one.outer, other.outer),
        is_padded=one.is_padded and other.is_padded,
        blame=one.blame | other.blame,
    )


def through_view(name: str, args: tuple[Argument, ...], shard: Shard, source: Shape, out: Shape) -> Shard:
    """The shard of a view of a sharded tensor.

    Args:
        name: The ATen operator.
        args: Its arguments after the tensor.
        shard: The tensor's.
        source: The tensor's shape.
        out: The view's shape.

    Raises:
        ShardingConflictError: If the view mixes what different chips hold.
    """
    rank = len(source)
    dim = shard.dim
    if name in ("view", "_unsafe_view", "_reshape_alias", "reshape"):
        return _reshaped(shard, source, out)
    if name == "t":
        return replace(shard, dim=rank - 1 - dim)
    if name == "transpose":
        first, second = (a % rank for a in integers_of(args[:2]))
        return replace(shard, dim={first: second, second: first}.get(dim, dim))
    if name == "permute":
        return replace(shard, dim=[a % rank for a in integers_of(args[0])].index(dim))
    if name == "expand":
        return replace(shard, dim=dim + len(out) - rank)
    if name == "unsqueeze":
        added = integers_of(args[0])[0] % (rank + 1)
        return replace(shard, dim=dim + (added <= dim))
    if name == "squeeze":
        given = integers_of(args[0]) if args else range(rank)
        removed = {a % rank for a in given if source[a % rank] == 1}
        return replace(shard, dim=dim - sum(axis < dim for axis in removed))
    if name in ("slice", "narrow", "split", "split_with_sizes"):
        axis = integers_of(args[0] if name in ("slice", "narrow") else args[1])[0] % rank
        return shard if axis != dim or source[dim] == out[dim] else cut(shard, source[dim], out[dim])
    if name == "as_strided" and differs_elsewhere(dim, source, out):
        return shard
    if name in ("select", "unbind"):
        axis = integers_of(args[0])[0] % rank if args else 0
        if axis == dim:
            raise ShardingConflictError(shard.blame)
        return replace(shard, dim=dim - (axis < dim))
    raise ShardingConflictError(shard.blame)


def differs_elsewhere(dim: int, source: Shape, out: Shape) -> bool:
    """Whether two shapes differ in one axis at most, and not in ``dim``.

    So do those of a tensor and a slice of it, and of a slice and what it was taken from.
    """
    if len(source) != len(out):
        return False
    differing = [axis for axis, (a, b) in enumerate(zip(source, out, strict=True)) if a != b]
    return len(differing) <= 1 and dim not in differing


def cut(shard: Shard, length: int, piece: int) -> Shard:
    """The shard of a piece of the sharded axis.

    A weight that packs several (query, key, value; gate and up) is sharded part by part, so that every piece
    is sharded alike.
    """
    unit = length // (shard.outer * shard.num_units)
    if shard.outer > 1:
        if piece * shard.outer == length:
            return replace(shard, outer=1)
        raise ShardingConflictError(shard.blame)
    if piece % unit or piece // unit < 2:
        raise ShardingConflictError(shard.blame)
    return replace(shard, num_units=piece // unit)


def _reshaped(shard: Shard, source: Shape, out: Shape) -> Shard:
    """Finds the axis of ``out`` in which the sharded units now stand."""
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
    raise ShardingConflictError(shard.blame)
