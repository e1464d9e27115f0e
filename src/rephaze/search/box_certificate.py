"""The proof of a search by boxes in numbers: what closed every grid point of its space."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rephaze.hardware.system_grid import AnyGrid, SystemGrid
from rephaze.search.certificate import WITHIN, binding_of
from rephaze.search.scope import plans_scope, search_scope
from rephaze.search.system_binding import system_binding
from rephaze.types.boxes import NO_PLAN, SOLVED, ClosedBox, OpenBox
from rephaze.types.search import Certificate, Evaluation, SearchSettings


class CoverCount:
    """Closed boxes counted as they come."""

    def __init__(self) -> None:
        self.boxes: Counter[str] = Counter()
        self.points: Counter[str] = Counter()
        self._near: list[tuple[float, int]] = []
        """Bounds and sizes of boxes with designs that were not solved."""

    def add(self, boxes: Iterable[ClosedBox]) -> None:
        """Count some boxes."""
        for box in boxes:
            self.boxes[box.closed_by] += 1
            self.points[box.closed_by] += box.num_points
            if box.closed_by != SOLVED and box.bound > 0:
                self._near.append((box.bound, box.num_points))

    def num_above(self, floor: float) -> int:
        """Grid points of boxes that were not solved and whose bound is no less."""
        return sum(size for bound, size in self._near if bound >= floor)


def certify_boxes(
    settings: SearchSettings,
    grid: AnyGrid,
    count: CoverCount,
    evaluations: Mapping[int, Evaluation],
    best: Evaluation | None,
    still_open: Sequence[OpenBox],
    *,
    is_proven: bool,
) -> Certificate:
    """Account for every grid point once: solved, without a plan, closed by which bound or limit, or open.

    Args:
        settings: The search.
        grid: Of its space.
        count: Of the closed boxes.
        evaluations: Designs that were solved, or dropped while being solved.
        best: The answer.
        still_open: Boxes left open.
        is_proven: Nothing is better than the answer.
    """
    num_open = sum(box.num_points for box in still_open)
    solved = [item for item in evaluations.values() if item.is_exact]
    dropped = {name: num for name, num in count.points.items() if name not in (SOLVED, NO_PLAN)}
    objective = best.objective if best is not None else 0.0
    return Certificate(
        num_designs=grid.num_points,
        # What was solved beside the cover, for a first answer, counts where the cover has it.
        num_solved_exactly=count.points[SOLVED],
        num_dropped_by_bound=dropped,
        num_infeasible=count.points[NO_PLAN],
        num_within=_within(count, evaluations, best, num_open, still_open),
        binding="" if best is None else binding_in_grid(settings, grid, best.design, is_proven),
        designs_scope=search_scope(settings),
        plans_scope=plans_scope(settings),
        num_unproven=sum(item.bound > objective * (1 + 1e-12) for item in solved),
        num_open=num_open,
        num_boxes=dict(count.boxes) | ({"open": len(still_open)} if still_open else {}),
    )


def binding_in_grid(settings: SearchSettings, grid: AnyGrid, design: int, is_proven: bool) -> str:
    """What keeps a winner from growing.

    Args:
        settings: The search.
        grid: Of its space.
        design: The winner.
        is_proven: Nothing is better.
    """
    if isinstance(grid, SystemGrid):
        return system_binding(settings.systems, grid, design, is_proven)
    return binding_of(settings.scenario.space, grid.chip(design), is_proven)


def _within(
    count: CoverCount,
    evaluations: Mapping[int, Evaluation],
    best: Evaluation | None,
    num_open: int,
    still_open: Sequence[OpenBox],
) -> dict[str, tuple[int, int]]:
    """Designs near the best: at least those solved, at most all grid points whose box has such a bound."""
    if best is None:
        return dict.fromkeys(WITHIN, (0, num_open + count.num_above(-math.inf)))
    found = {}
    for name, part in WITHIN.items():
        floor = best.objective * (1 - part)
        least = sum(item.is_exact and item.objective >= floor for item in evaluations.values())
        unproven = sum(item.is_exact and item.objective < floor <= item.bound for item in evaluations.values())
        left = sum(box.num_points for box in still_open if box.upper >= floor)
        found[name] = (least, least + unproven + count.num_above(floor) + left)
    return found
