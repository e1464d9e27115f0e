"""Baselines and gains on a handful of chips: one yardstick, seeds that repeat, factors that multiply."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from rephaze.errors import SpecError
from rephaze.hardware.area import chip_area
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.space import enumerate_designs
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.settings import resolve_settings
from rephaze.study.baselines import (
    SEARCHED,
    search_at_random,
    search_by_area_groups,
    search_spotlight_style,
    tpuv4_of,
)
from rephaze.study.candidates import Candidates, area_groups, drawn_designs, largest_designs
from rephaze.study.chip_metric import ChipMetric, metric_of_chip
from rephaze.study.comparison import RecordedRun, common_run, compare_baselines, own_settings
from rephaze.study.gains import chips_between, split_gain
from rephaze.study.yardstick import Yardstick
from rephaze.types.chip import chip_table
from rephaze.types.comparison import TPUV4_EXPERT, TPUV4_SEARCHED, ChipAnswer
from rephaze.types.search import Objective
from rephaze.units import GIB

TRAINING = {"microbatches": [1], "tp_degrees": [1], "recompute": ["none", "stage"]}
COARSE = {
    "num_tensor_cores": [4, 8],
    "tensor_width": [128],
    "tensor_depth": [128],
    "num_vector_cores": [2],
    "vector_lanes": [2048],
    "global_buffer_mib": [64],
    "num_hbm_stacks": [2],
}
PAPER = {
    "num_tensor_cores": [4, 8],
    "num_vector_cores": [2, 16],
    "tensor_width": [128],
    "tensor_depth": [128],
    "global_buffer_mib": [16, 32],
}


def yardstick_of(scenario, space, models=("bert-large",), **search):
    changes = {"training": TRAINING, "space": space, "search": search}
    return Yardstick(SpaceEvaluator(resolve_settings(models, scenario=scenario, changes=changes)))


@pytest.fixture(scope="module")
def coarse():
    return yardstick_of("coarse", COARSE)


@pytest.fixture(scope="module")
def paper():
    return yardstick_of("paper", PAPER)


def everything_of(yardstick):
    return Candidates(evaluator=yardstick.prepared)


def exact(yardstick, design):
    bounds = yardstick.prepared.unit_bounds([design])
    return yardstick.prepared.evaluate(design, bounds, -math.inf)


@pytest.mark.parametrize("scenario", ["coarse", "paper"])
def test_a_design_measures_the_same_as_in_the_search(request, scenario):
    yardstick = request.getfixturevalue(scenario)
    for design in range(0, yardstick.prepared.census.num_designs, 3):
        found = exact(yardstick, design)
        chip = yardstick.prepared.census.chips.chip(design)
        measured = yardstick.with_searched_plans(chip)
        assert measured.objective == found.objective == yardstick.of_evaluation(found, chip).objective
        assert [plan.hbm_bytes for plan in measured.plans] == [plan.hbm_bytes for plan in found.plans]


@pytest.mark.parametrize("objective", [Objective.PER_AREA, Objective.PER_USD, Objective.PER_WATT])
def test_other_objectives_measure_the_same_as_in_the_search(objective):
    yardstick = yardstick_of("coarse", COARSE, objective=str(objective))
    found = exact(yardstick, 1)
    measured = yardstick.with_searched_plans(yardstick.prepared.census.chips.chip(1))
    assert measured.objective == pytest.approx(found.objective, rel=1e-12)


def test_tpuv4_is_the_papers_in_the_papers_space_and_the_preset_elsewhere(coarse, paper):
    assert tpuv4_of(coarse.settings.scenario) == preset_chip("tpuv4")
    space = paper.settings.scenario.space
    chip = tpuv4_of(paper.settings.scenario)
    assert (chip.num_tensor_cores, chip.num_lanes, chip.hbm_bytes) == (8, 256, 32 * GIB)
    assert chip_area(chip_table([chip]), space.area_model).total_um2_c[0] == space.area_limit_um2


def test_groups_fall_in_area_and_hold_every_design_once():
    area = np.array([25_000.0, 9_999.0, 10_000.0, 29_999.9, 31_000.0, 0.0])
    assert list(area_groups(area)) == [[4], [0, 3], [2], [1, 5]]


def test_the_largest_designs_are_those_of_the_whole_space():
    space = resolve_settings(("bert-large",), scenario="coarse").scenario.space
    listed = enumerate_designs(space)
    for num in (1, 30, 700):
        largest = largest_designs(space, num)
        groups = list(area_groups(listed.area_um2_c))
        want, wanted = iter(groups), []
        while len(wanted) < largest.num_designs:
            wanted += next(want)
        assert largest.num_designs >= num
        assert sorted(largest.area_um2_c) == sorted(listed.area_um2_c[wanted])
    everything = replace(space, num_tensor_cores=(1, 2), tensor_width=(32,))
    assert largest_designs(everything, 10**6).num_designs == enumerate_designs(everything).num_designs


def test_designs_are_drawn_from_all_of_a_large_space_and_repeat():
    space = resolve_settings(("bert-large",), scenario="default").scenario.space
    first, again, other = (drawn_designs(space, seed) for seed in (3, 3, 4))
    assert first.num_designs == first.num_grid_points == 100_000
    assert np.array_equal(first.area_um2_c, again.area_um2_c)
    assert not np.array_equal(first.area_um2_c, other.area_um2_c)
    # Evenly: as many of the sample as of the space are smaller than 226 mm² (2,658,519 of 7,382,388 designs).
    assert (first.area_um2_c < 226e6).mean() == pytest.approx(2_658_519 / 7_382_388, abs=0.01)
    rows = {first.chips.chip(k, name="any") for k in range(2000)}
    assert len(rows) == 2000


def test_a_space_with_hardly_a_design_gives_what_there_is():
    space = resolve_settings(("bert-large",), scenario="default").scenario.space
    tight = replace(space, area_limit_um2=57e6, area_floor_um2=0.0)
    assert drawn_designs(tight, 0).num_designs <= 60
    assert drawn_designs(replace(space, area_limit_um2=1e6, area_floor_um2=0.0), 0).num_designs == 0


def test_the_heuristic_stops_after_five_groups_without_a_rise(paper):
    found = search_by_area_groups(paper, everything_of(paper), budget=100)
    areas = paper.prepared.census.area_um2_c
    order = np.argsort(-areas)
    values = [exact(paper, int(design)).objective for design in order]
    # Areas differ by far more than a group: one design a group.
    best, since, looked = -math.inf, 0, 0
    for value in values:
        looked += 1
        since = 0 if value > best else since + 1
        best = max(best, value)
        if since == 5:
            break
    assert (found.objective, found.num_evaluations) == (best, looked)
    assert "own rule" in found.note if since == 5 else "every group" in found.note


def test_the_heuristic_keeps_to_its_budget(paper):
    found = search_by_area_groups(paper, everything_of(paper), budget=2)
    assert found.num_evaluations == 2
    assert found.note == "stopped by the budget after 2 groups of area"


def test_random_search_is_the_best_of_what_it_drew_and_repeats(paper):
    first, again = (search_at_random(paper, everything_of(paper), 3, seed=5) for _ in range(2))
    drawn = np.random.default_rng(5).choice(paper.prepared.census.num_designs, size=3, replace=False)
    assert first.objective == max(exact(paper, int(design)).objective for design in drawn)
    assert first.answer == again.answer
    everything = search_at_random(paper, everything_of(paper), 1000, seed=5)
    assert everything.num_evaluations == paper.prepared.census.num_designs


@pytest.mark.parametrize("metric", list(ChipMetric))
def test_spotlight_style_with_every_chip_tried_is_the_best_single_chip(paper, metric):
    evaluator = paper.prepared
    num_designs = evaluator.census.num_designs
    costs = [metric_of_chip(evaluator, evaluator.solver(design), metric) for design in range(num_designs)]
    expert, searched = search_spotlight_style(paper, everything_of(paper), metric, 1000, seed=0)
    want = evaluator.census.chips.chip(int(np.argmin(costs)))
    assert expert.answer.chip == searched.answer.chip == want
    assert expert.objective <= searched.objective
    assert expert.num_evaluations == num_designs


def test_the_chips_between_change_one_cause_at_a_time():
    first, last = preset_chip("tpuv4"), replace(preset_chip("tpuv4"), num_tensor_cores=4, hbm_bytes=64 * GIB)
    ways = chips_between(first, last)
    assert [cause for cause, _ in ways] == ["vector lanes", "MACs", "buffer", "HBM"]
    assert [chip.num_tensor_cores for _, chip in ways] == [8, 4, 4, 4]
    assert [chip.hbm_bytes // GIB for _, chip in ways] == [32, 32, 32, 64]
    faster = chips_between(first, replace(last, clock_hz=2e9))
    assert faster[-1][0] == "clock"
    end = faster[-1][1]
    assert all(
        getattr(end, field.name) == getattr(replace(last, clock_hz=2e9), field.name)
        for field in fields(end)
        if field.name != "name"
    )


def test_others_are_set_beside_tpuv4_by_name(paper):
    """Rules of practitioners stand between the two plans of TPUv4 under cost model full."""
    found = compare_baselines(paper.settings, budget=1)
    first, *others = found.baselines
    mixed = replace(found, baselines=(first, replace(first, name="tpuv4, a rule"), *others))
    assert [one.name for one in mixed.references] == [TPUV4_EXPERT, TPUV4_SEARCHED]


def test_factors_multiply_to_the_gain_and_the_search_is_best(paper):
    settings = paper.settings
    found = compare_baselines(settings, budget=3)
    by_name = {one.name: one for one in found.baselines}
    assert found.status == "optimal"
    assert [one.name for one in found.baselines[:2]] == [TPUV4_EXPERT, TPUV4_SEARCHED]
    winner = by_name[SEARCHED]
    others = [one for one in found.baselines if "tpuv4" not in one.name]
    assert all(one.objective <= winner.objective * (1 + 1e-12) for one in others)
    gains = found.gains
    product = math.prod(step.gain_factor for step in gains.steps)
    assert product == pytest.approx(gains.total_gain_factor, rel=1e-12)
    assert gains.total_gain_factor == pytest.approx(winner.objective / by_name[TPUV4_EXPERT].objective)
    assert [step.cause for step in gains.steps][:2] == ["placement", "vector lanes"]
    limit_um2 = settings.scenario.space.area_limit_um2
    for step in gains.steps:
        assert step.exceeds_area_limit == (step.answer.area_um2 > limit_um2 * (1 + 1e-12))


def test_without_an_expert_plan_the_split_starts_at_the_searched_plan(coarse):
    chip = preset_chip("tpuv4")
    searched = coarse.with_searched_plans(chip)
    missing = replace(searched, objective=0.0, plans=(None,), reason="no expert plan is published")
    winner = coarse.with_searched_plans(replace(chip, hbm_bytes_per_s=2 * chip.hbm_bytes_per_s))
    gains = split_gain(coarse, missing, searched, winner)
    assert gains.start == TPUV4_SEARCHED
    assert "no expert plan is published" in gains.note
    assert gains.total_gain_factor == pytest.approx(math.prod(step.gain_factor for step in gains.steps))
    assert gains.steps[-1].cause == "HBM"
    assert gains.steps[-1].gain_factor == pytest.approx(gains.total_gain_factor)


def test_a_chip_on_the_way_that_runs_nothing_counts_with_the_next_change(coarse, monkeypatch):
    chip = preset_chip("tpuv4")
    searched = coarse.with_searched_plans(chip)
    winner = replace(searched, objective=2 * searched.objective)

    def nothing(way: object) -> ChipAnswer:
        return replace(searched, chip=way, objective=0.0, plans=(None,))

    monkeypatch.setattr(coarse, "with_searched_plans", nothing)
    gains = split_gain(coarse, searched, searched, winner)
    assert [step.cause for step in gains.steps] == ["placement", "vector lanes and MACs and buffer and HBM"]
    assert gains.steps[-1].gain_factor == 2.0
    assert split_gain(coarse, searched, replace(searched, objective=0.0), winner) is None


def test_sharing_costs_nobody_less_than_nothing():
    yardstick = yardstick_of("paper", PAPER | {"global_buffer_mib": [16]}, models=("bert-large", "vit-large"))
    found = compare_baselines(yardstick.settings, budget=1, own_best=True)
    assert [one.model for one in found.sharing] == ["bert-large", "vit-large"]
    for one in found.sharing:
        assert one.is_proven
        assert one.lost_fraction == pytest.approx(1 - one.common_samples_per_s / one.own_samples_per_s)
        assert one.lost_fraction >= -1e-12
    assert compare_baselines(yardstick.settings, budget=1).sharing == ()


def test_runs_of_other_settings_are_refused(coarse, tmp_path):
    result = None
    both = replace(coarse.settings, models=("bert-large", "opt-350m"), weights=(1.0, 1.0))
    common = RecordedRun(folder=tmp_path / "both", settings=both, result=result)
    own = RecordedRun(folder=tmp_path / "own", settings=own_settings(both, "opt-350m"), result=result)
    assert common_run([own, common]) is common
    with pytest.raises(SpecError, match="one of bert-large, opt-350m alone"):
        common_run([common, replace(own, settings=own_settings(both, "gpt2-xl"))])
    with pytest.raises(SpecError, match="other settings"):
        common_run([common, replace(own, settings=replace(own.settings, objective=Objective.PER_AREA))])
    with pytest.raises(SpecError, match="at least 1"):
        compare_baselines(coarse.settings, budget=0)
