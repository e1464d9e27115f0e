"""A block of operators costed by one compiled call: what every operator costs by itself, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.estimate.estimate_model import DEFAULT
from rephaze.estimate.estimator import Estimator, SomeChips
from rephaze.estimate.gemm_costs import FEW_CHIPS, GemmColumns
from rephaze.estimate.op_at import op_at
from rephaze.estimate.op_block import OpBlock
from rephaze.hardware.energy import access_energy
from rephaze.types.chip import chip_table
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.space import AreaModel
from tests.property.test_operator_monotone import CLUSTER, any_op, chips, fused_ops


def estimator_of(table):
    return Estimator(table, access_energy(table, AreaModel.CORRECTED), CLUSTER, DEFAULT)


plain_products = fused_ops.map(lambda op: replace(op, vector=()))
blocks = st.lists(st.one_of(st.none(), any_op, plain_products), min_size=1, max_size=5)


def made(ops, microbatch):
    return OpBlock([None if op is None else op_at(op, microbatch) for op in ops])


@given(ops=blocks, some=st.lists(chips(), min_size=1, max_size=4), microbatch=st.sampled_from([1, 2, 7]))
@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("how", ["closed form", "on all cores", "in every mode"])
def test_a_block_costs_what_its_operators_do(how, ops, some, microbatch):
    block, table = made(ops, microbatch), chip_table(some)
    is_mapped = np.full(len(block), how == "on all cores")
    if how == "in every mode":
        found = estimator_of(table).in_modes(block)
        expected = estimator_of(table)._op_by_op(block, GemmColumns.exact)
    else:
        found = estimator_of(table).least(block, is_mapped=is_mapped)
        expected = estimator_of(table)._op_by_op(block, GemmColumns.bound, is_mapped)
    assert found.cycles_mnc.tolist() == expected.cycles_mnc.tolist()
    is_possible_n = (expected.cycles_mnc[:2, :, 0] < IMPOSSIBLE_CYCLES).any(axis=0)
    for own, other in ((found.uses_hbm_n, expected.uses_hbm_n), (found.uses_buffer_n, expected.uses_buffer_n)):
        assert own[is_possible_n].tolist() == other[is_possible_n].tolist()


@given(ops=blocks, chip=chips(), other=chips())
@settings(max_examples=40, deadline=None)
def test_many_chips_cost_what_each_does_alone(ops, chip, other):
    """Also where those that are alike are costed once."""
    block = made(ops, 2)
    table = chip_table([chip, other] * FEW_CHIPS)
    whole = estimator_of(table)
    alone = [estimator_of(chip_table([one])).least(block).cycles_mnc[:, :, 0] for one in (chip, other)]
    found = whole.least(block).cycles_mnc
    for c in range(len(table)):
        assert found[:, :, c].tolist() == alone[c % 2].tolist()
    some = SomeChips(whole, np.array([1, 2]))
    assert some.least(block).cycles_mnc[:, :, 0].tolist() == alone[1].tolist()
    assert some.fastest(block)[:, 1].tolist() == alone[0].min(axis=0).tolist()


@given(chip=chips())
@settings(max_examples=5, deadline=None)
def test_nothing_takes_no_time(chip):
    found = estimator_of(chip_table([chip])).least(OpBlock([None]))
    assert not found.cycles_mnc.any()
    assert not found.uses_hbm_n.any()
