"""How far a search is, and the clock it runs by."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from rephaze.types.stopping import StopSignal


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchProgress:
    """What a progress display shows."""

    phase: str
    elapsed_s: float
    objective: float
    bound: float
    num_designs: int
    """Of the space; by boxes its grid points."""
    num_open: int
    """Designs, or boxes of them, that may still be better."""
    num_solved: int
    counted: str = "designs"
    """What ``num_open`` counts."""

    @property
    def gap(self) -> float:
        """(bound - objective) / objective; infinite before there is an answer."""
        return (self.bound - self.objective) / self.objective if self.objective else math.inf


OnProgress = Callable[[SearchProgress], None]


@dataclass(frozen=True, slots=True)
class SearchClock:
    """When a search began, when it must stop, and whom it tells how far it is."""

    began_s: float
    stop: StopSignal
    on_progress: OnProgress

    def elapsed_s(self) -> float:
        """Since it began."""
        return time.perf_counter() - self.began_s
