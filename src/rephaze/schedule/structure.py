"""The part of a scheduling problem that does not depend on the chip, compiled once per operator graph.

Axis letters: o = operator of the graph, i = operator of a part, w = 64-bit word of a bitset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import SpecError
from rephaze.schedule.tables import Bits, Flags, Ints, Preds
from rephaze.schedule.twins import Exchange, exchanges
from rephaze.types.latency import Engine

_MAX_MATCHED = 400
USES_TENSOR = (Engine.TENSOR, Engine.FUSED)
USES_VECTOR = (Engine.VECTOR, Engine.FUSED)


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class Part:
    """A maximal piece that cannot be cut in series: everything before it ends before it begins.

    Operators are in topological order and numbered from 0; ``ops`` gives their places in the graph.
    """

    ops: Ints
    ancestors_iw: Bits
    descendants_iw: Bits
    pred_start: Ints
    """Immediate predecessors of i are ``pred_index[pred_start[i]:pred_start[i + 1]]``, none implied."""
    pred_index: Ints
    exchanges: tuple[Exchange, ...]
    """Operators that may change places if their times agree."""
    uses_tensor: Flags
    uses_vector: Flags
    uses_link: Flags
    tensor_width: int
    """Most tensor users that can run at once: their largest antichain."""
    vector_width: int
    link_width: int
    width: int
    """Most operators that can run at once."""

    @property
    def preds(self) -> Preds:
        """Immediate predecessors, as compiled functions take them."""
        return Preds(start_i=self.pred_start, pred=self.pred_index)


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class ScheduleStructure:
    """An operator graph ready for scheduling on many chips: engines and the transitive closure."""

    engines: tuple[Engine, ...]
    order: Ints
    """Positions of the operators in a topological order."""
    before_oo: Flags
    """``before_oo[a, b]``: operator b precedes a, directly or not; both numbered along ``order``."""
    uses_tensor: Flags
    """Along ``order``, as the next two."""
    uses_vector: Flags
    uses_link: Flags
    place: Ints
    """Where along ``order`` each operator comes."""
    takes_time: Flags
    """Along ``order``: not a view, holds some engine."""
    parts_of: dict[bytes, tuple[Part, ...]] = field(default_factory=dict)
    """Series parts by which operators take time, filled as asked for."""

    @property
    def num_ops(self) -> int:
        """Operators of the graph, views included."""
        return len(self.engines)


def compile_structure(
    engines: Sequence[Engine], edges: Sequence[tuple[int, int]], names: Sequence[str] | None = None
) -> ScheduleStructure:
    """The structure of an operator graph; raises ``SpecError`` if the edges form a cycle.

    Args:
        engines: One per operator.
        edges: Pairs (producer, consumer) of positions.
        names: Used in the error only.
    """
    num_ops = len(engines)
    children: list[list[int]] = [[] for _ in range(num_ops)]
    waiting = [0] * num_ops
    for src, dst in edges:
        children[src].append(dst)
        waiting[dst] += 1
    order = [o for o in range(num_ops) if waiting[o] == 0]
    for o in order:  # grows while it is walked
        for child in children[o]:
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    if len(order) < num_ops:
        raise _cycle_error(children, waiting, names or [f"op {o}" for o in range(num_ops)])
    place = [0] * num_ops
    for k, o in enumerate(order):
        place[o] = k
    before = np.zeros((num_ops, num_ops), dtype=np.bool_)
    for k, o in enumerate(order):
        for child in children[o]:
            before[place[child]] |= before[k]
            before[place[child], k] = True
    kinds = [engines[o] for o in order]
    return ScheduleStructure(
        engines=tuple(engines),
        order=np.array(order, dtype=np.int64),
        place=np.array(place, dtype=np.int64),
        before_oo=before,
        uses_tensor=np.array([kind in USES_TENSOR for kind in kinds], dtype=np.bool_),
        uses_vector=np.array([kind in USES_VECTOR for kind in kinds], dtype=np.bool_),
        uses_link=np.array([kind is Engine.LINK for kind in kinds], dtype=np.bool_),
        takes_time=np.array([kind is not Engine.NONE for kind in kinds], dtype=np.bool_),
    )


def series_parts(structure: ScheduleStructure, takes_time: Flags) -> tuple[Part, ...]:
    """The series parts of the operators that take time, first to last; the others are contracted.

    Args:
        structure: Of the graph.
        takes_time: Along ``structure.order``: which operators are kept. Paths through the others still count.
    """
    key = np.packbits(takes_time).tobytes()
    parts = structure.parts_of.get(key)
    if parts is None:
        parts = structure.parts_of[key] = _cut(structure, takes_time)
    return parts


def _cut(structure: ScheduleStructure, takes_time: Flags) -> tuple[Part, ...]:
    kept = np.flatnonzero(takes_time)
    before = structure.before_oo[np.ix_(kept, kept)]
    # Ordered by the number of ancestors, any prefix that wholly precedes the rest is a prefix of this order.
    by_depth = np.argsort(before.sum(axis=1), kind="stable")
    kept, before = kept[by_depth], before[np.ix_(by_depth, by_depth)]
    num_kept = len(kept)
    if num_kept == 0:
        return ()
    covered = np.cumsum(before, axis=1)  # covered[i, k]: ancestors of i among the first k + 1
    cuts = [0, *(k for k in range(1, num_kept) if (covered[k:, k - 1] == k).all()), num_kept]
    return tuple(_part(structure, kept[a:b], before[a:b, a:b]) for a, b in pairwise(cuts))


def _part(structure: ScheduleStructure, kept: NDArray[np.intp], before: Flags) -> Part:
    tensor, vector, link = (
        flags[kept] for flags in (structure.uses_tensor, structure.uses_vector, structure.uses_link)
    )
    # j is an immediate predecessor of i unless some k lies between: before[i, k] and before[k, j].
    counts = before.astype(np.float32)  # exact to 2**24, and fast
    immediate = before & ~((counts @ counts) > 0)
    preds = [np.flatnonzero(row) for row in immediate]
    kind_i = tensor + 2 * vector + 4 * link.astype(np.int64)
    return Part(
        ops=structure.order[kept],
        ancestors_iw=_packed(before),
        descendants_iw=_packed(before.T),
        pred_start=np.cumsum([0, *map(len, preds)], dtype=np.int64),
        pred_index=np.concatenate(preds).astype(np.int64),
        exchanges=exchanges(before, kind_i),
        uses_tensor=tensor,
        uses_vector=vector,
        uses_link=link,
        tensor_width=largest_antichain(before[np.ix_(tensor, tensor)]),
        vector_width=largest_antichain(before[np.ix_(vector, vector)]),
        link_width=largest_antichain(before[np.ix_(link, link)]),
        width=largest_antichain(before),
    )


def largest_antichain(before: Flags) -> int:
    """Size of the largest set with no two comparable: elements less a maximum matching (Dilworth).

    For sets past a few hundred, where it never matters in practice, their size: an upper bound.

    Args:
        before: A transitive relation: ``before[i, j]`` if j precedes i.
    """
    size = len(before)
    if size > _MAX_MATCHED:
        return size
    preds = [np.flatnonzero(row).tolist() for row in before]
    matched_to = [-1] * size

    def augment(i: int, seen: set[int]) -> bool:
        for j in preds[i]:
            if j not in seen:
                seen.add(j)
                if matched_to[j] < 0 or augment(matched_to[j], seen):
                    matched_to[j] = i
                    return True
        return False

    return size - sum(augment(i, set()) for i in range(size))


def _packed(flags: Flags) -> Bits:
    num_words = max(1, -(-flags.shape[1] // 64))
    raw = np.zeros((len(flags), 8 * num_words), dtype=np.uint8)
    bits = np.packbits(flags, axis=1, bitorder="little")
    raw[:, : bits.shape[1]] = bits
    return raw.view("<u8").astype(np.uint64)


def _cycle_error(children: list[list[int]], waiting: list[int], names: Sequence[str]) -> SpecError:
    stuck = {o for o, count in enumerate(waiting) if count > 0}
    parent = {child: o for o in stuck for child in children[o] if child in stuck}
    walk = [min(stuck)]
    while walk[-1] not in walk[:-1]:
        walk.append(parent[walk[-1]])
    loop = walk[walk.index(walk[-1]) :][::-1]
    shown = " -> ".join(names[o] for o in loop[:6]) + (" -> ..." if len(loop) > 6 else "")
    return SpecError("edges", shown, "must form no cycle", "remove one of these edges")
