"""Chip files: presets as a base, and every bad field refused by name."""

import json

import pytest

from rephaze.errors import FileError, SpecError
from rephaze.hardware.chip_file import chip_from_mapping, load_chip
from rephaze.hardware.presets import STATED_FIELDS, load_presets, preset_chip

WHOLE = {
    "num_tensor_cores": 4,
    "tensor_width": 64,
    "tensor_depth": 32,
    "num_vector_cores": 2,
    "vector_lanes": 256,
    "global_buffer_bytes": 2**25,
    "num_hbm_stacks": 2,
    "hbm_bytes": 2**35,
    "hbm_bytes_per_s": 8.2e11,
    "clock_hz": 1.05e9,
}


def test_a_chip_file_gives_a_chip_with_the_templates_rules(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(WHOLE))
    chip = load_chip(str(path))
    assert chip.name == "mine"
    assert chip.tensor_scratchpad_bytes == 16 * 64 * 32
    assert chip.global_buffer_bytes_per_cycle == 32 * 32
    assert chip.peak_flops_per_s == 2 * 4 * 64 * 32 * 1.05e9


def test_a_preset_as_base_is_changed_only_where_the_file_says(tmp_path):
    path = tmp_path / "fast.toml"
    path.write_text('base = "tpuv4"\nclock_hz = 1_200_000_000\n')
    chip, base = load_chip(str(path)), preset_chip("tpuv4")
    assert chip.clock_hz == 1.2e9
    assert chip.vector_lanes == base.vector_lanes == 2048


@pytest.mark.parametrize("field", [f for f in STATED_FIELDS if f not in ("hbm_bytes_per_s", "clock_hz")])
@pytest.mark.parametrize("value", [-1, 0, 1.5, "8", True, None, float("nan"), 10**30])
def test_counts_that_are_no_counts_are_refused_by_name(field, value):
    with pytest.raises(SpecError, match=f"chip.toml: {field} is "):
        chip_from_mapping(WHOLE | {field: value}, default_name="x", source="chip.toml")


@pytest.mark.parametrize("field", ["hbm_bytes_per_s", "clock_hz"])
@pytest.mark.parametrize("value", [-1.0, 0, "fast", True, None, float("nan"), float("inf"), 1e30])
def test_rates_that_are_no_rates_are_refused_by_name(field, value):
    with pytest.raises(SpecError, match=f"chip.toml: {field} is "):
        chip_from_mapping(WHOLE | {field: value}, default_name="x", source="chip.toml")


def test_a_clock_in_kilohertz_is_refused_with_the_fix():
    with pytest.raises(SpecError, match=r"clock_hz is 1050000.0: must be at least 1e\+07.*give hertz"):
        chip_from_mapping(WHOLE | {"clock_hz": 1.05e6}, default_name="x")


def test_a_missing_field_is_named_with_its_fellows():
    data = {k: v for k, v in WHOLE.items() if k not in ("clock_hz", "hbm_bytes")}
    with pytest.raises(SpecError, match=r"hbm_bytes is None: is required and missing \(so are clock_hz\)"):
        chip_from_mapping(data, default_name="x")


def test_an_unknown_field_is_named_with_the_nearest_known():
    with pytest.raises(SpecError, match=r"clock_ghz is 1.05: is not a field of a chip; did you mean 'clock_hz'"):
        chip_from_mapping(WHOLE | {"clock_ghz": 1.05}, default_name="x")


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "not valid JSON"), ("[]", "must hold a JSON object"), ('{"clock_hz": NaN}', "clock_hz is nan")],
)
def test_a_file_that_is_no_chip_is_refused_in_one_line(tmp_path, text, said):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(FileError, match=said) as caught:
        load_chip(str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_an_unknown_preset():
    with pytest.raises(FileError, match="no such file"):
        load_chip("nowhere/chip.toml")
    with pytest.raises(SpecError, match="did you mean 'tpuv4'"):
        load_chip("tpu4")


def test_a_blank_value_stays_blank_and_using_it_says_so():
    with pytest.raises(SpecError, match=r"trainium2.vector_lanes is None: no source gives .*base = "):
        preset_chip("trainium2")


def test_presets_cover_the_known_chips_and_agree_with_their_peak():
    presets = load_presets()
    assert len(presets) == 23
    for name, preset in presets.items():
        for value in preset.values.values():
            assert value.grade in "ABCDP"
            assert value.source
        if not preset.blanks:
            peak = preset_chip(name).peak_flops_per_s
            assert peak == pytest.approx(preset.values["peak_flops_per_s"].value, rel=0.004)
