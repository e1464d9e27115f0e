"""A larger area limit only adds designs: the optimum of the default space never falls with it."""

import importlib.util
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.types.search import Objective
from tests.kits.long_hunt import examples

pytestmark = pytest.mark.usefixtures("shared_memos")

_spec = importlib.util.spec_from_file_location("search_cases", Path(__file__).with_name("search_cases.py"))
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)


def limited(seed, objective, limit_um2):
    # No single-core chips: a floor would spare them.
    space = {"area_limit_um2": limit_um2, "num_tensor_cores": [2, 8], "num_vector_cores": [2]}
    return search_cases.small_settings(seed, "coarse", num_choices=2, space=space, objective=objective)


@pytest.mark.parametrize("objective", list(Objective))
@given(seed=st.integers(0, 10**6), parts=st.lists(st.floats(0.1, 4.0), min_size=2, max_size=3, unique=True))
@settings(max_examples=examples(2, 4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_growing_the_area_limit_never_lowers_the_optimum(objective, seed, parts):
    areas = SpaceEvaluator(limited(seed, objective, 1e12)).census.area_um2_c
    # From below the smallest chip of the space to well above twice the largest.
    found = [run_search(limited(seed, objective, part * float(areas.max()))) for part in sorted(parts)]
    for smaller, larger in pairwise(found):
        assert larger.objective >= smaller.objective
        assert larger.certificate.num_designs >= smaller.certificate.num_designs


def test_far_above_the_largest_chip_nothing_is_left_out():
    census = SpaceEvaluator(limited(0, Objective.PER_USD, 1e12)).census
    assert census.num_designs == census.num_grid_points
