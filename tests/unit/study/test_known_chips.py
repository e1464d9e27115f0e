"""Known chips on the yardstick of a search."""

import importlib.util
from pathlib import Path
from time import sleep

import pytest

from rephaze.hardware.presets import load_presets
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.study.known_chips import known_chips, measure_known_chips
from rephaze.study.yardstick import Yardstick

_path = Path(__file__).parents[2] / "property" / "search_cases.py"
_spec = importlib.util.spec_from_file_location("search_cases", _path)
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)


@pytest.fixture(scope="module")
def asked():
    return search_cases.small_settings(5, "coarse", num_choices=1)


def test_every_preset_without_blanks_is_known_tpuv4_first(asked):
    names = [chip.name for chip in known_chips(asked.scenario)]
    assert names[0] == "tpuv4"
    assert sorted(names) == sorted(name for name, preset in load_presets().items() if not preset.blanks)


def test_the_papers_area_model_knows_tpuv4_only():
    paper = search_cases.small_settings(5, "paper", num_choices=1)
    (answer,) = measure_known_chips(paper)
    assert answer.chip.name == "tpuv4"
    assert answer.area_um2 == pytest.approx(278_826_676.31, rel=1e-6)


def test_out_of_time_only_the_first_is_measured_and_as_the_yardstick_does(asked):
    (answer,) = measure_known_chips(asked, budget_s=0.0)
    assert answer == Yardstick(SpaceEvaluator(asked)).with_searched_plans(known_chips(asked.scenario)[0])
    assert answer.objective > 0


def test_a_chip_that_takes_too_long_is_left_out(asked, monkeypatch):
    measure = Yardstick.with_searched_plans

    def without_end(yardstick, chip):
        while chip.name != "tpuv4":
            yardstick.solver(chip).stop.check()
            sleep(0.01)
        return measure(yardstick, chip)

    monkeypatch.setattr(Yardstick, "with_searched_plans", without_end)
    (answer,) = measure_known_chips(asked, budget_s=0.1)
    assert answer.chip.name == "tpuv4"


def test_chips_too_large_are_left_out(asked):
    (tpuv4,) = measure_known_chips(asked, budget_s=0.0)
    found = measure_known_chips(asked, max_area_um2=tpuv4.area_um2)
    assert {"tpuv4", "tpuv3"} <= {answer.chip.name for answer in found}
    assert all(answer.area_um2 <= tpuv4.area_um2 for answer in found)
    assert "h100" not in {answer.chip.name for answer in found}


def test_chips_that_were_measured_before_are_passed_over(asked):
    (answer,) = measure_known_chips(asked, budget_s=0.0, without={"tpuv4"})
    assert answer.chip.name == "a100-80gb"
