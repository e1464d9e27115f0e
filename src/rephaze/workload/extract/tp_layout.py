"""How tensor parallelism lays out a traced step: what each tensor and operator is divided into."""

from __future__ import annotations

from dataclasses import dataclass, field

from rephaze.types.graph import Split

MAX_DEGREE = 256
"""A group of more chips than this would spend its time in collectives."""


@dataclass(slots=True)
class Layout:
    """Degree-independent: units to deal out, never how many chips there are."""

    units: dict[int, int] = field(default_factory=dict)
    """For each divided tensor, its indivisible parts."""
    reduced: set[int] = field(default_factory=set)
    """Tensors that are partial sums and must be completed by an all-reduce."""
    splits: dict[int, tuple[Split, int]] = field(default_factory=dict)
    """For each divided operator, what is divided, and into how many indivisible parts."""
    divisor: int = 0
    """Every legal degree divides it; 0 when nothing is divided."""

    def units_of(self, tensor: int) -> int:
        """Indivisible parts of a tensor, 0 if every chip holds all of it."""
        return self.units.get(tensor, 0)

    def split_of(self, op: int) -> tuple[Split, int]:
        """What of an operator is divided."""
        return self.splits.get(op, (Split.NONE, 0))

    def legal_degrees(self) -> tuple[int, ...]:
        """Degrees up to ``MAX_DEGREE`` that divide all that is divided, ascending, 1 included."""
        largest = min(self.divisor, MAX_DEGREE)
        return tuple(d for d in range(1, largest + 1) if self.divisor % d == 0) or (1,)
