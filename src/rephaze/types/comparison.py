"""What a comparison gives: baselines on one yardstick, the gain split by cause, what sharing a chip costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rephaze.types.chip import Chip
from rephaze.types.search import ModelPlan, SearchSettings

TPUV4_EXPERT = "tpuv4, expert plan"
TPUV4_SEARCHED = "tpuv4, searched plan"
ROUNDING = 1e-12
"""Relative: a bound and a value are sums of the same terms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertDegrees:
    """How an expert would spread a model, as far as published."""

    pp: int
    dp: int
    tp: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipAnswer:
    """A chip with a plan for each model, or why one of them has none."""

    chip: Chip
    area_um2: float
    objective: float
    """Zero if a model has no plan."""
    bound: float
    """No better plans of this kind are possible on the chip; above ``objective`` if a schedule is not proven."""
    plans: tuple[ModelPlan | None, ...]
    """One a model; None where nothing fits."""
    reason: str = ""
    """Why a model has no plan."""

    @property
    def is_proven(self) -> bool:
        """Whether the bound leaves nothing above the objective but rounding."""
        return self.bound <= self.objective * (1 + ROUNDING)

    @property
    def gap(self) -> float:
        """(bound - objective) / objective; 0 when proven, infinite without an objective."""
        if self.is_proven:
            return 0.0
        return self.bound / self.objective - 1.0 if self.objective > 0 else math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """One way to a chip and plans, with what it found and what it took."""

    name: str
    answer: ChipAnswer | None
    """None if it found no chip at all."""
    num_evaluations: int
    """Chips it looked at."""
    search_s: float
    note: str = ""

    @property
    def objective(self) -> float:
        """What it reached; zero if nothing."""
        return self.answer.objective if self.answer else 0.0

    @property
    def bound(self) -> float:
        """What it might have reached had every schedule been proven; zero if nothing."""
        return self.answer.bound if self.answer else 0.0

    @property
    def is_proven(self) -> bool:
        """Whether its value is exact: no schedule behind it could be shorter to any effect."""
        return self.answer is not None and self.answer.is_proven


@dataclass(frozen=True, kw_only=True, slots=True)
class GainStep:
    """One thing changed on the way from the start to the winner."""

    cause: str
    gain_factor: float
    """Objective after over objective before."""
    answer: ChipAnswer
    exceeds_area_limit: bool
    """The chip on the way is larger than the space allows: a stop for counting, not a design."""
    is_proven: bool
    """The objectives before and after are both exact."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GainSplit:
    """A gain as a product over causes."""

    start: str
    """Name of the baseline it starts from."""
    steps: tuple[GainStep, ...]
    total_gain_factor: float
    is_proven: bool
    """The objectives of the start and of the winner are both exact."""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharing:
    """What one model gives up on the chip common to all."""

    model: str
    common_samples_per_s: float
    own_samples_per_s: float
    own_chip: Chip
    lost_fraction: float
    is_proven: bool
    """Both answers are proven optimal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Everything ``rephaze compare`` tells."""

    settings: SearchSettings
    status: str
    """Of the co-search: only ``optimal`` is proven."""
    baselines: tuple[Baseline, ...]
    gains: GainSplit | None
    sharing: tuple[Sharing, ...]

    @property
    def references(self) -> tuple[Baseline, Baseline]:
        """What the others are set beside: TPUv4 with the expert's plan, and with the searched one."""
        by_name = {one.name: one for one in self.baselines}
        return by_name[TPUV4_EXPERT], by_name[TPUV4_SEARCHED]
