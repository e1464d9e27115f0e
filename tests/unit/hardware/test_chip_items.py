"""A chip's silicon item by item: nothing lost, nothing counted twice."""

import pytest

from rephaze.hardware.area import chip_area, chip_items
from rephaze.hardware.assumptions import scenario_assumptions
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.types.assumption import GRADES
from rephaze.types.chip import chip_table
from rephaze.types.space import AreaModel


@pytest.mark.parametrize("model", list(AreaModel))
@pytest.mark.parametrize("name", ["tpuv4", "h100", "tpuv2"])
def test_items_add_up_to_the_area(name, model):
    chip = preset_chip(name)
    items = chip_items(chip, model)
    assert items.total_um2 == pytest.approx(float(chip_area(chip_table([chip]), model).total_um2_c[0]), rel=1e-12)
    has_io = model is AreaModel.CORRECTED
    assert (items.hbm_um2 > 0, items.links_um2 > 0) == (has_io, has_io)
    assert min(items.arrays_um2, items.tensor_scratchpads_um2, items.lanes_um2, items.vector_scratchpads_um2) > 0


@pytest.mark.parametrize("name", ["default", "coarse", "paper"])
def test_every_assumption_has_a_value_and_a_source(name):
    scenario = load_scenario(name)
    found = scenario_assumptions(scenario)
    assert {one.grade for one in found} <= {*GRADES, ""}
    assert all(one.value and one.source for one in found)
    groups = {one.group for one in found}
    assert {
        "cluster",
        "training",
        "cost",
        "Google TPU v4",
        f"silicon, {scenario.space.area_model} model",
    } <= groups
    assert len({(one.group, one.name) for one in found}) == len(found)
    limits = [one for one in found if one.name == "num_devices"]
    assert limits[0].value == f"{scenario.cluster.num_devices:,}"
