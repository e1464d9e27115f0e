"""Cycles of mapped products on shapes between known ones, without mapping them.

More buffer or bandwidth never makes the best mapping slower (docs/proof.md, 4.7). So where a product takes as long
on a shape with no less of each as on one with no more of any, it takes just as long on all shapes in between: most
products are limited by the arrays, and one chip of a region speaks for the rest of it. What is found so is exact,
whatever else was mapped before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rephaze.estimate.op_block import Dims
from rephaze.recent import Recent

MOST_PRODUCTS = 60_000
"""Kept, at a kilobyte and more each."""


class Amounts(NamedTuple):
    """What shapes with the same cores may differ in."""

    global_buffer_bytes: float
    global_buffer_bytes_per_cycle: float
    hbm_bytes_per_cycle: float

    def holds(self, other: Amounts) -> bool:
        """Whether there is no less of anything."""
        return self[0] >= other[0] and self[1] >= other[1] and self[2] >= other[2]


ProductKey = tuple[str, Dims, float, bytes]
"""Model and version, dimensions, side bytes, cores."""


class _Ends(NamedTuple):
    """Of shapes with as many cycles, those that no other holds, and those that hold no other.

    Tuples, and the same one while there is one shape: of most products no more is known, and there are many.
    """

    largest: tuple[Amounts, ...]
    smallest: tuple[Amounts, ...]


_OfProduct = dict[float, _Ends]
"""One product on cores of one kind, by cycles."""


@dataclass(frozen=True, eq=False, slots=True)
class CyclesBetween:
    """Known cycles of products."""

    known: Recent[ProductKey, _OfProduct] = field(default_factory=lambda: Recent(MOST_PRODUCTS))

    def find(self, key: ProductKey, amounts: Amounts) -> float | None:
        """Cycles of a product on a shape, if those on shapes around it tell."""
        own = self.known.get(key)
        if own is None:
            return None
        buffer_bytes, buffer_rate, hbm_rate = amounts
        # Bounds ask this most of all: written out, it takes a third of the time of ``holds`` in ``any``.
        for cycles, ends in own.items():
            for one in ends[0]:
                if one[0] >= buffer_bytes and one[1] >= buffer_rate and one[2] >= hbm_rate:
                    break
            else:
                continue
            for one in ends[1]:
                if one[0] <= buffer_bytes and one[1] <= buffer_rate and one[2] <= hbm_rate:
                    return cycles
        return None

    def add(self, key: ProductKey, amounts: Amounts, cycles: float) -> None:
        """Take what was mapped."""
        own = self.known.get(key)
        if own is None:
            self.known[key] = own = {}
        ends = own.get(cycles)
        if ends is None:
            alone = (amounts,)
            own[cycles] = _Ends(alone, alone)
            return
        largest, smallest = ends
        if not any(one.holds(amounts) for one in largest):
            largest = (*(one for one in largest if not amounts.holds(one)), amounts)
        if not any(amounts.holds(one) for one in smallest):
            smallest = (*(one for one in smallest if not one.holds(amounts)), amounts)
        own[cycles] = _Ends(largest, smallest)
