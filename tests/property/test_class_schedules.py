"""Schedules of what the passes of a class have in common: no pass of it has a shorter one, in whatever form."""

import importlib.util
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.pass_times import BACKWARD, FORWARD, Times
from rephaze.search.evaluator import SpaceEvaluator
from tests.kits.long_hunt import examples

_spec = importlib.util.spec_from_file_location("search_cases", Path(__file__).with_name("search_cases.py"))
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)
small_settings = search_cases.small_settings

ROUNDING = 1 + 1e-9
DIRECTIONS = (FORWARD, BACKWARD)


NUM_EXAMPLES = examples(12, 40)


def hold_against_class(space, design):
    """Every form of every unit against what its class takes at least; how many are in a class with others."""
    work, solver, num_held = space.works[0], space.solver(design), 0
    for unit in work.units:
        cut, microbatch = unit.cut, unit.microbatch
        has_others = len(work.classes[work.class_of[cut, microbatch]].pairs) > 1 or cut.cp > 1
        for direction in (FORWARD, BACKWARD):
            least_s_t = solver.pass_seconds(work, cut, microbatch, direction, Times.OF_CLASS)
            for form, cut_form in enumerate(work.all_forms(cut)):
                for kind, least_s in enumerate(least_s_t.tolist()):
                    table = solver.pass_table(work, cut, microbatch, kind, direction, form)
                    found = solver.schedule(work, cut_form.passes[kind][direction], table)
                    assert (
                        least_s <= found.makespan_cycles / solver.chip.clock_hz * ROUNDING
                        or found.impossible_op >= 0
                    )
                    num_held += has_others
    return num_held


@pytest.mark.parametrize("model", ["gpt", "llama"])
def test_no_form_of_any_pass_has_a_shorter_schedule_than_its_class(model):
    held = []

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=NUM_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def hold(seed):
        space = SpaceEvaluator(small_settings(seed, "default", (model,), num_choices=1))
        held.append(hold_against_class(space, seed % space.census.num_designs))

    hold()
    assert sum(held) > 100, "classes of several passes must be among the cases"


def hold_hasty_against_thorough(space, design):
    """What little work says of layers cut along the sequence, against proven schedules of the form they run in."""
    work, thorough, num_open = space.works[0], space.solver(design), 0
    hasty = ChipSolver(thorough.chip, space.settings.scenario, schedule_work=1)
    for unit in (unit for unit in work.units if unit.cut.cp > 1):
        cut, microbatch = unit.cut, unit.microbatch
        true_st = [thorough.pass_seconds(work, cut, microbatch, one, Times.SCHEDULED) for one in DIRECTIONS]
        for times in (Times.LEAST, Times.SKETCHED, Times.HURRIED):
            least_st = [hasty.pass_seconds(work, cut, microbatch, one, times) for one in DIRECTIONS]
            for least_s_t, true_s_t in zip(least_st, true_st, strict=True):
                assert (least_s_t <= true_s_t * ROUNDING).all(), times
        for kind in range(len(work.passes(cut))):
            true, found = (one.fastest_form(work, cut, microbatch, kind) for one in (thorough, hasty))
            assert not true.is_proven or true.form in found.possible
            num_open += len(found.possible) > 1
    return num_open


def test_no_form_that_may_be_the_fastest_is_left_out():
    num_open = []

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=NUM_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def hold(seed):
        space = SpaceEvaluator(small_settings(seed, "default", ("gpt",), num_choices=1))
        num_open.append(hold_hasty_against_thorough(space, seed % space.census.num_designs))

    hold()
    assert sum(num_open) > 0, "some forms must be left open"
