"""How far a search is, and the clock it runs by."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rephaze.types.run_record import Incumbent
from rephaze.types.search import Evaluation
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
    before_s: float = 0.0
    """Of earlier sessions of the same run."""

    def elapsed_s(self) -> float:
        """Since it began, earlier sessions included."""
        return self.before_s + time.perf_counter() - self.began_s


class BestShown:
    """What a run has shown as best: a session that goes on with it shows nothing worse meanwhile.

    Args:
        steps: Recorded by earlier sessions.
    """

    def __init__(self, steps: Sequence[Incumbent]) -> None:
        self._last = steps[-1] if steps else None
        # A session comes by the answers of those before it once more.
        self._seen = {step.design for step in steps}

    @property
    def objective(self) -> float:
        """The best so far; 0 before there is one."""
        return 0.0 if self._last is None else self._last.objective

    def bound(self, bound: float) -> float:
        """The least bound of all that were shown: each of them holds."""
        return bound if self._last is None else max(min(bound, self._last.bound), self._last.objective)

    def step(self, best: Evaluation | None, bound: float, elapsed_s: float) -> Incumbent | None:
        """What to record, if the answer is another one now, and no worse than what was shown before."""
        if best is None or best.objective < self.objective or best.design in self._seen:
            return None
        self._seen.add(best.design)
        bound = self.bound(bound)
        self._last = Incumbent(elapsed_s=elapsed_s, objective=best.objective, bound=bound, design=best.design)
        return self._last
