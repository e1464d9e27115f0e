"""What a run did not solve, looked at again: every bound recomputed, a sample of each kind solved without any.

Axis letters: u = unit, d = design.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from rephaze.measure.layer_bounds import CHUNK
from rephaze.search.certificate import BOUNDS, WITHIN, account, drop_threshold
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.types.run_record import NOT_REMOVED, BoundTable
from rephaze.types.search import Evaluation, SearchResult, SearchStatus
from rephaze.types.verification import Check
from rephaze.verify.claims import Settled, wrong_claims
from rephaze.verify.counts import LEFT_OPEN, wrong_bounds, wrong_counts, wrong_scope, wrong_within
from rephaze.verify.findings import TOLERANCE, Wrong, checked


class DroppedDesigns:
    """The designs of a run that no plan was recorded for, and those that have one, by their bounds.

    Args:
        evaluator: Of the run's settings.
        result: The recorded answer.
        evaluations: What was solved or dropped while being solved.
        table: The recorded bounds of all designs.
        is_old: Recorded by a version that noted less.
    """

    def __init__(
        self,
        evaluator: SpaceEvaluator,
        result: SearchResult,
        evaluations: dict[int, Evaluation],
        table: BoundTable,
        *,
        is_old: bool,
    ) -> None:
        self.is_old = is_old
        self.evaluator, self.settings, self.result = evaluator, evaluator.settings, result
        self.evaluations, self.table = evaluations, table
        is_stopped = result.status in (SearchStatus.FEASIBLE, SearchStatus.UNKNOWN)
        self.ceiling = (result.bound if is_stopped else result.objective) * (1 + TOLERANCE)
        """No design may do better."""

    def checks(self, sample: int, on_progress: Callable[[str], None]) -> Iterator[Check]:
        """All bounds again, and a sample of what each dropped solved without any."""
        if self.result.status is SearchStatus.UNKNOWN and not len(self.table):
            num_open, num_designs = self.result.certificate.num_open, self.evaluator.census.num_designs
            wrong = [] if num_open == num_designs else [f"{num_open} designs left open of {num_designs}"]
            wrong += wrong_scope(self.result, self.settings, is_old=self.is_old)
            yield checked("certificate", num_designs, iter(wrong), "stopped before there was any bound")
            nothing = Settled(is_complete=False, open_bound=math.inf)
            claims = wrong_claims(self.result, self.settings, self.evaluations, nothing, is_old=self.is_old)
            yield checked("claims", 1, claims, "nothing is known")
            return
        coarse_d = self.evaluator.coarse()
        threshold = drop_threshold(self.result.objective, self.settings.exhaustive)
        unsolved = [d for d in range(len(coarse_d)) if d not in self.evaluations]
        left_open = self._left_open()
        # Near the best a bound counts that drops a design: all within reach of the widest count are looked at.
        lowest = self.result.objective * (1 - max(WITHIN.values())) if self.result.design is not None else 0.0
        to_refine = [d for d in unsolved if coarse_d[d] > 0 and coarse_d[d] >= min(threshold, lowest)]
        near: dict[int, float] = {}
        for start in range(0, len(to_refine), CHUNK):
            chunk = to_refine[start : start + CHUNK]
            bounds = self.evaluator.refined(chunk, self.evaluator.unit_bounds(chunk))
            near |= dict(zip(chunk, np.minimum(bounds, coarse_d[chunk]).tolist(), strict=True))
        refined = {d: bound for d, bound in near.items() if coarse_d[d] >= threshold and d not in left_open}
        derived = account(coarse_d, refined, self.evaluations, threshold)
        open_d = derived.is_open_d
        bound_of = dict(zip(self.table.design_c.tolist(), self.table.bound_c.tolist(), strict=True))
        settled = Settled(
            is_complete=not open_d.any(),
            open_bound=max(
                (bound_of.get(d, math.inf) for d in np.flatnonzero(open_d).tolist()), default=-math.inf
            ),
        )
        yield checked(
            "claims",
            1,
            wrong_claims(self.result, self.settings, self.evaluations, settled, is_old=self.is_old),
            f"{self.result.status}, as the record has it",
        )
        yield checked(
            "certificate",
            self.result.certificate.num_designs,
            chain(
                wrong_counts(self.result, self.table, derived),
                wrong_scope(self.result, self.settings, is_old=self.is_old),
                () if self.is_old else wrong_within(self.result, coarse_d, near, self.evaluations),
            ),
            "every design counted once, by the bound that drops it",
        )
        yield checked(
            "recorded bounds",
            len(self.table),
            () if self.is_old else wrong_bounds(self.table, coarse_d, refined, self.evaluations, derived),
            "each that of its kind",
        )
        kinds = {
            name: np.flatnonzero(derived.removed_by_d == position).tolist()
            for position, name in enumerate(BOUNDS)
            if name in derived.num_dropped()
        }
        if left_open:
            kinds[LEFT_OPEN] = sorted(left_open)
        # What was left open was bounded further than is done here.
        least = {d: float(coarse_d[d]) for d in unsolved} | refined | left_open
        least |= {d: item.bound for d, item in self.evaluations.items()}
        over = [d for d, bound in least.items() if bound > self.ceiling]
        yield checked(
            "bounds",
            len(least),
            (f"design {d} may reach {least[d]:.9g}" for d in over),
            f"none above {self.ceiling:.6g}",
        )
        chooser = random.Random(self.settings.seed)  # noqa: S311 - a repeatable sample, no secret
        for name, designs in kinds.items():
            chosen = sorted(chooser.sample(designs, min(sample, len(designs))))
            title = name if name == LEFT_OPEN else f"dropped by {name}"
            on_progress(f"{len(chosen)} of {len(designs)} designs {title}")
            beaten = "the bound" if name == LEFT_OPEN else "the answer"
            yield checked(
                title,
                len(chosen),
                self._wrong_drops(chosen, least),
                f"of {len(designs):,}: none beats {beaten}" if chosen else "none to solve",
            )

    def _left_open(self) -> dict[int, float]:
        """Designs the run says it left open, with their recorded bounds; none of a run that says it left none."""
        if not self.result.certificate.num_open:
            return {}
        table = self.table
        rows = zip(table.design_c.tolist(), table.bound_c.tolist(), table.removed_by_c.tolist(), strict=True)
        return {d: bound for d, bound, at in rows if at == NOT_REMOVED and bound > 0 and d not in self.evaluations}

    def _wrong_drops(self, designs: list[int], least: dict[int, float]) -> Wrong:
        for design in designs:
            objective = self.objective_without_bounds(design)
            if objective > self.ceiling:
                yield f"design {design} reaches {objective:.9g}, the answer {self.result.objective:.9g}"
            if objective > least[design] * (1 + TOLERANCE):
                yield f"design {design} reaches {objective:.9g}, above its bound {least[design]:.9g}"

    def objective_without_bounds(self, design: int) -> float:
        """A design's objective by solving every unit of every model; 0 if a model does not fit."""
        evaluator = self.evaluator
        solver, best = evaluator.solver(design), 0.0
        for memory in evaluator.priced_memories(design):
            worth, values = evaluator.valuation.worth(design, memory.hbm_bytes), []
            for work in evaluator.works:
                answers = [solver.solve(work, unit, memory, math.inf) for unit in work.units]
                values.append(max(worth.of_plan(one.batch_s, one.energy_per_sample_j) for one in answers))
            best = max(best, evaluator.valuation.combined(values))
        return best
