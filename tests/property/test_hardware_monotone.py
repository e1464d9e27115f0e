"""Adding a resource never shrinks area, power or cost."""

from dataclasses import asdict, fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.hardware.area import chip_area
from rephaze.hardware.cost import chip_cost
from rephaze.hardware.energy import access_energy, full_power
from rephaze.types.chip import Chip, chip_table
from rephaze.types.energy import AccessEnergy
from rephaze.types.space import AreaModel

RESOURCES = [field.name for field in fields(Chip) if field.name not in ("name", "global_buffer_multicast")]

counts = st.integers(1, 512)
chips = st.builds(
    Chip,
    name=st.just("any"),
    num_tensor_cores=counts,
    tensor_width=counts,
    tensor_depth=counts,
    num_vector_cores=counts,
    vector_lanes=counts,
    tensor_scratchpad_bytes=st.integers(512, 2**24),
    vector_scratchpad_bytes=st.integers(512, 2**24),
    global_buffer_bytes=st.integers(2**16, 2**29),
    num_hbm_stacks=st.integers(1, 12),
    hbm_bytes=st.integers(2**30, 2**38),
    hbm_bytes_per_s=st.floats(1e9, 1e13),
    clock_hz=st.floats(1e8, 3e9),
    scratchpad_bytes_per_cycle=st.floats(1, 1e5),
    global_buffer_bytes_per_cycle=st.floats(1, 1e5),
    global_buffer_multicast=st.integers(1, 64),
)


@pytest.mark.parametrize("model", list(AreaModel))
@given(chip=chips, resource=st.sampled_from(RESOURCES), factor=st.floats(1.0, 4.0))
@settings(max_examples=150, deadline=None)
def test_area_power_and_cost_never_fall_when_a_resource_grows(model, chip, resource, factor):
    value = getattr(chip, resource)
    grown = type(value)(max(value, value * factor))
    larger = Chip(**(asdict(chip) | {resource: min(grown, 2**38) if resource == "hbm_bytes" else grown}))
    both = chip_table([chip, larger])
    area = chip_area(both, model).total_um2_c
    assert area[1] >= area[0] * (1 - 1e-12)
    power = full_power(both, model).total_w_c
    assert power[1] >= power[0] * (1 - 1e-12)
    cost = chip_cost(area, both.hbm_bytes).total_usd_c
    assert cost[1] >= cost[0] * (1 - 1e-12)
    energy = access_energy(both, model)
    for field in fields(AccessEnergy):
        low, high = getattr(energy, field.name)
        assert high >= low * (1 - 1e-12)


@given(chip=chips, resource=st.sampled_from(["num_tensor_cores", "vector_lanes", "num_hbm_stacks"]))
@settings(max_examples=50, deadline=None)
def test_a_resource_that_takes_silicon_takes_more_when_doubled(chip, resource):
    larger = Chip(**(asdict(chip) | {resource: 2 * getattr(chip, resource)}))
    area = chip_area(chip_table([chip, larger]), AreaModel.CORRECTED).total_um2_c
    assert area[1] > area[0]
