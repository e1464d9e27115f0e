"""What is proven of an answer: a bound above it by more than rounding is a gap."""

import math

import pytest

from rephaze.types.comparison import ROUNDING, Baseline, ChipAnswer
from rephaze.types.pareto import AreaBudget, ParetoPoint


def answer(objective, bound):
    return ChipAnswer(chip=None, area_um2=1e8, objective=objective, bound=bound, plans=())


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [
        (10.0, 10.0, 0.0),
        (10.0, 10.0 * (1 + ROUNDING / 2), 0.0),
        (10.0, 12.5, 0.25),
        (0.0, 5.0, math.inf),
        (0.0, 0.0, 0.0),
    ],
)
def test_the_gap_of_an_answer(objective, bound, gap):
    found = answer(objective, bound)
    assert found.gap == pytest.approx(gap)
    assert found.is_proven == (gap == 0.0)


def test_a_baseline_without_a_chip_reached_nothing_and_proves_nothing():
    nothing = Baseline(name="random", answer=None, num_evaluations=8, search_s=1.0)
    assert (nothing.objective, nothing.bound, nothing.is_proven) == (0.0, 0.0, False)
    found = Baseline(name="random", answer=answer(3.0, 4.0), num_evaluations=8, search_s=1.0)
    assert (found.objective, found.bound, found.is_proven) == (3.0, 4.0, False)


def test_the_gap_of_an_area_budget():
    best = ParetoPoint(
        design=0, chip=None, samples_per_s=8.0, area_um2=1e8, full_power_w=1.0, energy_per_sample_j=1.0,
        chip_usd=1.0, is_proven=False,
    )  # fmt: skip

    def budget(best, bound, is_proven=False):
        return AreaBudget(area_um2=2e8, best=best, bound_samples_per_s=bound, is_proven=is_proven)

    assert budget(best, 10.0).gap == pytest.approx(0.25)
    assert budget(best, 8.0, is_proven=True).gap == 0.0
    assert budget(None, 10.0).gap == math.inf
