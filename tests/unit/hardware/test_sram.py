"""SRAM of any size from CACTI's table: exact at its sizes, a power law between and beyond them."""

import numpy as np
import pytest

from rephaze.hardware.sourced_data import data_file
from rephaze.hardware.sram import banked_um2, sram_read_pj, sram_um2
from rephaze.units import KIB, MIB

TABLE = np.array(data_file("components.toml")["sram"]["table"])


def test_every_row_of_the_table_comes_back_to_the_bit():
    assert sram_um2(TABLE[:, 0]).tolist() == TABLE[:, 1].tolist()
    assert sram_read_pj(TABLE[:, 0]).tolist() == TABLE[:, 2].tolist()


@pytest.mark.parametrize("value_of", [sram_um2, sram_read_pj])
def test_between_two_sizes_the_geometric_mean_is_at_the_geometric_mean(value_of):
    low, high = value_of(np.array([KIB, 4 * KIB])), value_of(np.array([2 * KIB, 8 * KIB]))
    middle = value_of(np.array([KIB, 4 * KIB]) * np.sqrt(2))
    assert middle == pytest.approx(np.sqrt(low * high), rel=1e-12)


def test_beyond_the_ends_the_nearest_slope_goes_on():
    first, second, before_last, last = sram_um2(np.array([KIB, 2 * KIB, 64 * MIB, 128 * MIB]))
    assert sram_um2(np.array([KIB // 2]))[0] == pytest.approx(first * first / second, rel=1e-12)
    assert sram_um2(np.array([256 * MIB]))[0] == pytest.approx(last * last / before_last, rel=1e-12)


def test_one_bank_is_no_smaller_than_the_table_and_is_it_where_density_falls():
    # CACTI's density rises from 128 to 256 KiB: there the smaller memory is charged the larger one's.
    sizes, areas = TABLE[:, 0], TABLE[:, 1]
    banked = banked_um2(sizes, np.ones(len(sizes)))
    assert (banked >= areas * (1 - 1e-12)).all()
    assert banked[-1] == pytest.approx(areas[-1], rel=1e-12)
    is_raised = banked > areas * (1 + 1e-9)
    assert 128 * KIB in sizes[is_raised]
    assert not is_raised.all()


def test_banks_divide_the_memory():
    by_four = banked_um2(np.array([MIB]), np.array([4]))
    assert by_four == pytest.approx(4 * banked_um2(np.array([MIB // 4]), np.array([1])), rel=1e-12)
