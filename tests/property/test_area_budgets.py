"""The best chip per area budget against solving every design: what is called proven is the best there is."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from rephaze.search.pareto import front_of_run
from rephaze.search.run import run_search
from rephaze.store.run import RunStore
from rephaze.types.search import Objective

_spec = importlib.util.spec_from_file_location("search_cases", Path(__file__).with_name("search_cases.py"))
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)


def recorded(asked, folder):
    run_search(asked, folder=folder)
    return folder


def front(folder, **options):
    with RunStore.read(folder) as run:
        return front_of_run(run, **options)


def cases():
    for seed in range(4):
        for objective in Objective:
            yield seed, objective


@pytest.mark.parametrize(("seed", "objective"), list(cases()))
def test_every_row_is_the_best_of_its_budget_or_says_how_far_from_it(tmp_path, seed, objective):
    asked = search_cases.small_settings(seed, "default", num_choices=4, num_devices=4, objective=objective)
    # A limit that the largest chips just keep to: budgets with few and with many chips.
    largest = run_search(asked).certificate and max(areas_of(asked))
    asked = with_limit(asked, largest)
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


def areas_of(asked):
    from rephaze.search.evaluator import SpaceEvaluator

    return SpaceEvaluator(asked).census.area_um2_c.tolist()


def with_limit(asked, limit_um2):
    space = replace(asked.scenario.space, area_limit_um2=limit_um2)
    return replace(asked, scenario=replace(asked.scenario, space=space))


def test_proven_for_its_own_area_is_not_the_best_of_its_budget(tmp_path):
    """What a search per area leaves: a small chip nothing of its size beats, and larger ones never solved."""
    changes = {"num_tensor_cores": [1, 2, 4, 8], "tensor_width": [64], "tensor_depth": [64]}
    asked = search_cases.small_settings(
        5, "default", num_choices=1, num_devices=4, objective=Objective.PER_AREA, space=changes
    )
    asked = with_limit(asked, max(areas_of(asked)))
    folder = recorded(asked, tmp_path / "run")
    rows = front(folder, finer=False).budgets
    proven = front(folder, solve=True).budgets
    misleading = [
        (row, best)
        for row, best in zip(rows, proven, strict=True)
        if row.best and row.best.is_proven and row.best.samples_per_s < best.best.samples_per_s
    ]
    assert misleading, "the case must hold a row that the old claim would have got wrong"
    assert not any(row.is_proven for row, _ in misleading)
    assert all(row.bound_samples_per_s >= best.best.samples_per_s for row, best in misleading)
    assert all(best.is_proven for best in proven)
