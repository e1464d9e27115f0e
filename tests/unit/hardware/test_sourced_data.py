"""Every value that ships says how well it is known and from where."""

import numpy as np
import pytest

from rephaze.hardware.area import chip_area
from rephaze.hardware.presets import load_presets, preset_chip
from rephaze.hardware.sourced_data import SourcedValue, component_value, data_file
from rephaze.types.chip import chip_table
from rephaze.types.space import AreaModel

GRADES = set("ABCDP")


@pytest.mark.parametrize("model", list(AreaModel))
def test_every_component_has_a_grade_and_a_source(model):
    for name, entry in data_file("components.toml")[model].items():
        value = SourcedValue(**entry)
        assert value.grade in GRADES, name
        assert value.source, name
        assert value.value > 0, name


def test_every_memory_has_a_grade_and_a_source():
    for name, stack in data_file("memory.toml").items():
        assert stack["grade"] in GRADES, name
        assert stack["source"], name


def test_every_value_of_a_preset_has_a_grade_and_a_source():
    for preset in load_presets().values():
        for field, value in preset.values.items():
            assert value.grade in GRADES, (preset.name, field)
            assert value.source, (preset.name, field)


def test_a_component_is_a_float_of_its_model():
    paper, corrected = (component_value(model, "mac_pj") for model in AreaModel)
    assert isinstance(paper, np.float64)
    assert paper == data_file("components.toml")["paper"]["mac_pj"]["value"] != corrected


def test_a_component_or_file_that_is_not_there_is_our_own_mistake():
    with pytest.raises(KeyError):
        component_value("paper", "mac_joules")
    with pytest.raises(FileNotFoundError):
        data_file("nothing.toml")


def test_the_models_are_told_apart_by_the_enum():
    tpuv4 = chip_table([preset_chip("tpuv4")])
    paper, corrected = (chip_area(tpuv4, model).io_um2_c[0] for model in AreaModel)
    assert paper == 0 < corrected
