"""The best plan under given choices beside the best of all."""

import pytest

from rephaze.place.full.solver import FullPlacer
from rephaze.place.full.why_not import explain_full_alternative
from rephaze.types.full import FullLimits, PipelineSchedule, PlanFamily
from tests.kits.full_line import line, problem_of


def explained(problem, **choices):
    optimum = FullPlacer(problem).solve()
    return optimum, explain_full_alternative(problem, optimum, FullLimits(**choices))


def test_the_loss_is_told_by_cause():
    # Four stages of one layer: 8 * 3 s and 3 * 3 s to fill; two replicas of two stages: 4 * 6 s and 6 s.
    problem = problem_of(line(), num_devices=4)
    optimum, found = explained(problem, pp=4)
    assert optimum.best.batch_s == pytest.approx(24.0)
    assert found.placement.best.batch_s == pytest.approx(33.0)
    assert found.loss_ratio == pytest.approx(9 / 24)
    assert found.loss_s["bubble"] == pytest.approx(9.0)
    assert found.text == "it is 37.50% slower. Of the difference: bubble +100%"


def test_the_optimum_itself_is_as_fast():
    problem = problem_of(line(), num_devices=4)
    _, found = explained(problem, pp=1)
    assert found.text == "it is as fast as the optimum"


def test_what_the_options_leave_out_may_be_faster():
    problem = problem_of(line(), num_devices=4, global_batch=1)
    optimum, found = explained(problem, schedule=PipelineSchedule.ZERO_BUBBLE)
    assert found.placement.best.batch_s <= optimum.best.batch_s
    problem = problem_of(line(), num_devices=4, global_batch=7, family=PlanFamily.EXACT)
    optimum, found = explained(problem, family=PlanFamily.ANY)
    assert found.loss_ratio < 0
    assert "outside the problem's options or family" in found.text
    cost = optimum.best.batch_s / found.placement.best.batch_s - 1
    assert found.launch_note.startswith(f"family exact costs {cost:.2%}")


def test_one_position_for_all_stages():
    problem = problem_of(line(), num_devices=4)
    _, found = explained(problem, keep=1)
    assert {stage.keep for stage in found.placement.best.plan.stages} == {1}
    assert found.loss_s["replay"] == pytest.approx(8 * 4 * 0.5 / 4)


def test_a_problem_without_a_plan_has_nothing_to_compare_with():
    problem = problem_of(line(), memory_bytes=1.0)
    _, found = explained(problem, pp=2)
    assert found.text.startswith("it cannot run. memory: the leanest plan")
    assert found.needed_bytes > 1e9


def test_what_launching_costs_names_the_rules_the_fastest_plan_breaks():
    # Seven samples: no number of replicas but 1 and 7 divides them.
    problem = problem_of(line(), num_devices=4, global_batch=7, family=PlanFamily.EXACT)
    _, found = explained(problem, family=PlanFamily.ANY)
    dp = found.placement.best.plan.dp
    assert 7 % dp
    assert found.launch_note.endswith(f"which exact cannot launch: {7 / dp:.6g} microbatches a replica")
    # Asked from the other side, the cost and the rule are the same.
    free = problem_of(line(), num_devices=4, global_batch=7)
    _, other = explained(free, family=PlanFamily.EXACT)
    assert other.launch_note == found.launch_note
    assert other.loss_ratio == pytest.approx(1 / (1 + found.loss_ratio) - 1)


def test_a_family_that_costs_nothing_says_so():
    problem = problem_of(line(), num_devices=4, family=PlanFamily.EXACT)
    _, found = explained(problem, family=PlanFamily.ANY)
    assert found.launch_note.startswith("family exact costs nothing")
    assert explained(problem, family=PlanFamily.TORCHTITAN)[1].launch_note == ""
    assert explained(problem, family=PlanFamily.ANY, pp=2)[1].launch_note == ""
