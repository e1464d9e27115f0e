"""Expert plans: stages dealt by hand, degrees scaled, plans that cannot be told so."""

from dataclasses import replace

import pytest

from rephaze.hardware.presets import preset_chip
from rephaze.measure import expert_plans
from rephaze.measure.even_stages import split_evenly
from rephaze.measure.expert_plans import ExpertPlanner, expert_degrees
from rephaze.measure.model_work import ModelWork
from rephaze.measure.stage_planner import StagePlanner
from rephaze.measure.units import Memory
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.settings import resolve_settings
from rephaze.types.comparison import ExpertDegrees
from rephaze.types.placement import Plan, PlannedStage, Recompute
from rephaze.units import GIB

FIVE_BLOCKS = (0, 1, 1, 1, 1, 1, 2)


@pytest.mark.parametrize(
    ("num_stages", "want"),
    [
        (1, ((0, 1, 2, 3, 4, 5, 6),)),
        (2, ((0, 1, 2, 3), (4, 5, 6))),
        (3, ((0, 1, 2), (3, 4), (5, 6))),
        (5, ((0, 1), (2,), (3,), (4,), (5, 6))),
    ],
)
def test_blocks_are_dealt_evenly_with_embedding_and_head_at_the_ends(num_stages, want):
    assert split_evenly(FIVE_BLOCKS, num_stages) == want


@pytest.mark.parametrize("num_stages", [0, 6, 7])
def test_no_stage_is_left_without_a_block(num_stages):
    assert split_evenly(FIVE_BLOCKS, num_stages) is None


def test_layers_that_never_repeat_are_blocks_themselves():
    assert split_evenly((0, 1, 2), 3) == ((0,), (1,), (2,))


def test_blocks_of_several_kinds_are_all_blocks():
    assert split_evenly((0, 1, 2, 1, 2, 3), 2) == ((0, 1, 2), (3, 4, 5))


def test_degrees_follow_the_cluster():
    assert expert_degrees("gpt3-175b", 1024) == ExpertDegrees(pp=32, dp=8, tp=4)
    assert expert_degrees("gpt3-175b", 512) == ExpertDegrees(pp=32, dp=4, tp=4)
    assert expert_degrees("gpt3-175b", 64).dp == 0
    assert expert_degrees("vit-large", 1024) is None


def test_every_published_plan_fits_a_thousand_chips():
    for model in expert_plans._data()["plans"]:
        degrees = expert_degrees(model, 1024)
        assert 1000 <= degrees.pp * degrees.dp * degrees.tp <= 1024


@pytest.fixture(scope="module")
def evaluator():
    changes = {
        "training": {"microbatches": [1, 8], "tp_degrees": [1], "recompute": ["none", "stage"]},
        "space": {
            "num_tensor_cores": [8],
            "tensor_width": [128],
            "tensor_depth": [128],
            "num_vector_cores": [2],
            "vector_lanes": [2048],
            "global_buffer_mib": [64],
            "num_hbm_stacks": [2],
        },
    }
    return SpaceEvaluator(resolve_settings(("bert-large",), scenario="coarse", changes=changes))


@pytest.fixture(scope="module")
def solver(evaluator):
    return evaluator.chip_solver(preset_chip("tpuv4"))


def test_the_fastest_form_that_fits_is_taken(evaluator, solver):
    scenario = evaluator.settings.scenario
    memory = Memory(32 * GIB, solver.chip.hbm_bytes_per_s)
    answer = ExpertPlanner(scenario).best_plan(solver, "bert-large", [memory])
    found = answer.plan
    work = ModelWork("bert-large", scenario)
    stages = split_evenly(work.layer_type_of, 8)
    by_hand = []
    for unit in work.units:
        mode = Recompute(unit.policy)
        plan = Plan(
            tp=1,
            dp=128,
            microbatch=unit.microbatch,
            stages=tuple(PlannedStage(layers=layers, recompute=mode) for layers in stages),
        )
        priced = StagePlanner(solver, work, unit, memory).priced(plan)
        if priced.fits:
            by_hand.append(priced.batch_s)
    assert answer.reason == ""
    assert found.batch_s == min(by_hand) == answer.bound_s
    assert (found.pp, found.dp, found.tp) == (8, 128, 1)
    assert [stage.num_layers for stage in found.stages] == [4, 3, 3, 3, 3, 3, 3, 4]


def test_the_smallest_memory_that_holds_the_plan_is_named(evaluator, solver):
    memories = [Memory(size * GIB, solver.chip.hbm_bytes_per_s) for size in (1, 24, 32)]
    found = ExpertPlanner(evaluator.settings.scenario).best_plan(solver, "bert-large", memories).plan
    needed = max(stage.memory_bytes for stage in found.stages)
    assert found.hbm_bytes == next(one.hbm_bytes for one in memories if one.hbm_bytes >= needed)


def test_each_stage_takes_its_fastest_mode_when_all_are_allowed(evaluator, solver):
    scenario = evaluator.settings.scenario
    scenario = replace(scenario, training=replace(scenario.training, recompute=("none", "block", "stage")))
    memory = Memory(32 * GIB, solver.chip.hbm_bytes_per_s)
    roomy = ExpertPlanner(scenario).best_plan(solver, "bert-large", [memory]).plan
    assert roomy.recompute == "none"
    tight = Memory(int(max(stage.memory_bytes for stage in roomy.stages)) - 1, memory.hbm_bytes_per_s)
    found = ExpertPlanner(scenario).best_plan(solver, "bert-large", [tight]).plan
    assert found.batch_s >= roomy.batch_s
    assert max(stage.memory_bytes for stage in found.stages) <= tight.hbm_bytes


@pytest.mark.parametrize(
    ("model", "degrees", "hbm_gib", "told"),
    [
        ("bert-large", ExpertDegrees(pp=8, dp=128, tp=3), 32, "sharded 1, 2, 4, 8, 16 ways only"),
        ("bert-large", ExpertDegrees(pp=25, dp=1, tp=1), 32, "fewer blocks than stages"),
        ("bert-large", ExpertDegrees(pp=8, dp=0, tp=1), 32, "needs more than 1024 chips"),
        ("bert-large", ExpertDegrees(pp=8, dp=200, tp=1), 32, "needs 1600 chips"),
        ("bert-large", ExpertDegrees(pp=1, dp=5000, tp=1), 32, "fewer microbatches than pipelines"),
        ("bert-large", ExpertDegrees(pp=8, dp=128, tp=1), 0.25, "does not fit"),
        ("bert-large", None, 32, "no expert plan of bert-large is published"),
    ],
)
def test_a_plan_that_cannot_be_is_a_result_with_its_reason(
    monkeypatch, evaluator, solver, model, degrees, hbm_gib, told
):
    monkeypatch.setattr(expert_plans, "expert_degrees", lambda *_: degrees)
    memory = Memory(int(hbm_gib * GIB), solver.chip.hbm_bytes_per_s)
    found = ExpertPlanner(evaluator.settings.scenario).best_plan(solver, model, [memory])
    assert found.plan is None
    assert told in found.reason
