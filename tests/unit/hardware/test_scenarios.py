"""Scenarios from files: ranges, limits, templates; every section's finding names its place."""

import pytest

from rephaze.errors import FileError, SpecError
from rephaze.hardware.area import chip_area
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import SCENARIOS, Range, load_scenario, scenario_from_mapping, scenario_mapping
from rephaze.types.chip import chip_table
from rephaze.types.graph import AttentionKind
from rephaze.types.placement import Optimizer, PlacementModel, PrecisionName, Recompute
from rephaze.types.scenario import EstimateModelName
from rephaze.types.schedule import Exclusion
from rephaze.types.space import AreaModel
from rephaze.units import GIB, MIB


def changed(section, **fields):
    """The default scenario with some fields of a section replaced; None takes one away."""
    data = scenario_mapping("default")
    merged = data[section] | fields
    data[section] = {field: value for field, value in merged.items() if value is not None}
    return data


def read(data):
    return scenario_from_mapping(data, name="mine", source="mine.toml")


def test_scenarios_hold_enums():
    found, default = load_scenario("coarse"), load_scenario("default")
    assert found.estimate_model is default.estimate_model is EstimateModelName.DEFAULT
    assert found.placement_model is PlacementModel.ONE_F_ONE_B
    assert default.placement_model is PlacementModel.FULL
    assert found.all_cores_excludes is Exclusion.ENGINE
    assert found.attention is AttentionKind.FUSED
    assert found.space.area_model is AreaModel.CORRECTED
    training = found.training
    assert (training.optimizer, training.precision) == (Optimizer.ADAM, PrecisionName.MIXED)
    assert [type(mode) for mode in training.recompute] == [Recompute] * 3


def test_the_papers_scenario_is_the_papers_throughout():
    found = load_scenario("paper")
    assert found.estimate_model is EstimateModelName.PAPER
    assert found.placement_model is PlacementModel.PAPER
    assert found.all_cores_excludes is Exclusion.CHIP
    assert found.attention is AttentionKind.EAGER
    assert found.space.area_model is AreaModel.PAPER
    assert found.training.precision is PrecisionName.PAPER
    assert found.training.recompute == (Recompute.NONE, Recompute.STAGE)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"from": 1, "to": 8, "times": 2}, (1, 2, 4, 8)),
        ({"from": 3, "to": 26, "times": 3}, (3, 9)),
        ({"from": 2, "to": 7, "step": 2}, (2, 4, 6)),
        ({"from": 5, "to": 5, "step": 1}, (5,)),
    ],
)
def test_a_range_ends_within_its_end(given, values):
    assert Range(**given).values() == values


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"from": 1, "to": 8}, "needs step or times: how it grows; add step = 1"),
        ({"from": 1, "to": 8, "times": 2, "step": 2}, "has both step and times; keep one of them"),
        ({"from": 0, "to": 8, "times": 2}, "must start at 1 or more; set from = 1"),
        ({"from": 8, "to": 1, "times": 2}, "must not end below its start; set to = 8 or more"),
        ({"from": 1, "to": 8, "times": 1}, "needs times of at least 2; set times = 2, or step"),  # would never end
        ({"from": 1, "to": 8, "step": -1}, "needs a step of at least 1; set step = 1"),
        ({"from": 1, "to": 8, "step": 0}, "needs a step of at least 1; set step = 1"),
        ({"from": 1, "to": 10**12, "step": 1}, "has over 65,536 values; take larger steps"),
        (4, "must be a list of numbers or a range; for example"),
    ],
)
def test_a_range_that_is_none_is_refused_at_its_field(given, said):
    with pytest.raises(SpecError, match=rf"^mine.toml: space.tensor_width is .*: {said}"):
        read(changed("space", tensor_width=given))


def test_sizes_are_read_in_their_units():
    space = read(changed("space", global_buffer_mib=[3, 24], hbm_gib_options=[8])).space
    assert space.global_buffer_bytes == (3 * MIB, 24 * MIB)
    assert space.hbm_bytes_options == (8 * GIB,)


def test_clock_and_memory_change_the_template():
    template = read(changed("space", clock_hz=2e9, hbm="hbm3e")).space.template
    assert (template.clock_hz, template.hbm_stack_bytes) == (2e9, 24 * GIB)
    assert template.hbm_stack_bytes_per_s == 1200e9


def test_the_limit_may_be_an_area_a_chip_or_a_design():
    tpuv4_um2 = chip_area(chip_table([preset_chip("tpuv4")]), AreaModel.CORRECTED).total_um2_c[0]
    by_chip = read(changed("space", area_floor_fraction=0.5)).space
    assert (by_chip.area_limit_um2, by_chip.area_floor_um2) == (tpuv4_um2, 0.5 * tpuv4_um2)
    by_area = read(changed("space", area_limit_chip=None, area_limit_um2=1e8)).space
    assert by_area.area_limit_um2 == 1e8
    # The paper gives its limit as a design; its area is published.
    assert load_scenario("paper").space.area_limit_um2 == pytest.approx(278_826_676.31, abs=0.01)


@pytest.mark.parametrize(
    ("section", "fields", "said"),
    [
        ("space", {"area_limit_chip": None}, "space.area_limit_um2 is None: exactly one of"),
        ("space", {"area_limit_um2": 1e8}, "space.area_limit_um2 is 100000000.0: exactly one of"),
        ("space", {"area_limit_chip": "tpu4"}, "space.area_limit_chip: chip is 'tpu4'.*did you mean 'tpuv4'"),
        ("space", {"area_floor_fraction": 1.5}, "space.area_floor_fraction is 1.5"),
        ("space", {"power_limit_w": 0.0}, "space.power_limit_w is 0.0"),
        ("space", {"num_tensor_cores": "8"}, "space.num_tensor_cores is '8'"),
        ("cluster", {"num_devices": 2048}, r"cluster.levels is \[8, 1024\]: the outermost level must reach all"),
        ("cluster", {"levels": [{"num_devices": 8}]}, "cluster.levels.0.bytes_per_s is None: is required"),
        ("training", {"microbatches": []}, r"training.microbatches is \[\]: must list at least one value"),
        ("training", {"tp_degrees": [2, 0]}, "training.tp_degrees is 0"),
        ("training", {"recompute": []}, "training.recompute is .*at least one of none, block, stage"),
        ("training", {"global_batch": 0}, "training.global_batch is 0"),
        ("training", {"global_batch": "64"}, "training.global_batch is '64'"),
    ],
)
def test_a_finding_names_file_section_and_field(section, fields, said):
    with pytest.raises(SpecError, match=f"^mine.toml: {said}"):
        read(changed(section, **fields))


def test_a_file_is_named_after_its_stem(tmp_path):
    text = "\n".join(
        f'{field} = "{value}"' for field, value in scenario_mapping("paper").items() if isinstance(value, str)
    )
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(SpecError, match=r"^mine.toml: space is None: is required and missing \(and 2 more\)"):
        load_scenario(str(tmp_path / "mine.toml"))


def test_what_is_no_scenario_is_refused():
    with pytest.raises(
        SpecError, match="scenario is 'defualt': must be one of default, coarse, paper; did you mean 'default'"
    ):
        load_scenario("defualt")
    with pytest.raises(FileError, match="no such file"):
        load_scenario("nowhere.toml")


def test_a_mapping_may_be_changed_without_changing_the_next_ones():
    for name in SCENARIOS:
        scenario_mapping(name)["training"]["optimizer"] = "lion"
        assert load_scenario(name).training.optimizer in Optimizer
