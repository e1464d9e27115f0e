"""A search that must stop, anywhere: on time, with an honest bound, and with nothing recorded that was cut."""

import importlib.util
import itertools
import math
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rephaze.measure import known_passes, pass_solver
from rephaze.search import cosearch
from rephaze.search.certificate import BOUNDS
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.workers import base
from rephaze.search.workers.local import LocalProcesses
from rephaze.store.run_store import RunStore
from rephaze.types.run_record import NOT_REMOVED
from rephaze.types.search import SearchStatus, Unsettled
from rephaze.types.stopping import StoppedError, StopSignal
from rephaze.verify.run_check import verify_run
from tests.property.box_cases import slow_start
from tests.tampering import runs as tampering_runs

_path = Path(__file__).parents[2] / "property" / "search_cases.py"
_spec = importlib.util.spec_from_file_location("search_cases", _path)
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)

LATE_S = 3.0
"""How much later than its limit a search may end here: machines that test are busy."""


@pytest.fixture(scope="module")
def asked():
    return search_cases.small_settings(3, "coarse", num_choices=4)


@pytest.fixture(scope="module")
def whole(asked):
    """The search undisturbed; kernels are compiled before a clock matters."""
    return run_search(asked)


def stop_after(num_looks):
    looks = itertools.count()
    return lambda: next(looks) >= num_looks


def accounted(certificate):
    dropped = sum(certificate.num_dropped_by_bound.values())
    return certificate.num_solved_exactly + certificate.num_infeasible + dropped + certificate.num_open


def timeless(result):
    return replace(result, search_s=0.0)


def slowed(monkeypatch, owner, name, seconds):
    """Every call of a function takes so much longer; the number of calls."""
    calls, real = [], getattr(owner, name)

    def slow(*arguments, **options):
        calls.append(name)
        time.sleep(seconds)
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, slow)
    return calls


@pytest.mark.parametrize(("owner", "name"), [(known_passes, "pass_bound_s"), (pass_solver, "schedule_layer")])
def test_slow_steps_do_not_hold_up_the_limit(asked, whole, monkeypatch, owner, name):
    calls = slowed(monkeypatch, owner, name, 0.4)
    began = time.perf_counter()
    found = run_search(asked, time_limit_s=1.0)
    took_s = time.perf_counter() - began
    assert took_s < 1.0 + LATE_S
    assert 0 < len(calls) < (took_s + 0.4) / 0.4 + 1
    assert found.status in (SearchStatus.UNKNOWN, SearchStatus.FEASIBLE)
    assert found.bound >= whole.objective
    assert found.certificate.num_open > 0
    assert accounted(found.certificate) == found.certificate.num_designs


@pytest.mark.parametrize("num_looks", [0, 3, 30, 60, 100, 150, 250, 400])
def test_cut_anywhere_it_is_honest_and_goes_on_to_the_same_answer(asked, whole, tmp_path, num_looks):
    found = run_search(asked, folder=tmp_path / "run", should_stop=stop_after(num_looks))
    with RunStore.read(tmp_path / "run") as store:
        recorded, table = list(store.evaluations()), store.bounds()
    assert found.bound >= whole.objective >= found.objective
    certificate = found.certificate
    assert accounted(certificate) == certificate.num_designs
    if found.status is not SearchStatus.OPTIMAL and len(table):
        removed = {name: int((table.removed_by_c == BOUNDS.index(name)).sum()) for name in BOUNDS}
        assert {n: c for n, c in removed.items() if c} == {
            n: c for n, c in certificate.num_dropped_by_bound.items() if c
        }
        settled = {item.design for item in recorded}
        is_open = (table.removed_by_c == NOT_REMOVED) & (table.bound_c > 0)
        assert sum(d not in settled for d in table.design_c[is_open].tolist()) == certificate.num_open
        assert max(table.bound_c[is_open].max(initial=-math.inf), found.objective) == found.bound
    failed = [check for check in verify_run(tmp_path / "run", sample=1) if not check.passed]
    assert failed == []
    evaluator = SpaceEvaluator(asked)
    for item in recorded:
        bounds = evaluator.unit_bounds([item.design])
        exactly = evaluator.evaluate(item.design, bounds, -math.inf)
        assert item == exactly if item.is_exact else item.bound >= exactly.objective
    again = run_search(asked, folder=tmp_path / "run", resume=True)
    assert timeless(again) == timeless(whole)


@pytest.mark.parametrize("objective", ["throughput", "per-usd", "per-watt"])
def test_a_design_that_was_cut_keeps_a_bound_and_leaves_no_trace(objective):
    settings = search_cases.small_settings(0, "paper", ("gpt", "llama"), objective=objective)
    evaluator = SpaceEvaluator(settings)
    own = [bounds.chip(0) for bounds in evaluator.unit_bounds([0])]
    want = SpaceEvaluator(settings).evaluate(0, own, -math.inf)
    assert want.objective > 0
    num_cut = 0
    for num_looks in (0, 1, 5, 10, 20, 40, 60, 80, 100, 120):
        found = evaluator.evaluate(0, own, -math.inf, StopSignal(is_asked=stop_after(num_looks)))
        if isinstance(found, Unsettled):
            num_cut += 1
            assert want.objective <= found.bound <= evaluator.refined([0], own)[0] * (1 + 1e-9)
        else:
            assert found == want
    assert num_cut >= 3
    assert evaluator.evaluate(0, own, -math.inf) == want


def test_nothing_fits_is_no_warning():
    """A chip without idle power that no plan fits on: nothing times forever."""
    evaluator = SpaceEvaluator(search_cases.small_settings(5, "paper", objective="per-watt"))
    assert evaluator.refined([0], evaluator.unit_bounds([0])) == 0.0


def test_a_deadline_that_does_not_come_changes_nothing(asked, whole):
    assert timeless(run_search(asked, time_limit_s=3600.0)) == timeless(whole)


def test_models_that_take_too_long_to_prepare_end_it(asked, tmp_path, monkeypatch):
    monkeypatch.setattr(cosearch, "PREPARATION_GRACE_S", 0.0)
    found = run_search(asked, folder=tmp_path / "run", time_limit_s=0.0)
    assert (found.status, found.reason) == (SearchStatus.UNKNOWN, "stopped before the models were prepared")
    assert found.bound == math.inf
    assert found.certificate.num_open == found.certificate.num_designs > 0
    assert [check for check in verify_run(tmp_path / "run") if not check.passed] == []
    monkeypatch.undo()
    # What an earlier session found is not lost to one that had no time.
    want = run_search(asked, folder=tmp_path / "run", resume=True)
    monkeypatch.setattr(cosearch, "PREPARATION_GRACE_S", 0.0)
    run_search(asked, folder=tmp_path / "run", resume=True, time_limit_s=0.0)
    with RunStore.read(tmp_path / "run") as store:
        assert store.result() == want


def test_counting_near_the_best_keeps_to_the_limit(asked, whole, monkeypatch):
    real, ends_at = cosearch.settle_near_best, [math.inf]

    def settle(*arguments, **options):
        calls = slowed(monkeypatch, pass_solver, "schedule_layer", 0.3)
        ends_at[0] = time.perf_counter() + 0.5
        real(*arguments, **options)
        assert calls, "there was nothing to cut"

    monkeypatch.setattr(cosearch, "settle_near_best", settle)
    found = run_search(asked, count_within=0.5, should_stop=lambda: time.perf_counter() > ends_at[0])
    assert time.perf_counter() - ends_at[0] < LATE_S
    assert (found.status, found.objective, found.plans) == (whole.status, whole.objective, whole.plans)
    assert accounted(found.certificate) == found.certificate.num_designs
    assert found.certificate.num_open == 0
    least, most = found.certificate.num_within["5 %"]
    assert whole.certificate.num_within["5 %"][0] <= least <= most


@pytest.mark.parametrize("how", ["deadline", "asked"])
def test_processes_that_do_not_answer_are_left(asked, monkeypatch, how):
    monkeypatch.setattr(base, "STOP_GRACE_S", 0.5)
    asked_at = time.perf_counter() + 1.0
    stop = (
        StopSignal(asked_at) if how == "deadline" else StopSignal(is_asked=lambda: time.perf_counter() > asked_at)
    )
    pool = LocalProcesses(asked, 2, stop)
    try:
        # As a worker in a long step: it takes no other task meanwhile.
        pool._submit(time.sleep, [(60.0,)] * 2)
        with pytest.raises(StoppedError):
            pool.unit_bounds([0, 1])
        bounds = SpaceEvaluator(asked).unit_bounds([0])
        found = list(pool.evaluate([0], [bounds], -math.inf))
        assert found == [Unsettled(design=0, bound=math.inf)]
    finally:
        pool.close()
    assert time.perf_counter() < asked_at + 0.5 + 10.0


def test_two_processes_keep_to_the_limit_too(asked, whole):
    began = time.perf_counter()
    found = run_search(asked, num_workers=2, time_limit_s=0.5)
    assert time.perf_counter() - began < 0.5 + base.STOP_GRACE_S + 10.0
    assert found.bound >= whole.objective >= found.objective
    assert accounted(found.certificate) == found.certificate.num_designs


@pytest.mark.parametrize("method", ["list", "boxes"])
def test_a_resumed_run_shows_nothing_worse_and_its_clock_goes_on(method, tmp_path):
    settings, shown = tampering_runs.settings_of(method), []
    with slow_start():
        before = run_search(
            settings, folder=tmp_path / "run", on_progress=shown.append, should_stop=lambda: _has_answer(shown)
        )
        assert before.status is SearchStatus.FEASIBLE
        assert "does not pay" not in before.certificate.binding
        last, again = shown[-1], []
        after = run_search(settings, folder=tmp_path / "run", resume=True, on_progress=again.append)
    assert after.status is SearchStatus.OPTIMAL
    for earlier, later in itertools.pairwise([last, *again]):
        assert later.objective >= earlier.objective
        assert later.elapsed_s >= earlier.elapsed_s
    assert after.search_s > before.search_s
    with RunStore.read(tmp_path / "run") as store:
        steps = store.incumbents()
    assert len({step.design for step in steps}) == len(steps)
    assert [step.objective for step in steps] == sorted(step.objective for step in steps)


def _has_answer(shown):
    return bool(shown) and shown[-1].objective > 0
