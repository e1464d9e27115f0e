"""The best chip per area budget against solving every design: what is called proven is the best there is."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from rephaze.errors import RunError
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.provenance import versions_of
from rephaze.store.run_store import RunStore
from rephaze.study.pareto import front_of_run
from rephaze.types.search import Objective, SearchMethod
from tests.kits.long_hunt import seldom

pytestmark = pytest.mark.usefixtures("shared_memos")

_spec = importlib.util.spec_from_file_location("search_cases", Path(__file__).with_name("search_cases.py"))
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)


def recorded(asked, folder):
    run_search(asked, folder=folder)
    return folder


def front(folder, **options):
    with RunStore.read(folder) as run:
        return front_of_run(run, **options)


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("seed", seldom(range(2), lambda seed: seed == 0))
def test_every_row_is_the_best_of_its_budget_or_says_how_far_from_it(tmp_path, seed, objective):
    asked = search_cases.small_settings(seed, "coarse", num_choices=4, num_devices=4, objective=objective)
    # A limit that the largest chip just keeps to: budgets with few and with many chips.
    asked = with_limit(asked, max(SpaceEvaluator(asked).census.area_um2_c.tolist()))
    folder = recorded(asked, tmp_path / "run")
    by_speed = replace(asked, objective=Objective.THROUGHPUT, exhaustive=True)
    truth = front(recorded(by_speed, tmp_path / "all"))
    assert all(row.is_proven for row in truth.budgets)
    for options in ({"finer": False}, {}, {"solve": True}):
        found = front(folder, **options)
        for row, want in zip(found.budgets, truth.budgets, strict=True):
            fastest = want.best.samples_per_s if want.best else 0.0
            reached = row.best.samples_per_s if row.best else 0.0
            assert row.bound_samples_per_s >= fastest * (1 - 1e-9)
            assert reached <= fastest * (1 + 1e-9)
            if row.is_proven:
                assert reached == pytest.approx(fastest, rel=1e-9)
                assert row.gap == 0.0
            elif row.best:
                assert row.gap == pytest.approx(row.bound_samples_per_s / reached - 1)
    assert all(row.is_proven for row in found.budgets)
    assert found.num_solved_exactly >= found.num_recorded


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("seed", seldom(range(3), lambda seed: seed == 0))
def test_the_cover_of_a_search_by_boxes_bounds_every_budget(tmp_path, seed, objective):
    asked = search_cases.small_settings(seed, "coarse", num_choices=4, num_devices=4, objective=objective)
    asked = with_limit(asked, max(SpaceEvaluator(asked).census.area_um2_c.tolist()))
    folder = recorded(replace(asked, method=SearchMethod.BOXES), tmp_path / "run")
    by_speed = replace(asked, objective=Objective.THROUGHPUT, exhaustive=True)
    truth = front(recorded(by_speed, tmp_path / "all"))
    for options in ({"finer": False}, {}, {"solve": True}):
        found = front(folder, **options)
        assert found.counts_grid_points
        for row, want in zip(found.budgets, truth.budgets, strict=True):
            fastest = want.best.samples_per_s if want.best else 0.0
            reached = row.best.samples_per_s if row.best else 0.0
            assert row.bound_samples_per_s >= fastest * (1 - 1e-9)
            assert reached <= fastest * (1 + 1e-9)
            if row.is_proven:
                assert reached == pytest.approx(fastest, rel=1e-9)
        for point in found.points:
            if point.is_proven:
                assert all(
                    other.samples_per_s <= point.samples_per_s * (1 + 1e-9)
                    for other in truth.points
                    if other.area_um2 <= point.area_um2
                )
    assert all(row.is_proven for row in found.budgets)


def test_a_run_without_its_cover_says_so(tmp_path):
    asked = search_cases.small_settings(0, "coarse", num_choices=2, num_devices=4, method="boxes")
    with RunStore.create(tmp_path / "run", asked, versions_of(asked)):
        pass
    with pytest.raises(RunError, match="its boxes do not cover its space yet; go on with it by --resume"):
        front(tmp_path / "run")


def with_limit(asked, limit_um2):
    space = replace(asked.scenario.space, area_limit_um2=limit_um2)
    return replace(asked, scenario=replace(asked.scenario, space=space))
