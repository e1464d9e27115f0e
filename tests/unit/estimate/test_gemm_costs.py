"""GEMMs on many chips: each distinct core shape is mapped once, and bounds are those of the closed form."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from rephaze.estimate.costs import chip_rates
from rephaze.estimate.estimate_model import DEFAULT, PAPER
from rephaze.estimate.gemm_costs import MOST_MAPPED, GemmColumns, GemmMemo
from rephaze.estimate.gemm_default.core_shapes import CoreShapes
from rephaze.types.chip import chip_table

DIMS = (1, 8, 8, 8)
LEAST_BYTES = 2 * 3 * 64
UNIT_J = 2.0**-40
"""About a picojoule."""
# One a multiply-accumulate and half a one for each of its 8 B of registers.
FIXED_J = 512 * (1.0 + 8 * 0.5) * UNIT_J


@pytest.fixture
def columns(chip, energy_of):
    """Three chips, the last with twice the cores; vector lanes do not matter to a GEMM."""
    chips = chip_table([chip, replace(chip, vector_lanes=32), replace(chip, num_tensor_cores=4)])
    rates = chip_rates(chips, energy_of(3, UNIT_J))
    return lambda model, memo: GemmColumns(rates, chips.num_tensor_cores, model, memo)


@pytest.mark.parametrize("model", [DEFAULT, PAPER])
def test_equal_core_shapes_are_mapped_once(columns, model):
    memo = GemmMemo()
    first = columns(model, memo).exact(DIMS)
    assert len(memo) == 2
    assert first.cycles_c[0] == first.cycles_c[1] > first.cycles_c[2]
    found = dict(memo.found)
    again = columns(model, memo).exact(DIMS)
    assert memo.found == found
    assert np.array_equal(again.cycles_c, first.cycles_c)


def test_shapes_are_made_ready_for_the_mapper_once(columns, monkeypatch):
    """Searches map thousands of products on a few shapes: that took as long as a third of the mapping."""
    num_made, plain = 0, CoreShapes.rows

    def counted(shapes):
        nonlocal num_made
        num_made += 1
        return plain(shapes)

    monkeypatch.setattr(CoreShapes, "rows", counted)
    own = columns(DEFAULT, GemmMemo())
    for batch in range(3):
        own.mapped_cycles((batch + 1, 8, 8, 8))
    assert num_made == 1


def test_a_full_memory_of_mapped_products_takes_no_more_than_some_tens_of_megabytes(columns):
    own, memo, num_products = columns(DEFAULT, GemmMemo()), GemmMemo(), 200
    own.memo = memo
    own.exact(DIMS)
    tracemalloc.start()
    try:
        for side_bytes in range(num_products):
            own._mapped(DIMS, float(side_bytes + 1))
        each_bytes = tracemalloc.get_traced_memory()[0] / (len(memo) - 2)
    finally:
        tracemalloc.stop()
    assert MOST_MAPPED * each_bytes < 40 * 2**20


def test_all_that_is_remembered_has_one_name_of_the_model(columns):
    memo = GemmMemo()
    for batch in range(3):
        columns(DEFAULT, memo).exact((batch + 1, 8, 8, 8))
    assert len({id(version) for version, *_ in memo.found}) == 1


def test_what_is_remembered_is_used(columns):
    memo = GemmMemo()
    columns(DEFAULT, memo).exact(DIMS)
    for key, mapped in memo.found.items():
        memo.found[key] = mapped._replace(cycles=12345.0, hbm_bytes=7.0, buffer_bytes=5.0)
    cost = columns(DEFAULT, memo).exact(DIMS)
    assert cost.cycles_c.tolist() == [12345.0] * 3
    assert (cost.hbm_bytes_c[0], cost.buffer_bytes_c[0]) == (7, 5)


def test_the_models_do_not_share_what_is_remembered(columns):
    memo = GemmMemo()
    for model in (DEFAULT, PAPER):
        columns(model, memo).exact(DIMS)
    assert len(memo) == 4


def test_a_bound_moves_every_matrix_once_and_side_bytes_beside_it(columns):
    cost = columns(DEFAULT, GemmMemo()).bound(DIMS, 100.0)
    assert cost.hbm_bytes_c.tolist() == cost.buffer_bytes_c.tolist() == [LEAST_BYTES + 100] * 3
    assert cost.energy_j_c.tolist() == [FIXED_J + (LEAST_BYTES + 100) * (7 + 11) * UNIT_J] * 3


def test_a_bound_is_no_more_than_the_mapping(columns):
    fresh = columns(DEFAULT, GemmMemo())
    exact, bound = fresh.exact(DIMS), fresh.bound(DIMS)
    assert (bound.cycles_c <= exact.cycles_c).all()
    assert (exact.energy_j_c > bound.energy_j_c).all()


def test_bounds_with_half_the_bandwidth_come_from_those_with_all(chip, energy_of):
    chips = chip_table([chip, replace(chip, hbm_bytes_per_s=chip.hbm_bytes_per_s / 64), chip])
    full, half = (chip_rates(chips, energy_of(3, UNIT_J), share) for share in (1.0, 0.5))
    cores, memo = chips.num_tensor_cores, GemmMemo()
    wide = GemmColumns(full, cores, DEFAULT, memo)
    alone, derived = GemmColumns(half, cores, DEFAULT, memo), GemmColumns(half, cores, DEFAULT, memo, wide)
    for side_bytes in (0.0, 1e5):
        found = derived.bound(DIMS, side_bytes).cycles_c.tolist()
        assert found == alone.bound(DIMS, side_bytes).cycles_c.tolist()
        assert found[1] > wide.bound(DIMS, side_bytes).cycles_c[1]


def test_the_paper_charges_no_bytes(columns):
    cost = columns(PAPER, GemmMemo()).exact(DIMS)
    assert not cost.hbm_bytes_c.any()
    assert not cost.buffer_bytes_c.any()


def test_a_mapping_that_needs_no_more_than_half_the_bandwidth_is_not_searched_again(chip, energy_of):
    chips = chip_table([replace(chip, hbm_bytes_per_s=1e13, global_buffer_bytes_per_cycle=1e5)])
    memo = GemmMemo()
    wide, narrow = (chip_rates(chips, energy_of(1), share) for share in (1.0, 0.5))
    one = np.ones(1, dtype=np.int64)
    wider = GemmColumns(wide, one, DEFAULT, memo)
    cost = GemmColumns(narrow, one, DEFAULT, memo, wider).exact(DIMS)
    assert cost.cycles_c == wider.exact(DIMS).cycles_c
    assert len(memo) == 1
