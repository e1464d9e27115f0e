"""Trade-offs of a run by boxes: bounds by area from its cover, and a search for each area budget.

The bounds a search closed its boxes with say that no design of a box wins, and no more: plans that cannot reach
the answer are left out of them, and of a small chip all are. So boxes are bounded afresh, with every plan, for
the designs within each budget. A budget that is still not proven is searched itself, from what is known.

Why this is a bound: boxes of the cover hold every design of the space. A design of area a lies in some box whose
small corner is no larger than a, and between two budgets, B' < a <= B. Under area limit B the box's large corner
outdoes it (docs/proof.md, 4.7). So the entry of (box, B), at the area of the small corner but above B', is at no
larger an area than the design's, and at a throughput it does not exceed; any maximum over entries up to an area
bounds every design up to that area.

Axis letters: d = entry, b = box, f = field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import RunError
from rephaze.hardware.grid import LIMITS, Boxes, DesignGrid
from rephaze.search.box_bounds import ALL_RUNGS, DEVICE_ONLY, BoxBounding, Reach
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import Preparation
from rephaze.search.progress import SearchProgress
from rephaze.search.provenance import versions_of
from rephaze.store.reader import RunReader
from rephaze.store.run_store import RunStore
from rephaze.study.settle_budgets import BudgetProgress, OnBudget
from rephaze.types.boxes import NO_GOAL, Goal
from rephaze.types.pareto import ROUNDING
from rephaze.types.search import Evaluation, SearchMethod, SearchResult, SearchSettings
from rephaze.types.stopping import UNSTOPPED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CHUNK = 1 << 14
"""Boxes bounded at a time."""


@dataclass(frozen=True, eq=False, slots=True)
class CoverBounds:
    """Boxes of a cover within budgets, each an entry: from which area on, and how fast at most."""

    boxes: Boxes
    budget_d: Ints
    """Position in the list of budgets."""
    area_d: Floats
    upper_d: Floats
    """Lowered in place."""


def limited(settings: SearchSettings, area_um2: float) -> SearchSettings:
    """The same search by boxes among chips up to an area."""
    space = settings.scenario.space
    # A floor above the limit would leave out nothing that is within it but single cores, which have none.
    floor_um2 = min(space.area_floor_um2, area_um2)
    space = replace(space, area_limit_um2=area_um2, area_floor_um2=floor_um2)
    scenario = replace(settings.scenario, space=space)
    return replace(settings, scenario=scenario, method=SearchMethod.BOXES, exhaustive=False)


def cover_bounds(run: RunReader, prepared: Preparation, budgets_um2: Sequence[float]) -> CoverBounds:
    """The boxes of a run in each budget they reach into, bounded by device time.

    Args:
        run: A search by boxes.
        prepared: Of the same models, with throughput as the objective.
        budgets_um2: Ascending, the last the area limit of the space.

    Raises:
        RunError: The run was interrupted before its boxes were recorded.
    """
    grid = DesignGrid(prepared.settings.scenario.space)
    closed, left = run.closed_boxes(), run.open_boxes()
    if sum(box.num_points for box in closed) + sum(box.num_points for box in left) != grid.num_points:
        raise RunError(f"{run.folder}: its boxes do not cover its space yet; go on with it by --resume")
    kept = [box for box in closed if box.closed_by not in LIMITS]
    ends = [(box.first, box.last) for box in kept] + [(box.first, box.last) for box in left]
    ends_bef = np.array(ends, dtype=np.int64).reshape(len(ends), 2, len(grid.shape))
    boxes = Boxes(ends_bef[:, 0], ends_bef[:, 1])
    small_b = grid.area_um2(boxes.first_bf)
    index, budget, area = [], [], []
    for at, (below_um2, budget_um2) in enumerate(zip([0.0, *budgets_um2], budgets_um2, strict=False)):
        within = np.flatnonzero(small_b <= budget_um2)
        index.append(within)
        budget.append(np.full(len(within), at))
        area.append(np.maximum(small_b[within], np.nextafter(below_um2, math.inf)))
    found = CoverBounds(
        boxes=boxes.take(np.concatenate(index)),
        budget_d=np.concatenate(budget),
        area_d=np.concatenate(area),
        upper_d=np.full(sum(map(len, index)), math.inf),
    )
    for at, budget_um2 in enumerate(budgets_um2):
        lower(prepared, found, np.flatnonzero(found.budget_d == at), budget_um2, NO_GOAL, DEVICE_ONLY)
    return found


def lower(
    prepared: Preparation,
    bounds: CoverBounds,
    entries: NDArray[np.intp],
    budget_um2: float,
    goal: Goal = NO_GOAL,
    reach: Reach = ALL_RUNGS,
) -> None:
    """Bound some entries of one budget afresh, those that reach the goal finer if asked."""
    grid = DesignGrid(limited(prepared.settings, budget_um2).scenario.space)
    for start in range(0, len(entries), CHUNK):
        chunk = entries[start : start + CHUNK]
        none = [()] * len(chunk)
        found = BoxBounding(prepared, grid, bounds.boxes.take(chunk), none, goal, UNSTOPPED).run(reach)
        bounds.upper_d[chunk] = np.minimum(bounds.upper_d[chunk], found.upper_b)


class BoxBudgets:
    """Searches for the budgets that a cover leaves open, smallest first.

    Args:
        settings: Of a search by boxes, with throughput as the objective.
        bounds: Of its cover; lowered by what is proven.
        budgets_um2: Ascending.
        num_workers: Processes of each search.
        on_progress: Told how far it is.
    """

    def __init__(
        self,
        settings: SearchSettings,
        bounds: CoverBounds,
        budgets_um2: Sequence[float],
        num_workers: int,
        on_progress: OnBudget,
    ) -> None:
        self._settings, self._bounds, self._budgets_um2 = settings, bounds, budgets_um2
        self._num_workers, self._on_progress = num_workers, on_progress

    def run(self, solved: Sequence[Evaluation]) -> list[Evaluation]:
        """Prove the best of every budget, unless a schedule cannot be; designs solved that were not before.

        Args:
            solved: Designs solved for throughput.
        """
        grid = DesignGrid(self._settings.scenario.space)
        known = {item.design: item for item in solved}
        num_before = len(known)
        for budget_um2 in self._budgets_um2:
            numbers = np.array(sorted(known), dtype=np.int64)
            areas_um2 = grid.area_um2(grid.positions(numbers)) if len(numbers) else np.zeros(0)
            within = [known[design] for design in numbers[areas_um2 <= budget_um2].tolist()]
            best = max((item.objective for item in within), default=0.0)
            is_within_d = self._bounds.area_d <= budget_um2
            upper = float(self._bounds.upper_d[is_within_d].max(initial=0.0))
            if upper <= best * (1 + ROUNDING):
                continue
            num_now = len(known) - num_before

            def tell(progress: SearchProgress, at: float = budget_um2, num_now: int = num_now) -> None:
                self._on_progress(
                    BudgetProgress(
                        area_um2=at,
                        samples_per_s=progress.objective,
                        num_open=progress.num_open,
                        num_solved=num_now + progress.num_solved,
                        counted=progress.counted,
                    )
                )

            result, found = search_budget(
                self._settings, budget_um2, within, num_workers=self._num_workers, on_progress=tell
            )
            known |= {item.design: item for item in found if item.is_exact and item.plans}
            # The search ranged over every design of this area or less.
            lowered_d = np.minimum(self._bounds.upper_d, result.bound)
            np.copyto(self._bounds.upper_d, lowered_d, where=is_within_d)
        before = {item.design for item in solved}
        return [item for design, item in known.items() if design not in before]


def search_budget(
    settings: SearchSettings,
    budget_um2: float,
    known: Sequence[Evaluation],
    *,
    num_workers: int,
    on_progress: Callable[[SearchProgress], None],
) -> tuple[SearchResult, list[Evaluation]]:
    """The fastest chip of a budget, proven, and all designs solved on the way.

    Args:
        settings: Of a search by boxes for throughput.
        budget_um2: The area limit.
        known: Designs of the space within the budget, solved for throughput: the answer to begin with.
        num_workers: Processes.
        on_progress: Told how far it is.
    """
    asked = limited(settings, budget_um2)
    with TemporaryDirectory() as name:
        folder = Path(name) / "budget"
        with RunStore.create(folder, asked, versions_of(asked)) as store:
            store.record_evaluations(known)
        result = run_search(asked, folder=folder, resume=True, num_workers=num_workers, on_progress=on_progress)
        with RunStore.read(folder) as run:
            return result, list(run.evaluations())
