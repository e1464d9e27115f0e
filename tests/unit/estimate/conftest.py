"""A chip and energies in round numbers, for costs worked by hand."""

from dataclasses import fields

import numpy as np
import pytest

from rephaze.estimate.costs import ChipRates, chip_rates
from rephaze.types.chip import Chip, chip_table
from rephaze.types.energy import AccessEnergy

JOULES = {
    "mac_j_c": 1.0,
    "lane_op_j_c": 2.0,
    "register_j_per_byte_c": 0.5,
    "tensor_scratchpad_j_per_byte_c": 3.0,
    "vector_scratchpad_j_per_byte_c": 5.0,
    "global_buffer_j_per_byte_c": 7.0,
    "hbm_j_per_byte_c": 11.0,
    "link_j_per_byte_c": 13.0,
    "idle_w_c": 0.0,
}


@pytest.fixture
def chip() -> Chip:
    """HBM gives 100 B a cycle, the global buffer 400."""
    return Chip(
        name="round",
        num_tensor_cores=2,
        tensor_width=4,
        tensor_depth=8,
        num_vector_cores=2,
        vector_lanes=16,
        tensor_scratchpad_bytes=4096,
        vector_scratchpad_bytes=4096,
        global_buffer_bytes=65536,
        num_hbm_stacks=1,
        hbm_bytes=2**30,
        hbm_bytes_per_s=1e11,
        clock_hz=1e9,
        scratchpad_bytes_per_cycle=80.0,
        global_buffer_bytes_per_cycle=400.0,
        global_buffer_multicast=2,
    )


@pytest.fixture
def energy_of():
    """Energies of so many chips, all alike, in joules or a smaller unit."""

    def energies(num_chips: int, unit_j: float = 1.0) -> AccessEnergy:
        names = [field.name for field in fields(AccessEnergy)]
        return AccessEnergy(**{name: np.full(num_chips, unit_j * JOULES[name]) for name in names})

    return energies


@pytest.fixture
def rates(chip, energy_of) -> ChipRates:
    return chip_rates(chip_table([chip]), energy_of(1))
