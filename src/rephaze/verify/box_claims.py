"""What boxes on record claim, held against the evaluations and the certificate; nothing is bounded here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from rephaze.hardware.grid import FIELDS, LIMITS
from rephaze.hardware.system_grid import AnyGrid, SystemGrid
from rephaze.search.box_expansion import TIES
from rephaze.search.certificate import BOUNDS, WITHIN
from rephaze.types.boxes import NO_PLAN, SOLVED, ClosedBox, OpenBox
from rephaze.types.grid_order import SIDES
from rephaze.types.search import Evaluation, SearchResult, SearchStatus
from rephaze.verify.cover import Box, said
from rephaze.verify.findings import TOLERANCE, Wrong

OPEN = "open"
REASONS = (*LIMITS, *BOUNDS, NO_PLAN, SOLVED, TIES)
ROUNDING = 1e-12


def wrong_sides(grid: AnyGrid, boxes: Sequence[Box]) -> Wrong:
    """Boxes that span array sides of which a longer one may be slower, or two systems, which have no order."""
    first_field = 0
    if isinstance(grid, SystemGrid):
        first_field = 1
        yield from (f"{said(box)} spans systems" for box in boxes if box.first[0] != box.last[0])
    for field in SIDES:
        f = first_field + FIELDS.index(field)
        values = grid.values[f].tolist()
        for box in boxes:
            spanned = values[box.first[f] : box.last[f] + 1]
            if len(spanned) > 1 and not (all(map(_is_part_of_any, spanned)) and spanned == sorted(spanned)):
                yield f"{said(box)} spans {field} {spanned}"


def _is_part_of_any(side: int) -> bool:
    """Whether the mapper may use this side as a part of any longer one: 2^i or 3 * 2^i."""
    while side % 2 == 0:
        side //= 2
    return side in (1, 3)


class BoxClaims:
    """The boxes of one run.

    Args:
        grid: Of its space.
        closed: The closed boxes.
        still_open: The open ones.
        evaluations: By design.
        result: The recorded answer.
    """

    def __init__(
        self,
        grid: AnyGrid,
        closed: Sequence[ClosedBox],
        still_open: Sequence[OpenBox],
        evaluations: Mapping[int, Evaluation],
        result: SearchResult,
    ) -> None:
        self.grid, self.closed, self.still_open = grid, closed, still_open
        self.evaluations, self.result = evaluations, result

    def wrong_bounds(self) -> Wrong:
        """Boxes closed though their bound is above the answer, or otherwise than their reason allows."""
        answer = max(self.result.objective, 0.0)
        for box in self.closed:
            if box.closed_by not in REASONS:
                yield f"{said(box)} is closed by {box.closed_by!r}"
            elif box.closed_by in (*LIMITS, NO_PLAN):
                if box.bound != 0:
                    yield f"{said(box)}: {box.closed_by}, but bound {box.bound:.9g}"
            elif box.closed_by == SOLVED:
                yield from self._wrong_solved(box)
            elif not box.bound > 0:
                yield f"{said(box)}: bound {box.bound:.9g} by {box.closed_by}"
            elif box.closed_by == TIES:
                yield from self._wrong_tie(box, answer)
            elif not box.bound < answer:
                yield f"{said(box)} may reach {box.bound:.9g}, the answer is {answer:.9g}"

    def _wrong_solved(self, box: ClosedBox) -> Wrong:
        item = self.evaluations.get(self.grid.design_at(box.first)) if box.first == box.last else None
        if item is None or not item.is_exact or not item.objective > 0:
            yield f"{said(box)} is called solved, no evaluation says so"
        elif item.bound != box.bound:
            yield f"{said(box)}: bound {box.bound:.9g}, its evaluation has {item.bound:.9g}"

    def _wrong_tie(self, box: ClosedBox, answer: float) -> Wrong:
        if box.bound > answer * (1 + ROUNDING):
            yield f"{said(box)} may reach {box.bound:.9g}, the answer is {answer:.9g}"
        elif box.bound >= answer * (1 - TOLERANCE):
            area_um2 = float(self.grid.area_um2(np.array([box.first], dtype=np.int64))[0])
            if not area_um2 > self.result.area_um2:
                yield f"{said(box)} may tie, and its smallest chip is no larger than the answer"

    def wrong_status(self) -> Wrong:
        """The status and bound of the answer against what is open or not proven."""
        result = self.result
        is_final = result.status in (SearchStatus.OPTIMAL, SearchStatus.INFEASIBLE)
        # What is open below the answer was only not looked at any more.
        matter = [box for box in self.still_open if box.upper >= result.objective * (1 - TOLERANCE)]
        if is_final and matter:
            yield f"called {result.status} with {len(matter)} boxes open"
        may_reach = [box.upper for box in self.still_open]
        may_reach += [item.bound for item in self.evaluations.values() if item.is_exact]
        most = max(may_reach, default=0.0)
        if result.status is not SearchStatus.INFEASIBLE and most > result.bound * (1 + TOLERANCE):
            yield f"a design may reach {most:.9g}, above the bound {result.bound:.9g} of the answer"
        own = [item for item in self.evaluations.values() if item.is_exact and item.objective == result.objective]
        for item in own if result.design is not None else ():
            at_cf = np.array([self.grid.position_of(item.design)], dtype=np.int64)
            if float(self.grid.area_um2(at_cf)[0]) < result.area_um2 * (1 - ROUNDING):
                yield f"design {item.design} is as good on a smaller chip"

    def wrong_counts(self) -> Wrong:
        """The certificate against the boxes."""
        certificate = self.result.certificate
        boxes: Counter[str] = Counter(box.closed_by for box in self.closed)
        points: Counter[str] = Counter()
        for box in self.closed:
            points[box.closed_by] += box.num_points
        num_open = sum(box.num_points for box in self.still_open)
        if self.still_open:
            boxes[OPEN] = len(self.still_open)
        claimed_boxes = certificate.num_boxes or {}
        for name in sorted({*claimed_boxes, *boxes}):
            if claimed_boxes.get(name, 0) != boxes[name]:
                yield f"{name}: {claimed_boxes.get(name, 0)} boxes claimed, {boxes[name]} recorded"
        claimed = certificate.num_dropped_by_bound | {
            SOLVED: certificate.num_solved_exactly,
            NO_PLAN: certificate.num_infeasible,
            OPEN: certificate.num_open or 0,
        }
        points[OPEN] = num_open
        for name in sorted({*claimed, *points}):
            if claimed.get(name, 0) != points[name]:
                yield f"{name}: {claimed.get(name, 0)} grid points claimed, {points[name]} recorded"
        if certificate.num_designs != self.grid.num_points:
            yield f"{certificate.num_designs} grid points claimed, the space has {self.grid.num_points}"
        yield from self._wrong_within()

    def _wrong_within(self) -> Wrong:
        """Designs near the best: those solved, and grid points that no bound keeps away."""
        result = self.result
        unsolved = [
            (box.bound, box.num_points) for box in self.closed if box.closed_by != SOLVED and box.bound > 0
        ]
        unsolved += [(box.upper, box.num_points) for box in self.still_open]
        exact = [item for item in self.evaluations.values() if item.is_exact]
        for name, part in WITHIN.items():
            floor = result.objective * (1 - part) if result.design is not None else 0.0
            near = sum(item.objective >= floor for item in exact) if result.design is not None else 0
            maybe = sum(item.objective < floor <= item.bound for item in exact) if near else 0
            maybe += sum(size for bound, size in unsolved if bound >= floor)
            said_so = result.certificate.num_within.get(name)
            if said_so is None or tuple(said_so) != (near, near + maybe):
                yield f"within {name}: {said_so} claimed, {(near, near + maybe)} derived"
