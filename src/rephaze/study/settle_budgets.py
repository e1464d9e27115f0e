"""The best chip of every area budget, proven: what a search left unsolved is settled, smallest budget first.

When a budget is settled no design within it can beat its best, so the next one is left with the designs between
the two areas and starts from a best that is already good. Within a budget designs are taken by falling bound:
bounded finer many at a time, then solved a batch at a time, until no bound beats the best.

Axis letters: d = design of the space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from rephaze.search.bounded_designs import BoundedDesigns
from rephaze.search.cosearch import BATCH_SIZE, REFINE_SIZE
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.workers.base import Workers
from rephaze.types.pareto import ROUNDING
from rephaze.types.search import Evaluation

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetProgress:
    """Where the settling of budgets stands."""

    area_um2: float
    """Of the budget at hand."""
    samples_per_s: float
    """Its best so far; 0 without one."""
    num_open: int
    """Designs within it, or boxes of them, that may still be better."""
    num_solved: int
    """Designs solved so far, for all budgets."""
    counted: str = "designs"
    """What is open: designs or boxes."""


OnBudget = Callable[[BudgetProgress], None]


def settle_budgets(
    evaluator: SpaceEvaluator,
    workers: Workers,
    upper_d: Floats,
    speeds: Mapping[int, float],
    budgets_um2: Sequence[float],
    *,
    on_progress: OnBudget = lambda _progress: None,
) -> list[Evaluation]:
    """Solve designs until each budget's best is proven, and return those solved that have a plan.

    Args:
        evaluator: Of a search for throughput.
        workers: Of the same search.
        upper_d: A throughput each design cannot exceed, minus infinity where known exactly; lowered in place. Only
            designs with a schedule that cannot be proven are left above the best of a budget.
        speeds: Throughputs of designs solved before.
        budgets_um2: Areas, ascending.
        on_progress: Called before each batch.
    """
    area_d = evaluator.census.area_um2_c
    settled_d = np.zeros(len(area_d), dtype=bool)
    designs = BoundedDesigns(evaluator, workers)
    solved: list[Evaluation] = []
    known = dict(speeds)
    for budget_um2 in budgets_um2:
        while True:
            best = max((speed for design, speed in known.items() if area_d[design] <= budget_um2), default=0.0)
            is_open_d = ~settled_d & (area_d <= budget_um2) & (upper_d > best * (1 + ROUNDING))
            order = np.flatnonzero(is_open_d)
            order = order[np.argsort(-upper_d[order], kind="stable")]
            on_progress(
                BudgetProgress(
                    area_um2=budget_um2, samples_per_s=best, num_open=len(order), num_solved=len(solved)
                )
            )
            if not len(order):
                break
            if int(order[0]) not in designs:
                chunk = [int(d) for d in order if int(d) not in designs][:REFINE_SIZE]
                upper_d[chunk] = np.minimum(upper_d[chunk], designs.refine(chunk))
                continue
            # A design without finer bounds is not to be overtaken by those behind it.
            batch = list(takewhile(designs.__contains__, (int(d) for d in order[:BATCH_SIZE])))
            for item in designs.evaluate(batch, best if best else -np.inf):
                assert isinstance(item, Evaluation), "nothing stops it"
                settled_d[item.design] = item.is_exact
                upper_d[item.design] = min(float(upper_d[item.design]), item.bound)
                if item.is_exact and item.plans:
                    solved.append(item)
                    known[item.design] = max(known.get(item.design, 0.0), item.objective)
                    if item.bound <= item.objective * (1 + ROUNDING):
                        upper_d[item.design] = -np.inf
    return solved
