"""The sections ``[system]`` and ``[budget]``."""

import math
import tomllib
from pathlib import Path

import pytest

from rephaze.errors import SpecError
from rephaze.hardware.system_file import only_system, read_system
from rephaze.types.system import ClusterBudget, HbmChoice, SystemChoice, SystemSpace

EXAMPLES = Path(__file__).parents[3] / "examples"


def read(text):
    return read_system(tomllib.loads(text), "mine.toml")


def test_the_example_says_what_it_should():
    space, budget = read((EXAMPLES / "system.toml").read_text())
    assert space.clock_hz == pytest.approx((0.85e9, 1.05e9, 1.25e9, 1.45e9, 1.65e9))
    assert [str(choice) for choice in space.hbm] == ["hbm2e, 8 high", "hbm3e, 8 high", "hbm3e, 12 high"]
    assert space.num_inside_links == (6, 12, 18)
    assert space.num_outside_links == (1, 2)
    assert space.node_size == (8, 64)
    assert space.num_chips == (256, 512, 1024, 2048, 4096)
    assert space.num_choices == 5 * 3 * 3 * 2 * 2 * 5 == len(space.choices())
    assert budget == ClusterBudget(power_w=2e6, cost_usd=50e6, silicon_mm2=1e6)


def test_nothing_said_is_the_scenario_without_limits():
    assert read("") == (SystemSpace(), ClusterBudget())
    assert math.isinf(read("[budget]\nusd = 1.0")[1].power_w)


def test_heights_not_listed_are_all_that_are_made():
    assert read('[system]\nhbm = ["hbm3"]')[0].hbm == tuple(
        HbmChoice(generation="hbm3", num_layers=layers) for layers in (8, 12)
    )


def test_a_range_of_clocks_meets_its_end():
    clocks = read("[system]\nclock_hz = { from = 0.9e9, to = 1.5e9, step = 0.1e9 }")[0].clock_hz
    assert len(clocks) == 7
    assert clocks[-1] == 1.5e9
    assert read("[system]\nclock_hz = { from = 1e9, to = 1.25e9, step = 0.1e9 }")[0].clock_hz[-1] == 1.2e9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[system]\nclok_hz = [1e9]", "system.clok_hz is"),
        ('[system]\nclock_hz = ["1e9"]', "system.clock_hz"),
        ("[system]\nclock_hz = [1.05]", "system.clock_hz is 1.05: must be at least 4e\\+08"),
        ("[system]\nclock_hz = []", "system.clock_hz is .*at least one value; leave clock_hz out"),
        ("[system]\nclock_hz = { from = 1e9, to = 0.5e9, step = 1e8 }", "system.clock_hz.*must grow"),
        ("[system]\nclock_hz = { from = 0.5e9, to = 1.5e9, step = 1.0 }", "system.clock_hz.*over 1000 values"),
        ('[system]\nhbm = ["hbm9"]', "system.hbm is 'hbm9': must be one of hbm2e, hbm3, hbm3e, hbm4"),
        ('[system]\nhbm = ["hbm2e"]\nhbm_layers = [16]', "system.hbm_layers is .*hbm2e is made with 4, 8 layers"),
        ('[system]\nhbm = ["hbm3e"]\nhbm_layers = [8, 9]', "system.hbm_layers is 9: none of hbm3e"),
        ("[system]\nhbm_layers = [8]", "system.hbm_layers is .*needs hbm"),
        ('[system]\nhbm = ["hbm3", "hbm3"]', "system.hbm is .*lists a value twice"),
        ("[system]\nnum_inside_links = [0]", "system.num_inside_links is 0"),
        ("[system]\nnode_size = [8, 8]", "system.node_size is .*lists a value twice"),
        ("[system]\nnum_chips = { from = 0, to = 8, step = 1 }", "system.num_chips.*must start at 1 or more"),
        ("[budget]\npower_w = 0.0", "budget.power_w is 0.0"),
        ('[budget]\nusd = "50"', "budget.usd is '50'"),
        ("[budget]\nsilicon_mm2 = -1.0", "budget.silicon_mm2 is -1.0"),
        ("[budget]\nwatt = 1.0", "budget.watt is"),
        ("[budget]\nusd = nan", "budget.usd is nan"),
    ],
)
def test_what_is_wrong_is_named(text, said):
    with pytest.raises(SpecError, match=f"^mine.toml: {said}"):
        read(text)


def test_the_example_of_one_system_has_one():
    space, budget = read((EXAMPLES / "one-system.toml").read_text())
    assert only_system(space) == SystemChoice(
        clock_hz=1.2e9,
        hbm=HbmChoice(generation="hbm3e", num_layers=12),
        num_inside_links=18,
        num_outside_links=2,
        node_size=64,
    )
    assert budget == ClusterBudget(power_w=2e6, cost_usd=50e6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[system]\nnode_size = [8, 64]",
            r"mine.toml: system.node_size is \[8, 64\]: has 2 values.*; give one value",
        ),
        ('[system]\nhbm = ["hbm3"]', "mine.toml: system.hbm is .*hbm3, 8 high.*hbm_layers one value each"),
    ],
)
def test_more_than_one_system_is_refused_by_its_field(text, said):
    with pytest.raises(SpecError, match=f"^{said}"):
        only_system(read(text)[0], "mine.toml")
