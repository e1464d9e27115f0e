"""The page of a search: what is on it, that names stay text, that it fetches nothing."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from plotly.offline import get_plotlyjs

from rephaze.report.search_report import objective_unit, search_sections, write_search_report
from rephaze.types.search import Objective, SearchStatus

TITLES = [
    "The answer",
    "The certificate",
    "Designs",
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
