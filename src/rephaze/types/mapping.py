"""How a GEMM runs on a chip: the answer of the mapper."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class GemmEstimate:
    """Time and energy of one GEMM on one core shape, with the mapping that gives them.

    ``mapping`` has plain keys and values, so that it can be printed, stored and replayed: see
    docs/how-it-works.md for what each one means.
    """

    cycles: float
    """Not rounded; infinite if nothing fits."""
    energy_j: float
    bound_cycles: float
    """Closed form, without a search; never above ``cycles``."""
    mapping: dict[str, object] = field(default_factory=dict)
    reason: str = ""
    """Why nothing fits, if so."""

    @property
    def is_feasible(self) -> bool:
        """Whether a mapping was found."""
        return self.cycles < float("inf")
