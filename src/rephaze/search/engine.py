"""Best-first branch and bound over designs: exact, resumable, the same answer for any number of workers.

The engine knows nothing of chips. It takes an upper bound for each design and a function that solves designs
exactly (or drops them when a finer bound falls below the incumbent), and goes through the designs by falling
bound, in batches of fixed size, until no bound left can beat the incumbent. Batches depend only on bounds and
on results of earlier batches, never on how many workers solved them: runs repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rephaze.types.search import Evaluation

# Bounds and exact values come from different sums of the same terms: a design is dropped only if its bound is
# below the incumbent by more than rounding can explain.
RELATIVE_SLACK = 1e-9

TieKey = Callable[[Evaluation], tuple[float, ...]]
"""Smaller is better; decides among equal objectives."""
Evaluate = Callable[[Sequence[int], float], Iterable[Evaluation]]
"""Designs and the incumbent's objective in, one evaluation a design out, in the same order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineProgress:
    """Where a search stands."""

    incumbent: Evaluation | None
    bound: float
    """No design does better than this."""
    num_open: int
    """Designs whose bound still beats the incumbent."""
    num_evaluated: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineOutcome:
    """What the engine found; ``is_complete`` if nothing is left that could be better."""

    incumbent: Evaluation | None
    bound: float
    is_complete: bool
    evaluations: dict[int, Evaluation] = field(repr=False)


def run_best_first(
    bounds_d: NDArray[np.float64],
    evaluate: Evaluate,
    *,
    tie_key: TieKey,
    batch_size: int,
    known: Iterable[Evaluation] = (),
    on_batch: Callable[[list[Evaluation], EngineProgress], None] = lambda _batch, _progress: None,
    should_stop: Callable[[], bool] = lambda: False,
    exhaustive: bool = False,
) -> EngineOutcome:
    """The best design by exact objective, with a bound on everything not solved.

    Args:
        bounds_d: An upper bound of each design's objective; 0 or less means the design is infeasible.
        evaluate: Solves a batch; may drop a design when a finer bound of it falls below the incumbent.
        tie_key: Decides among designs of equal objective.
        batch_size: Designs a batch; part of the run's definition, not of the machine's.
        known: Evaluations of an earlier, interrupted run; used instead of solving again.
        on_batch: Called after each batch with its evaluations, for the store and the progress display.
        should_stop: Asked between batches; True ends the search with the incumbent and an honest bound.
        exhaustive: Solve every design, whatever its bound.
    """
    state = _State(tie_key)
    remembered = {item.design: item for item in known}
    # Stable sort: designs of equal bound in the order of the space.
    order = np.argsort(-bounds_d, kind="stable")
    feasible = order[bounds_d[order] > 0]
    position = 0
    while position < len(feasible):
        if not exhaustive and not state.could_beat(float(bounds_d[feasible[position]])):
            return state.outcome(bound=state.objective, is_complete=True)
        if should_stop():
            return state.outcome(bound=_open_bound(bounds_d, feasible, position, state), is_complete=False)
        batch = [int(design) for design in feasible[position : position + batch_size]]
        position += len(batch)
        cutoff = -np.inf if exhaustive else state.objective
        solved = _solve(batch, cutoff, remembered, evaluate)
        state.absorb(solved)
        left = bounds_d[feasible[position:]]
        progress = EngineProgress(
            incumbent=state.incumbent,
            bound=_open_bound(bounds_d, feasible, position, state),
            num_open=int((left >= state.threshold).sum()),
            num_evaluated=len(state.evaluations),
        )
        on_batch(solved, progress)
    return state.outcome(bound=state.objective, is_complete=True)


class _State:
    """The incumbent and everything solved so far."""

    def __init__(self, tie_key: TieKey) -> None:
        self.tie_key = tie_key
        self.incumbent: Evaluation | None = None
        self.evaluations: dict[int, Evaluation] = {}
        self.unproven_bound = -np.inf
        """Of designs solved, but whose schedules were not all proven: they may be this good."""

    @property
    def objective(self) -> float:
        return -np.inf if self.incumbent is None else self.incumbent.objective

    @property
    def threshold(self) -> float:
        """Bounds below it cannot win or tie."""
        return self.objective - abs(self.objective) * RELATIVE_SLACK if self.incumbent else -np.inf

    def could_beat(self, bound: float) -> bool:
        return bound >= self.threshold

    def absorb(self, solved: list[Evaluation]) -> None:
        for item in solved:
            self.evaluations[item.design] = item
            if not item.is_exact:
                continue
            self.unproven_bound = max(self.unproven_bound, item.bound)
            if item.objective <= 0:
                continue
            if self.incumbent is None or self._rank(item) < self._rank(self.incumbent):
                self.incumbent = item

    def _rank(self, item: Evaluation) -> tuple[float, ...]:
        return (-item.objective, *self.tie_key(item), float(item.design))

    def outcome(self, *, bound: float, is_complete: bool) -> EngineOutcome:
        return EngineOutcome(
            incumbent=self.incumbent,
            bound=max(bound, self.objective, self.unproven_bound),
            is_complete=is_complete,
            evaluations=self.evaluations,
        )


def _solve(
    batch: list[int], cutoff: float, remembered: dict[int, Evaluation], evaluate: Evaluate
) -> list[Evaluation]:
    """Answers for the batch: remembered ones where they still decide, fresh ones for the rest."""
    slack = abs(cutoff) * RELATIVE_SLACK if np.isfinite(cutoff) else 0.0

    def still_decides(design: int) -> bool:
        item = remembered.get(design)
        return item is not None and (item.is_exact or item.bound < cutoff - slack)

    todo = [design for design in batch if not still_decides(design)]
    fresh = {item.design: item for item in evaluate(todo, cutoff)} if todo else {}
    assert fresh.keys() == set(todo), "the evaluator must answer for exactly the designs it was given"
    return [fresh[design] if design in fresh else remembered[design] for design in batch]


def _open_bound(bounds_d: NDArray[np.float64], feasible: NDArray[np.intp], position: int, state: _State) -> float:
    """The best any unsolved design may still do, or the incumbent."""
    ahead = float(bounds_d[feasible[position]]) if position < len(feasible) else -np.inf
    return max(ahead, state.objective, state.unproven_bound)
