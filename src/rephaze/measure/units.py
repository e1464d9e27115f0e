"""What plans of one model on one chip are looked for by: the unit of its cuts, and the chip's memory."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.cut import GraphCut
from rephaze.types.placement import RecomputePolicy
from rephaze.types.space import DesignSpace


@dataclass(frozen=True, slots=True)
class Unit:
    """One choice of what changes a layer's times or replay: the cut, microbatch size, recompute policy."""

    cut: GraphCut
    microbatch: int
    policy: RecomputePolicy

    @property
    def tp(self) -> int:
        """Tensor-parallel degree."""
        return self.cut.tp


@dataclass(frozen=True, slots=True)
class Memory:
    """What a plan depends on of a chip besides its layers' times."""

    hbm_bytes: int
    hbm_bytes_per_s: float


def memory_options(space: DesignSpace, hbm_bytes: int, hbm_bytes_per_s: float) -> list[Memory]:
    """Memories a chip may have, smallest first: the space's options below the chip's own size, and that."""
    sizes = sorted({size for size in space.hbm_bytes_options if size < hbm_bytes} | {hbm_bytes})
    return [Memory(size, hbm_bytes_per_s) for size in sizes]
