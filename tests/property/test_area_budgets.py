"""The best chip per area budget against solving every design: what is called proven is the best there is."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from rephaze.measure.chip_solver import Memos
from rephaze.search import evaluator as evaluator_module
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.store.run_store import RunStore
from rephaze.study.pareto import front_of_run
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


@pytest.fixture(autouse=True, scope="module")
def shared_memos():
    """Cases share chips and operators: mapping and scheduling each once keeps the tests quick."""
    memos = Memos()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluator_module, "Memos", lambda: memos)
        yield


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("seed", range(2))
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


def with_limit(asked, limit_um2):
    space = replace(asked.scenario.space, area_limit_um2=limit_um2)
    return replace(asked, scenario=replace(asked.scenario, space=space))
