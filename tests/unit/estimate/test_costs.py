"""Rates and the roundings of costs, by hand."""

import numpy as np
import pytest

from rephaze.estimate.costs import bounded_by_memory, chip_rates, share_of
from rephaze.estimate.ticks import whole_cycles
from rephaze.types.chip import chip_table
from rephaze.types.latency import IMPOSSIBLE_CYCLES


@pytest.mark.parametrize(("share", "hbm", "buffer", "one_core"), [(1.0, 100, 400, 50), (0.25, 25, 100, 25)])
def test_one_vector_core_draws_at_most_half_of_the_hbm_bandwidth(chip, energy_of, share, hbm, buffer, one_core):
    rates = chip_rates(chip_table([chip]), energy_of(1), share)
    assert rates.hbm_bytes_per_cycle_c.tolist() == [hbm]
    assert rates.buffer_bytes_per_cycle_c.tolist() == [buffer]
    assert rates.one_core_hbm_bytes_per_cycle_c.tolist() == [one_core]


@pytest.mark.parametrize(("hbm", "buffer", "expected"), [(400, 1600, 5), (1000, 1600, 10), (400, 8000, 20)])
def test_the_slowest_of_work_hbm_and_buffer_decides(rates, hbm, buffer, expected):
    assert bounded_by_memory(*(np.array([float(x)]) for x in (5, hbm, buffer)), rates).tolist() == [expected]


def test_cycles_are_rounded_up_but_not_by_a_rounding_error():
    cycles = whole_cycles(np.array([0.0, 3.0, 3.2, 3 + 1e-10, np.inf, 2.0**60]))
    assert cycles.tolist() == [0, 3, 4, 3, IMPOSSIBLE_CYCLES, IMPOSSIBLE_CYCLES]


def test_a_share_is_busy_time_over_time_and_never_above_one():
    share = share_of(np.array([500.0, 500.0, 0.0, 5000.0]), np.array([10, 5, 0, 10]), np.full(4, 100.0))
    assert share.tolist() == [0.5, 1.0, 0.0, 1.0]
