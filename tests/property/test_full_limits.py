"""Plans under choices made beforehand, and the least memory a plan needs: against every plan there is."""

import importlib.util
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.place.full.least_memory import least_memory
from rephaze.place.full.limited_solve import limited_solve
from rephaze.place.full.limits import GRAPH_CHOICES, LAYOUT_CHOICES, limited_problem
from rephaze.types.full import FullLimits, PipelineSchedule
from rephaze.types.placement import SolveStatus

_spec = importlib.util.spec_from_file_location("full_cases", Path(__file__).with_name("full_cases.py"))
full_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(full_cases)

SAME = 1e-9
SEEDS = st.integers(0, 10**9)
NAMES = (*GRAPH_CHOICES, *LAYOUT_CHOICES, "keep")


def value_of(plan, name):
    return plan.stages[0].keep if name == "keep" else getattr(plan, name)


def makes(plan, limits):
    """Whether a plan makes the choices, from their definitions alone."""
    for name in NAMES:
        wanted = getattr(limits, name)
        if wanted is None or (name == "order" and (plan.dp == 1 or plan.pp == 1)):
            continue
        if name == "keep":
            if any(stage.keep != wanted for stage in plan.stages):
                return False
        elif getattr(plan, name) != wanted:
            return False
    return True


@given(seed=SEEDS)
@settings(max_examples=150, deadline=None)
def test_no_plan_with_the_choices_beats_the_limited_solver(seed):
    rng = random.Random(seed)
    problem = full_cases.random_problem(seed)
    prices = list(full_cases.all_prices(problem))
    if not prices:
        return
    some_plan = rng.choice(prices).plan
    # Beyond the end of a layer's list its last point is used: only positions that all plans have are compared.
    names = rng.sample(NAMES, rng.randint(1, 3))
    limits = FullLimits(**{name: value_of(some_plan, name) for name in names})
    if limits.keep:
        shortest = min(len(layer.keep) for graph in problem.graphs for layer in graph.layers)
        limits = replace(limits, keep=min(limits.keep, shortest - 1))
    # Choices may widen the problem's own lists; the enumeration of its plans knows nothing of limits.
    wider = full_cases.all_prices(limited_problem(problem, limits))
    mine = [price for price in wider if makes(price.plan, limits) and price.fits]
    wanted_s = min((price.batch_s for price in mine), default=math.inf)
    found = limited_solve(problem, limits)
    if found.best is None:
        assert math.isinf(wanted_s) or found.status is SolveStatus.CUTOFF
        return
    assert found.best.fits
    assert makes(found.best.plan, limits)
    assert found.bound_s <= wanted_s * (1 + SAME)
    if found.status is SolveStatus.OPTIMAL:
        assert found.best.batch_s == pytest.approx(wanted_s, rel=SAME)


def fullest(price):
    return max(device.total_bytes for device in price.devices)


@given(seed=SEEDS)
@settings(max_examples=150, deadline=None)
def test_no_plan_needs_less_than_the_least_memory(seed):
    problem = full_cases.random_problem(seed)
    prices = list(full_cases.all_prices(problem))
    found = least_memory(problem)
    if found is None:
        assert not prices
        return
    needed = min(map(fullest, prices))
    assert found.needed_bytes == pytest.approx(fullest(found.price))
    assert found.needed_bytes >= needed * (1 - SAME)
    if found.is_least:
        assert found.needed_bytes == pytest.approx(needed, rel=SAME)
    else:
        assert PipelineSchedule.INTERLEAVED in problem.options.schedule


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_no_plan_at_a_position_needs_less_than_the_least_memory_there(seed):
    problem = full_cases.random_problem(seed)
    options = replace(problem.options, schedule=(PipelineSchedule.ONE_F_ONE_B,))
    problem = replace(problem, options=options)
    prices = [
        price for price in full_cases.all_prices(problem) if all(stage.keep == 0 for stage in price.plan.stages)
    ]
    found = least_memory(limited_problem(problem, FullLimits(keep=0)))
    if not prices:
        assert found is None
        return
    assert found.needed_bytes == pytest.approx(min(map(fullest, prices)), rel=SAME)
