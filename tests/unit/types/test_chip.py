"""Chips as records and as columns say the same."""

import dataclasses

import numpy as np
import pytest

from rephaze.errors import SpecError
from rephaze.types.chip import Chip, ChipTable, chip_table
from rephaze.units import MIB

CHIP = Chip(
    name="mine",
    num_tensor_cores=3,
    tensor_width=4,
    tensor_depth=5,
    num_vector_cores=2,
    vector_lanes=7,
    tensor_scratchpad_bytes=2048,
    vector_scratchpad_bytes=1024,
    global_buffer_bytes=3 * MIB // 2,
    num_hbm_stacks=2,
    hbm_bytes=2**34,
    hbm_bytes_per_s=8.2e11,
    clock_hz=1e9,
    scratchpad_bytes_per_cycle=56.0,
    global_buffer_bytes_per_cycle=48.0,
    global_buffer_multicast=8,
)
OTHER = dataclasses.replace(CHIP, name="other", num_tensor_cores=1, hbm_bytes_per_s=4.1e11)


def test_what_follows_from_the_fields():
    assert CHIP.num_macs == 3 * 4 * 5
    assert CHIP.num_lanes == 2 * 7
    assert CHIP.peak_flops_per_s == 2 * 60 * 1e9
    assert CHIP.in_words == "3 x 4x5, 2 x 7 lanes, 1.5 MiB, 2 stacks"


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Chip) if field.name != "name"])
@pytest.mark.parametrize("value", [0, -1, True, "1", None, float("nan"), float("inf")])
def test_every_field_is_checked(field, value):
    with pytest.raises(SpecError, match=f"^{field} is "):
        dataclasses.replace(CHIP, **{field: value})


@pytest.mark.parametrize("clock_hz", [1.05, 1.05e6, 1.1e11])
def test_a_clock_in_another_unit_is_refused_with_the_fix(clock_hz):
    with pytest.raises(SpecError, match=r"give hertz, for example 1\.05e9"):
        dataclasses.replace(CHIP, clock_hz=clock_hz)


def test_a_table_has_a_column_for_every_field_but_the_name():
    table_fields = [field.name for field in dataclasses.fields(ChipTable)]
    assert ["name", *table_fields] == [field.name for field in dataclasses.fields(Chip)]


def test_a_chip_survives_the_table_with_types():
    table = chip_table([CHIP, OTHER])
    assert len(table) == 2
    found = table.chip(1, "other")
    assert found == OTHER
    for field in dataclasses.fields(Chip):
        assert type(getattr(found, field.name)) is type(getattr(OTHER, field.name))
    assert table.chip(0).name == "design-0"


def test_columns_follow_from_columns():
    table = chip_table([CHIP, OTHER])
    assert table.num_macs.tolist() == [60, 20]
    assert table.num_lanes.tolist() == [14, 14]


@pytest.mark.parametrize("index", [np.array([1, 0]), np.array([True, False]), slice(1, None)])
def test_chips_are_taken_in_the_order_asked(index):
    table, names = chip_table([CHIP, OTHER]), np.array(["mine", "other"])
    taken = table.take(index)
    assert [taken.chip(i, str(name)) for i, name in enumerate(names[index])] == [
        {"mine": CHIP, "other": OTHER}[name] for name in names[index]
    ]


def test_columns_of_different_lengths_are_our_own_mistake():
    table = chip_table([CHIP, OTHER])
    with pytest.raises(AssertionError, match="different lengths"):
        dataclasses.replace(table, clock_hz=table.clock_hz[:1])
