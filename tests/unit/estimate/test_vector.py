"""Vector operators by hand: an addition of 320 elements and a division of 64, for each of two samples."""

import numpy as np
import pytest

from rephaze.estimate.vector import lane_cycles, num_lane_ops, paper_vector_cost, vector_cost, vector_energy_j
from rephaze.types.graph import Affine, Op, OpKind, VectorWork

# An addition takes a lane one operation an element, a division five.
LANE_OPS = 640 * 1 + 128 * 5
OP_J = 2.0 + 12 * 0.5


def vector_op(input_bytes):
    return Op(
        name="v",
        target="aten.add+aten.div",
        kind=OpKind.VECTOR,
        module="",
        vector=(
            VectorWork(function="add", num_elements=Affine(0, 320)),
            VectorWork(function="div", num_elements=Affine(0, 64)),
        ),
        input_bytes=Affine(0, input_bytes),
        output_bytes=Affine(0, 500),
    )


def test_lanes_work_through_one_function_after_the_other():
    cycles = lane_cycles(vector_op(1000), 2, np.array([16, 32, 100]))
    assert cycles.tolist() == [40 + 8 * 5, 20 + 4 * 5, 7 + 2 * 5]
    assert num_lane_ops(vector_op(1000), 2) == LANE_OPS


@pytest.mark.parametrize(
    ("input_bytes", "one_core", "all_cores"),
    [
        (1000, 80, 40),  # 3,000 B take 60 cycles at half of HBM and 30 at all of it: lanes decide.
        (3500, 160, 80),  # 8,000 B: HBM decides.
    ],
)
def test_lanes_or_hbm_decide(rates, input_bytes, one_core, all_cores):
    cost = vector_cost(vector_op(input_bytes), 2, rates)
    assert cost.one_core.cycles_c.tolist() == [one_core]
    assert cost.all_cores.cycles_c.tolist() == [all_cores]


def test_every_byte_passes_hbm_buffer_and_scratchpad_once(rates):
    assert vector_energy_j(vector_op(1000), 2, rates).tolist() == [LANE_OPS * OP_J]
    cost = vector_cost(vector_op(1000), 2, rates)
    for mode in (cost.one_core, cost.all_cores):
        assert mode.hbm_bytes_c.tolist() == mode.buffer_bytes_c.tolist() == [3000]
        assert mode.energy_j_c.tolist() == [LANE_OPS * OP_J + 3000 * (11 + 7 + 5)]


def test_the_paper_counts_lanes_alone(rates):
    # Its tables have one cycle an addition and ten a division.
    cost = paper_vector_cost(vector_op(10**9), 2, rates)
    assert cost.one_core.cycles_c.tolist() == [40 + 8 * 10]
    assert cost.all_cores.cycles_c.tolist() == [20 + 4 * 10]
    assert cost.all_cores.hbm_bytes_c.tolist() == [0]
    assert cost.all_cores.energy_j_c.tolist() == [60 * 32 * 2]
