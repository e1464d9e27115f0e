"""A schedule that is not proven shows in every answer that rests on it: place, yardstick, compare, search."""

import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rephaze.cli.main import app
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.model_on_chip import placement_on_chip
from rephaze.measure.pass_times import Times
from rephaze.place.answer import find_placement
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.study.comparison import compare_baselines
from rephaze.study.yardstick import Yardstick
from rephaze.types.comparison import ExpertDegrees
from rephaze.types.placement import SolveStatus
from rephaze.types.search import Objective, SearchStatus

_spec = importlib.util.spec_from_file_location(
    "search_cases", Path(__file__).parents[2] / "property" / "search_cases.py"
)
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)

PART = 0.9
"""Of a schedule's length: what its bound is left at."""
TPUV4 = preset_chip("tpuv4")


@pytest.fixture
def loosened(monkeypatch):
    """Leave bounds of schedules below them: of all, or of those a test picks by (tp, microbatch, direction)."""
    whole = ChipSolver._form_times

    def loosen(picked=lambda _tp, _microbatch, _direction: True):
        def form_times(self, work, key, times=Times.SCHEDULED):
            found = whole(self, work, key, times)
            if not picked(key.cut.tp, key.microbatch, key.direction):
                return found
            return replace(found, bound_cycles=math.floor(PART * found.cycles))

        monkeypatch.setattr(ChipSolver, "_form_times", form_times)

    return loosen


@pytest.fixture
def as_short_as_bounds(monkeypatch):
    """What the loosened bounds allow at best: every schedule as short as that."""
    whole = ChipSolver._form_times

    def shorten():
        def form_times(self, work, key, times=Times.SCHEDULED):
            found = whole(self, work, key, times)
            cycles = math.floor(PART * found.cycles)
            return replace(found, cycles=cycles, bound_cycles=cycles)

        monkeypatch.setattr(ChipSolver, "_form_times", form_times)

    return shorten


def small(**search):
    return search_cases.small_settings(1, "coarse", num_choices=1, num_devices=4, **search)


def test_place_on_a_chip_is_optimal_only_with_proven_schedules(loosened):
    model, scenario = search_cases.tiny_model("gpt", "coarse"), small().scenario
    proven = placement_on_chip(model, TPUV4, scenario)
    assert (proven.unproven, proven.said) == ((), "")
    exact = find_placement(proven.problem)
    assert exact.status is SolveStatus.OPTIMAL
    loosened(lambda _tp, _microbatch, direction: direction == 1)
    found = placement_on_chip(model, TPUV4, scenario)
    assert found.num_passes == 2 * len(found.unproven) == proven.num_passes
    assert found.said == f"schedules of {len(found.unproven)} of {found.num_passes} layer passes not proven"
    assert {one.direction for one in found.unproven} == {"backward"}
    placed = find_placement(found.problem)
    assert (placed.status, placed.best) == (SolveStatus.FEASIBLE, exact.best)
    assert placed.bound_s < exact.best.batch_s


def test_the_command_says_what_is_not_proven(loosened):
    arguments = ["place", search_cases.tiny_model("gpt", "coarse"), "--chip", "tpuv4", "--devices", "4"]
    arguments += ["--global-batch", "8", "--scenario", "coarse"]
    answer = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert (answer["status"], answer["gap"], answer["unproven_passes"]) == ("optimal", 0.0, [])
    loosened()
    done = CliRunner().invoke(app, [*arguments, "--json", "--why", "pp=1"])
    loose = json.loads(done.stdout)
    assert done.exit_code == 0
    assert loose["status"] == loose["why"]["status"] == "feasible"
    assert loose["bound_s"] < loose["batch_s"] == answer["batch_s"]
    assert len(loose["unproven_passes"]) == loose["num_layer_passes"]
    one = loose["unproven_passes"][0]
    assert one["bound_cycles"] == math.floor(PART * one["makespan_cycles"])
    shown = " ".join(CliRunner().invoke(app, arguments).stdout.split())
    assert "feasible, no plan is faster than" in shown
    alone = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    # What is asked about with --why is scheduled too.
    assert alone["num_layer_passes"] < loose["num_layer_passes"]
    assert f"of {alone['num_layer_passes']} layer passes not proven" in shown


@pytest.mark.parametrize("objective", [one for one in Objective if one is not Objective.PER_WATT])
def test_a_measured_chip_carries_what_its_schedules_leave_open(loosened, as_short_as_bounds, objective):
    settings = small(objective=objective)
    exact = Yardstick(SpaceEvaluator(settings)).with_searched_plans(TPUV4)
    assert exact.is_proven
    assert exact.bound == exact.objective
    loosened()
    found = Yardstick(SpaceEvaluator(settings)).with_searched_plans(TPUV4)
    assert (found.objective, found.plans) == (exact.objective, exact.plans)
    assert not found.is_proven
    as_short_as_bounds()
    best_case = Yardstick(SpaceEvaluator(settings)).with_searched_plans(TPUV4)
    assert found.bound == pytest.approx(best_case.objective, rel=1e-9)
    assert found.gap == pytest.approx(best_case.objective / exact.objective - 1, rel=1e-6)


def test_a_chip_measured_per_watt_has_a_bound_too(loosened):
    settings = small(objective=Objective.PER_WATT)
    exact = Yardstick(SpaceEvaluator(settings)).with_searched_plans(TPUV4)
    assert exact.is_proven
    loosened()
    found = Yardstick(SpaceEvaluator(settings)).with_searched_plans(TPUV4)
    assert found.objective == exact.objective < found.bound


def test_an_experts_plan_is_bounded_as_well(loosened, as_short_as_bounds, monkeypatch):
    monkeypatch.setattr("rephaze.measure.expert_plans.expert_degrees", lambda *_: ExpertDegrees(pp=2, dp=2, tp=1))
    exact = Yardstick(SpaceEvaluator(small())).with_expert_plans(TPUV4)
    assert exact.objective > 0
    assert exact.is_proven
    loosened()
    found = Yardstick(SpaceEvaluator(small())).with_expert_plans(TPUV4)
    assert found.objective == exact.objective
    as_short_as_bounds()
    best_case = Yardstick(SpaceEvaluator(small())).with_expert_plans(TPUV4)
    assert found.bound == pytest.approx(best_case.objective, rel=1e-9)
    assert not found.is_proven


def test_a_comparison_marks_what_is_not_proven(loosened):
    proven = compare_baselines(small(), budget=1)
    assert all(one.is_proven for one in proven.baselines if one.objective > 0)
    assert proven.gains.is_proven
    loosened()
    found = compare_baselines(small(), budget=1)
    assert found.status == "feasible"
    measured = [one for one in found.baselines if one.objective > 0]
    assert measured
    assert not any(one.is_proven for one in measured)
    assert all(one.bound > one.objective for one in measured)
    assert not found.gains.is_proven
    assert not any(step.is_proven for step in found.gains.steps)


def test_a_search_says_that_schedules_are_what_is_missing(loosened):
    proven = run_search(small())
    assert (proven.status, proven.reason, proven.certificate.num_unproven) == (SearchStatus.OPTIMAL, "", 0)
    loosened()
    found = run_search(small())
    assert (found.status, found.objective) == (SearchStatus.FEASIBLE, proven.objective)
    assert found.bound > found.objective
    assert found.certificate.num_unproven > 0
    assert found.reason == (
        f"schedules not proven on {found.certificate.num_unproven} designs that might do better"
    )


def test_a_chip_that_cannot_run_a_layer_is_infeasible_not_slow(monkeypatch):
    from rephaze.types.latency import IMPOSSIBLE_CYCLES

    whole = ChipSolver._form_times

    def form_times(self, work, key, times=Times.SCHEDULED):
        found = whole(self, work, key, times)
        return replace(found, cycles=IMPOSSIBLE_CYCLES, bound_cycles=IMPOSSIBLE_CYCLES)

    monkeypatch.setattr(ChipSolver, "_form_times", form_times)
    model = search_cases.tiny_model("gpt", "coarse")
    assert placement_on_chip(model, TPUV4, load_scenario("coarse")).problem.graphs == ()
    done = CliRunner().invoke(app, ["place", model, "--chip", "tpuv4", "--scenario", "coarse"])
    assert done.exit_code == 3
    assert "infeasible some operator can run on no core" in " ".join(done.stdout.split())
