"""The cover of a run by boxes checked: whole, and a sample of each kind of box bounded and solved again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from rephaze.hardware.grid import LIMITS
from rephaze.measure.units import memory_options
from rephaze.search.box_bounds import DEVICE_TIME, corner_valuation
from rephaze.search.box_evaluator import BoxEvaluator
from rephaze.search.system_evaluator import AnyBoxEvaluator, SystemEvaluator
from rephaze.types.boxes import SOLVED, ClosedBox, OpenBox, Position
from rephaze.types.chip import chip_table
from rephaze.types.search import Evaluation, SearchResult
from rephaze.types.verification import Check
from rephaze.verify.box_claims import BoxClaims, wrong_sides
from rephaze.verify.box_limits import limits_of
from rephaze.verify.claims import Settled, wrong_claims
from rephaze.verify.corner_bounds import CornerBounds
from rephaze.verify.counts import wrong_scope
from rephaze.verify.cover import Box, said, wrong_cover
from rephaze.verify.findings import TOLERANCE, Wrong, checked

BoxT = TypeVar("BoxT", ClosedBox, OpenBox)

MANY_LIMITED = 2_000
"""Boxes that a limit closes, looked at for each limit; area and power are looked at in all."""


class CoverCheck:
    """The boxes of one run.

    Args:
        evaluator: Of the run's settings.
        result: The recorded answer.
        evaluations: By design.
        closed: The closed boxes.
        still_open: The open ones.
        is_old: Recorded by a version that noted less.
    """

    def __init__(
        self,
        evaluator: AnyBoxEvaluator,
        result: SearchResult,
        evaluations: Mapping[int, Evaluation],
        closed: Sequence[ClosedBox],
        still_open: Sequence[OpenBox],
        *,
        is_old: bool,
    ) -> None:
        self.is_old = is_old
        self.evaluator, self.grid, self.result = evaluator, evaluator.grid, result
        self.evaluations, self.closed, self.still_open = evaluations, closed, still_open
        self.claims = BoxClaims(self.grid, closed, still_open, evaluations, result)
        self.seed = evaluator.settings.seed
        self.limits = limits_of(self.grid, self.seed)
        self.chooser = random.Random(self.seed)  # noqa: S311 - a repeatable sample, no secret

    def checks(self, sample: int, on_progress: Callable[[str], None]) -> Iterator[Check]:
        """The cover, its claims, and by reason a sample of boxes derived again and of their designs solved."""
        boxes: list[Box] = [*self.closed, *self.still_open]
        if not boxes and self.result.certificate.num_open == self.grid.num_points:
            yield checked("cover", 0, iter(()), "stopped before anything was opened")
            yield self._claims(Settled(is_complete=False, open_bound=math.inf))
            return
        covers = checked(
            "cover", len(boxes), wrong_cover(self.grid.shape, boxes), "disjoint, every grid point once"
        )
        yield covers
        if not covers.passed:
            return  # positions that mean nothing are asked about no further
        open_bound = max((box.upper for box in self.still_open), default=-math.inf)
        yield self._claims(Settled(is_complete=not self.still_open, open_bound=open_bound))
        sides = checked(
            "array sides", len(boxes), wrong_sides(self.grid, boxes), "none spanned but 2^i and 3 * 2^i"
        )
        yield sides
        if not sides.passed and isinstance(self.evaluator, SystemEvaluator):
            return  # of boxes across systems there are no corners
        yield checked("bounds", len(self.closed), self.claims.wrong_bounds(), "none above the answer")
        yield checked(
            "open", len(self.still_open), self.claims.wrong_status(), "none above the bound of the answer"
        )
        scope = wrong_scope(self.result, self.evaluator.settings, is_old=self.is_old)
        wrong = chain(self.claims.wrong_counts(), scope)
        yield checked("certificate", len(boxes), wrong, "every grid point counted once")
        by_reason: dict[str, list[ClosedBox]] = {}
        for box in self.closed:
            by_reason.setdefault(box.closed_by, []).append(box)
        for reason, own in by_reason.items():
            if reason in LIMITS:
                on_progress(f"{len(own)} boxes closed by {reason}")
                chosen = own[:: max(1, -(-len(own) // MANY_LIMITED))]
                yield checked(
                    f"closed by {reason}",
                    len(chosen),
                    (what for box in chosen for what in self.limits.wrong_limit(box, reason)),
                    f"of {len(own):,}: no chip keeps to it",
                )
            elif reason != SOLVED:
                chosen = self._sample(own, sample)
                on_progress(f"{len(chosen)} of {len(own)} boxes closed by {reason}")
                yield checked(
                    f"closed by {reason}",
                    len(chosen),
                    self._wrong_boxes(chosen, reason),
                    f"of {len(own):,}: bounded again, a design of each solved" if chosen else "none to bound",
                )
        left = self._sample(self.still_open, sample)
        if left:
            on_progress(f"{len(left)} of {len(self.still_open)} open boxes")
            yield checked("left open", len(left), self._wrong_open(left), "none of their designs beats its bound")

    def _claims(self, settled: Settled) -> Check:
        settings = self.evaluator.settings
        wrong = wrong_claims(self.result, settings, self.evaluations, settled, is_old=self.is_old, grid=self.grid)
        return checked("claims", 1, wrong, f"{self.result.status}, as the record has it")

    def _sample(self, boxes: Sequence[BoxT], sample: int) -> list[BoxT]:
        """Random boxes, half of them by their size: one box may hold most designs."""
        if len(boxes) <= sample:
            return list(boxes)
        sizes = [box.num_points for box in boxes]
        chosen = set(self.chooser.choices(range(len(boxes)), weights=sizes, k=sample // 2))
        while len(chosen) < sample:
            chosen.add(self.chooser.randrange(len(boxes)))
        return [boxes[at] for at in sorted(chosen)]

    def _wrong_boxes(self, chosen: Sequence[ClosedBox], reason: str) -> Wrong:
        for box in chosen:
            found = self._bound_again(box, reason)
            if found > box.bound * (1 + TOLERANCE):
                yield f"{said(box)}: bound {box.bound:.9g} recorded, {found:.9g} by {reason}"
            yield from self._wrong_design(box, box.bound)

    def _bound_again(self, box: ClosedBox, reason: str) -> float:
        """The bound of a box: by device time alone where that closed it, else as fine as it takes."""
        large = self.limits.large_corner(box)
        own, small, large = self._of_system(box.first, large)
        corners = CornerBounds(own, own.grid)
        if reason == DEVICE_TIME:
            return corners.by_device_time(small, large)
        known = math.inf
        item = self.evaluations.get(self.grid.design_at(box.first))
        if item is not None and box.num_points == 1:
            # Dropped while it was being solved: then it is solved again below, like all of the sample.
            known = max(item.bound, 0.0)
        # A box is closed by the last bound that made it worse; finer ones of a box around it are behind that.
        return min(known, corners.bound(small, large, box.bound))

    def _of_system(self, first: Position, last: Position) -> tuple[BoxEvaluator, Position, Position]:
        """The evaluator of a box, and its ends as that knows them."""
        if isinstance(self.evaluator, SystemEvaluator):
            return self.evaluator.of(first[0]), first[1:], last[1:]
        return self.evaluator, first, last

    def _wrong_open(self, boxes: Sequence[OpenBox]) -> Wrong:
        for box in boxes:
            yield from self._wrong_design(box, box.upper)

    def _wrong_design(self, box: Box, bound: float) -> Wrong:
        """A design of the box solved without looking at any bound."""
        position = self.limits.some_design(box, self.chooser)
        if position is None:
            return
        objective = self.objective_without_bounds(position)
        if objective > max(bound, 0.0) * (1 + TOLERANCE):
            design = self.grid.design_at(position)
            yield f"design {design} in {said(box)} reaches {objective:.9g}, its bound is {bound:.9g}"

    def objective_without_bounds(self, position: Position) -> float:
        """A design's objective by solving every unit of every model; 0 if a model does not fit."""
        chip = self.grid.chip(self.grid.design_at(position))
        evaluator, _, _ = self._of_system(position, position)
        valuation = corner_valuation(evaluator, chip_table([chip]))
        space = evaluator.settings.scenario.space
        memories = memory_options(space, chip.hbm_bytes, chip.hbm_bytes_per_s)
        solver, best = evaluator.chip_solver(chip), 0.0
        for memory in memories if valuation.is_memory_priced else memories[-1:]:
            worth, values = valuation.worth(0, memory.hbm_bytes), []
            for work in evaluator.works:
                answers = [solver.solve(work, unit, memory, math.inf) for unit in work.units]
                values.append(max(worth.of_plan(one.batch_s, one.energy_per_sample_j) for one in answers))
            best = max(best, valuation.combined(values))
        return best
