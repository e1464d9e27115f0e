"""The block's schedules shown to people are the ones the search timed its plans by."""

import pytest

from rephaze.hardware.presets import preset_chip
from rephaze.measure.plan_schedules import plan_passes
from rephaze.schedule.validate import find_violations
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.settings import resolve_settings
from rephaze.types.cut import GraphCut
from rephaze.types.search import ModelPlan

PLAN = ModelPlan(
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


@pytest.fixture(scope="module")
def settings():
    return resolve_settings(
        ("bert-large",), scenario="coarse", changes={"training": {"tp_degrees": [1, 2], "microbatches": [1, 2]}}
    )


def test_schedules_are_valid_and_as_long_as_the_search_took_them_to_be(settings):
    chip = preset_chip("tpuv4")
    found = plan_passes(settings, chip, PLAN)
    evaluator = SpaceEvaluator(settings)
    work, solver, cut = evaluator.works[0], evaluator.chip_solver(chip), GraphCut(tp=2)
    kinds = sorted(set(work.layer_type_of), key=lambda kind: -work.layer_type_of.count(kind))
    names = [work.graph(cut).layer_types[kind].name for kind in kinds]
    # Every layer type, forward and backward, the most repeated first.
    assert len(found) == 2 * len(names)
    assert {one.layer for one in found} == set(names)
    assert [one.num_layers for one in found] == sorted((one.num_layers for one in found), reverse=True)
    assert found[0].num_layers == 24
    kind_of = {kind.name: at for at, kind in enumerate(work.graph(cut).layer_types)}
    for one in found:
        direction = ("forward", "backward").index(one.direction)
        assert find_violations(one.problem, one.schedule) == []
        cycles = solver.pass_times(work, cut, 2, kind_of[one.layer], direction).cycles
        assert one.schedule.makespan_cycles == cycles
        assert one.num_layers == work.layer_type_of.count(kind_of[one.layer])
