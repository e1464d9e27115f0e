"""Why no plan runs: the rule or the memory, with numbers."""

from dataclasses import replace

import pytest

from rephaze.place.full.obstacles import why_choices_fail, why_nothing_fits
from rephaze.types.full import DeviceOrder, FullLimits, PipelineSchedule, PlanFamily, Sharding
from tests.kits.full_line import line, problem_of


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ({"global_batch": 3}, {"family": PlanFamily.TORCHTITAN}, "family torchtitan leaves no plan"),
        (
            {"global_batch": 1},
            {"schedule": (PipelineSchedule.INTERLEAVED,), "chunks": (2,)},
            "microbatches of a replica that are a multiple of pp",
        ),
        (
            {"num_devices": 4, "global_batch": 4},
            {
                "sharding": (Sharding.GRADIENTS,),
                "family": PlanFamily.MEGATRON,
                "order": (DeviceOrder.DP_OUTER, DeviceOrder.PP_OUTER),
            },
            "memory: the leanest plan",
        ),
    ],
)
def test_the_rule_that_leaves_no_plan_is_named(given, options, said):
    assert said in why_nothing_fits(problem_of(line(), memory_bytes=1.0, **given, **options)).text


def test_a_stage_wider_than_the_cluster():
    wide = replace(line(), tp=16)
    assert "a stage takes tp times cp, 16, of them, the cluster has 8" in why_nothing_fits(problem_of(wide)).text


def test_experts_that_fit_no_mesh():
    spread = replace(line(), ep=3)
    obstacle = why_nothing_fits(problem_of(spread, global_batch=2))
    assert obstacle.text.startswith("experts:")
    assert obstacle.needed_bytes is None


def test_missing_memory_is_told_by_device_and_purpose():
    # Three devices of 1, 1 and 2 layers with 3, 2 and 1 microbatches in flight: 3 x 0.25 GB kept and 0.75 GB
    # rebuilt on the first. Four devices have 4 in flight on the first; two of 1 and 3 layers need as much.
    obstacle = why_nothing_fits(problem_of(line(), memory_bytes=1e9, num_devices=4, global_batch=4))
    assert obstacle.needed_bytes == pytest.approx(1.5e9)
    assert "pp 3, dp 1, microbatch 1, 1f1b, keep 1, needs 1.397 GiB on device 0" in obstacle.text
    assert "(kept 0.698, replay 0.698)" in obstacle.text
    assert obstacle.text.endswith("no plan needs less")


def test_a_choice_is_told_with_its_rule_and_the_legal_values():
    problem = problem_of(line(), family=PlanFamily.EXACT)
    text = why_choices_fail(problem, FullLimits(dp=3)).text
    assert text.startswith("dp=3 is not legal: dp x pp x tp x cp is at most 8 devices")
    assert text.endswith("legal: 1, 2, 4, 8")
    assert why_choices_fail(problem, FullLimits(pp=5)).text.endswith("legal: 1, 2, 3, 4")
    assert why_choices_fail(problem, FullLimits(tp=2)).text.endswith("legal: 1")
    text = why_choices_fail(problem, FullLimits(dp=1, sharding=Sharding.WEIGHTS)).text
    assert "dp=1 is not legal beside the other choices" in text


def test_choices_that_exclude_each_other():
    problem = problem_of(line())
    limits = FullLimits(schedule=PipelineSchedule.ZERO_BUBBLE, sharding=Sharding.WEIGHTS, reshard=True)
    assert "not legal beside the other choices" in why_choices_fail(problem, limits).text


def test_a_choice_that_graphs_have_but_nothing_lays_out_names_the_rule():
    three = replace(line(), microbatch=3)
    problem = problem_of(line(), global_batch=8, family=PlanFamily.EXACT)
    problem = replace(problem, graphs=(*problem.graphs, three))
    text = why_choices_fail(problem, FullLimits(microbatch=3)).text
    assert "dp times the microbatch size must divide the global batch, 8" in text
    assert text.endswith("legal: 1")
    text = why_choices_fail(problem, FullLimits(cp=3)).text
    assert text == (
        "cp=3 is not legal: it must divide the sequence, and the problem must have a graph of it; legal: 1"
    )


def test_two_choices_each_illegal_are_told_one_at_a_time():
    problem = problem_of(line(), global_batch=15, family=PlanFamily.EXACT, sharding=tuple(Sharding))
    text = why_choices_fail(problem, FullLimits(dp=2, pp=9)).text
    assert text.startswith("dp=2 is not legal: dp x pp")
    assert text.endswith("legal: 1, 3, 5")
