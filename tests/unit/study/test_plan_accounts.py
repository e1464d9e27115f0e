"""Time and memory of a search's plans by cause, derived again."""

from dataclasses import replace

import pytest

from rephaze.errors import RunError
from rephaze.hardware.presets import preset_chip
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.settings import resolve_settings
from rephaze.study.plan_accounts import plan_accounts
from rephaze.study.yardstick import Yardstick
from rephaze.types.search import Certificate, SearchResult, SearchStatus

FEW = {
    "training": {"microbatches": [1, 2], "tp_degrees": [1, 2], "cp_degrees": [1], "global_batch": 64},
    "cluster": {"num_devices": 8},
}


@pytest.fixture(scope="module")
def answered():
    settings = resolve_settings(("vit-large",), scenario="default", changes=FEW)
    chip = replace(preset_chip("tpuv4"), name="")
    found = Yardstick(SpaceEvaluator(settings)).with_searched_plans(chip)
    certificate = Certificate(
        num_designs=1, num_solved_exactly=1, num_dropped_by_bound={}, num_infeasible=0, num_within={}, binding=""
    )
    result = SearchResult(
        status=SearchStatus.OPTIMAL, objective=found.objective, bound=found.bound, gap=0.0, design=0, chip=chip,
        area_um2=found.area_um2, plans=found.plans, certificate=certificate, reason="", search_s=1.0,
    )  # fmt: skip
    return settings, result


def test_the_parts_add_up_to_what_the_search_recorded(answered):
    settings, result = answered
    (plan,), (account,) = result.plans, plan_accounts(settings, result)
    assert account.model == "vit-large"
    assert account.causes.total_s == pytest.approx(plan.batch_s, rel=1e-9)
    assert len(account.devices) == plan.pp
    held = [account.devices[at % plan.pp].total_bytes for at in range(len(plan.stages))]
    assert held == pytest.approx([stage.memory_bytes for stage in plan.stages], rel=1e-9)
    assert max(stage.keep for stage in plan.stages) < account.num_keep_positions


def test_a_time_that_is_not_the_recorded_one_is_refused(answered):
    settings, result = answered
    (plan,) = result.plans
    other = replace(result, plans=(replace(plan, batch_s=plan.batch_s * 1.001),))
    with pytest.raises(RunError, match="in the search"):
        plan_accounts(settings, other)


def test_other_cost_models_and_searches_without_an_answer_have_none(answered):
    settings, result = answered
    assert plan_accounts(settings, replace(result, chip=None, plans=())) == ()
    assert plan_accounts(resolve_settings(("vit-large",), scenario="coarse"), result) == ()
