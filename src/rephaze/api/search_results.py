"""What searches and studies give: the records of ``rephaze.types``, able to show themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from rephaze.api.present import Block, Shown
from rephaze.types.chip import Chip
from rephaze.types.comparison import Comparison
from rephaze.types.pareto import ParetoFront
from rephaze.types.search import ModelPlan, SearchResult, SearchSettings
from rephaze.types.sensitivity import Sensitivity
from rephaze.types.verification import Check

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Exploration(Shown, SearchResult):
    """The answer of a search with what was searched."""

    settings: SearchSettings

    def blocks(self) -> Sequence[Block]:
        """Headline, chip, plans, certificate and what they range over."""
        from rephaze.api.search_views import exploration_blocks

        return exploration_blocks(self)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ComparedBaselines(Shown, Comparison):
    """The co-search beside every baseline."""

    def write_html(self, path: str | Path) -> Path:
        """Write plot and table as a page that opens without a network, and return its path."""
        from rephaze.report.compare_plot import write_comparison_html

        return write_comparison_html(Path(path), self)

    def blocks(self) -> Sequence[Block]:
        """Headline, baselines, the gain by cause, what sharing a chip costs."""
        from rephaze.api.comparison_views import comparison_blocks

        return comparison_blocks(self)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ChangedAnswers(Shown, Sensitivity):
    """The best chip, and again with one assumption changed at a time."""

    def write_html(self, path: str | Path) -> Path:
        """Write plot and table as a page that opens without a network, and return its path."""
        from rephaze.report.sensitivity_plot import write_sensitivity_html

        return write_sensitivity_html(Path(path), self)

    def blocks(self) -> Sequence[Block]:
        """Headline and one row for each change."""
        from rephaze.api.search_views import sensitivity_blocks

        return sensitivity_blocks(self)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Tradeoffs(Shown, ParetoFront):
    """The designs of a run that nothing beats, and the best chip per area budget."""

    def blocks(self) -> Sequence[Block]:
        """Headline, points and budgets."""
        from rephaze.api.search_views import pareto_blocks

        return pareto_blocks(self)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Verification(Shown):
    """Every claim of a run, derived again."""

    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def num_failed(self) -> int:
        """Checks that did not pass."""
        return sum(not check.passed for check in self.checks)

    def blocks(self) -> Sequence[Block]:
        """Headline and checks."""
        from rephaze.api.search_views import verification_blocks

        return verification_blocks(self)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class BestDesign(Shown):
    """The winner of a run: its chip and the plan of each model."""

    design: int
    """Position in the enumerated space."""
    chip: Chip
    area_um2: float
    objective: float
    plans: tuple[ModelPlan, ...]

    def blocks(self) -> Sequence[Block]:
        """Chip and plans."""
        from rephaze.api.search_views import best_blocks

        return best_blocks(self)


def shown_as(kind: type[ResultT], record: Any, **more: Any) -> ResultT:
    """A record as the result of the same fields that shows itself."""
    return kind(**{field.name: getattr(record, field.name) for field in fields(record)}, **more)
