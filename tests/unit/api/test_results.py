"""Results hold records, add up what they hold, and show names as they are."""

import math
import sys
from dataclasses import asdict, replace

import pytest

import rephaze
from rephaze.api.chip_facts import chip_facts
from rephaze.api.chips import known_chips
from rephaze.api.operators import map_gemms
from rephaze.api.plans import place_problems
from rephaze.api.problem_files import BadProblem
from rephaze.api.search_results import Exploration, Verification, shown_as
from rephaze.api.spaces import count_designs
from rephaze.errors import MissingExtraError, RunError, SpecError
from rephaze.store.run_store import RunStore
from rephaze.store.versions import current_versions
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
from rephaze.types.verification import Check

EVIL = "<b>.json"
"""A model's file, named to be taken for markup."""


def settings():
    return SearchSettings(
        models=(EVIL,),
        weights=(1.0,),
        scenario=rephaze.load_scenario(),
        objective=Objective.THROUGHPUT,
        aggregate=Aggregate.GEOMEAN,
        seed=0,
        exhaustive=False,
    )


def answer():
    stage = StagePlan(
        first_layer="a", last_layer="b", num_layers=3, num_devices=1024, load_s=0.01, memory_bytes=2.0**33,
        recompute="none",
    )  # fmt: skip
    plan = ModelPlan(
        model=EVIL, samples_per_s=90.0, batch_s=40.96, tp=1, dp=1024, pp=1, microbatch=4, recompute="none",
        hbm_bytes=2**36, energy_per_sample_j=3.0, stages=(stage,),
    )  # fmt: skip
    certificate = Certificate(
        num_designs=2, num_solved_exactly=1, num_dropped_by_bound={"x": 1}, num_infeasible=0,
        num_within={"1 %": (1, 2)}, binding="area",
    )  # fmt: skip
    return SearchResult(
        status=SearchStatus.OPTIMAL, objective=90.0, bound=90.0, gap=0.0, design=0,
        chip=rephaze.load_chip("tpuv4"), area_um2=3e8, plans=(plan,), certificate=certificate,
        reason="", search_s=2.0,
    )  # fmt: skip


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    with RunStore.create(folder, settings(), current_versions("1")) as store:
        exact = Evaluation(design=0, is_exact=True, objective=90.0, bound=90.0, plans=answer().plans)
        dropped = Evaluation(design=1, is_exact=False, objective=-math.inf, bound=80.0, plans=(), dropped_by="x")
        store.record_evaluations([exact, dropped])
        store.record_result(answer())
    return rephaze.open_run(folder)


def test_an_exploration_is_its_search_result_and_shows_it():
    found = shown_as(Exploration, answer(), settings=settings())
    assert isinstance(found, SearchResult)
    assert asdict(answer()).items() <= asdict(found).items()
    assert str(found).startswith("optimal in 2.0 s: throughput 90 samples/s (bound 90 samples/s, gap 0.000%)")
    assert EVIL in str(found)
    assert EVIL not in found._repr_html_()
    assert "&lt;b&gt;" in found._repr_html_()


def test_an_answer_that_nothing_bounds_yet_says_so_in_words():
    stopped = replace(answer(), status=SearchStatus.FEASIBLE, bound=math.inf, gap=math.inf)
    found = str(shown_as(Exploration, stopped, settings=settings()))
    assert found.startswith("feasible in 2.0 s: throughput 90 samples/s (not bounded yet, gap unknown)")


def test_without_a_chip_the_reason_is_the_headline():
    nothing = replace(answer(), chip=None, design=None, plans=(), reason="memory: too small")
    unknown = shown_as(Exploration, replace(nothing, status="unknown", bound=math.inf), settings=settings())
    assert str(unknown).splitlines()[0] == "unknown: memory: too small"
    assert "any of 2 designs may have a plan, of throughput not bounded yet" in str(unknown)


def test_a_run_gives_its_answer_its_best_and_its_settings(run):
    assert run.settings == settings()
    assert run.result.objective == 90.0
    assert run.best.chip == answer().chip
    assert run.best.plans == answer().plans
    assert str(run).splitlines()[0].startswith(f"run {run.folder}: throughput of {EVIL}")
    assert EVIL not in run._repr_html_()
    assert EVIL not in run.best._repr_html_()


def test_a_run_without_an_answer_says_so(tmp_path):
    RunStore.create(tmp_path / "open", settings(), current_versions("1")).close()
    run = rephaze.open_run(tmp_path / "open")
    assert run.result is None
    assert run.best is None
    assert "no answer yet" in str(run)
    with pytest.raises(RunError, match="holds no answer yet"):
        run.report()


def test_no_run_is_an_error_when_it_is_opened(tmp_path):
    with pytest.raises(RunError, match="no such folder"):
        rephaze.open_run(tmp_path / "none")


def test_export_takes_the_format_from_the_name_and_refuses_others(run, tmp_path):
    assert run.export(tmp_path / "e.csv") == 2
    assert (tmp_path / "e.csv").read_text().startswith("design,")
    assert run.export(tmp_path / "p.txt", table="plans", file_format="csv") == 1
    for call in (
        lambda: run.export(tmp_path / "e.txt"),
        lambda: run.export(tmp_path / "e.csv", table="plan"),
        lambda: run.export(tmp_path / "e.csv", file_format="xlsx"),
    ):
        with pytest.raises(SpecError):
            call()


def test_a_data_frame_needs_pandas_and_says_how_to_get_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rephaze\[dataframe\]'"):
        run.to_dataframe()


def test_a_data_frame_has_the_columns_of_the_export(run, tmp_path):
    pytest.importorskip("pandas")
    frame = run.to_dataframe()
    run.export(tmp_path / "e.csv")
    assert list(frame.columns) == (tmp_path / "e.csv").read_text().splitlines()[0].split(",")
    assert frame["objective_samples_per_s"].tolist() == [90.0, -math.inf]
    assert frame["is_exact"].tolist() == [True, False]
    assert frame["num_tensor_cores"].isna().all()  # the space was not recorded
    with pytest.raises(SpecError, match="table"):
        run.to_dataframe("nope")


def test_a_verification_counts_what_fails():
    good = Check(name="area", passed=True, num_checked=1, detail="")
    bad = replace(good, name="plans", passed=False, detail=EVIL)
    assert Verification(checks=(good,)).holds
    found = Verification(checks=(good, bad, bad))
    assert not found.holds
    assert str(found).splitlines()[0] == "2 of 3 fail"
    assert EVIL not in found._repr_html_()


def test_an_estimate_adds_its_operators_up():
    found = rephaze.estimate_model("vit-large", "tpuv4", microbatch=2)
    assert found.total_s == sum(one.time_s * one.num_times for one in found.operators)
    assert sum(found.bound_shares.values()) == pytest.approx(1.0)
    assert list(found.bound_shares.values()) == sorted(found.bound_shares.values(), reverse=True)
    assert "vit-large on tpuv4, microbatch 2, tp 1" in str(found)
    local = rephaze.load_model("vit-large", tp=2)
    sharded = rephaze.estimate_model(local, rephaze.load_chip("tpuv4"), microbatch=2)
    assert sharded.tp == 2
    assert sharded.operators == rephaze.estimate_model("vit-large", "tpuv4", microbatch=2, tp=2).operators
    with pytest.raises(SpecError, match="was loaded at tp 2"):
        rephaze.estimate_model(local, "tpuv4", tp=4)


def test_a_model_shows_its_layers_not_its_operators():
    model = rephaze.load_model("gpt2-xl")
    assert str(model).splitlines()[0].startswith("gpt2-xl: 1.56 G parameters")
    assert len(str(model).splitlines()) == 3 + len(model.layer_types)
    assert model.summary.num_parameters == model.num_parameters
    assert model.layer_number("3") == 3
    assert sum(len(sizes.layers) for sizes in model.layer_sizes()) == len(model.layer_names)


def test_chips_know_what_follows_from_them():
    known = {one.name: one for one in known_chips()}
    assert tuple(known) == tuple(rephaze.list_chips())
    assert known["tpuv4"].chip == rephaze.load_chip("tpuv4")
    assert all((one.chip is None) == bool(one.blanks) for one in known.values())
    facts = chip_facts(known["tpuv4"].chip)
    assert set(facts.area_um2) == {"paper", "corrected"}
    assert "mm² (corrected model)" in str(known["tpuv4"])


def test_a_space_counts_every_grid_point_once():
    found = count_designs("paper")
    counts, ends_um2 = found.histogram(5)
    assert counts.sum() == found.census.num_designs
    assert len(ends_um2) == 6
    assert f"{found.census.num_designs:,}  designs" in str(found)


def test_a_plan_is_priced_with_its_problem_or_from_a_file():
    with pytest.raises(SpecError, match="plan is None"):
        rephaze.evaluate_plan(rephaze.place_model("vit-large", "tpuv4", num_devices=2, global_batch=4).problem)
    with pytest.raises(SpecError, match="format"):
        rephaze.evaluate_plan({"format": "x"})


@pytest.mark.parametrize("scenario", ["default", "coarse"])
def test_an_answer_can_be_priced_again_under_either_cost_model(scenario):
    placed = rephaze.place_model("vit-large", "tpuv4", num_devices=4, global_batch=16, scenario=scenario)
    again = rephaze.evaluate_plan(placed.problem, placed.plan)
    assert (again.status, again.plan) == ("feasible", placed.plan)
    assert again.batch_s == pytest.approx(placed.batch_s, rel=1e-12)
    assert placed.record()["gap"] == 0.0


@pytest.mark.parametrize(
    ("scenario", "time_limit_s", "rule"),
    [
        ("coarse", 5.0, "is for placement model full"),
        ("default", math.nan, "zero or more"),
        ("default", -1, "zero"),
    ],
)
def test_a_time_limit_that_cannot_be_kept_is_refused(scenario, time_limit_s, rule):
    with pytest.raises(SpecError, match=f"time_limit_s.*{rule}"):
        rephaze.place_model("vit-large", "tpuv4", scenario=scenario, time_limit_s=time_limit_s)


def test_a_plan_of_another_cost_model_is_refused():
    full, coarse = (
        rephaze.place_model("vit-large", "tpuv4", num_devices=2, global_batch=4, scenario=scenario)
        for scenario in ("default", "coarse")
    )
    for problem, plan in ((full.problem, coarse.plan), (coarse.problem, full.plan)):
        with pytest.raises(SpecError, match="must be of the problem's cost model"):
            rephaze.evaluate_plan(problem, plan)


def test_bad_problems_are_answers_of_their_own(tmp_path):
    (tmp_path / "p.json").write_text("{}")
    for answers in (map_gemms, place_problems):
        [(label, bad)] = answers([tmp_path / "p.json"])
        assert label == "p.json"
        assert isinstance(bad, BadProblem)
        assert bad.record() == {"problem": "p.json", "status": "error", "message": bad.message}
