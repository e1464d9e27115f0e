"""Cost against the published worked examples; energy against the paper's power."""

import numpy as np
import pytest

from rephaze.errors import SpecError
from rephaze.hardware.cost import chip_cost
from rephaze.hardware.energy import access_energy, full_power, paper_sram_pj
from rephaze.hardware.presets import preset_chip
from rephaze.types.chip import chip_table
from rephaze.types.space import AreaModel
from rephaze.units import GIB, KIB, MIB


@pytest.mark.parametrize(
    ("area_mm2", "node_nm", "dies", "good", "usd"),
    [(278.8, 7, 193, 0.780, 62), (826, 7, 57, 0.488, 338), (814, 5, 58, 0.424, 695)],
)
def test_die_cost_of_three_worked_dies(area_mm2, node_nm, dies, good, usd):
    cost = chip_cost(np.array([area_mm2 * 1e6]), np.array([0]), node_nm)
    assert round(cost.dies_per_wafer_c[0]) == dies
    assert cost.yield_fraction_c[0] == pytest.approx(good, abs=5e-4)
    assert cost.die_usd_c[0] == pytest.approx(usd, rel=0.01)


def test_memory_cost():
    cost = chip_cost(np.array([300e6]), np.array([32 * GIB]))
    assert cost.hbm_usd_c[0] == 32 * 7
    assert cost.total_usd_c[0] == cost.die_usd_c[0] + cost.hbm_usd_c[0]


def test_a_die_larger_than_the_wafer_costs_infinitely_much():
    assert chip_cost(np.array([7e10]), np.array([0])).die_usd_c[0] == np.inf


def test_an_unknown_node_is_refused_by_name():
    with pytest.raises(SpecError, match=r"node_nm is 6: must be one of 3, 5, 7"):
        chip_cost(np.array([1e8]), np.array([0]), 6)


def test_the_papers_multipliers_draw_what_it_says():
    tpuv4 = chip_table([preset_chip("tpuv4")])
    assert full_power(tpuv4, AreaModel.PAPER).arrays_w_c[0] == pytest.approx(129.1, abs=0.1)


def test_the_papers_sram_energies_as_accelergy_prints_them():
    found = paper_sram_pj(np.array([KIB, 256 * KIB, 2 * MIB, 128 * MIB]))
    assert found == pytest.approx([2.508614, 14.352644, 36.422294, 316.129794], rel=1e-6)


def test_corrected_energies_are_ordered_as_the_memory_hierarchy_is():
    energy = access_energy(chip_table([preset_chip("tpuv4")]), AreaModel.CORRECTED)
    register, scratchpad = energy.register_j_per_byte_c[0], energy.tensor_scratchpad_j_per_byte_c[0]
    assert register < scratchpad < energy.global_buffer_j_per_byte_c[0] < energy.hbm_j_per_byte_c[0]
    assert energy.idle_w_c[0] == pytest.approx(90)
