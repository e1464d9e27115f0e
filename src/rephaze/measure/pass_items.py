"""What passes have in common operator by operator: each that differs once, and in which passes it occurs.

Cuts of a model share most of their operators. What a weight set charges for an operator depends on the operator
and on whether the path that is charged goes through it, not on the pass it is in; so it is found once, and passes
are sums (``unit_time``).

Axis letters: o = operator, i = item, p = pass, k = class of passes, t = layer type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.op_at import OpAt
from rephaze.estimate.op_block import OpBlock
from rephaze.measure.keep_budgets import reference_s
from rephaze.measure.pass_classes import Chain, CommonPass
from rephaze.types.latency import Engine

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

PASSES = 2
"""Directions that are looked at: forward and backward."""


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class PassItems:
    """The operators of all passes of a model, without repetition.

    Rows are compressed: those of the n-th are from ``first[n]`` to ``first[n + 1]``.
    """

    block: OpBlock
    """The operators."""
    engine_o: tuple[Engine, ...]
    """What each holds in all the passes it stands for."""
    first_chain_i: Ints
    """Ways to do what an item does."""
    first_op_h: Ints
    """Operators of each way, one after another."""
    op_of_h: Ints
    first_item_p: Ints
    item_of_p: Ints
    is_on_path_p: Flags
    """Whether the path charged for goes through an item of a pass."""
    pass_kdt: Ints
    """By class, direction and layer type."""

    @property
    def num_passes(self) -> int:
        """Without repetition."""
        return len(self.first_item_p) - 1

    def ops_of(self, is_asked_k: Flags) -> Flags:
        """Which operators the passes of some classes have."""
        is_asked_p = np.zeros(self.num_passes, dtype=np.bool_)
        is_asked_p[self.pass_kdt[is_asked_k].reshape(-1)] = True
        is_asked_i = np.zeros(len(self.first_chain_i) - 1, dtype=np.bool_)
        is_asked_i[self.item_of_p[np.repeat(is_asked_p, np.diff(self.first_item_p))]] = True
        is_asked_h = np.repeat(is_asked_i, np.diff(self.first_chain_i))
        found = np.zeros(len(self.block), dtype=np.bool_)
        found[self.op_of_h[np.repeat(is_asked_h, np.diff(self.first_op_h))]] = True
        return found


def pass_items(
    num_classes: int,
    num_types: int,
    common_pass: Callable[[int, int, int], CommonPass],
) -> PassItems:
    """The operators of all passes.

    Args:
        num_classes: Of passes.
        num_types: Of layers.
        common_pass: Of a class, a layer type and a direction.
    """
    listing = _Listing()
    pass_kdt = np.array(
        [
            [
                [listing.pass_of(common_pass(k, kind, direction)) for kind in range(num_types)]
                for direction in range(PASSES)
            ]
            for k in range(num_classes)
        ],
        dtype=np.int64,
    )
    return listing.items(pass_kdt)


class _Listing:
    """Operators, items and passes as they come."""

    def __init__(self) -> None:
        self._ops: dict[tuple[object, Engine], tuple[int, OpAt]] = {}
        self._items: dict[tuple[tuple[int, ...], ...], int] = {}
        self._passes: dict[int, tuple[int, CommonPass]] = {}
        self._rows: list[list[int]] = []
        self._paths: list[Flags] = []

    def pass_of(self, common: CommonPass) -> int:
        # The pass is kept beside its number, so that no other takes its place.
        if id(common) not in self._passes:
            structure = common.structure
            timed = [
                o
                for o in structure.order.tolist()
                if common.chains_o[o] and structure.engines[o] is not Engine.NONE
            ]
            self._rows.append([self._item_of(common.chains_o[o], structure.engines[o]) for o in timed])
            self._paths.append(_longest_path(common, timed))
            self._passes[id(common)] = len(self._passes), common
        return self._passes[id(common)][0]

    def _item_of(self, chains: Sequence[Chain], engine: Engine) -> int:
        key = tuple(tuple(self._op_of(op, engine) for op in chain) for chain in chains)
        return self._items.setdefault(key, len(self._items))

    def _op_of(self, op: OpAt, engine: Engine) -> int:
        return self._ops.setdefault((op.key, engine), (len(self._ops), op))[0]

    def items(self, pass_kdt: Ints) -> PassItems:
        chains = [chain for item in self._items for chain in item]
        return PassItems(
            block=OpBlock([op for _, op in self._ops.values()]),
            engine_o=tuple(engine for _, engine in self._ops),
            first_chain_i=_firsts(len(item) for item in self._items),
            first_op_h=_firsts(len(chain) for chain in chains),
            op_of_h=np.array([o for chain in chains for o in chain], dtype=np.int64),
            first_item_p=_firsts(len(row) for row in self._rows),
            item_of_p=np.array([item for row in self._rows for item in row], dtype=np.int64),
            is_on_path_p=np.concatenate(self._paths),
            pass_kdt=pass_kdt,
        )


def _firsts(lengths: Iterator[int]) -> Ints:
    return np.concatenate(([0], np.cumsum(list(lengths)))).astype(np.int64)


def _longest_path(common: CommonPass, timed: Sequence[int]) -> Flags:
    """Which operators lie on a path that takes long on a machine of reference; any path would do.

    Args:
        common: The pass.
        timed: Its operators that take time, in an order that keeps to theirs.
    """
    structure = common.structure
    place = structure.place[list(timed)]
    before = structure.before_oo[np.ix_(place, place)]
    reach, via = np.zeros(len(timed)), np.full(len(timed), -1)
    for at, o in enumerate(timed):
        earlier = np.flatnonzero(before[at])
        if len(earlier):
            via[at] = earlier[reach[earlier].argmax()]
            reach[at] = reach[via[at]]
        reach[at] += sum(reference_s(op.op, op.microbatch) for op in common.chains_o[o][0])
    found = np.zeros(len(timed), dtype=np.bool_)
    at = int(reach.argmax()) if len(timed) else -1
    while at >= 0:
        found[at] = True
        at = int(via[at])
    return found
