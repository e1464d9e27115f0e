"""The page of a search: what is on it, that names stay text, that it fetches nothing."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from plotly.offline import get_plotlyjs

from rephaze.report.search_report import objective_unit, search_sections, write_search_report
from rephaze.types.full import DeviceMemory, DeviceOrder, PipelineSchedule, Sharding, TimeCauses
from rephaze.types.placement import PlacementModel
from rephaze.types.plan_account import PlanAccount
from rephaze.types.search import Objective, SearchStatus

TITLES = [
    "The answer",
    "The certificate",
    "Designs",
    "Known chips",
    "Plans",
    "A block on the chip",
    "Best and bound over time",
    "Settings and versions",
]
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
    # Designs, stages, block, progress: one chart each.
    assert sum("Plotly.newPlot(" in script and len(script) < 1e5 for script in page.scripts) == 4
    for said in ("300", "samples/s", "dropped by bound: plain", "of the limit", "far plain", "48 such layers"):
        assert said in page.text


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_shown_and_never_obeyed(make_records, tmp_path, name, monkeypatch):
    monkeypatch.setattr("plotly.offline.get_plotlyjs", str)  # megabytes that hold no name
    hostile, plain = written(make_records(name), tmp_path), written(make_records("plain"), tmp_path)
    assert hostile.tags == plain.tags
    assert not [key for key, _ in hostile.attributes if key.startswith("on")]
    assert name in hostile.text
    charts = [script for script in hostile.scripts if len(script) < 1e5]
    assert not [script for script in charts if "<" in name and name in script]


def test_the_page_asks_the_network_for_nothing(make_records, tmp_path):
    path = write_search_report(tmp_path / "page.html", make_records())
    text = path.read_text("utf-8")
    page = Page(text)
    assert not [key for key, _ in page.attributes if key in ("src", "href", "data", "action", "srcset")]
    policy = next(value for key, value in page.attributes if key == "content" and "default-src" in value)
    assert "default-src 'none'" in policy
    assert "http" not in policy
    own = text.replace(get_plotlyjs(), "")
    assert "http://" not in own
    assert "https://" not in own
    assert "@import" not in own
    assert own.count('"showSendToCloud": false') == 4


def test_nothing_feasible_still_makes_a_page(make_records, tmp_path):
    page = written(make_records("llama", chip=False), tmp_path)
    assert page.headings == TITLES
    assert "no plan of llama fits" in page.text
    assert "There is no plan." in page.text
    assert "None of the 5 designs has a plan to show." in page.text
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
    assert "proven" not in body


def test_a_block_that_could_not_be_read_says_why(make_records):
    body = section(replace(make_records(), blocks=(), blocks_missing="gone <b>"), "A block on the chip")
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
    assert cells(body, "plain") == ["plain", "150", "300.0", "-50.0%", "within 50.0% of anything", "yes, exactly"]
    # A schedule of its own that is not proven may bring it nearer, never further off.
    assert cells(body, "far plain")[4:] == [
        "within 50.0% of anything",
        "yes; it may stand better: its own plans may be 10.00% better",
    ]


def test_against_a_search_with_a_gap_a_chip_is_judged_by_the_bound(make_records):
    records = make_records()
    stopped = replace(records.result, status=SearchStatus.FEASIBLE, bound=600.0, gap=1.0)
    found = cells(section(replace(records, result=stopped), "Known chips"), "plain")
    assert found[3:] == [
        "-50.0%", "within 75.0% of anything", "yes; it may stand better: the search has a gap of 100.00%",
    ]  # fmt: skip


def test_a_known_chip_may_be_better_than_the_space_or_run_nothing(make_records):
    records = make_records()
    better = replace(records.marked[0], name="better", objective=330.0, bound=330.0)
    idle = replace(records.marked[0], name="idle", objective=0.0, bound=0.0, reason="no plan of plain fits")
    body = section(replace(records, marked=[idle, better]), "Known chips")
    assert cells(body, "better")[3:] == ["+10.0%", "10.0% better than anything", "yes, exactly"]
    assert cells(body, "idle")[4] == "nothing fits: no plan of plain fits"
    assert body.index("better</td>") < body.index("idle</td>")
    assert "holds no known chip" in section(replace(records, marked=[]), "Known chips")


def full_records(records, accounts=()):
    scenario = replace(records.info.settings.scenario, placement_model=PlacementModel.FULL)
    info = replace(records.info, settings=replace(records.info.settings, scenario=scenario))
    changes = {"cp": 2, "sharding": Sharding.WEIGHTS, "shard_group": 4, "schedule": PipelineSchedule.ZERO_BUBBLE}
    (plan,) = records.result.plans
    stages = (plan.stages[0], replace(plan.stages[1], keep=3))
    plan = replace(plan, sp=True, order=DeviceOrder.PP_OUTER, stages=stages, **changes)
    result = replace(records.result, plans=(plan,))
    return replace(records, info=info, result=result, accounts=accounts)


def account(kept_gib):
    causes = TimeCauses(
        compute_s=0.4, replay_s=0.05, messages_s=0.0, gathers_s=0.0, bubble_s=0.03, sync_s=0.02, tied_s=0.0,
        step_s=0.0, regather_s=0.0,
    )  # fmt: skip
    devices = [
        DeviceMemory(
            weights_bytes=2**30, gradients_bytes=2**30, state_bytes=2**30, kept_bytes=gib * 2**30,
            replay_bytes=0.0, working_bytes=0.0,
        )
        for gib in kept_gib
    ]  # fmt: skip
    return PlanAccount(model="plain", causes=causes, devices=tuple(devices), num_keep_positions=16)


def test_every_decision_of_a_full_plan_is_told(make_records):
    body = section(full_records(make_records(), [account([1, 13])]), "Plans")
    rows = dict(re.findall(r"<tr><td>([^<]*)</td><td>([^<]*)</td></tr>", body))
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
    body = section(full_records(make_records(), [account([1, 13])]), "Plans")
    assert "<td>compute: forward and backward passes</td><td>400</td><td>80.00%</td>" in body
    assert "<td>a batch</td><td>500</td>" in body
    assert "messages" not in body
    # The second device is the fuller one: 16 of 32 GiB.
    assert "Device 2 of 2 of a pipeline." in body
    assert "<td>kept activations</td><td>13</td><td>40.6%</td>" in body
    assert "<td>free</td><td>16</td><td>50.0%</td>" in body


def test_without_its_account_a_plan_still_has_its_decisions(make_records):
    records = replace(full_records(make_records()), accounts_missing="gone <b>")
    body = section(records, "Plans")
    assert "gone &lt;b&gt;" in body
    assert "<td>pp-outer</td>" in body
    assert "compute:" not in body
    assert "Decisions" not in section(make_records(), "Plans")
