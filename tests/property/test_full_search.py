"""Searches under cost model ``full``: pruned equals exhaustive, bounds are bounds, answers come out again."""

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rephaze.measure.full_planner import FullPlanner
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.types.full import PlanFamily
from rephaze.types.search import Objective, SearchStatus
from rephaze.verify.run_check import verify_run
from tests.kits.long_hunt import examples
from tests.kits.mapped_stages import mapped_stages

pytestmark = pytest.mark.usefixtures("shared_memos")

_spec = importlib.util.spec_from_file_location("search_cases", Path(__file__).with_name("search_cases.py"))
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)
small_settings = search_cases.small_settings

ROUNDING = 1 + 1e-9
SEEDS = st.integers(0, 10**6)


@given(seed=SEEDS, objective=st.sampled_from(list(Objective)))
@settings(max_examples=examples(3, 6), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_pruned_equals_exhaustive(seed, objective):
    asked = small_settings(seed, "default", ("llama",), objective=objective)
    found, want = run_search(asked), run_search(replace(asked, exhaustive=True))
    assert (found.status, found.design, found.chip) == (want.status, want.design, want.chip)
    assert (found.objective, found.bound) == (want.objective, want.bound)
    assert found.plans == want.plans


@given(seed=SEEDS, model=st.sampled_from(["gpt", "llama"]))
@settings(max_examples=examples(3, 6), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_bound_is_above_the_next_and_the_truth(seed, model):
    space = SpaceEvaluator(small_settings(seed, "default", (model,), num_choices=1))
    work, designs = space.works[0], range(space.census.num_designs)
    bounds = space.unit_bounds(designs)
    coarse, refined = space.coarse(), space.refined(designs, bounds)
    for design in designs:
        solver, memory, best = space.solver(design), space.memory_options(design)[-1], 0.0
        for u, unit in enumerate(work.units):
            answer = solver.solve(work, unit, memory, math.inf)
            for bound_s in (
                bounds[0].batch_s_uc[u, design],
                *mapped_stages(solver, work, unit, memory, bounds[0].chip(design)),
                solver.hurried_bound_s(work, unit, memory),
            ):
                assert bound_s <= answer.bound_s * ROUNDING
            assert answer.bound_s <= answer.batch_s
            worth = space.valuation.worth(design, memory.hbm_bytes)
            best = max(best, worth.of_plan(answer.batch_s, answer.energy_per_sample_j))
            if answer.plan is not None:
                priced = FullPlanner(solver, work, unit, memory).priced(answer.plan.plan)
                assert priced.fits
                assert priced.batch_s == pytest.approx(answer.batch_s, rel=1e-9)
        assert refined[design] * ROUNDING >= best
        assert coarse[design] * ROUNDING >= best


@given(seed=SEEDS)
@settings(max_examples=examples(3, 8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_form_of_a_cut_sequence_beats_its_bound(seed):
    asked = small_settings(seed, "default", ("llama",), num_choices=1, training={"cp_degrees": [1, 2, 4]})
    space = SpaceEvaluator(asked)
    work, solver = space.works[0], space.solver(0)
    bounds = space.unit_bounds([0])[0]
    finer = solver.finer_bounds(work, space.memory_options(0)[-1], bounds)
    for (cut, microbatch), k in work.class_of.items():
        finer.map_class(k, np.array([0]))
        for name, direction in (("forward_s_kct", 0), ("backward_s_kct", 1), ("input_s_kct", 2)):
            for kind in range(len(work.passes(cut))):
                for form, own in enumerate(work.all_forms(cut)):
                    table = solver.pass_table(work, cut, microbatch, kind, direction, form)
                    cycles = solver.schedule(work, own.passes[kind][direction], table).makespan_cycles
                    least_s = cycles / solver.chip.clock_hz * ROUNDING
                    assert getattr(bounds, name)[k, 0, kind] <= getattr(finer.bounds, name)[k, 0, kind]
                    assert getattr(finer.bounds, name)[k, 0, kind] <= least_s


def test_verify_derives_the_answer_again(tmp_path):
    asked = small_settings(5, "default", ("llama",), training={"cp_degrees": [1, 2], "sequence_parallel": [True]})
    result = run_search(asked, folder=tmp_path / "run")
    assert result.status is SearchStatus.OPTIMAL
    checks = verify_run(tmp_path / "run", sample=1)
    assert [check.name for check in checks if not check.passed] == []


def test_families_are_nested():
    values = {}
    for family in (PlanFamily.ANY, PlanFamily.EXACT, PlanFamily.TORCHTITAN):
        asked = small_settings(11, "default", ("llama",), num_devices=16)
        plans = replace(asked.scenario.plans, family=family)
        found = run_search(replace(asked, scenario=replace(asked.scenario, plans=plans)))
        values[family] = found.objective
    assert values[PlanFamily.ANY] >= values[PlanFamily.EXACT] >= values[PlanFamily.TORCHTITAN]
