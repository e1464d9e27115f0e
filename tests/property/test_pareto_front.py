"""The front and the budgets equal brute force; a proof is claimed exactly when no design can be faster."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.hardware.presets import preset_chip
from rephaze.study.pareto import _proven, best_by_budget, is_dominated, non_dominated
from rephaze.types.pareto import ParetoPoint

CHIP = preset_chip("tpuv4")
small = st.integers(1, 4)


def point(design, values):
    throughput, area, energy, cost = map(float, values)
    return ParetoPoint(
        design=design,
        chip=CHIP,
        samples_per_s=throughput,
        area_um2=area,
        full_power_w=1.0,
        energy_per_sample_j=energy,
        chip_usd=cost,
        is_proven=False,
    )


points = st.lists(st.tuples(small, small, small, small), max_size=25).map(
    lambda rows: [point(design, row) for design, row in enumerate(rows)]
)


def beats(one, other):
    ours = (-one.samples_per_s, one.area_um2, one.energy_per_sample_j, one.chip_usd)
    theirs = (-other.samples_per_s, other.area_um2, other.energy_per_sample_j, other.chip_usd)
    return ours != theirs and all(a <= b for a, b in zip(ours, theirs, strict=True))


@given(points)
@settings(max_examples=200, deadline=None)
def test_the_front_is_what_no_point_beats(found):
    want = {one.design for one in found if not any(beats(other, one) for other in found)}
    front = non_dominated(found)
    assert {one.design for one in front} == want
    throughputs = [one.samples_per_s for one in front]
    assert throughputs == sorted(throughputs, reverse=True)


@given(points)
@settings(max_examples=100, deadline=None)
def test_each_budget_holds_the_fastest_chip_within_it(found):
    area_d = np.array([one.area_um2 for one in found])
    budgets = best_by_budget(found, 4.0, area_d, np.full(len(found), -np.inf))
    assert [budget.area_um2 for budget in budgets] == [4.0 * tenth / 10 for tenth in range(1, 11)]
    for budget in budgets:
        within = [one for one in found if one.area_um2 <= budget.area_um2]
        assert (budget.best is None) == (not within)
        assert budget.is_proven
        if within:
            fastest = max(one.samples_per_s for one in within)
            assert budget.best.samples_per_s == fastest
            assert budget.best.area_um2 == min(one.area_um2 for one in within if one.samples_per_s == fastest)


@given(points, st.lists(st.tuples(small, small), max_size=10))
@settings(max_examples=200, deadline=None)
def test_a_budget_is_proven_only_against_every_design_within_it(solved, unsolved):
    area_d = np.array([one.area_um2 for one in solved] + [float(area) for area, _ in unsolved])
    upper_d = np.array([-np.inf] * len(solved) + [float(bound) for _, bound in unsolved])
    for budget in best_by_budget(solved, 4.0, area_d, upper_d):
        reached = budget.best.samples_per_s if budget.best else 0.0
        rivals = [float(bound) for area, bound in unsolved if area <= budget.area_um2]
        assert budget.is_proven == (not any(bound > reached for bound in rivals))
        assert budget.bound_samples_per_s == max([reached, *rivals])


@given(points, st.lists(st.tuples(small, small), max_size=10))
@settings(max_examples=200, deadline=None)
def test_a_proof_is_claimed_only_against_every_design(solved, unsolved):
    area_d = np.array([one.area_um2 for one in solved] + [float(area) for area, _ in unsolved])
    upper_d = np.array([-np.inf] * len(solved) + [float(bound) for _, bound in unsolved])
    for one, claimed in zip(solved, _proven(solved, area_d, upper_d), strict=True):
        rivals = [(other.area_um2, other.samples_per_s) for other in solved] + list(unsolved)
        assert claimed == (not any(area <= one.area_um2 and fast > one.samples_per_s for area, fast in rivals))


def test_a_point_proven_for_its_own_area_is_not_so_for_a_larger_budget():
    solved = [point(0, (2, 1, 1, 1))]
    # A larger chip that was never solved and may be faster.
    area_d, upper_d = np.array([1.0, 3.0]), np.array([-np.inf, 4.0])
    assert _proven(solved, area_d, upper_d) == [True]
    budgets = best_by_budget(solved, 4.0, area_d, upper_d)
    within, beyond = budgets[4], budgets[-1]
    assert (within.area_um2, within.is_proven, within.bound_samples_per_s, within.gap) == (2.0, True, 2.0, 0.0)
    assert (beyond.area_um2, beyond.is_proven, beyond.bound_samples_per_s, beyond.gap) == (4.0, False, 4.0, 1.0)
    assert budgets[0].best is None
    assert budgets[0].is_proven


def test_equal_points_do_not_beat_each_other():
    assert is_dominated(np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 1.0]])).tolist() == [False, False, True]
