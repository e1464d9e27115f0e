"""Time, memory, timelines and schedules of a search's plans, derived again."""

from dataclasses import replace
from itertools import pairwise

import pytest

from rephaze.hardware.presets import preset_chip
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.settings import resolve_settings
from rephaze.study.near_baselines import known_as_baselines, near_baselines
from rephaze.study.plan_accounts import baseline_accounts, winner_details
from rephaze.study.yardstick import Yardstick
from rephaze.types.search import Certificate, SearchResult, SearchStatus
from rephaze.types.stopping import StoppedError, StopSignal

FEW = {
    "default": {"microbatches": [1, 2], "tp_degrees": [1, 2], "cp_degrees": [1], "global_batch": 64},
    "coarse": {"microbatches": [1, 2], "tp_degrees": [1, 2], "global_batch": 64},
}
CERTIFICATE = Certificate(
    num_designs=1, num_solved_exactly=1, num_dropped_by_bound={}, num_infeasible=0, num_within={}, binding=""
)


@pytest.fixture(scope="module", params=["default", "coarse"])
def answered(request):
    changes = {"training": FEW[request.param], "cluster": {"num_devices": 8}}
    settings = resolve_settings(("vit-large",), scenario=request.param, changes=changes)
    chip = replace(preset_chip("tpuv4"), name="")
    found = Yardstick(SpaceEvaluator(settings)).with_searched_plans(chip)
    result = SearchResult(
        status=SearchStatus.OPTIMAL, objective=found.objective, bound=found.bound, gap=0.0, design=0, chip=chip,
        area_um2=found.area_um2, plans=found.plans, certificate=CERTIFICATE, reason="", search_s=1.0,
    )  # fmt: skip
    return settings, result, found


def test_the_parts_add_up_to_what_the_search_recorded(answered):
    settings, result, _ = answered
    (plan,), (detail,) = result.plans, winner_details(settings, result).plans
    account = detail.account
    assert (detail.model, detail.missing) == ("vit-large", "")
    assert account.causes.total_s == pytest.approx(plan.batch_s, rel=1e-9)
    assert len(account.devices) == plan.pp
    held = [account.devices[at % plan.pp].total_bytes for at in range(len(plan.stages))]
    assert held == pytest.approx([stage.memory_bytes for stage in plan.stages], rel=1e-9)
    assert max(stage.keep for stage in plan.stages) < account.num_keep_positions
    assert sum(account.bound_by_fractions.values()) == pytest.approx(1.0)
    assert set(account.bound_by_fractions) <= {"array", "lanes", "buffer", "hbm", "link"}


def test_a_timeline_is_a_batch_in_which_no_device_does_two_things(answered):
    settings, result, _ = answered
    (plan,), (detail,) = result.plans, winner_details(settings, result).plans
    timeline = detail.timeline
    assert (timeline.num_devices, timeline.left_out_to_s) == (plan.pp, 0.0)
    assert timeline.num_microbatches == -(-64 // (plan.microbatch * plan.dp))
    assert timeline.batch_s == pytest.approx(plan.batch_s, rel=0.05)
    events = sorted(zip(timeline.device_e, timeline.start_s_e, timeline.end_s_e, strict=True))
    for (device, _, end_s), (after, start_s, _) in pairwise(events):
        assert device != after or start_s >= end_s - 1e-12
    passes = [timeline.kinds[kind] for kind in timeline.kind_e]
    assert passes.count("forward") == timeline.num_microbatches * len(plan.stages)


def test_every_layer_type_is_scheduled_and_every_operator_estimated(answered):
    settings, result, _ = answered
    (detail,) = winner_details(settings, result).plans
    layers = {op.layer for op in detail.operators}
    assert {one.layer for one in detail.passes} == layers
    assert len(detail.passes) == 2 * len(layers)


def test_a_time_that_is_not_the_recorded_one_is_refused(answered):
    settings, result, _ = answered
    (plan,) = result.plans
    other = replace(result, plans=(replace(plan, batch_s=plan.batch_s * 1.001),))
    (detail,) = winner_details(settings, other).plans
    assert "in the search" in detail.missing
    assert (detail.account, detail.timeline, detail.passes) == (None, None, ())


def test_without_an_answer_or_time_there_is_nothing(answered):
    settings, result, _ = answered
    assert winner_details(settings, replace(result, chip=None, plans=())) is None
    over = StopSignal(is_asked=lambda: True)
    with pytest.raises(StoppedError):
        winner_details(settings, result, over)
    assert near_baselines(settings, result, over) == []


def test_baselines_have_their_time_by_cause_as_far_as_they_have_plans(answered):
    settings, result, found = answered
    near = near_baselines(settings, result)
    # No expert's plan is published for this model; rules give one under cost model full.
    names = [one.name for one in near if one.objective > 0]
    is_full = settings.scenario.placement_model == "full"
    assert names == (["tpuv4, FSDP rule", "tpuv4, Megatron rule"] if is_full else [])
    known = known_as_baselines([replace(found, chip=preset_chip("tpuv4"))])
    accounts = {one.name: one.plans for one in baseline_accounts(settings, [*near, *known])}
    assert list(accounts) == [*names, "tpuv4, searched plan"]
    (account,) = accounts["tpuv4, searched plan"]
    assert account.causes.total_s == pytest.approx(found.plans[0].batch_s, rel=1e-9)
    assert baseline_accounts(settings, known, StopSignal(is_asked=lambda: True)) == []
