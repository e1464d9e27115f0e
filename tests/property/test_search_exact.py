"""The pruned search equals exhaustive search on small spaces, and every bound it uses is one."""

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rephaze.estimate.estimate_model import DEFAULT
from rephaze.measure.stage_planner import StagePlanner
from rephaze.search.cosearch import run_search
from rephaze.search.device_time import device_time_batch_s
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.types.search import Aggregate, Objective
from rephaze.units import GIB, MIB
from tests.kits.long_hunt import examples
from tests.kits.mapped_stages import mapped_stages

pytestmark = pytest.mark.usefixtures("shared_memos")

_spec = importlib.util.spec_from_file_location("search_cases", Path(__file__).with_name("search_cases.py"))
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)
small_settings = search_cases.small_settings

ROUNDING = 1 + 1e-9
seeds = st.integers(0, 10**6)
scenarios = st.sampled_from(["coarse", "paper"])
objectives = st.sampled_from(list(Objective))


def same_answer(found, want):
    assert (found.status, found.design, found.chip) == (want.status, want.design, want.chip)
    assert (found.objective, found.bound, found.gap) == (want.objective, want.bound, want.gap)
    assert found.plans == want.plans


def accounted(certificate):
    return (
        certificate.num_solved_exactly
        + certificate.num_infeasible
        + sum(certificate.num_dropped_by_bound.values())
    )


def check_pruned_equals_exhaustive(asked):
    found = run_search(asked)
    want = run_search(replace(asked, exhaustive=True))
    same_answer(found, want)
    assert want.certificate.num_dropped_by_bound == {"device time": 0, "layer bounds": 0}
    assert accounted(found.certificate) == accounted(want.certificate) == found.certificate.num_designs
    for name, (least, most) in found.certificate.num_within.items():
        exactly, also = want.certificate.num_within[name]
        assert exactly == also
        assert least <= exactly <= most
    counted = run_search(asked, count_within=0.05)
    same_answer(counted, want)
    assert counted.certificate.num_within == want.certificate.num_within
    assert accounted(counted.certificate) == counted.certificate.num_designs


@given(seed=seeds, scenario=scenarios, objective=objectives)
@settings(max_examples=examples(5, 8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_one_model(seed, scenario, objective):
    check_pruned_equals_exhaustive(small_settings(seed, scenario, objective=objective))


@given(seed=seeds, scenario=scenarios, objective=objectives, aggregate=st.sampled_from(list(Aggregate)))
@settings(max_examples=examples(3, 5), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_two_models(seed, scenario, objective, aggregate):
    asked = small_settings(
        seed, scenario, ("gpt", "llama"), objective=objective, aggregate=aggregate, weights=[1.0, 2.5]
    )
    check_pruned_equals_exhaustive(asked)


@given(seed=seeds, scenario=scenarios, objective=objectives)
@settings(max_examples=examples(5, 8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_bound_is_above_the_next_and_the_truth(seed, scenario, objective):
    space = SpaceEvaluator(small_settings(seed, scenario, num_choices=1, objective=objective))
    work, designs = space.works[0], range(space.census.num_designs)
    bounds = space.unit_bounds(designs)
    coarse, refined = space.coarse(), space.refined(designs, bounds)
    for design in designs:
        solver, memories = space.solver(design), space.memory_options(design)
        best, largest = 0.0, memories[-1]
        for u, unit in enumerate(work.units):
            own = bounds[0].chip(design)
            bound_s = max(own.batch_s_uc[u, 0], *mapped_stages(solver, work, unit, largest, own))
            # Every memory, whatever the objective: of those it does not price, none may beat the largest.
            for memory in memories:
                answer = solver.solve(work, unit, memory, math.inf)
                mapped_s = max(mapped_stages(solver, work, unit, memory, own))
                assert max(bound_s, mapped_s) <= answer.bound_s * ROUNDING
                assert answer.bound_s <= answer.batch_s
                worth = space.valuation.worth(design, memory.hbm_bytes)
                least_j = space.valuation.least_j(work, design)
                value = worth.of_plan(answer.batch_s, answer.energy_per_sample_j)
                assert worth.at_best(mapped_s, least_j) * ROUNDING >= value
                assert worth.at_best(bound_s, least_j) * ROUNDING >= value
                best = max(best, value)
                if answer.plan is not None:
                    priced = StagePlanner(solver, work, unit, memory).priced(answer.plan)
                    assert priced.fits
                    assert priced.batch_s == pytest.approx(answer.batch_s, rel=1e-9)
        assert refined[design] * ROUNDING >= best
        assert coarse[design] * ROUNDING >= best
        found = space.evaluate(design, [own.chip(design) for own in bounds], -math.inf)
        assert found.is_exact
        assert max(found.objective, 0.0) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("models", [("gpt",), ("gpt", "llama")])
@pytest.mark.parametrize("seed", range(3))
def test_per_usd_prices_the_best_memory_of_all(seed, models):
    asked = small_settings(seed, "paper", models, objective=Objective.PER_USD, num_devices=4)
    # Some models fit the small one with replays only, some not at all.
    sizes = (10 * MIB, 20 * MIB, 50 * MIB, GIB)
    asked = replace(
        asked,
        scenario=replace(asked.scenario, space=replace(asked.scenario.space, hbm_bytes_options=sizes)),
    )
    found = run_search(asked)
    want = [run_search(with_memory(asked, size)) for size in sizes]
    best = max(want, key=lambda one: one.objective)
    assert (found.status, found.objective, found.design) == (best.status, best.objective, best.design)
    assert found.plans == best.plans
    assert len({plan.hbm_bytes for plan in found.plans}) <= 1


def with_memory(asked, hbm_bytes):
    space = replace(asked.scenario.space, hbm_bytes_options=(hbm_bytes,))
    return replace(asked, scenario=replace(asked.scenario, space=space))


@pytest.mark.parametrize("degree", [2, 4])
def test_layers_that_are_not_sharded_count_once_in_the_device_time(degree):
    # The tiny GPT's head is whole on one device at any degree, and no multiply is done twice.
    whole, sharded = (
        SpaceEvaluator(small_settings(0, "paper", training={"tp_degrees": [tp]})) for tp in (1, degree)
    )
    # Multiplies alone, by endless lanes and memory: outputs of split reductions are another matter.
    chips = whole.census.chips
    endless = replace(
        chips,
        vector_lanes=np.full_like(chips.vector_lanes, 2**40),
        hbm_bytes_per_s=np.full_like(chips.hbm_bytes_per_s, 1e30),
    )
    times = [device_time_batch_s(one.works[0], endless, DEFAULT, one.exclusion) for one in (whole, sharded)]
    np.testing.assert_allclose(times[1], times[0], rtol=1e-9)
