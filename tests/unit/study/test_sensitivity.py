"""Searches with one assumption changed: only that one, and never for the worse when there is more of it."""

import importlib.util
from pathlib import Path

import pytest

from rephaze.errors import SpecError
from rephaze.study.sensitivity import KNOBS, knobs_of, study_sensitivity

_spec = importlib.util.spec_from_file_location(
    "search_cases", Path(__file__).parents[2] / "property" / "search_cases.py"
)
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)


def test_more_of_anything_never_hurts_and_less_never_helps():
    settings = search_cases.small_settings(3, "coarse")
    found = study_sensitivity(settings, factors=(0.5, 4.0))
    assert [one.knob for one in found.changes[::2]] == list(knobs_of(settings.scenario))
    for one in found.changes:
        if one.scale_factor > 1:
            assert one.gain_factor >= 1 - 1e-12, one.knob
        else:
            assert one.gain_factor <= 1 + 1e-12, one.knob
    assert any(one.gain_factor != 1 for one in found.changes)


@pytest.mark.parametrize("name", sorted(KNOBS))
def test_a_knob_changes_one_thing_and_back(name):
    scenario = search_cases.small_settings(3, "coarse").scenario
    assert KNOBS[name](scenario, 1.0) == scenario
    changed = KNOBS[name](scenario, 2.0)
    assert (changed != scenario) == (name in knobs_of(scenario))


def test_what_the_paper_fixes_is_no_knob():
    settings = search_cases.small_settings(3, "paper")
    assert knobs_of(settings.scenario) == ("outer-links", "area")
    with pytest.raises(SpecError, match="knob"):
        study_sensitivity(settings, knobs=("hbm",))
    with pytest.raises(SpecError, match="factor"):
        study_sensitivity(settings, factors=(0.0,))
