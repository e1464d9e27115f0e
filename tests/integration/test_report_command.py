"""``rephaze report`` as a user runs it, on a run recorded without a search."""

import json
import math
from dataclasses import replace

import pytest

from rephaze.api import open_run
from rephaze.cli.search import _write_report
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.space import enumerate_designs
from rephaze.store.run_store import RunStore
from rephaze.store.versions import current_versions
from rephaze.types.run_record import Incumbent
from rephaze.types.search import (
    Aggregate,
    Certificate,
    Evaluation,
    ModelPlan,
    Objective,
    SearchResult,
    SearchSettings,
    SearchStatus,
    StagePlan,
)
from tests.kits.command import rephaze

MODEL = "gone & <i>forgotten</i>.json"
"""A graph file that is no longer there: the page must come without it."""


def run(*args):
    return rephaze("report", *args)


@pytest.fixture
def census():
    scenario = load_scenario("coarse")
    space = replace(scenario.space, num_tensor_cores=(16, 32), tensor_width=(64,), tensor_depth=(64, 128))
    scenario = replace(scenario, space=space)
    return scenario, enumerate_designs(space)


@pytest.fixture
def folder(tmp_path, census):
    """A finished run: three designs looked at, one the winner."""
    path = tmp_path / "run"
    with recorded(path, census) as store:
        store.record_result(answer(census[1]))
    return path


def recorded(path, census):
    scenario, designs = census
    settings = SearchSettings(
        models=(MODEL,),
        weights=(1.0,),
        scenario=scenario,
        objective=Objective.THROUGHPUT,
        aggregate=Aggregate.GEOMEAN,
        seed=0,
        exhaustive=False,
    )
    store = RunStore.create(path, settings, current_versions("1"))
    store.record_designs(designs.chips, designs.area_um2_c)
    store.record_evaluations(
        [
            Evaluation(design=0, is_exact=True, objective=90.0, bound=90.0, plans=()),
            Evaluation(design=1, is_exact=True, objective=100.0, bound=100.0, plans=(plan(),)),
            Evaluation(design=2, is_exact=False, objective=-math.inf, bound=99.0, plans=(), dropped_by="x"),
        ]
    )
    store.record_incumbent(Incumbent(elapsed_s=1.0, objective=90.0, bound=150.0, design=0))
    return store


def plan():
    stage = StagePlan(
        first_layer="a",
        last_layer="b",
        num_layers=3,
        num_devices=1024,
        load_s=0.01,
        memory_bytes=2.0**33,
        recompute="none",
    )
    return ModelPlan(
        model=MODEL,
        samples_per_s=100.0,
        batch_s=40.96,
        tp=1,
        dp=1024,
        pp=1,
        microbatch=4,
        recompute="none",
        hbm_bytes=2**36,
        energy_per_sample_j=3.0,
        stages=(stage,),
    )


def answer(designs):
    return SearchResult(
        status=SearchStatus.OPTIMAL,
        objective=100.0,
        bound=100.0,
        gap=0.0,
        design=1,
        chip=designs.chips.chip(1),
        area_um2=float(designs.area_um2_c[1]),
        plans=(plan(),),
        certificate=Certificate(
            num_designs=designs.num_designs,
            num_solved_exactly=2,
            num_dropped_by_bound={"x": designs.num_designs - 2},
            num_infeasible=0,
            num_within={"1 %": (1, 2)},
            binding="area",
        ),
        reason="",
        search_s=2.0,
    )


def test_report_writes_a_page_into_the_run_or_where_told(folder, tmp_path):
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert str(folder / "report.html") in done.stdout
    page = (folder / "report.html").read_text("utf-8")
    assert "optimal" in page
    assert "<i>forgotten" not in page
    assert "gone &amp; &lt;i&gt;forgotten" in page
    assert "could not be told" in page
    other = tmp_path / "pages" / "other.html"
    done = run(folder, "--out", other, "--json")
    assert json.loads(done.stdout) == {"run": str(folder), "out": str(other)}
    assert 50_000 < other.stat().st_size < 8_000_000
    assert done.stderr == ""


def test_what_cannot_be_reported_is_said_in_one_line(tmp_path, census):
    recorded(tmp_path / "open", census).close()
    for path, said in ((tmp_path / "none", "no such folder"), (tmp_path / "open", "holds no answer yet")):
        done = run(path)
        assert done.returncode == 1
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_search_keeps_its_answer_when_its_report_fails(folder, tmp_path, capsys):
    assert _write_report(None, quiet=True) is None
    assert _write_report(tmp_path / "none", quiet=True) is None
    assert "no report" in capsys.readouterr().err
    (folder / "report.html").mkdir()
    assert _write_report(folder, quiet=True) is None
    (folder / "report.html").rmdir()
    assert _write_report(folder, quiet=True) == folder / "report.html"


def test_a_search_says_that_it_is_at_its_report(folder, capsys):
    """The answer is out by then, and the report may take half a minute."""
    assert _write_report(folder, quiet=False) == folder / "report.html"
    assert capsys.readouterr() == ("", "writing the report; known chips and baselines are measured for it\n")


def test_what_a_report_takes_time_for_is_told(folder):
    steps = []
    open_run(folder).report(on_step=steps.append)
    assert steps[-1] == "report: writing the page"
    assert len(steps) == len(set(steps))
