"""The block's schedules shown to people are the ones the search timed its plans by."""

import pytest

from rephaze.hardware.presets import preset_chip
from rephaze.measure.plan_schedules import block_schedules
from rephaze.schedule.validate import find_violations
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.settings import resolve_settings
from rephaze.types.cut import GraphCut
from rephaze.types.search import Certificate, ModelPlan, SearchResult, SearchStatus

CERTIFICATE = Certificate(
    num_designs=1,
    num_solved_exactly=1,
    num_dropped_by_bound={},
    num_infeasible=0,
    num_within={},
    binding="",
)


@pytest.fixture(scope="module")
def settings():
    return resolve_settings(
        ("bert-large",), scenario="coarse", changes={"training": {"tp_degrees": [1, 2], "microbatches": [1, 2]}}
    )


def result_with(chip):
    plan = ModelPlan(
        model="bert-large",
        samples_per_s=1.0,
        batch_s=1.0,
        tp=2,
        dp=1,
        pp=1,
        microbatch=2,
        recompute="none",
        hbm_bytes=2**36,
        energy_per_sample_j=1.0,
        stages=(),
    )
    return SearchResult(
        status=SearchStatus.OPTIMAL if chip else SearchStatus.INFEASIBLE,
        objective=1.0,
        bound=1.0,
        gap=0.0,
        design=None,
        chip=chip,
        area_um2=1.0,
        plans=(plan,) if chip else (),
        certificate=CERTIFICATE,
        reason="",
        search_s=0.0,
    )


def test_schedules_are_valid_and_as_long_as_the_search_took_them_to_be(settings):
    chip = preset_chip("tpuv4")
    found = block_schedules(settings, result_with(chip))
    assert [one.direction for one in found] == ["forward", "backward"]
    evaluator = SpaceEvaluator(settings)
    work, solver = evaluator.works[0], evaluator.chip_solver(chip)
    kind = max(set(work.layer_type_of), key=work.layer_type_of.count)
    for direction, one in enumerate(found):
        assert find_violations(one.problem, one.schedule) == []
        assert one.schedule.makespan_cycles == solver.pass_times(work, GraphCut(tp=2), 2, kind, direction).cycles
        assert one.num_layers == work.layer_type_of.count(kind) == 24
        assert one.layer == work.graph(GraphCut(tp=2)).layer_types[kind].name


def test_without_a_chip_there_is_no_schedule(settings):
    assert block_schedules(settings, result_with(None)) == ()
