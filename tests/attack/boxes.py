"""A search by boxes against the truth: its cover, the bounds of its boxes, its answer, its counts.

Designs of closed boxes are solved slowly, and every rung of bounds is asked about random boxes around them.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from rephaze.hardware.grid import FIELDS, LIMITS, Boxes, DesignGrid
from rephaze.search.box_bounds import ALL_RUNGS, DEVICE_ONLY, BoxBounding, Reach
from rephaze.search.box_evaluator import BoxEvaluator
from rephaze.search.corner_plans import CornerPlans
from rephaze.types.boxes import SOLVED, ClosedBox, Goal, OpenBox
from rephaze.types.search import SearchStatus
from rephaze.types.stopping import UNSTOPPED
from tests.attack.cases import Case
from tests.attack.claims import COUNTED_WITHIN, WITHIN
from tests.attack.findings import Tally, exceeds
from tests.attack.slow import SlowEvaluator
from tests.property.box_cases import as_list, position_of, recorded, slow_start, times_covered

NUM_AROUND = 3
"""Random boxes around each design."""
EVERYTHING = Goal(threshold=1e-12, objective=1e-12, area_um2=1e30, cutoff=1e-12)
"""A goal that all reach: every unit is bounded on every rung."""
RUNGS = {
    "device time": DEVICE_ONLY,
    "layer bounds": Reach(layers=np.inf, mapped=0.0),
    "mapped operators": ALL_RUNGS,
}


def attack_boxes(
    case: Case,
    tally: Tally,
    *,
    at_most: int = 24,
    seed: int = 0,
    until: float = np.inf,
    rungs: bool = True,
    num_first: int = 0,
) -> None:
    """One search by boxes.

    Args:
        case: The search.
        tally: Takes what is found.
        at_most: Designs to solve slowly; counts are compared if that is all of them.
        seed: Chooses them.
        until: No further design is begun after this moment of ``time.perf_counter``.
        rungs: Ask every rung about boxes around them as well.
        num_first: Designs to begin with; those that use most of the area limit come first.
    """
    _BoxAttack(case, tally, random.Random(seed), num_first).run(at_most, until, rungs=rungs)


class _BoxAttack:
    def __init__(self, case: Case, tally: Tally, rng: random.Random, num_first: int) -> None:
        self.case, self.tally, self.rng, self.settings = case, tally, rng, case.settings()
        self.grid = DesignGrid(self.settings.scenario.space)
        self.slow = SlowEvaluator(as_list(self.settings))
        chips = self.slow.census.chips
        self.at = {design: self._position(chips.chip(design)) for design in range(len(chips))}
        with TemporaryDirectory() as scratch, slow_start(num_first=num_first):
            self.found = recorded(self.settings, Path(scratch) / "run")
            self.counted = recorded(self.settings, Path(scratch) / "run", resume=True, count_within=COUNTED_WITHIN)
        tally.num_searches += 2

    def _position(self, chip) -> tuple[int, ...]:
        # Not by the order the grid has them in: a grid that changes it must not go unnoticed.
        return position_of(self.grid, chip)

    def run(self, at_most: int, until: float, *, rungs: bool) -> None:
        for found in (self.found, self.counted):
            self._cover(found)
            self._limits(found)
        chosen = []
        for design in self._chosen(at_most):
            if time.perf_counter() > until:
                break
            chosen.append(design)
            worth = self.slow.worth(design)
            self.tally.num_designs += 1
            self.tally.num_unproven += not worth.is_proven
            self._design(design, worth.value)
        if rungs:
            self._rungs(chosen)
        if len(chosen) == len(self.at):
            self._counts()

    def _add(self, kind: str, claim: str, text: str) -> None:
        self.tally.add(kind, claim, f"{self.case.label}: {text}", self.case.toml)

    def _cover(self, found) -> None:
        """Every point once; no box across sides of which a longer one may be slower."""
        boxes = [*found.closed, *found.still_open]
        count = times_covered(self.grid, boxes)
        if count.min() != 1 or count.max() != 1:
            self._add("cover", "boxes", f"points are covered {count.min()} to {count.max()} times")
        for field in ("tensor_width", "tensor_depth"):
            f = FIELDS.index(field)
            values = self.grid.values[f]
            for box in boxes:
                spanned = values[box.first[f] : box.last[f] + 1].tolist()
                odd = [side // (side & -side) for side in spanned]
                if len(spanned) > 1 and not set(odd) <= {1, 3}:
                    self._add("cover", "array sides", f"a box spans {field} {spanned}")

    def _limits(self, found) -> None:
        """Boxes without a design have none; what was solved is one."""
        designs = set(self.at.values())
        for box in found.closed:
            self.tally.num_bounds += box.closed_by in LIMITS
            if box.closed_by in LIMITS and any(_is_in(box, at) for at in designs):
                self._add("space", box.closed_by, f"there are designs in {box}")
        for design in found.evaluations:
            if self.grid.position_of(design) not in designs:
                self._add("space", "solved", f"{self.grid.position_of(design)} breaks a limit")

    def _chosen(self, at_most: int) -> list[int]:
        """Of every box a design, then any."""
        designs = list(self.at)
        self.rng.shuffle(designs)
        if len(designs) <= at_most:
            return designs
        first = []
        for box in self.rng.sample(self.found.closed, len(self.found.closed)):
            own = next((design for design in designs if _is_in(box, self.at[design])), None)
            if own is not None:
                first.append(own)
        return list(dict.fromkeys([*first, *designs]))[:at_most]

    def _design(self, design: int, value: float) -> None:
        """One design against the box it is in, and the answer."""
        result, at = self.found.result, self.at[design]
        is_final = result.status in (SearchStatus.OPTIMAL, SearchStatus.INFEASIBLE)
        said = f"design {self.slow.census.chips.chip(design).in_words}"
        if exceeds(value, max(result.objective if is_final else result.bound, 0.0)):
            self._add("better design", "answer", f"{said} reaches {value:.9g}, {result.objective:.9g} was said")
        area_um2 = float(self.slow.census.area_um2_c[design])
        if is_final and value == result.objective and value > 0 and area_um2 < result.area_um2 * (1 - 1e-9):
            self._add("status", "tie", f"{said} is as good as the answer and smaller")
        for found in (self.found, self.counted):
            for box in found.closed:
                if _is_in(box, at):
                    self.tally.num_bounds += 1
                    if exceeds(value, box.bound):
                        text = f"{said} reaches {value:.9g}, the bound of its box {box.bound:.9g}"
                        self._add("bound", f"box: {box.closed_by}", text)
        for box in self.found.closed:
            if box.closed_by != SOLVED and exceeds(box.bound, max(result.objective, 0.0)):
                self._add("bound", "closed above the answer", f"{box}")

    def _rungs(self, designs: list[int]) -> None:
        """Every rung at the corners of boxes around designs."""
        evaluator, roots = BoxEvaluator(self.settings), self.grid.roots()
        ends = list(zip(roots.first_bf.tolist(), roots.last_bf.tolist(), strict=True))
        for design in designs:
            at, value = self.at[design], self.slow.worth(design).value
            first, last = next(both for both in ends if _within(*both, at))
            for _ in range(NUM_AROUND):
                low = tuple(self.rng.randint(a, b) for a, b in zip(first, at, strict=True))
                high = tuple(self.rng.randint(a, b) for a, b in zip(at, last, strict=True))
                self._rungs_of(evaluator, low, high, value)
                self._inherited(evaluator, low, high, at, value)

    def _rungs_of(self, evaluator: BoxEvaluator, low, high, value: float) -> None:
        box = OpenBox(first=low, last=high, upper=np.inf, bounded_by="", times=())
        both = Boxes(np.array([low]), np.array([high]))
        for name, reach in RUNGS.items():
            bounding = BoxBounding(evaluator, self.grid, both, [()], EVERYTHING, UNSTOPPED)
            found = bounding.run(reach)
            self._rung(f"corner: {name}", box, value, float(found.upper_b[0]))
        if found.upper_b[0] <= 0:
            return
        box = OpenBox(first=low, last=high, upper=float(found.upper_b[0]), bounded_by="", times=found.times[0])
        large = tuple(found.large_bf[0].tolist())
        plans = CornerPlans(evaluator, self.grid, low, large, bounding.layers(0), UNSTOPPED)
        for rung in plans.rungs:
            finer = plans.bounded(box, rung, EVERYTHING).box
            self._rung(f"corner: {rung.name.lower()}", box, value, finer.upper if finer else 0.0)
            if finer is None:
                return
            box = finer

    def _inherited(self, evaluator: BoxEvaluator, low, high, at, value: float) -> None:
        """A design bounded with what is left of the units of a box around it, of which few reach a high goal."""
        both = Boxes(np.array([low]), np.array([high]))
        most = float(
            BoxBounding(evaluator, self.grid, both, [()], EVERYTHING, UNSTOPPED).run(ALL_RUNGS).upper_b[0]
        )
        goal = replace(EVERYTHING, threshold=0.999 * most)
        if most <= 0:
            return
        around = BoxBounding(evaluator, self.grid, both, [()], goal, UNSTOPPED).run(ALL_RUNGS)
        alone = Boxes(np.array([at]), np.array([at]))
        found = BoxBounding(evaluator, self.grid, alone, around.times, EVERYTHING, UNSTOPPED).run(ALL_RUNGS)
        box = OpenBox(first=at, last=at, upper=np.inf, bounded_by="", times=())
        self._rung("box: inherited", box, value, float(found.upper_b[0]))

    def _rung(self, claim: str, box: OpenBox, value: float, bound: float) -> None:
        self.tally.num_bounds += 1
        if exceeds(value, bound):
            text = f"{box.first} to {box.last} has a design worth {value:.9g}, its bound is {bound:.9g}"
            self._add("bound", claim, text)

    def _counts(self) -> None:
        """Designs near the best, counted by solving all."""
        values = [self.slow.worth(design).value for design in self.at]
        is_known = all(self.slow.worth(design).is_proven for design in self.at)
        for found, is_exact in ((self.found, False), (self.counted, True)):
            best = found.result.objective
            for name, part in WITHIN.items() if best > 0 else ():
                true = sum(value >= best * (1 - part) for value in values)
                least, most = found.result.certificate.num_within[name]
                if is_known and not (least <= true <= most and (least == most or not is_exact)):
                    self._add("count", name, f"{least} to {most} were said, {true} there are")
            certificate = found.result.certificate
            told = certificate.num_solved_exactly + certificate.num_infeasible + (certificate.num_open or 0)
            if told + sum(certificate.num_dropped_by_bound.values()) != self.grid.num_points:
                self._add("count", "certificate", f"{certificate} of {self.grid.num_points} points")
            solved = sum(item.is_exact and item.objective > 0 for item in found.evaluations.values())
            if certificate.num_solved_exactly > solved:
                text = f"{certificate.num_solved_exactly} solved were said, {solved} were"
                self._add("count", "solved", text)


def _is_in(box: ClosedBox, at: tuple[int, ...]) -> bool:
    return _within(box.first, box.last, at)


def _within(first, last, at) -> bool:
    return all(low <= one <= high for low, one, high in zip(first, at, last, strict=True))
