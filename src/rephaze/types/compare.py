"""What a comparison gives: baselines on one yardstick, the gain split by cause, what sharing a chip costs."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.chip import Chip
from rephaze.types.search import ModelPlan, SearchSettings


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
    plans: tuple[ModelPlan | None, ...]
    """One a model; None where nothing fits."""
    reason: str = ""
    """Why a model has no plan."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class GainStep:
    """One thing changed on the way from the start to the winner."""

    cause: str
    gain_factor: float
    """Objective after over objective before."""
    answer: ChipAnswer
    exceeds_area_limit: bool
    """The chip on the way is larger than the space allows: a stop for counting, not a design."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GainSplit:
    """A gain as a product over causes."""

    start: str
    """Name of the baseline it starts from."""
    steps: tuple[GainStep, ...]
    total_gain_factor: float
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
