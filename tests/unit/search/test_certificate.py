"""Every design is accounted for once, by what is recorded of it and the answer alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.measure.best_plan import STAGE_NAMES, Stage
from rephaze.search.certificate import BOUNDS, DEVICE_TIME, LAYER_BOUNDS, account, drop_threshold
from rephaze.search.engine import run_best_first
from rephaze.types.run_record import NOT_REMOVED
from rephaze.types.search import Evaluation, Unsettled

MAPPED = STAGE_NAMES[Stage.MAPPED]


def dropped(design, bound, by):
    return Evaluation(design=design, is_exact=False, objective=-np.inf, bound=bound, plans=(), dropped_by=by)


def solved(design, objective):
    return Evaluation(design=design, is_exact=True, objective=objective, bound=objective, plans=())


def test_a_design_goes_to_the_coarsest_bound_below_the_answer():
    coarse_d = np.array([9.0, 8.0, 0.0, 12.0, 12.0, 12.0, 12.0, 12.0, 12.0, 9.0])
    # Design 1 was refined when the incumbent was still poor: the coarse bound is enough in the end.
    refined = {1: 7.0, 3: 9.0, 4: 0.0, 5: 11.0, 6: 11.0, 7: 11.0, 9: 0.0}
    evaluations = {5: solved(5, 10.0), 6: solved(6, -np.inf), 7: dropped(7, 9.5, MAPPED)}
    found = account(coarse_d, refined, evaluations, drop_threshold(10.0, exhaustive=False))
    device, layers, mapped = (BOUNDS.index(name) for name in (DEVICE_TIME, LAYER_BOUNDS, MAPPED))
    none = NOT_REMOVED
    assert found.removed_by_d.tolist() == [device, device, none, layers, none, none, none, mapped, none, device]
    assert np.flatnonzero(found.is_infeasible_d).tolist() == [2, 4, 6]
    assert np.flatnonzero(found.is_solved_d).tolist() == [5]
    assert np.flatnonzero(found.is_open_d).tolist() == [8]
    assert found.num_dropped() == {DEVICE_TIME: 3, LAYER_BOUNDS: 1, MAPPED: 1}


@pytest.mark.parametrize(("objective", "exhaustive"), [(0.0, False), (10.0, True)])
def test_without_an_answer_or_when_all_are_asked_for_nothing_is_dropped(objective, exhaustive):
    coarse_d, refined = np.array([9.0, 0.0, 3.0]), {2: 2.0}
    found = account(coarse_d, refined, {}, drop_threshold(objective, exhaustive))
    assert found.is_open_d.tolist() == [True, False, True]


values = st.lists(st.integers(0, 12), min_size=1, max_size=40)


@given(truth=values, data=st.data(), batch_size=st.integers(1, 5), num_left=st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_counts_do_not_depend_on_how_the_search_went(truth, data, batch_size, num_left):
    """What another search refined first, and how early its incumbent was good, is not in the account."""
    size = len(truth)
    extra = np.array(data.draw(st.lists(st.integers(0, 6), min_size=size, max_size=size)))
    fine = np.array(truth, dtype=float) + np.minimum(extra, 2) * (np.array(truth) > 0)
    coarse_d = fine + extra
    left = [num_left]

    def evaluate(designs, cutoff):
        for design in designs:
            left[0] -= 1
            if left[0] < 0:
                yield Unsettled(design=design, bound=float(fine[design]))
            elif fine[design] - 0.5 < cutoff:
                yield dropped(design, fine[design] - 0.5, MAPPED)
            else:
                yield solved(design, float(truth[design]) or -np.inf)

    found = run_best_first(
        coarse_d,
        evaluate,
        tie_key=lambda _: (),
        batch_size=batch_size,
        refine=lambda designs: fine[designs],
        refine_size=data.draw(st.integers(1, 9)),
    )
    objective = found.incumbent.objective if found.incumbent else 0.0
    threshold = drop_threshold(objective, exhaustive=False)
    counted = account(coarse_d, found.refined, found.evaluations, threshold)
    each = np.stack(
        [
            counted.is_solved_d,
            counted.is_infeasible_d,
            counted.is_open_d,
            counted.removed_by_d != NOT_REMOVED,
        ]
    )
    assert (each.sum(axis=0) == 1).all()
    assert not (counted.is_open_d.any() and found.is_complete)
    assert all(counted.is_open_d[design] for design in found.unsettled if found.refined[design] >= threshold)
    if found.is_complete:
        # As a verifier does it: only what the coarse bound leaves is refined.
        again = {d: float(fine[d]) for d in range(size) if coarse_d[d] >= threshold and d not in found.evaluations}
        derived = account(coarse_d, again, found.evaluations, threshold)
        assert derived.removed_by_d.tolist() == counted.removed_by_d.tolist()
        assert derived.is_infeasible_d.tolist() == counted.is_infeasible_d.tolist()


def test_a_bound_that_only_earlier_versions_had_is_still_counted():
    coarse_d, by = np.array([12.0, 12.0]), "plans on layer bounds"
    found = account(coarse_d, {}, {0: solved(0, 10.0), 1: dropped(1, 9.0, by)}, drop_threshold(10.0, False))
    assert found.num_dropped() == {DEVICE_TIME: 0, LAYER_BOUNDS: 0, by: 1}
