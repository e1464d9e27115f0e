"""A design space refuses lists and limits that mean nothing."""

import dataclasses
import math

import pytest

from rephaze.errors import SpecError
from rephaze.types.space import AreaModel, DesignSpace, Template

TEMPLATE = Template(
    clock_hz=1e9,
    scratchpad_bytes_per_pe=16,
    min_scratchpad_bytes=1024,
    scratchpad_bytes_per_cycle=None,
    buffer_bytes_per_cycle=None,
    buffer_bytes_per_cycle_per_mib=32.0,
    buffer_multicast=8,
    hbm_stack_bytes=2**34,
    hbm_stack_bytes_per_s=4e11,
)
SPACE = DesignSpace(
    num_tensor_cores=(1, 2),
    tensor_width=(8,),
    tensor_depth=(8,),
    num_vector_cores=(1,),
    vector_lanes=None,
    global_buffer_bytes=(2**20,),
    num_hbm_stacks=(1,),
    hbm_bytes_options=(),
    template=TEMPLATE,
    area_model=AreaModel.PAPER,
    area_limit_um2=1e8,
    area_floor_um2=0.0,
)
LISTS = [field.name for field in dataclasses.fields(DesignSpace) if isinstance(getattr(SPACE, field.name), tuple)]
LISTS.remove("constraints")


@pytest.mark.parametrize("field", [*LISTS, "vector_lanes"])
@pytest.mark.parametrize(
    ("values", "said"), [((0,), "is 0: must be from 1"), ((1.5,), "whole number"), ((4, 4), "lists a value twice")]
)
def test_every_list_is_checked(field, values, said):
    with pytest.raises(SpecError, match=f"^{field} .*{said}"):
        dataclasses.replace(SPACE, **{field: values})


@pytest.mark.parametrize("field", [*(name for name in LISTS if name != "hbm_bytes_options"), "vector_lanes"])
def test_an_empty_list_leaves_nothing_to_build(field):
    with pytest.raises(SpecError, match=f"^{field} is .*must list at least one value"):
        dataclasses.replace(SPACE, **{field: ()})


def test_memory_options_may_be_empty_and_power_unlimited():
    assert SPACE.hbm_bytes_options == ()
    assert math.isinf(SPACE.power_limit_w)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"area_limit_um2": 0.0}, "area_limit_um2 is 0.0.*1 mm.2 is 1e6"),
        ({"area_limit_um2": math.inf}, "area_limit_um2 is inf: must be finite"),
        ({"area_floor_um2": -1.0}, "area_floor_um2 is -1.0"),
        ({"area_floor_um2": 2e8}, r"area_floor_um2 is 200000000.0: .*at most 1e\+08"),
    ],
)
def test_limits_that_keep_nothing_are_refused(changes, said):
    with pytest.raises(SpecError, match=said):
        dataclasses.replace(SPACE, **changes)
