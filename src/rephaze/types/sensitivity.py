"""What a sensitivity study gives: the best chip again, with one assumption changed at a time."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.search import SearchResult, SearchSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedSearch:
    """The search under one changed assumption."""

    knob: str
    scale_factor: float
    result: SearchResult
    gain_factor: float
    """Objective over that of the unchanged search; zero if either has none."""
    is_proven: bool
    """Both searches are proven: optimal, or nothing fits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sensitivity:
    """The unchanged answer and those of every change."""

    settings: SearchSettings
    base: SearchResult
    changes: tuple[ChangedSearch, ...]
