"""Choices, spaces and budgets check themselves."""

from dataclasses import fields

import pytest

from rephaze.errors import SpecError
from rephaze.types.system import SPEED_RULES, ClusterBudget, HbmChoice, SystemChoice, SystemSpace


def test_a_space_lists_every_system_once():
    space = SystemSpace(clock_hz=(1e9, 1.2e9), num_chips=(8, 16, 32))
    choices = space.choices()
    assert len(choices) == len(set(choices)) == space.num_choices == 6
    assert choices[1] == SystemChoice(clock_hz=1e9, num_chips=16)


def test_an_empty_space_is_the_scenario_as_it_is():
    assert SystemSpace().choices() == (SystemChoice(),)


def test_every_field_has_a_rule():
    names = [field.name for field in fields(SystemChoice)]
    assert list(SPEED_RULES) == names == [field.name for field in fields(SystemSpace)]


@pytest.mark.parametrize(
    ("record", "values"),
    [
        (SystemChoice, {"clock_hz": 1.05}),
        (SystemChoice, {"num_inside_links": 0}),
        (SystemChoice, {"num_outside_links": 1.5}),
        (SystemChoice, {"node_size": True}),
        (SystemChoice, {"num_chips": -1}),
        (SystemSpace, {"hbm": (HbmChoice(generation="hbm3", num_layers=8),) * 2}),
        (ClusterBudget, {"power_w": 0}),
        (ClusterBudget, {"cost_usd": float("nan")}),
        (ClusterBudget, {"silicon_mm2": "1"}),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(record, values):
    with pytest.raises(SpecError, match=f"^{next(iter(values))} is"):
        record(**values)


def test_a_budget_knows_whether_it_limits():
    assert not ClusterBudget().is_limited
    assert ClusterBudget(cost_usd=1).is_limited
