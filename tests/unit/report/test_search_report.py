"""The page of a search: what is on it, that names stay text, that it fetches nothing."""

import base64
import csv
import hashlib
import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from rephaze.report.answer_section import answer_sentence, objective_unit, why_sentences
from rephaze.report.search_report import search_sections, write_search_report
from rephaze.types.comparison import TPUV4_EXPERT, TPUV4_SEARCHED
from rephaze.types.full import DeviceOrder, PipelineSchedule, Sharding
from rephaze.types.placement import PlacementModel
from rephaze.types.plan_account import BaselineAccounts
from rephaze.types.search import Objective, SearchStatus
from rephaze.types.truth import ExpectedError, Stability

TITLES = [
    "The answer",
    "The chip",
    "Where the time goes",
    "Plans",
    "Layers on the chip",
    "Trade-offs",
    "Baselines",
    "Known chips",
    "The certificate",
    "Assumptions",
    "Settings and versions",
]
FIGURES = [
    "chip", "time-ms-plain", "time-share-plain", "timeline-plain", "memory-plain", "roofline-plain",
    "gantt-plain-plain-forward", "throughput-area", "throughput-area-near-the-limit", "throughput-energy",
    "throughput-cost", "progress",
]  # fmt: skip
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'--></style></pre></details><svg/onload=alert(1)>",
    "&lt;b&gt; ]]> \u2028 {{1}}",
]


class Page(HTMLParser):
    """Tags, attributes, headings and scripts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.headings, self.scripts = [], [], [], []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        self.tags.append("/" + tag)

    def handle_data(self, data):
        inside = self.tags[-1]
        if inside == "h2":
            self.headings.append(data)
        if inside == "script":
            self.scripts.append(data)
        elif inside != "style":
            self.text += data + "\n"


def written(records, folder):
    return Page(write_search_report(folder / "page.html", records).read_text("utf-8"))


def section(records, title):
    return next(part.body for part in search_sections(records) if part.title == title)


def test_every_section_is_there_with_its_figures(make_records, tmp_path):
    page = written(make_records(), tmp_path)
    assert page.headings == TITLES
    assert [value for key, value in page.attributes if key == "data-name"] == FIGURES
    for said in ("300", "samples/s", "dropped by bound: plain", "of the limit", "far plain", "48 such layers"):
        assert said in page.text


def test_every_figure_has_marks_and_its_data(make_records, tmp_path):
    text = write_search_report(tmp_path / "page.html", make_records()).read_text("utf-8")
    figures = re.findall(r"<figure.*?</figure>", text, re.DOTALL)
    assert len(figures) == len(FIGURES)
    for one in figures:
        assert re.search(r"<(rect|circle|path)", one), one[:80]
        data = json.loads(re.search(r'class="csv">(.*?)</script>', one, re.DOTALL)[1])
        header, *rows = list(csv.reader(io.StringIO(data)))
        assert rows, one[:80]
        assert {len(row) for row in rows} == {len(header)}
        assert [act for act in ("png", "svg", "csv") if f'data-act="{act}"' in one] == ["png", "svg", "csv"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_shown_and_never_obeyed(make_records, tmp_path, name):
    hostile, plain = written(make_records(name), tmp_path), written(make_records("plain"), tmp_path)
    assert hostile.tags == plain.tags
    assert not [key for key, _ in hostile.attributes if key.startswith("on")]
    assert name in hostile.text
    assert not [script for script in hostile.scripts if "<" in name and name in script]
    # Identifiers and files are named after models, too.
    for key, value in hostile.attributes:
        if key in ("id", "data-name", "aria-controls", "aria-labelledby", "href"):
            assert re.fullmatch(r"#?[A-Za-z0-9-]+", value), (key, value)


def test_elements_have_names_of_their_own(make_records, tmp_path):
    names = [value for key, value in written(make_records("a b"), tmp_path).attributes if key == "id"]
    assert len(names) == len(set(names))


def test_the_page_asks_the_network_for_nothing(make_records, tmp_path):
    path = write_search_report(tmp_path / "page.html", make_records())
    text = path.read_text("utf-8")
    page = Page(text)
    fetching = [(key, value) for key, value in page.attributes if key in ("src", "href", "action", "srcset")]
    assert [value for _, value in fetching if not value.startswith("#")] == []
    policy = next(value for key, value in page.attributes if key == "content" and "default-src" in value)
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    # The one script that may run is the page's own; another changes the policy's digest.
    script = next(one for one in page.scripts if "use strict" in one)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert text.count("<script>") == 1
    assert len(text) < 8e6


def test_nothing_feasible_still_makes_a_page(make_records, tmp_path):
    page = written(make_records("llama", chip=False), tmp_path)
    assert page.headings == TITLES
    assert "no plan of llama fits" in page.text
    assert "There is no plan." in page.text
    assert "There is no chip to draw." in page.text
    assert "No chip of the space can train llama" in page.text
    assert ("class", "status infeasible") in page.attributes


def test_the_certificate_adds_up(make_records):
    records = make_records()
    body = section(records, "The certificate")
    # 5 designs: 2 solved, 1 dropped, 1 infeasible, so 1 is left.
    assert "<td>left when the search stopped</td><td>1</td><td>20.00%</td>" in body
    proof = replace(records.result.certificate, num_designs=4)
    whole = replace(records, result=replace(records.result, certificate=proof))
    assert "left when" not in section(whole, "The certificate")


def test_a_gap_is_shown_as_one(make_records):
    records = make_records()
    stopped = replace(records.result, status=SearchStatus.FEASIBLE, bound=330.0, gap=0.1, reason="stopped")
    body = section(replace(records, result=stopped), "The answer")
    assert "10.000%" in body
    assert "status feasible" in body
    assert "up to 10.0% more may be possible" in body
    assert "It is proven" not in body


def test_a_block_that_could_not_be_read_says_why(make_records):
    body = section(replace(make_records(), plans=(), plans_missing="gone <b>"), "Layers on the chip")
    assert "gone &lt;b&gt;" in body


@pytest.mark.parametrize("objective", list(Objective))
def test_the_axis_says_what_is_maximised(make_records, objective):
    settings = make_records(objective=objective).info.settings
    unit = objective_unit(settings)
    assert "samples" in unit
    assert unit in section(make_records(objective=objective), "The answer")
    both = replace(settings, models=("a", "b"), weights=(1.0, 1.0))
    assert "geometric mean" in objective_unit(both)


def cells(body, chip):
    """The row of a chip in the table of known ones."""
    row = next(row for row in body.split("<tr>") if row.startswith(f"<td>{chip}</td>"))
    return re.findall(r"<td>(.*?)</td>", row)


def test_a_known_chip_stands_as_far_from_the_space_as_judge_says(make_records):
    body = section(make_records(), "Known chips")
    assert cells(body, "plain") == ["plain", "150", "300.0", "-50.0%", "within 50.0% of the best", "yes, exactly"]
    # A schedule of its own that is not proven may bring it nearer, never further off.
    assert cells(body, "far plain")[4:] == [
        "within 50.0% of the best",
        "yes; it may stand better: its own plans may be 10.00% better",
    ]


def test_against_a_search_with_a_gap_a_chip_is_judged_by_the_bound(make_records):
    records = make_records()
    stopped = replace(records.result, status=SearchStatus.FEASIBLE, bound=600.0, gap=1.0)
    found = cells(section(replace(records, result=stopped), "Known chips"), "plain")
    assert found[3:] == [
        "-50.0%", "within 75.0% of the best", "yes; it may stand better: the search has a gap of 100.00%",
    ]  # fmt: skip


def test_a_known_chip_may_be_better_than_the_space_or_run_nothing(make_records):
    records = make_records()
    better = replace(records.marked[0], name="better", objective=330.0, bound=330.0)
    idle = replace(records.marked[0], name="idle", objective=0.0, bound=0.0, reason="no plan of plain fits")
    body = section(replace(records, marked=[idle, better]), "Known chips")
    assert cells(body, "better")[3:] == ["+10.0%", "10.0% better than the best", "yes, exactly"]
    assert cells(body, "idle")[4] == "nothing fits: no plan of plain fits"
    assert body.index("better</td>") < body.index("idle</td>")
    assert "holds no known chip" in section(replace(records, marked=[]), "Known chips")


def full_records(records, plans=None):
    scenario = replace(records.info.settings.scenario, placement_model=PlacementModel.FULL)
    info = replace(records.info, settings=replace(records.info.settings, scenario=scenario))
    changes = {"cp": 2, "sharding": Sharding.WEIGHTS, "shard_group": 4, "schedule": PipelineSchedule.ZERO_BUBBLE}
    (plan,) = records.result.plans
    stages = (plan.stages[0], replace(plan.stages[1], keep=3))
    plan = replace(plan, sp=True, order=DeviceOrder.PP_OUTER, stages=stages, **changes)
    result = replace(records.result, plans=(plan,))
    return replace(records, info=info, result=result, plans=records.plans if plans is None else plans)


def test_every_decision_of_a_full_plan_is_told(make_records):
    body = section(full_records(make_records()), "Plans")
    rows = dict(re.findall(r"<tr><td>([^<]*)</td><td class=text>([^<]*)</td></tr>", body))
    assert rows == {
        "tensor parallel (tp)": "2",
        "sequence parallel (sp)": "on",
        "context parallel (cp)": "2",
        "expert parallel (ep), etp": "1, 1",
        "data parallel (dp)": "4",
        "pipeline parallel (pp)": "2",
        "chips in use (tp x cp x dp x pp)": "32",
        "order of devices": "pp-outer",
        "sharding": "weights",
        "shard group": "4 of 8 replicas",
        "reshard": "off: weights gathered once a batch",
        "schedule": "zero-bubble",
        "microbatch": "8",
        "kept of a stage": "positions 0 to 3 of 0 to 15 (0 keeps everything, the last least)",
    }


def test_time_and_memory_are_told_by_cause(make_records):
    body = section(full_records(make_records()), "Plans")
    assert "<td>compute: forward and backward passes</td><td>400</td><td>80.00%</td>" in body
    assert "<td>a batch</td><td>500</td>" in body
    assert "messages between" not in body
    # The second device is the fuller one: 16 of 32 GiB.
    assert "Device 2 of 2 of a pipeline." in body
    assert "<td>kept activations</td><td>13</td><td>40.6%</td>" in body
    assert "<td>free</td><td>16</td><td>50.0%</td>" in body


def test_without_its_account_a_plan_still_has_its_decisions(make_records):
    records = replace(full_records(make_records(), plans=()), plans_missing="gone <b>")
    body = section(records, "Plans")
    assert "gone &lt;b&gt;" in body
    assert "<td class=text>pp-outer</td>" in body
    assert "compute:" not in body
    assert "Decisions" not in section(make_records(), "Plans")


def test_the_sentence_sets_the_answer_beside_tpuv4(make_records):
    records = make_records("gpt")
    settings, result, (one,) = records.info.settings, records.result, records.baselines
    beside = [replace(one, name=TPUV4_SEARCHED), replace(one, name=TPUV4_EXPERT)]
    said = answer_sentence(settings, result, beside)
    assert "Of 5 possible chips this one, within 339 mm² of silicon, trains gpt fastest" in said
    assert "300 samples a second on a cluster of 1,024" in said
    assert "2.00 times what TPUv4 reaches at its best and 2.0 times TPUv4 with an expert's plan" in said
    assert said.endswith("It is proven that none does better.")
    assert "TPUv4" not in answer_sentence(settings, result, ())
    stopped = replace(result, status=SearchStatus.FEASIBLE, bound=math.inf, gap=math.inf)
    assert answer_sentence(settings, stopped, ()).endswith("not proven to be the best: nothing bounds it yet.")
    several = replace(settings, models=("a", "b", "c", "d", "e"))
    assert "trains a, b and 3 more fastest" in answer_sentence(several, result, ())


def test_the_reason_is_the_difference_by_cause(make_records):
    (detail,) = make_records().plans
    slower = replace(detail.account, causes=replace(detail.account.causes, compute_s=0.8, bubble_s=0.0))
    (said,) = why_sentences([detail], [BaselineAccounts(name=TPUV4_SEARCHED, plans=(slower,))])
    assert "takes 500 ms where TPUv4 at its best takes 870 ms" in said
    # Three quarters of compute are bound by arrays, a quarter by HBM; the bubble is only here.
    assert "compute bound by arrays: -300 ms; compute bound by HBM: -100 ms" in said
    assert "bubble: waiting for other stages: +30 ms" in said
    assert why_sentences([detail], []) == []
    # Every model has its own reason, but for those whose time is not known.
    twice = why_sentences([detail] * 3, [BaselineAccounts(name=TPUV4_SEARCHED, plans=(slower, None, slower))])
    assert twice == [said, said]


def test_measured_runs_near_a_plan_are_told(make_records):
    near = ExpectedError(
        num_rows=35, family="tpu", sources=("<runs>",), measured_over_ideal_low_ratio=1.2,
        measured_over_ideal_ratio=1.5, measured_over_ideal_high_ratio=1.9, measured_over_calibrated_low_ratio=0.9,
        measured_over_calibrated_ratio=1.0, measured_over_calibrated_high_ratio=1.1, calibrated_error_share=0.08,
    )  # fmt: skip
    body = section(replace(make_records(), expected={"plain": near, "other": None}), "Expected error")
    cells = "<td class=text>35, chips of family tpu</td><td>1.50</td><td>1.20 to 1.90</td><td>8%</td>"
    assert f"<td>plain</td>{cells}<td class=text>&lt;runs&gt;</td>" in body
    assert "<td>other</td><td class=text>none is near</td>" in body
    stable = Stability(num_plans=3, num_draws=9, near_best_share=0.5, spread_factor=0.1, chosen="chip")
    real = replace(
        make_records(), expected={"plain": replace(near, is_calibrated=True)}, stability=stable, losses="slower"
    )
    body = section(real, "Expected error")
    assert "Times on this page: slower." in body
    assert "<td>1.00</td><td>0.90 to 1.10</td>" in body
    assert "this chip stays within 2 % of the best of 3 in 50 % of draws" in body
    none = section(replace(make_records(), expected={"plain": None}), "Expected error")
    assert "No run that others measured is near these plans" in none
    assert "<td" not in none
    assert "Expected error" not in [one.title for one in search_sections(make_records())]


def test_baselines_stand_below_the_winner_with_ratios(make_records):
    body = section(make_records(), "Baselines")
    own, other = re.findall(r"<tr[^>]*><td>(.*?)</tr>", body)
    assert own.startswith("this chip, searched plan</td><td>300</td><td>1.00x</td>")
    assert other.startswith("plain, expert plan</td><td>150</td><td>2.00x</td>")
    assert "rephaze compare --run RUN" in section(replace(make_records(), baselines=()), "Baselines")
