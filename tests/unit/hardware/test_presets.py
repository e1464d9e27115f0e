"""Known chips: stated values are kept, the others follow the default template, blanks are errors."""

import pytest

from rephaze.errors import SpecError
from rephaze.hardware.presets import (
    CHIP_FIELDS,
    DERIVED_FIELDS,
    FACT_FIELDS,
    STATED_FIELDS,
    complete_chip,
    find_preset,
    load_presets,
    preset_chip,
)
from rephaze.units import KIB, MIB

STATED = {
    "num_tensor_cores": 8,
    "tensor_width": 128,
    "tensor_depth": 128,
    "num_vector_cores": 2,
    "vector_lanes": 2048,
    "global_buffer_bytes": 128 * MIB,
    "num_hbm_stacks": 4,
    "hbm_bytes": 2**35,
    "hbm_bytes_per_s": 1.2e12,
    "clock_hz": 1.05e9,
}


def test_every_chip_field_is_either_stated_or_derived():
    assert set(STATED_FIELDS) | set(DERIVED_FIELDS) == set(CHIP_FIELDS)
    assert set(STATED) == set(STATED_FIELDS)


def test_what_is_not_stated_follows_the_default_template():
    chip = complete_chip("mine", STATED)
    assert (chip.tensor_scratchpad_bytes, chip.vector_scratchpad_bytes) == (256 * KIB, 32 * KIB)
    assert (chip.scratchpad_bytes_per_cycle, chip.global_buffer_bytes_per_cycle) == (128 * 12, 4096)
    assert chip.hbm_bytes == 2**35  # stated: not what four of the template's stacks hold


def test_a_stated_value_wins_over_the_template():
    chip = complete_chip("mine", STATED | {"tensor_scratchpad_bytes": 5000})
    assert chip.tensor_scratchpad_bytes == 5000
    assert chip.vector_scratchpad_bytes == 32 * KIB


def test_a_name_is_found_in_either_case():
    assert find_preset("TPUv4") is find_preset("tpuv4")
    assert preset_chip("H100").name == "h100"


def test_an_unknown_name_lists_the_known_and_proposes_one():
    with pytest.raises(
        SpecError, match=r"chip is 'h10': is not a preset; known are tpuv2, .*; did you mean 'h100'"
    ):
        find_preset("h10")


def test_families_stand_together_tpus_first():
    names = list(load_presets())
    assert names[:8] == ["tpuv2", "tpuv3", "tpuv4", "tpuv4i", "tpuv5e", "tpuv5p", "tpuv6e", "tpu7x"]
    assert names[8:16] == ["a100-40gb", "a100-80gb", "h100", "h200", "b200", "b300", "gb200", "gb300"]
    assert len(set(names)) == len(names)


def test_using_a_preset_with_blanks_names_each_of_them():
    blank = next(preset for preset in load_presets().values() if preset.blanks)
    with pytest.raises(SpecError) as caught:
        preset_chip(blank.name)
    assert all(field in str(caught.value) for field in blank.blanks)
    assert f'base = "{blank.name}"' in str(caught.value)


@pytest.mark.parametrize("name", [name for name, preset in load_presets().items() if not preset.blanks])
def test_a_chip_has_the_values_its_sources_give(name):
    preset, chip = find_preset(name), preset_chip(name)
    given = {field: value.value for field, value in preset.values.items() if field in CHIP_FIELDS}
    assert {field: getattr(chip, field) for field in given} == given


# What a run on many chips is priced by: every chip that people train on has it.
NEEDED_OF_CLUSTERS = {
    "peak_flops_per_s",
    "num_cores",
    "link_bytes_per_s",
    "link_topology",
    "num_node_chips",
    "network_bytes_per_s",
    "power_w",
}
UNPUBLISHED = {
    "tpuv2": {"network_bytes_per_s"},
    "tpuv3": {"network_bytes_per_s"},
    "tpuv4i": {"link_bytes_per_s", "link_topology", "num_node_chips", "network_bytes_per_s"},
    "tpuv5e": {"power_w"},
    "tpuv5p": {"power_w"},
    "tpuv6e": {"power_w"},
    "tpu7x": {"power_w"},
    "gaudi2": {"num_cores"},
    "gaudi3": {"num_cores"},
}


@pytest.mark.parametrize("name", load_presets())
def test_a_preset_has_known_names_only_and_what_a_cluster_needs(name):
    values = find_preset(name).values
    assert set(values) <= set(CHIP_FIELDS) | set(FACT_FIELDS)
    assert NEEDED_OF_CLUSTERS - set(values) == UNPUBLISHED.get(name, set())


@pytest.mark.parametrize("name", load_presets())
def test_facts_of_a_preset_agree_with_each_other(name):
    given = {field: value.value for field, value in find_preset(name).values.items()}
    peaks = [given.get(f"peak_{kind}flops_per_s") for kind in ("", "fp8_", "fp4_")]
    known = [peak for peak in peaks if peak is not None]
    assert known == sorted(known)
    assert given.get("usable_hbm_bytes", 0) <= given["hbm_bytes"]
    assert given.get("network_bytes_per_s", 0) < given.get("link_bytes_per_s", float("inf"))
    if "link_topology" in given:
        assert given["link_topology"] in ("switch", "all to all", "2d torus", "3d torus")
    if "torus" in given.get("link_topology", "") and "num_links" in given:
        assert given["num_links"] == 2 * int(given["link_topology"][0])
