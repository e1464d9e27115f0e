"""Grades of a bill: what is said to enter an item does, and no placeholder enters unsaid."""

import pytest

from rephaze.hardware.bill_grades import GRADES, item_grades, item_values
from rephaze.hardware.cluster_bill import cluster_bill
from rephaze.hardware.hbm import TODAYS_HBM, hbm_stack
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.sourced_data import data_file
from rephaze.hardware.system import system_chip
from rephaze.hardware.system_chips import System, same_system
from rephaze.types.chip import chip_table
from rephaze.types.system import HbmChoice, SystemChoice

# The clock, the stacks, links inside, ports, the size of a node: over a board, cables and optics.
CASES = {
    "board": (1.05e9, TODAYS_HBM, 12, 1, 8),
    "cables": (1.4e9, HbmChoice(generation="hbm3e", num_layers=16), 18, 2, 64),
    "optics": (0.9e9, HbmChoice(generation="hbm4", num_layers=4), 6, 4, 512),
    "no links": (1.05e9, TODAYS_HBM, 0, 1, 1),
}
FILES = ("cluster", "links", "memory", "components", "clock")


def billed(case):
    """By item, the amount."""
    clock_hz, hbm, *_ = CASES[case]
    hbm_stack.cache_clear()
    own = preset_chip("tpuv4")
    chips = chip_table([system_chip(own, SystemChoice(clock_hz=clock_hz, hbm=hbm))])
    bill = cluster_bill(chips, same_system(arguments(case)["system"], 1), own.clock_hz)
    return {name: float(getattr(bill, f"{name}_c")[0]) for name in values_of(case)}


def arguments(case):
    clock_hz, hbm, num_inside, num_outside, node_size = CASES[case]
    system = System(
        hbm=hbm_stack(hbm),
        num_inside_links=num_inside,
        num_outside_links=num_outside,
        node_size=node_size,
        num_chips=1024,
    )
    return {"hbm": hbm, "system": system, "is_clock_changed": clock_hz != 1.05e9, "is_power_given": False}


def values_of(case):
    return item_values(**arguments(case))


def entries(tree, path):
    """Every value with a grade, by its name."""
    if "value" in tree and "grade" in tree:
        yield path, tree
    for key, below in tree.items():
        if isinstance(below, dict):
            yield from entries(below, f"{path}.{key}")


KNOWN = {name: entry for file in FILES for name, entry in entries(data_file(f"{file}.toml"), file)}


@pytest.fixture(autouse=True)
def _fresh_stacks():
    yield
    hbm_stack.cache_clear()


@pytest.mark.parametrize("case", CASES)
def test_every_value_that_an_item_is_said_to_take_changes_it(case, monkeypatch):
    before = billed(case)
    for item, names in values_of(case).items():
        for name in names:
            if name in KNOWN:
                with monkeypatch.context() as patch:
                    patch.setitem(KNOWN[name], "value", KNOWN[name]["value"] * 0.25)
                    assert billed(case)[item] != before[item], name


@pytest.mark.parametrize("case", CASES)
def test_a_placeholder_is_named_if_and_only_if_it_enters(case, monkeypatch):
    before = billed(case)
    entering = set()
    for name, entry in KNOWN.items():
        if entry["grade"] == "P":
            with monkeypatch.context() as patch:
                patch.setitem(entry, "value", entry["value"] * 0.25)
                if billed(case) != before:
                    entering.add(name.partition(".")[2])
    grades = item_grades(**arguments(case))
    assert entering == {name for one in grades.values() for name in one.placeholders}
    assert "host_w" in entering


def test_an_item_has_the_weakest_grade_of_its_values():
    for item, names in values_of("cables").items():
        known = [KNOWN[name]["grade"] for name in names if name in KNOWN]
        weakest = item_grades(**arguments("cables"))[item].weakest
        assert weakest == (max(known, key=GRADES.index) if known else ""), item


def test_power_that_is_given_has_no_grade():
    assert item_grades(**(arguments("board") | {"is_power_given": True}))["chips_w"].weakest == ""
