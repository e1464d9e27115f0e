"""Trials of one design: a plan of each model is enough, and what finds none is given up."""

import math
from types import SimpleNamespace

import pytest

from rephaze.search.design_search import MOST_IN_VAIN, DesignSearch


class Model:
    """Has a plan once so many units are solved."""

    def __init__(self, needs):
        self.needs, self.best, self.promise, self.upper, self.value = needs, None, math.inf, 9.0, 0.0

    def refine(self, _limit_s, *, is_trial):
        assert is_trial
        self.needs -= 1
        if self.needs == 0:
            self.best, self.value = "plan", 3.0
        return "unit"


@pytest.mark.parametrize(
    ("needs", "worth"),
    [([1], 3.0), ([1] * 9, 3.0), ([MOST_IN_VAIN] * 9, 3.0), ([1, MOST_IN_VAIN + 1], 0.0)],
)
def test_every_model_of_a_trial_has_its_own_patience(needs, worth):
    search = object.__new__(DesignSearch)
    search.models = [Model(own) for own in needs]
    search.valuation = SimpleNamespace(combined=min)
    assert search.tried(0.0) == worth
