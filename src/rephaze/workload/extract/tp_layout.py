"""The tensor-parallel layout of a traced step: what is sharded, what is a partial sum, which degrees are legal."""

from __future__ import annotations

from dataclasses import dataclass, field

from rephaze.types.graph import Split

MAX_DEGREE = 256
"""A group of more chips than this would spend its time in collectives."""


@dataclass(slots=True)
class Layout:
    """Degree-independent: units to shard, never how many chips there are."""

    units: dict[int, int] = field(default_factory=dict)
    """For each sharded tensor, its indivisible parts."""
    reduced: set[int] = field(default_factory=set)
    """Tensors that are made as partial sums and that an all-reduce follows."""
    splits: dict[int, tuple[Split, int]] = field(default_factory=dict)
    """For each sharded operator, what of it is split, and into how many indivisible parts."""
    divisor: int = 0
    """Every legal degree divides it; 0 when nothing is sharded."""

    def units_of(self, tensor: int) -> int:
        """Indivisible parts of a tensor, 0 if it is replicated."""
        return self.units.get(tensor, 0)

    def split_of(self, op: int) -> tuple[Split, int]:
        """What of an operator is split, and into how many indivisible parts."""
        return self.splits.get(op, (Split.NONE, 0))

    def legal_degrees(self) -> tuple[int, ...]:
        """Degrees up to ``MAX_DEGREE`` that divide all that is sharded, ascending, 1 included."""
        largest = min(self.divisor, MAX_DEGREE)
        return tuple(d for d in range(1, largest + 1) if self.divisor % d == 0) or (1,)
