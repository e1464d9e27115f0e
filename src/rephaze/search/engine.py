"""Best-first branch and bound over designs: exact, resumable, the same answer for any number of workers.

The engine knows nothing of chips. It takes a coarse upper bound for each design, a function that refines bounds
(many designs at once), one that sharpens refined ones (fewer at once), and one that solves designs exactly, or
drops them when a finer bound still falls below the incumbent. Designs are refined by falling coarse bound,
sharpened and solved by falling refined bound, in batches, until no bound left can beat the incumbent. Batches
depend only on bounds and on results of earlier batches, never on how many workers solved them: runs repeat. The
first ones are small: every bound is cheaper to ask for once there is an incumbent to hold it against. So are those
after a new incumbent: what comes next is likely to be as good, and cheaper to settle one after the other.

A search may be stopped at any moment, also within a batch: what was settled by then counts, what was cut stays
open with its bound.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rephaze.types.search import Evaluation, Unsettled
from rephaze.types.stopping import StoppedError

# Bounds and exact values come from different sums of the same terms: a design is dropped only if its bound is
# below the incumbent by more than rounding can explain.
RELATIVE_SLACK = 1e-9
FIRST_PART = 4
"""Before there is an incumbent, batches of all kinds have one such part of their size."""

Floats = NDArray[np.float64]
TieKey = Callable[[Evaluation], tuple[float, ...]]
"""Smaller is better; decides among equal objectives."""
Refine = Callable[[Sequence[int]], Floats]
"""Designs in, a finer upper bound of each out; ``StoppedError`` if it was cut."""
Sharpen = Callable[[Sequence[int], float], Floats]
"""Refined designs and the incumbent's objective in, yet finer upper bounds out; ``StoppedError`` if cut."""
Drop = Callable[[int, float], Evaluation]
"""A design and its sharpened bound in, the record of one dropped by it out."""
Evaluate = Callable[[Sequence[int], float], Iterable[Evaluation | Unsettled]]
"""Designs and the incumbent's objective in, one answer a design out, in the same order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineProgress:
    """Where a search stands."""

    incumbent: Evaluation | None
    bound: float
    """No design does better than this."""
    num_open: int
    """Designs whose bound still beats the incumbent."""
    num_refined: int
    num_evaluated: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineOutcome:
    """What the engine found; ``is_complete`` if nothing is left that could be better."""

    incumbent: Evaluation | None
    bound: float
    is_complete: bool
    evaluations: dict[int, Evaluation] = field(repr=False)
    refined: dict[int, float] = field(repr=False)
    """Refined bounds of the designs that got one."""
    unsettled: dict[int, float] = field(repr=False, default_factory=dict)
    """Bounds of the designs that were sharpened or whose evaluation was cut: finer than their refined ones."""


def run_best_first(
    coarse_d: Floats,
    evaluate: Evaluate,
    *,
    tie_key: TieKey,
    batch_size: int,
    refine: Refine | None = None,
    refine_size: int = 4096,
    sharpen: Sharpen | None = None,
    drop: Drop | None = None,
    sharpen_size: int = 64,
    first_part: int = FIRST_PART,
    known: Iterable[Evaluation] = (),
    on_batch: Callable[[list[Evaluation], EngineProgress], None] = lambda _batch, _progress: None,
    should_stop: Callable[[], bool] = lambda: False,
    exhaustive: bool = False,
) -> EngineOutcome:
    """The best design by exact objective, with a bound on everything not solved.

    Args:
        coarse_d: An upper bound of each design's objective; 0 or less means the design is infeasible.
        evaluate: Solves a batch; may drop a design when a finer bound of it falls below the incumbent.
        tie_key: Decides among designs of equal objective.
        batch_size: Designs a batch; part of the run's definition, not of the machine's.
        refine: Finer bounds, asked for only while the coarse one beats the incumbent.
        refine_size: Designs refined at a time.
        sharpen: Finer bounds yet, asked for before a design is solved.
        drop: The record of a design that a sharpened bound dropped; must come with ``sharpen``.
        sharpen_size: Designs sharpened at a time.
        first_part: Before there is an incumbent all these sizes are divided by it.
        known: Evaluations of an earlier, interrupted run; used instead of solving again.
        on_batch: Called after each batch with its evaluations, for the store and the progress display.
        should_stop: Asked between batches; True ends the search with the incumbent and an honest bound. So does a
            refinement that was stopped, or an answer that a design is unsettled.
        exhaustive: Solve every design, whatever its bound.
    """
    state = _State(coarse_d, tie_key, exhaustive)

    def sized(size: int) -> int:
        return size if state.incumbent is not None or exhaustive else max(1, size // first_part)

    remembered = {item.design: item for item in known}
    is_stopped = is_rising = False
    while not (is_stopped or should_stop()):
        if state.must_refine():
            chunk = state.take_unrefined(sized(refine_size))
            try:
                state.add_refined(chunk, coarse_d[chunk] if refine is None else refine(chunk))
            except StoppedError:
                state.put_back(chunk)
                is_stopped = True
            continue
        if sharpen is not None and (chunk := state.take_blunt(sized(batch_size), sized(sharpen_size))):
            try:
                state.add_sharpened(chunk, sharpen(chunk, -np.inf if exhaustive else state.objective))
            except StoppedError:
                state.put_back_blunt(chunk)
                is_stopped = True
            continue
        batch = state.take_batch(max(1, batch_size // FIRST_PART) if is_rising else sized(batch_size))
        if not batch:
            break
        cutoff = -np.inf if exhaustive else state.objective
        answers = _solve(batch, cutoff, remembered, evaluate)
        solved = [item for item in answers if isinstance(item, Evaluation)]
        is_rising = state.absorb(solved) and not exhaustive
        state.keep_open([item for item in answers if isinstance(item, Unsettled)])
        is_stopped = len(solved) < len(batch)
        on_batch(solved, state.progress())
    # Stopped just as the last design was settled, nothing is left to do.
    if not state.is_settled:
        # What an earlier run solved counts, though this one has not come to it again.
        state.absorb([item for item in remembered.values() if item.design not in state.evaluations])
        return state.outcome(is_complete=False)
    if drop is not None:
        dropped = [
            # What an earlier run found out of it may say more.
            _finer(remembered.get(design), drop(design, bound))
            for design, bound in state.below_threshold()
        ]
        state.absorb(dropped)
        on_batch(dropped, state.progress())
    return state.outcome(is_complete=True)


class _State:
    """The incumbent, what is refined, what is solved, and what is left."""

    def __init__(self, coarse_d: Floats, tie_key: TieKey, exhaustive: bool) -> None:
        self.tie_key, self.exhaustive = tie_key, exhaustive
        self.coarse_d = coarse_d
        # Stable sort: designs of equal bound in the order of the space.
        order = np.argsort(-coarse_d, kind="stable")
        self.order = order[coarse_d[order] > 0]
        self.num_taken = 0
        self.open_d = np.where(coarse_d > 0, coarse_d, -np.inf)
        """The best bound of each design that is not settled."""
        self.pool: list[tuple[float, int]] = []
        """Refined, unsolved designs as a heap of (-bound, design)."""
        self.refined: dict[int, float] = {}
        self.sharpened: dict[int, float] = {}
        """Finer bounds of refined designs, where they have one."""
        self.unsettled: dict[int, float] = {}
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
        if self.incumbent is None or self.exhaustive:
            return -np.inf
        return self.objective * (1 - RELATIVE_SLACK)

    @property
    def next_coarse(self) -> float:
        """The best bound among designs not refined."""
        return float(self.coarse_d[self.order[self.num_taken]]) if self.num_taken < len(self.order) else -np.inf

    @property
    def next_refined(self) -> float:
        return -self.pool[0][0] if self.pool else -np.inf

    @property
    def is_settled(self) -> bool:
        """Whether no design is left that could win or tie."""
        left = float(self.open_d.max(initial=-np.inf))
        return left == -np.inf or left < self.threshold

    def must_refine(self) -> bool:
        """Whether an unrefined design might come before every refined one; the first batch need not wait."""
        if self.pool and not self.evaluations and not self.exhaustive:
            return False
        ahead = self.next_coarse
        return ahead > -np.inf and ahead >= self.threshold and ahead >= self.next_refined

    def take_unrefined(self, size: int) -> list[int]:
        chunk = self.order[self.num_taken : self.num_taken + size]
        chunk = chunk[self.coarse_d[chunk] >= self.threshold]
        self.num_taken += len(chunk)
        return [int(design) for design in chunk]

    def put_back(self, chunk: list[int]) -> None:
        """Undo ``take_unrefined``: the chunk keeps its coarse bounds."""
        self.num_taken -= len(chunk)

    def add_refined(self, chunk: list[int], bounds: Floats) -> None:
        for design, bound in zip(chunk, bounds.tolist(), strict=True):
            finer = min(bound, float(self.coarse_d[design]))
            self.refined[design] = finer
            self.open_d[design] = finer if finer > 0 else -np.inf
            if finer > 0:
                heapq.heappush(self.pool, (-finer, design))

    def take_blunt(self, batch_size: int, sharpen_size: int) -> list[int]:
        """Designs to be sharpened now: the best that are not, if one of them is about to be solved."""
        ahead = heapq.nsmallest(batch_size, self.pool)
        if all(design in self.sharpened for bound, design in ahead if -bound >= self.threshold):
            return []
        chunk: list[int] = []
        kept: list[tuple[float, int]] = []
        while self.pool and len(chunk) < sharpen_size and self.next_refined >= self.threshold:
            item = heapq.heappop(self.pool)
            if item[1] in self.sharpened:
                kept.append(item)
            else:
                chunk.append(item[1])
        for item in kept:
            heapq.heappush(self.pool, item)
        return chunk

    def put_back_blunt(self, chunk: list[int]) -> None:
        """Undo ``take_blunt``."""
        for design in chunk:
            heapq.heappush(self.pool, (-self.refined[design], design))

    def add_sharpened(self, chunk: list[int], bounds: Floats) -> None:
        for design, bound in zip(chunk, bounds.tolist(), strict=True):
            finer = self.sharpened[design] = min(bound, self.refined[design])
            self.open_d[design] = finer if finer > 0 else -np.inf
            heapq.heappush(self.pool, (-finer, design))

    def below_threshold(self) -> list[tuple[int, float]]:
        """Designs that nothing but their sharpened bound drops."""
        return [
            (design, bound)
            for design, bound in sorted(self.sharpened.items())
            if design not in self.evaluations and bound < self.threshold <= self.refined[design]
        ]

    def take_batch(self, size: int) -> list[int]:
        batch: list[int] = []
        while self.pool and len(batch) < size and self.next_refined >= self.threshold:
            batch.append(heapq.heappop(self.pool)[1])
        return batch

    def absorb(self, solved: list[Evaluation]) -> bool:
        """Take answers; whether one is better than all before."""
        before = self.incumbent
        for item in solved:
            self.evaluations[item.design] = item
            self.open_d[item.design] = -np.inf
            if not item.is_exact:
                continue
            self.unproven_bound = max(self.unproven_bound, item.bound)
            if item.objective > 0 and (self.incumbent is None or self._rank(item) < self._rank(self.incumbent)):
                self.incumbent = item
        return self.incumbent is not before

    def keep_open(self, cut: list[Unsettled]) -> None:
        """Take the bounds of designs whose evaluation was cut; they are not settled."""
        for item in cut:
            finer = min(item.bound, float(self.open_d[item.design]))
            self.unsettled[item.design] = self.open_d[item.design] = finer

    def _rank(self, item: Evaluation) -> tuple[float, ...]:
        return (-item.objective, *self.tie_key(item), float(item.design))

    @property
    def bound(self) -> float:
        """No design does better than this."""
        return max(self.objective, self.unproven_bound, float(self.open_d.max(initial=-np.inf)))

    def progress(self) -> EngineProgress:
        # Before any incumbent everything that is not settled is open.
        floor = max(self.threshold, 0.0)
        return EngineProgress(
            incumbent=self.incumbent,
            bound=self.bound,
            num_open=int((self.open_d >= floor).sum()),
            num_refined=len(self.refined),
            num_evaluated=len(self.evaluations),
        )

    def outcome(self, *, is_complete: bool) -> EngineOutcome:
        proven = max(self.objective, self.unproven_bound)
        # An earlier session may have settled what was cut in this one.
        finer = {d: bound for d, bound in (self.sharpened | self.unsettled).items() if d not in self.evaluations}
        return EngineOutcome(
            incumbent=self.incumbent,
            bound=proven if is_complete else self.bound,
            is_complete=is_complete,
            evaluations=self.evaluations,
            refined=self.refined,
            unsettled={} if is_complete else finer,
        )


def _finer(known: Evaluation | None, dropped: Evaluation) -> Evaluation:
    return dropped if known is None or known.bound > dropped.bound else known


def _solve(
    batch: list[int], cutoff: float, remembered: dict[int, Evaluation], evaluate: Evaluate
) -> list[Evaluation | Unsettled]:
    """Answers for the batch: remembered ones where they still decide, fresh ones for the rest."""
    slack = abs(cutoff) * RELATIVE_SLACK if np.isfinite(cutoff) else 0.0

    def still_decides(design: int) -> bool:
        item = remembered.get(design)
        return item is not None and (item.is_exact or item.bound < cutoff - slack)

    todo = [design for design in batch if not still_decides(design)]
    fresh = {item.design: item for item in evaluate(todo, cutoff)} if todo else {}
    assert fresh.keys() == set(todo), "the evaluator must answer for exactly the designs it was given"
    return [fresh[design] if design in fresh else remembered[design] for design in batch]
