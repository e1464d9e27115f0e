"""Choices made beforehand: read, and what they leave of a problem."""

import pytest

from rephaze.errors import SpecError
from rephaze.place.full.layouts import layouts
from rephaze.place.full.limits import chosen_of, limited_problem, parse_full_limits
from rephaze.types.full import (
    DeviceOrder,
    FullLimits,
    PipelineSchedule,
    PlanFamily,
    PlanOptions,
    Sharding,
)
from tests.kits.full_line import line, problem_of


def test_every_decision_can_be_asked_about():
    text = (
        "tp=8,sp=on,cp=2,ep=4,etp=1,dp=2,pp=4,microbatch=1,order=pp-outer,sharding=weights,shard_group=4,"
        "reshard=off,schedule=interleaved,chunks=2,keep=0,family=any"
    )
    limits = parse_full_limits(text)
    assert len(chosen_of(limits)) == len(FullLimits.__slots__) == text.count("=")
    assert limits.sp is True
    assert limits.reshard is False
    assert limits.keep == 0
    assert limits.order is DeviceOrder.PP_OUTER
    assert limits.family is PlanFamily.ANY


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pp", "--why pp is '': must be a whole number from 1"),
        ("pp=0", "must be from 1"),
        ("keep=-1", "must be a whole number from 0"),
        ("recompute=stage", "must be one of tp, sp, cp"),
        ("order=inner", "dp-outer, pp-outer"),
        ("reshard=1", "on, true, off, false"),
    ],
)
def test_wrong_choices_name_the_legal_ones(text, said):
    with pytest.raises(SpecError) as caught:
        parse_full_limits(text)
    assert said in str(caught.value)


def layouts_under(text, **options):
    problem = limited_problem(problem_of(line(), **options), parse_full_limits(text))
    return [layout for graph in problem.graphs for layout in layouts(problem, graph)]


def test_degrees_are_those_asked_for():
    found = layouts_under("dp=2,pp=2")
    assert {(layout.dp, layout.pp) for layout in found} == {(2, 2)}
    assert layouts_under("tp=2") == []


def test_sharding_asked_for_leaves_no_plan_of_one_replica():
    found = layouts_under("sharding=weights")
    assert {layout.sharding for layout in found} == {Sharding.WEIGHTS}
    assert min(layout.dp for layout in found) == 2


def test_a_choice_widens_the_lists_of_the_problem():
    assert PlanOptions().sharding == (Sharding.NONE,)
    assert {layout.shard_group for layout in layouts_under("shard_group=2")} == {2}
    assert {layout.reshard for layout in layouts_under("reshard=on")} == {True}
    found = layouts_under("schedule=interleaved")
    assert {(layout.schedule, layout.chunks) for layout in found} == {(PipelineSchedule.INTERLEAVED, 2)}
    assert {layout.schedule for layout in layouts_under("chunks=1", schedule=(PipelineSchedule.INTERLEAVED,))} == {
        PipelineSchedule.ONE_F_ONE_B
    }


def test_family_alone_asks_against_any_plan_and_of_any_plan_against_exact():
    assert parse_full_limits("family") == FullLimits(family=PlanFamily.ANY)
    assert parse_full_limits(" family ", PlanFamily.MEGATRON) == FullLimits(family=PlanFamily.ANY)
    assert parse_full_limits("family", PlanFamily.ANY) == FullLimits(family=PlanFamily.EXACT)
    with pytest.raises(SpecError, match="must be one of any, exact"):
        parse_full_limits("tp=2,family")
