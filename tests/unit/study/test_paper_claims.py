"""The paper's claims on a handful of chips: kept runs, gains, verdicts."""

import math
from dataclasses import replace

import pytest

from rephaze.errors import RunError
from rephaze.report.paper_page import paper_page
from rephaze.study import paper_runs
from rephaze.study.paper_claims import checked_claims, gains, published_claims, reproduce_paper, unevenness
from rephaze.study.paper_runs import MIXED_UNITS, PAPER_SETTINGS, PaperSetting
from rephaze.types.search import SearchStatus

CHANGES = {
    "training": {"microbatches": [1], "tp_degrees": [1], "recompute": ["none", "stage"]},
    "space": {
        "num_tensor_cores": [4, 8],
        "num_vector_cores": [2, 16],
        "tensor_width": [128],
        "tensor_depth": [128],
        "global_buffer_mib": [16, 32],
    },
}
SMALL = PaperSetting(name="paper, small", scenario="paper", changes=CHANGES)


def reproduced(folder, setting=SMALL, steps=None, models=("bert-large",)):
    told = [] if steps is None else steps
    return reproduce_paper(
        folder,
        models=models,
        settings=[setting],
        num_workers=1,
        time_limit_s=600.0,
        on_step=lambda step, _progress: told.append(step),
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    return folder, reproduced(folder)


def test_what_was_published_is_in_figures():
    claims = published_claims()
    assert (claims.mean_gain_factor, claims.area_fraction, claims.hbm_bytes) == (2.9, 0.91, 64 * 2**30)
    assert len(claims.models) == 9
    assert claims.source


def test_a_second_call_reads_what_is_proven(kept):
    folder, found = kept
    steps = []
    again = reproduced(folder, steps=steps)
    assert steps == []
    assert again == found
    (setting,) = found.settings
    assert setting.common.status is SearchStatus.OPTIMAL
    assert setting.own["bert-large"].objective == setting.common.objective
    assert found.search_s > 0


def test_settings_of_single_models_go_with_those_that_ask_for_them(kept):
    folder, found = kept
    other = replace(SMALL, name="other", models=("gpt2-xl",))
    same = replace(SMALL, models=("bert-large",))
    asked = reproduce_paper(
        folder,
        models=["bert-large"],
        settings=[other, same],
        num_workers=1,
        time_limit_s=600.0,
        on_step=lambda _step, _progress: None,
    )
    assert asked.settings == found.settings


def test_time_is_shared_out_so_that_only_searches_wait_for_it(tmp_path, monkeypatch):
    """What a chip is set beside is not cut: it comes before the searches that are, and they get less for it."""
    limits, now = [], [0.0]

    def searched(_self, _settings, _folder, step, limit_s):
        limits.append((step, limit_s))
        now[0] += limit_s
        return step

    def compared(_self, setting, *_others):
        limits.append((f"{setting.name}, compared", None))
        now[0] += 100.0

    monkeypatch.setattr(paper_runs.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(paper_runs.PaperRuns, "_searched", searched)
    monkeypatch.setattr(paper_runs.PaperRuns, "_compared", compared)
    monkeypatch.setattr(paper_runs.PaperRuns, "_with_memory", lambda *_others: None)
    runs = paper_runs.PaperRuns(tmp_path, 1, 1200.0, lambda _step, _progress: None)
    models = ("bert-large", "gpt2-xl")
    runs.findings(SMALL, models, 0.5, 2**36)
    runs.findings(replace(SMALL, name="last", with_own=False), models, 1.0, 2**36)
    assert limits == [
        ("paper, small", 360.0),
        ("paper, small, compared", None),
        ("paper, small, own chip of bert-large", 70.0),
        ("paper, small, own chip of gpt2-xl", 70.0),
        ("last", 360.0),
        ("last, compared", None),
    ]
    assert now[0] <= 1200.0


def test_settings_of_all_models_get_more_of_the_time():
    weights = {one.name: one.weight for one in PAPER_SETTINGS}
    assert weights["default, gpt2-xl"] == weights["calibrated, gpt2-xl"] == 1
    assert weights["calibrated"] == weights["paper, mixed units"] == 2
    assert weights["default"] == weights["paper"] == 3


def test_each_setting_gets_its_part_of_what_is_left(tmp_path, monkeypatch):
    shares = []

    def findings(_self, setting, _models, share, _memory_bytes):
        shares.append((setting.name, share))
        raise RunError("far enough")

    monkeypatch.setattr(paper_runs.PaperRuns, "findings", findings)
    for settings in (PAPER_SETTINGS[2:], PAPER_SETTINGS[5:]):
        with pytest.raises(RunError, match="far enough"):
            reproduce_paper(
                tmp_path, settings=settings, num_workers=1, time_limit_s=1.0, on_step=lambda *_told: None
            )
    assert shares == [("default, gpt2-xl", 1 / 7), ("calibrated", 1.0)]


def test_a_folder_of_another_search_is_refused(kept):
    folder, _ = kept
    other = replace(SMALL, changes=CHANGES | {"training": CHANGES["training"] | {"recompute": ["none"]}})
    with pytest.raises(RunError, match="other settings"):
        reproduced(folder, other)


def test_gains_are_over_models_with_a_plan_in_both(kept):
    _, found = kept
    (setting,) = found.settings
    expert = setting.comparison.references[0].answer
    (ratio,) = gains(expert, setting.common.plans)
    assert ratio == pytest.approx(setting.common.plans[0].samples_per_s / expert.plans[0].samples_per_s)
    assert gains(replace(expert, plans=(None,)), setting.common.plans) == []
    assert gains(None, setting.common.plans) == []


def test_unevenness_is_the_longest_stage_over_the_mean(kept):
    _, found = kept
    plan = found.settings[0].comparison.references[0].answer.plans[0]
    stages = [replace(plan.stages[0], load_s=load_s) for load_s in (1.0, 1.0, 4.0)]
    assert unevenness(replace(plan, stages=tuple(stages))) == 2.0


def test_verdicts_follow_the_figures(kept):
    _, found = kept
    (setting,) = found.settings
    claims = found.claims

    def verdict(claim, setting=setting, claims=claims):
        return next(check.holds for check in checked_claims(setting, claims) if claim in check.claim)

    assert verdict("memory suffices")
    assert not verdict("memory suffices", claims=replace(claims, hbm_bytes=2**30))
    assert verdict("area limit", claims=replace(claims, area_fraction=0.0))
    assert not verdict("area limit", claims=replace(claims, area_fraction=1.0))
    assert verdict("with expert plans, mean", claims=replace(claims, mean_gain_factor=0.1))
    assert not verdict("with expert plans, mean", claims=replace(claims, mean_gain_factor=1e6))
    few = replace(setting, common=replace(setting.common, chip=replace(setting.common.chip, num_vector_cores=2)))
    assert verdict("many vector cores")
    assert not verdict("many vector cores", setting=few)
    small = replace(setting, common=replace(setting.common, chip=replace(setting.common.chip, tensor_width=64)))
    assert verdict("large tensor cores")
    assert not verdict("large tensor cores", setting=small)


def test_memory_suffices_if_hardly_anything_is_lost_without_more(kept):
    _, found = kept
    (setting,) = found.settings
    (plan,) = setting.common.plans
    large = replace(setting, common=replace(setting.common, plans=(replace(plan, hbm_bytes=80 * 2**30),)))

    def check(factor):
        plans = (replace(plan, samples_per_s=factor * plan.samples_per_s),)
        less = replace(setting.comparison.references[0].answer, plans=plans)
        checks = checked_claims(replace(large, with_published_memory=less), found.claims)
        return next(one for one in checks if one.claim == "memory suffices")

    assert check(0.99).holds
    assert not check(0.9).holds
    assert "no model loses more than 10.0%" in check(0.9).found
    assert not next(one for one in checked_claims(large, found.claims) if one.claim == "memory suffices").holds


def test_a_search_without_a_bound_is_told_in_words(kept):
    _, found = kept
    (setting,) = found.settings
    cut = replace(setting.common, status=SearchStatus.FEASIBLE, bound=math.inf, gap=math.inf)
    changed = replace(setting, common=cut, own={"bert-large": cut})
    page = paper_page(replace(found, settings=(changed,)))
    assert "feasible: no bound in the time it had, better ones may be left" in page
    assert "| no bound in the time it had |" in page
    assert "inf%" not in page


def test_an_own_search_cut_before_it_was_as_good_as_the_common_chip_is_not_shown_as_a_loss(kept):
    _, found = kept
    (setting,) = found.settings
    plan = setting.common.plans[0]
    poor = replace(setting.common, plans=(replace(plan, samples_per_s=plan.samples_per_s / 3),), area_um2=1.0)
    page = paper_page(replace(found, settings=(replace(setting, own={plan.model: poor}),)))
    assert "none better than the common chip found in its time" in page
    assert "-200" not in page
    checks = checked_claims(replace(setting, own={plan.model: poor}), found.claims)
    assert checks == checked_claims(replace(setting, own={}), found.claims)


def test_without_a_chip_there_is_one_line_with_the_reason(kept):
    _, found = kept
    (setting,) = found.settings
    nothing = replace(setting, common=replace(setting.common, chip=None, reason="nothing fits"))
    (check,) = checked_claims(nothing, found.claims)
    assert (check.found, check.holds) == ("nothing fits", None)


def test_mixed_units_are_links_a_thousand_times_as_fast():
    by_name = {setting.name: setting for setting in PAPER_SETTINGS}
    plain, mixed = (by_name[name].settings(["bert-large"]) for name in ("paper", "paper, mixed units"))
    (level,), (faster,) = plain.scenario.cluster.levels, mixed.scenario.cluster.levels
    assert faster.bytes_per_s == level.bytes_per_s * MIXED_UNITS
    assert mixed.scenario.space == plain.scenario.space
