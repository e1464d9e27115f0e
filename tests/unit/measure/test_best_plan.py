"""Best first over units, on a solver that knows the answers: what is refined, what is not, and what is claimed."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from rephaze.measure.best_plan import Stage, UnitSearch
from rephaze.measure.model_bounds import ModelBounds
from rephaze.measure.objective import ChipWorth
from rephaze.measure.unit_answer import UnitAnswer
from rephaze.measure.units import Memory, Unit
from rephaze.types.cut import GraphCut
from rephaze.types.placement import RecomputePolicy
from rephaze.types.stopping import StoppedError, StopSignal

SMALL, LARGE = Memory(8, 1.0), Memory(16, 1.0)
UNITS = tuple(Unit(GraphCut(tp=tp), 1, RecomputePolicy.AUTO) for tp in (1, 2, 4))


class KnownAnswers:
    """A solver of one chip: by stage and unit, the batch times it finds."""

    def __init__(self, bounds, mapped, hurried, solved, *, unproven=None, smaller=None, stop=None):
        self.bounds, self.mapped, self.hurried, self.solved = bounds, mapped, hurried, solved
        self.unproven, self.smaller = unproven or {}, smaller or {}
        self.stop, self.asked = stop or StopSignal(), []

    def _note(self, kind, unit):
        self.asked.append((kind, unit.tp))
        return UNITS.index(unit)

    def finer_bounds(self, _work, _memory, bounds):
        def map_class(k, _columns):
            bounds.batch_s_uc[k, 0] = self.mapped[self._note("mapped", UNITS[k])]

        return SimpleNamespace(bounds=bounds, map_class=map_class, units_of_k=np.arange(len(UNITS))[:, None])

    def placed_bound_s(self, _work, unit, _memory, _layer_s, _cutoff_s, *, is_told):
        assert not is_told, "there is no other model"
        return self.mapped[UNITS.index(unit)]

    def hurried_bound_s(self, _work, unit, _memory, _cutoff_s, _least_s):
        return self.hurried[self._note("hurried", unit)]

    def solve(self, _work, unit, memory, cutoff_s):
        at = self._note("solved", unit)
        batch_s, energy_j = self.solved[at] if memory == LARGE else self.smaller.get(memory, (math.inf, math.inf))
        found = batch_s if batch_s < cutoff_s else math.inf
        plan = None if math.isinf(found) else f"plan {unit.tp}"
        bound_s = self.unproven.get(at, batch_s)
        return UnitAnswer(batch_s=found, bound_s=bound_s, plan=plan, energy_per_sample_j=energy_j)

    def model_plan(self, _work, unit, memory, answer):
        return unit.tp, memory, answer.batch_s


@pytest.fixture
def search():
    def make(solver, worth=None, least_j=0.0, is_mapped=0.0):
        column = np.array(solver.bounds)[:, None]
        layers = np.zeros((len(UNITS), 1, 1))
        bounds = ModelBounds(
            batch_s_uc=column,
            forward_s_kct=layers,
            backward_s_kct=layers,
            input_s_kct=layers,
            is_mapped_kc=is_mapped * np.ones((len(UNITS), 1)),
        )
        class_of = {(unit.cut, 1): k for k, unit in enumerate(UNITS)}
        work = SimpleNamespace(name="model", units=UNITS, class_of=class_of)
        return UnitSearch(solver, work, LARGE, bounds, worth or ChipWorth(global_batch=60), least_j)

    return make


def test_only_units_that_may_still_win_are_refined(search):
    solver = KnownAnswers(
        bounds=[2.0, 1.0, 9.0],
        mapped=[2.5, 1.2, 9.0],
        hurried=[2.6, 1.3, 9.0],
        solved=[(3.0, 1), (1.5, 1), (9, 1)],
    )
    found = search(solver)
    found.run()
    assert (found.value, found.best.unit.tp, found.upper, found.promise) == (40.0, 2, 40.0, 1.0)
    assert {tp for _, tp in solver.asked} == {2}
    assert found.stage_u.tolist() == [Stage.BOUNDED, Stage.SOLVED, Stage.BOUNDED]
    assert found.finest is Stage.SOLVED


def test_a_unit_that_disappoints_leaves_its_place_to_the_next(search):
    solver = KnownAnswers(
        bounds=[2.0, 1.0, 9.0],
        mapped=[2.5, 4.0, 9.0],
        hurried=[2.6, 4.0, 9.0],
        solved=[(3.0, 1), (4.0, 1), (9, 1)],
    )
    found = search(solver)
    before = found.upper
    found.run()
    assert before == 60.0
    assert (found.best.unit.tp, found.value) == (1, 20.0)
    assert ("hurried", 2) not in solver.asked


def test_what_is_mapped_already_is_not_mapped_again(search):
    times = [2.0, 1.0, 9.0]
    solver = KnownAnswers(times, times, times, [(3.0, 1), (1.5, 1), (9, 1)])
    found = search(solver, is_mapped=1.0)
    assert found.stage_u.tolist() == [Stage.MAPPED] * 3
    found.run()
    assert (found.value, found.best.unit.tp) == (40.0, 2)
    assert [kind for kind, _ in solver.asked] == ["hurried", "solved"]


def test_what_is_not_proven_stays_above_the_answer(search):
    solver = KnownAnswers(
        bounds=[1.0, 5.0, 9.0], mapped=[1.0, 5.0, 9.0], hurried=[1.0, 5.0, 9.0],
        solved=[(2.0, 1), (5.0, 1), (9, 1)], unproven={0: 1.5},
    )  # fmt: skip
    found = search(solver)
    found.run()
    assert (found.value, found.unproven, found.upper) == (30.0, 40.0, 40.0)


def test_nothing_that_fits_is_worth_nothing(search):
    nothing = [math.inf] * 3
    found = search(KnownAnswers(nothing, nothing, nothing, [(math.inf, 1)] * 3))
    found.run()
    assert (found.best, found.value, found.upper) == (None, 0.0, 0.0)


def test_under_energy_a_slower_plan_may_be_the_better_one(search):
    solver = KnownAnswers(
        bounds=[1.0, 2.0, 9.0], mapped=[1.0, 2.0, 9.0], hurried=[1.0, 2.0, 9.0],
        solved=[(1.0, 8.0), (2.0, 4.0), (9.0, 5.0)],
    )  # fmt: skip
    found = search(solver, ChipWorth(global_batch=60, is_per_watt=True), least_j=2.0)
    found.run()
    assert (found.best.unit.tp, found.value) == (2, 0.25)


def test_a_plan_is_reported_on_the_smallest_memory_it_does_not_lose_by(search):
    times = [1.0, 5.0, 9.0]
    answers = [(1.0, 3.0), (5.0, 3.0), (9.0, 3.0)]

    def reported(smaller, **worth):
        solver = KnownAnswers(times, times, times, answers, smaller=smaller)
        found = search(solver, ChipWorth(global_batch=60, **worth), least_j=1.0)
        found.run()
        return found.plan([SMALL])

    assert reported({SMALL: (1.0, 9.0)}) == (1, SMALL, 1.0)
    assert reported({SMALL: (1.1, 3.0)}) == (1, LARGE, 1.0)
    assert reported({}) == (1, LARGE, 1.0)
    assert reported({SMALL: (1.0, 9.0)}, is_per_watt=True) == (1, LARGE, 1.0), "as fast, but not the plan valued"


def test_what_is_cut_keeps_its_bound(search):
    times = [1.0, 5.0, 9.0]
    found = search(KnownAnswers(times, times, times, [(1.0, 1)] * 3, stop=StopSignal(is_asked=lambda: True)))
    with pytest.raises(StoppedError):
        found.run()
    assert found.upper == 60.0


def test_plans_beyond_a_limit_are_not_looked_for_and_stay_in_the_bound(search):
    solver = KnownAnswers(
        bounds=[2.0, 3.0, 9.0],
        mapped=[2.0, 3.0, 9.0],
        hurried=[2.0, 3.0, 9.0],
        solved=[(4.0, 1.0), (3.5, 1.0), (9.0, 1.0)],
    )
    one = search(solver)
    while one.promise > 1.0 and one.upper > 60 / 3.0:
        one.refine(limit_s=3.0)
    # The first unit has no plan within the limit: none of its plans is worth more than the limit allows.
    assert one.best is None
    assert one.upper == pytest.approx(60 / 3.0)
    assert one.cut == pytest.approx(60 / 3.0)
    assert ("solved", 2) not in solver.asked


def test_an_infeasible_unit_leaves_nothing_beyond_a_limit(search):
    nothing = (math.inf, math.inf)
    solver = KnownAnswers(
        bounds=[2.0, math.inf, math.inf],
        mapped=[2.0, math.inf, math.inf],
        hurried=[2.0, math.inf, math.inf],
        solved=[nothing, nothing, nothing],
    )
    one = search(solver)
    while one.promise > 1.0:
        one.refine(limit_s=3.0)
    assert one.cut == one.upper == 0.0
