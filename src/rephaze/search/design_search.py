"""One design with one memory: the best plans of all models, or a bound that drops it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rephaze.measure.best_plan import STAGE_NAMES, Stage, UnitSearch
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.model_bounds import ModelBounds
from rephaze.measure.model_work import ModelWork
from rephaze.measure.objective import Valuation
from rephaze.measure.units import Memory
from rephaze.search.engine import RELATIVE_SLACK
from rephaze.types.search import Evaluation

MOST_IN_VAIN = 4
"""Units of a model that a trial solves without finding a plan that is good enough before it gives a design up."""


class DesignSearch:
    """Best first over the units of all models, the model with most to gain first.

    Args:
        design: The design's number, for the record.
        solver: Of the design.
        works: The models.
        bounds: Of each model on this design.
        memory: What plans must fit, and pay for where it is priced.
        valuation: Of a table of chips.
        at: The design's position in that table.
        smaller: Memories a plan is reported with instead, if it does not lose by them.
    """

    def __init__(
        self,
        design: int,
        solver: ChipSolver,
        works: Sequence[ModelWork],
        bounds: Sequence[ModelBounds],
        memory: Memory,
        valuation: Valuation,
        *,
        at: int,
        smaller: Sequence[Memory],
    ) -> None:
        self.design, self.solver, self.valuation, self.smaller = design, solver, valuation, smaller
        self._is_limited = True
        """Whether plans too slow to reach the cutoff are not looked for."""
        worth, is_one_of_many = valuation.worth(at, memory.hbm_bytes), len(works) > 1
        self.models = [
            UnitSearch(
                solver, work, memory, own, worth, valuation.least_j(work, at), is_one_of_many=is_one_of_many
            )
            for work, own in zip(works, bounds, strict=True)
        ]

    def run(self, cutoff: float) -> Evaluation:
        """The design solved exactly, or dropped once its bound is below ``cutoff``; ``StoppedError`` when cut."""
        while True:
            bound = self.bound()
            if bound <= 0.0:
                return self._infeasible()
            if bound < cutoff * (1 - RELATIVE_SLACK):
                return self._dropped(bound)
            m = max(range(len(self.models)), key=lambda at: self.models[at].promise)
            if self.models[m].promise > 1.0:
                self.models[m].refine(self._limit_s(m, cutoff))
            elif not any(model.cut > model.value for model in self.models):
                return self._exact()
            elif not any(model.unproven > model.value for model in self.models):
                # Of that model no plan is quick enough to reach the cutoff, whatever rounding makes of it.
                return self._dropped(min(bound, self._useless(cutoff)))
            else:
                # A schedule might be shorter than any that was found: the design stays, with the plans it has.
                self._is_limited = False
                for model in self.models:
                    model.reopen()

    def tried(self, cutoff: float) -> float:
        """What the first plan found of each model is worth; 0 if that does not reach ``cutoff``.

        Units are taken up by their bounds, so it is a good one. Nothing is proven.
        """
        for m, model in enumerate(self.models):
            num_in_vain = 0
            while model.best is None:
                bound = self.bound()
                if bound <= 0.0 or bound < cutoff or model.promise <= 1.0 or num_in_vain >= MOST_IN_VAIN:
                    return 0.0
                num_in_vain += model.refine(self._limit_s(m, cutoff), is_trial=True) is not None
        value = self.valuation.combined([model.value for model in self.models])
        return value if value >= cutoff else 0.0

    def _limit_s(self, m: int, cutoff: float) -> float:
        """With a longer batch of this model the design is dropped, however good the others turn out to be."""
        if cutoff <= 0 or not self._is_limited:
            return math.inf
        model = self.models[m]
        needed = self.valuation.needed([one.upper for one in self.models], m, self._useless(cutoff))
        return model.worth.longest_s(needed, model.least_j)

    def _useless(self, cutoff: float) -> float:
        """The best of what is dropped for sure."""
        return cutoff * (1 - 2 * RELATIVE_SLACK)

    def bound(self) -> float:
        """No plans of the design with this memory do better, by all that is known now."""
        return self.valuation.combined([model.upper for model in self.models])

    def _exact(self) -> Evaluation:
        plans = tuple(model.plan(self.smaller) for model in self.models)
        objective = self.valuation.combined([model.value for model in self.models])
        return Evaluation(
            design=self.design, is_exact=True, objective=objective, bound=max(self.bound(), objective), plans=plans
        )

    def _dropped(self, bound: float) -> Evaluation:
        return dropped_design(self.design, bound, max(model.finest for model in self.models))

    def _infeasible(self) -> Evaluation:
        missing = [model.work.name for model in self.models if model.upper <= 0.0]
        return Evaluation(
            design=self.design,
            is_exact=True,
            objective=-math.inf,
            bound=-math.inf,
            plans=(),
            reason=f"no plan of {', '.join(missing)} fits",
        )


def dropped_design(design: int, bound: float, stage: Stage = Stage.MAPPED) -> Evaluation:
    """A design that a bound of this stage drops."""
    return Evaluation(
        design=design,
        is_exact=False,
        objective=-math.inf,
        bound=bound,
        plans=(),
        dropped_by=STAGE_NAMES[stage],
    )
