"""What a reader of a page meets: whole numbers, words for fields, no column without a word."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from rephaze.report.nest_page import nest_page
from rephaze.report.page import table
from rephaze.report.search_report import search_sections
from rephaze.study.sensitivity import BUDGET_KNOBS, KNOBS
from rephaze.types.readable import FIELD_WORDS, KNOB_WORDS, amount, fields_in_words, rounded_amount
from rephaze.types.reproduction import NestCell, NestFigure, PlacedCell
from rephaze.types.sensitivity import ChangedSearch, Sensitivity
from rephaze.types.space import FIELDS
from rephaze.types.system import SystemSpace

POWER_OF_TEN = re.compile(r"\d(\.\d+)?e[+-]?\d\d")


@pytest.mark.parametrize(
    ("value", "num_digits", "said"),
    [
        (121_237.4, 5, "121,237"),
        (9_237.81, 5, "9,237.8"),
        (1_353.4, 4, "1,353"),
        (999.96, 4, "1,000"),
        (15.2101, 4, "15.21"),
        (-19.64, 3, "-19.6"),
        (-1_234.5, 3, "-1,234"),
        (0.0, 4, "0"),
    ],
)
def test_amounts_have_no_powers_of_ten(value, num_digits, said):
    assert amount(value, num_digits) == said


@pytest.mark.parametrize(
    ("value", "num_digits", "said"),
    [
        (11_882.6, 4, "11,880"),
        (194_449.0, 4, "194,400"),
        (9_999.7, 4, "10,000"),
        (4_253.4, 4, "4,253"),
        (57.923, 4, "57.92"),
        (394.1, 2, "390"),
        (-21.6, 2, "-22"),
        (0.0, 4, "0"),
    ],
)
def test_rounded_amounts_tell_no_digit_more(value, num_digits, said):
    assert rounded_amount(value, num_digits) == said


def test_nests_page_tells_rates_in_whole_numbers():
    found = PlacedCell(samples_per_s=11_882.6, bound_samples_per_s=23_674.2, plan="tp 1", cpu_s=1.0)
    figure = NestFigure(setup="tpu", model="bert-large", num_devices=512, nest_factor=1.3)
    cell = NestCell(figure=figure, estimator="exact", its_degrees=found, its_choices=found, all_choices=found)
    setup = {
        "title": "TPUs",
        "note": "made up",
        "hbm_gib": 64,
        "level_bytes_per_s": [2**30],
        "has_common_base": False,
    }
    page = nest_page([cell], {"source": "NEST", "setups": {"tpu": setup}, "models": {}})
    assert "| 11,880 (at most 23,670) |" in page
    assert not POWER_OF_TEN.search(page)


@pytest.mark.parametrize("name", ["paper", "nest", "compare", "performance", "workloads", "validation"])
def test_pages_of_results_have_no_powers_of_ten(name):
    """Rates of small models were once told as 1.188e+04."""
    page = (Path(__file__).parents[3] / "docs" / f"{name}.md").read_text("utf-8")
    assert not re.findall(r"(?<![\w.])\d(?:\.\d+)?e\+\d\d(?!\w)", page)


def test_a_fast_search_is_told_in_whole_numbers(make_records):
    """Five digits of 121,237 were once told as 1.2124e+05."""
    records = make_records()
    fast = replace(records.result, objective=121_237.4, bound=121_237.4)
    baselines = [replace(one, answer=replace(one.answer, objective=345_678.9)) for one in records.baselines]
    study = _study(records, fast)
    changed = replace(records, result=fast, baselines=baselines, sensitivity=study)
    shown = {one.title: re.sub(r"<script.*?</script>|<[^>]*>", " ", one.body) for one in search_sections(changed)}
    assert "121,237" in shown["The answer"]
    assert "242,475" in shown["Sensitivity"]
    for title in ("The answer", "Sensitivity", "Trade-offs", "Baselines", "Known chips"):
        assert not POWER_OF_TEN.search(shown[title]), title


def _study(records, base):
    result = replace(base, objective=2 * base.objective, bound=2 * base.objective)
    one = ChangedSearch(knob="inner-links", scale_factor=2.0, result=result, gain_factor=2.0, is_proven=True)
    return Sensitivity(settings=records.info.settings, base=base, changes=(one,))


def test_a_sensitivity_is_told_in_words_and_like_all_other_plans(make_records):
    records = make_records()
    changed = replace(records, sensitivity=_study(records, records.result))
    body = next(one.body for one in search_sections(changed) if one.title == "Sensitivity")
    assert "<td>links inside a node x 2</td>" in body
    assert "inner-links" not in body
    assert "<th>samples/s</th>" in body
    plan = records.result.plans[0]
    told = f"{plan.tp} x {plan.dp} x {plan.pp}, {plan.microbatch}".replace(" ", "\N{NO-BREAK SPACE}")
    assert f"<td class=text>{told}</td>" in body
    assert "a whole search of its own" in body


def test_every_knob_and_field_has_words():
    assert KNOB_WORDS.keys() == KNOBS.keys() | BUDGET_KNOBS.keys()
    assert set(FIELDS) | set(SystemSpace.__dataclass_fields__) == FIELD_WORDS.keys()
    said = fields_in_words("96.5% used; more of num_tensor_cores, hbm does not fit; num_tensor_cores_x stays")
    assert said == "96.5% used; more of tensor cores, kind of HBM does not fit; num_tensor_cores_x stays"


def test_what_holds_the_winner_back_names_no_field(make_records):
    records = make_records()
    proof = replace(records.result.certificate, binding="more of tensor_width, num_hbm_stacks does not fit in it")
    changed = replace(records, result=replace(records.result, certificate=proof))
    body = next(one.body for one in search_sections(changed) if one.title == "The certificate")
    assert "more of rows of an array, HBM stacks does not fit in it." in body


def test_columns_without_a_word_are_left_out():
    rows = [["a", "", "1"], ["b", "", ""]]
    assert "note" in table(["what", "note", "number"], rows)
    shown = table(["what", "note", "number"], rows, texts=(2,), hide_empty=True)
    assert "note" not in shown
    assert "<th class=text>number</th>" in shown
    assert shown.count("<td") == 4
