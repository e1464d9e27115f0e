"""Tables of whole graphs, by hand on a chip of round numbers."""

from dataclasses import replace

import numpy as np
import pytest

from rephaze.estimate.estimate_model import DEFAULT, PAPER
from rephaze.estimate.estimator import Estimator, engine_of
from rephaze.estimate.op_at import op_at
from rephaze.estimate.op_block import OpBlock
from rephaze.estimate.ticks import whole_ticks
from rephaze.types.chip import chip_table
from rephaze.types.cluster import Cluster, NetworkLevel, flat_cluster
from rephaze.types.graph import (
    Affine,
    CollectiveDims,
    CollectiveKind,
    CommGroup,
    GemmDims,
    Op,
    OpGraph,
    OpKind,
    VectorWork,
)
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine

UNIT_J = 2.0**-40
"""About a picojoule."""
GEMM = GemmDims(batch=Affine(1), m=Affine(64), n=Affine(64), k=Affine(64), shared_rhs=True)


def op(kind, name="o", **fields):
    return Op(name=name, target="t", kind=kind, module="", **fields)


def adds(num_elements, num_bytes):
    work = VectorWork(function="add", num_elements=Affine(num_elements))
    return op(OpKind.VECTOR, "add", vector=(work,), input_bytes=Affine(num_bytes))


def all_reduce(payload):
    dims = CollectiveDims(kind=CollectiveKind.ALL_REDUCE, payload_bytes=Affine(payload), num_members=4)
    return op(OpKind.COLLECTIVE, "reduce", collective=dims)


def fused_gemm(*functions):
    work = tuple(VectorWork(function=name, num_elements=Affine(64 * 64)) for name in functions)
    return op(OpKind.GEMM, "fused", gemm=GEMM, vector=work, input_bytes=Affine(2 * 64 * 64))


@pytest.fixture
def estimator(chip, energy_of):
    return lambda model: Estimator(chip_table([chip]), energy_of(1, UNIT_J), flat_cluster(4, 1e9), model)


def table(estimator, model, *ops):
    return estimator(model).exact(OpGraph(ops=ops, edges=()), 1)


def test_what_operators_hold():
    assert engine_of(op(OpKind.VIEW)) is Engine.NONE
    assert engine_of(all_reduce(1)) is Engine.LINK
    assert engine_of(op(OpKind.GEMM, gemm=GEMM)) is Engine.TENSOR
    assert engine_of(fused_gemm("add")) is engine_of(op(OpKind.ATTENTION)) is Engine.FUSED
    assert engine_of(adds(1, 1)) is engine_of(op(OpKind.GATHER)) is Engine.VECTOR


def test_ticks_are_64_cycles_or_the_last_of_ten_bits():
    # 65,536 has 17 bits: a tick of 2^7.
    cycles = np.array([[0, 1, 64, 65, 65535, 65536, 65537, 2**30 + 1, IMPOSSIBLE_CYCLES]])
    expected = [0, 64, 64, 128, 65536, 65536, 65664, 2**30 + 2**21, IMPOSSIBLE_CYCLES]
    assert whole_ticks(cycles).tolist() == [expected]


def test_views_are_free_and_the_others_keep_their_places(estimator):
    found = table(estimator, DEFAULT, op(OpKind.VIEW, "view"), adds(3200, 0), op(OpKind.VIEW, "late"))
    assert found.op_names == ("view", "add", "late")
    assert found.one_core_cycles_oc[:, 0].tolist() == [0, 200, 0]
    assert found.all_cores_cycles_oc[:, 0].tolist() == [0, 100, 0]


def test_modes_are_one_core_before_all_with_all_of_the_bandwidth_before_half(estimator):
    # 12,800 B of HBM: 128 cycles, at half of it 256, which one core has at most; the lanes are done long before.
    found = estimator(DEFAULT).modes(OpGraph(ops=(adds(32, 12800), adds(3200, 0)), edges=()), 1)
    assert found.all_cores_m.tolist() == [False, True, False, True]
    assert found.cycles_om.tolist() == [[256, 128, 256, 256], [256, 128, 256, 128]]
    assert found.hbm_share_om.tolist() == [[1, 1, 0.5, 0.5], [0, 0, 0, 0]]


def test_a_bound_has_the_modes_that_an_operator_has(estimator):
    graph = OpGraph(ops=(op(OpKind.VIEW, "view"), adds(32, 12800), adds(3200, 0)), edges=())
    found, modes = estimator(DEFAULT).bound(graph, 1), estimator(DEFAULT).modes(graph, 1)
    assert found.all_cores_m.tolist() == modes.all_cores_m.tolist()
    # Nothing here is mapped: the bound is the table itself.
    assert found.cycles_moc[:, :, 0].T.tolist() == modes.cycles_om.tolist()
    assert found.hbm_share_om.tolist() == modes.hbm_share_om.tolist()
    assert found.buffer_share_om.tolist() == modes.buffer_share_om.tolist()
    assert found.fastest_oc[:, 0].tolist() == [0, 128, 128]


def test_a_product_is_bounded_in_every_mode_and_mapped_on_all_cores(estimator):
    product = op(OpKind.GEMM, gemm=GEMM, input_bytes=Affine(16384), output_bytes=Affine(8192))
    block = OpBlock([op_at(product, 1)])
    on_chip = estimator(DEFAULT)
    exact_m = on_chip.modes(OpGraph(ops=(product,), edges=()), 1).cycles_om[0]
    bound, mapped = on_chip.least(block), on_chip.least(block, is_mapped=True)
    bound_m, mapped_m = bound.cycles_mnc[:, 0, 0], mapped.cycles_mnc[:, 0, 0]
    assert (bound_m <= exact_m).all()
    assert (bound_m <= mapped_m).all()
    assert mapped_m[[1, 3]].tolist() == exact_m[[1, 3]].tolist()
    assert on_chip.in_modes(block).cycles_mnc[:, 0, 0].tolist() == exact_m.tolist()
    assert bound.uses_hbm_n.all()
    assert bound.uses_buffer_n.all()
    assert on_chip.fastest(block, is_mapped=True).tolist() == [[mapped_m.min()]]


def test_the_paper_has_no_half_modes(estimator):
    found = estimator(PAPER).modes(OpGraph(ops=(adds(3200, 10**6),), edges=()), 1)
    assert found.all_cores_m.tolist() == [False, True]
    assert found.cycles_om.tolist() == [[200, 100]]
    assert not found.hbm_share_om.any()


def test_a_fused_product_takes_the_longer_of_product_and_lanes(estimator):
    product = table(estimator, DEFAULT, op(OpKind.GEMM, gemm=GEMM)).all_cores_cycles_oc[0, 0]
    assert product >= 64**3 / (2 * 4 * 8)
    light = table(estimator, DEFAULT, fused_gemm("add")).all_cores_cycles_oc[0, 0]
    # Of each element 10, 14 and 20 operations, on 32 lanes.
    heavy = table(estimator, DEFAULT, fused_gemm("tanh", "gelu", "gelu_backward")).all_cores_cycles_oc[0, 0]
    assert light == product
    assert heavy == 64 * 64 / 32 * 44 > product


def test_the_paper_adds_one_constant_for_what_a_product_absorbed(estimator):
    product = table(estimator, PAPER, op(OpKind.GEMM, gemm=GEMM)).all_cores_cycles_oc[0, 0]
    assert table(estimator, PAPER, fused_gemm("tanh")).all_cores_cycles_oc[0, 0] == product + 27


def test_a_collective_takes_the_link_and_passes_hbm_twice(estimator):
    # Three quarters of a megabyte, twice, at 1 B a cycle; messages of no latency.
    for model, hbm_bytes in ((DEFAULT, 2e6), (PAPER, 0.0)):
        found = table(estimator, model, all_reduce(10**6))
        assert found.one_core_cycles_oc[0, 0] == found.all_cores_cycles_oc[0, 0] == 1_500_000
        assert found.all_cores_j_oc[0, 0] == (1.5e6 * 13 + hbm_bytes * 11) * UNIT_J


@pytest.mark.parametrize("model", [DEFAULT, PAPER])
def test_messages_of_a_ring_follow_one_another(estimator, model):
    dims = CollectiveDims(
        kind=CollectiveKind.SEND, payload_bytes=Affine(10**6), num_members=4, group=CommGroup.CP, num_messages=3
    )
    found = table(estimator, model, op(OpKind.COLLECTIVE, "send", collective=dims))
    hbm_bytes = 6e6 if model is DEFAULT else 0.0
    assert engine_of(op(OpKind.COLLECTIVE, collective=dims)) is Engine.LINK
    assert found.one_core_cycles_oc[0, 0] == found.all_cores_cycles_oc[0, 0] == 3_000_000
    assert found.all_cores_j_oc[0, 0] == (3e6 * 13 + hbm_bytes * 11) * UNIT_J
    graph = OpGraph(ops=(op(OpKind.COLLECTIVE, "send", collective=dims),), edges=())
    # In whole ticks, where bandwidths are shared.
    assert estimator(model).bound(graph, 1).fastest_oc[0, 0] == (3_002_368 if model is DEFAULT else 3_000_000)


def test_collectives_that_differ_in_their_group_alone_are_priced_apart(chip, energy_of):
    nodes = Cluster(
        num_devices=8,
        levels=(
            NetworkLevel(num_devices=4, bytes_per_s=4e9),
            NetworkLevel(num_devices=8, bytes_per_s=1e9),
        ),
    )
    found = Estimator(chip_table([chip]), energy_of(1, UNIT_J), nodes, DEFAULT)
    near = CollectiveDims(
        kind=CollectiveKind.ALL_TO_ALL, payload_bytes=Affine(4 * 10**6), num_members=2, group=CommGroup.EP
    )
    ops = tuple(
        op(OpKind.COLLECTIVE, f"stride {stride}", collective=replace(near, stride=stride)) for stride in (1, 2, 4)
    )
    cycles = found.exact(OpGraph(ops=ops, edges=()), 1).all_cores_cycles_oc[:, 0]
    # Half of it to the other member, inside a node or across.
    assert cycles.tolist() == [500_000, 500_000, 2_000_000]
