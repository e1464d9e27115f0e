"""Operators that are not plain GEMMs: more hardware is never slower, bounds are bounds, shares are shares."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rephaze.estimate.estimate_model import DEFAULT, PAPER
from rephaze.estimate.estimator import Estimator
from rephaze.hardware.energy import access_energy
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.types.chip import Chip, chip_table
from rephaze.types.graph import (
    Affine,
    AttentionDims,
    CollectiveDims,
    CollectiveKind,
    GemmDims,
    Op,
    OpGraph,
    OpKind,
    VectorWork,
)
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.space import AreaModel

RESOURCES = (
    "num_tensor_cores",
    "tensor_width",
    "tensor_depth",
    "num_vector_cores",
    "vector_lanes",
    "tensor_scratchpad_bytes",
    "global_buffer_bytes",
    "hbm_bytes_per_s",
    "scratchpad_bytes_per_cycle",
    "global_buffer_bytes_per_cycle",
    "global_buffer_multicast",
)
CLUSTER = load_scenario("coarse").cluster

powers = st.sampled_from([1, 2, 4, 8, 16, 64, 128, 256])


def per_sample(size):
    return Affine(0, size)


def four_arrays_short_of_buffer_rate():
    return Chip(
        name="any",
        num_tensor_cores=4,
        tensor_width=64,
        tensor_depth=64,
        num_vector_cores=1,
        vector_lanes=512,
        tensor_scratchpad_bytes=65536,
        vector_scratchpad_bytes=32768,
        global_buffer_bytes=2**20,
        num_hbm_stacks=2,
        hbm_bytes=2**35,
        hbm_bytes_per_s=3e12,
        clock_hz=1.05e9,
        scratchpad_bytes_per_cycle=768.0,
        global_buffer_bytes_per_cycle=1024.0,
        global_buffer_multicast=8,
    )


@st.composite
def chips(draw):
    width, depth = draw(powers), draw(powers)
    return Chip(
        name="any",
        num_tensor_cores=draw(powers),
        tensor_width=width,
        tensor_depth=depth,
        num_vector_cores=draw(st.sampled_from([1, 2, 3, 8])),
        vector_lanes=draw(st.sampled_from([16, 100, 512, 2048])),
        tensor_scratchpad_bytes=max(1024, 16 * width * depth),
        vector_scratchpad_bytes=32768,
        global_buffer_bytes=draw(st.sampled_from([2**20, 2**24, 2**27])),
        num_hbm_stacks=2,
        hbm_bytes=2**35,
        hbm_bytes_per_s=draw(st.sampled_from([2e11, 8.2e11, 3e12])),
        clock_hz=1.05e9,
        scratchpad_bytes_per_cycle=float(4 * width + 8 * depth),
        global_buffer_bytes_per_cycle=draw(st.sampled_from([64.0, 1024.0, 4096.0])),
        global_buffer_multicast=8,
    )


vector_ops = st.builds(
    lambda function, elements, reads: Op(
        name="v",
        target="aten.v",
        kind=OpKind.VECTOR,
        module="",
        vector=(VectorWork(function=function, num_elements=per_sample(elements), row_length=64),),
        input_bytes=per_sample(reads * 2 * elements),
        output_bytes=per_sample(2 * elements),
    ),
    st.sampled_from(["add", "gelu", "softmax", "layer_norm", "dropout", "div"]),
    st.integers(1, 10**7),
    st.integers(1, 4),
)


def attention(heads, length, dim, causal, backward):
    return Op(
        name="a",
        target="rephaze.attention",
        kind=OpKind.ATTENTION,
        module="",
        attention=AttentionDims(
            batch=per_sample(1),
            num_heads=heads,
            num_kv_heads=heads,
            query_len=length,
            key_len=length,
            head_dim=dim,
            value_dim=dim,
            causal=causal,
            backward=backward,
        ),
        num_flops=per_sample((10 if backward else 4) * heads * length * length * dim),
        input_bytes=per_sample(6 * heads * length * dim),
        output_bytes=per_sample(2 * heads * length * dim),
    )


attention_ops = st.builds(
    attention,
    st.sampled_from([1, 7, 16, 32]),
    st.sampled_from([1, 50, 512, 2048]),
    st.sampled_from([64, 80, 128]),
    st.booleans(),
    st.booleans(),
)


def fused_op(m, n, k, function):
    return Op(
        name="f",
        target="aten.mm+aten.add",
        kind=OpKind.GEMM,
        module="",
        gemm=GemmDims(batch=Affine(1), m=per_sample(m), n=Affine(n), k=Affine(k), shared_rhs=True),
        vector=(VectorWork(function=function, num_elements=per_sample(m * n)),),
        num_flops=per_sample(2 * m * n * k),
        input_bytes=Affine(2 * n * k, 2 * m * k + 2 * m * n),
        output_bytes=per_sample(2 * m * n),
    )


fused_ops = st.builds(
    fused_op,
    st.sampled_from([1, 100, 1024]),
    st.sampled_from([64, 1600, 4096]),
    st.sampled_from([64, 1600]),
    st.sampled_from(["add", "gelu", "silu"]),
)
collective_ops = st.builds(
    lambda kind, payload, members: Op(
        name="c",
        target="all_reduce",
        kind=OpKind.COLLECTIVE,
        module="",
        collective=CollectiveDims(kind=kind, payload_bytes=per_sample(payload), num_members=members),
    ),
    st.sampled_from(list(CollectiveKind)),
    st.integers(1, 10**9),
    st.sampled_from([2, 4, 8, 16, 64]),
)
any_op = st.one_of(vector_ops, attention_ops, fused_ops, collective_ops)


def table_of(op, both, exact=True, model=DEFAULT):
    area_model = AreaModel.PAPER if model is PAPER else AreaModel.CORRECTED
    estimator = Estimator(both, access_energy(both, area_model), CLUSTER, model)
    graph = OpGraph(ops=(op,), edges=())
    return estimator.exact(graph, 2) if exact else estimator.bound(graph, 2)


def modes_of(op, chip, model=DEFAULT):
    one = chip_table([chip])
    area_model = AreaModel.PAPER if model is PAPER else AreaModel.CORRECTED
    estimator = Estimator(one, access_energy(one, area_model), CLUSTER, model)
    return estimator.modes(OpGraph(ops=(op,), edges=()), 2)


@given(
    op=st.one_of(vector_ops, attention_ops, collective_ops),
    chip=chips(),
    resource=st.sampled_from(RESOURCES),
)
@settings(max_examples=300, deadline=None)
def test_doubling_a_resource_never_makes_an_operator_slower(op, chip, resource):
    larger = Chip(**(asdict(chip) | {resource: 2 * getattr(chip, resource)}))
    before, after = modes_of(op, chip), modes_of(op, larger)
    assert (after.cycles_om <= before.cycles_om).all()
    # What each mode holds does not depend on the chip: an old schedule is a schedule of the larger one.
    assert (after.hbm_share_om == before.hbm_share_om).all()
    assert (after.buffer_share_om == before.buffer_share_om).all()
    table = table_of(op, chip_table([chip, larger]))
    for cycles in (table.one_core_cycles_oc[0], table.all_cores_cycles_oc[0]):
        assert cycles[1] <= cycles[0]


@given(op=fused_ops, chip=chips())
@settings(max_examples=100, deadline=None)
def test_doubling_any_resource_never_makes_a_fused_product_slower(op, chip):
    larger = [Chip(**(asdict(chip) | {resource: 2 * getattr(chip, resource)})) for resource in RESOURCES]
    table = table_of(op, chip_table([chip, *larger]))
    for cycles in (table.one_core_cycles_oc[0], table.all_cores_cycles_oc[0]):
        assert not [name for name, more in zip(RESOURCES, cycles[1:], strict=True) if more > cycles[0]]
    before = modes_of(op, chip).cycles_om
    after = {name: modes_of(op, own).cycles_om for name, own in zip(RESOURCES, larger, strict=True)}
    assert not [name for name, cycles_om in after.items() if (cycles_om > before).any()]


@given(op=fused_ops, chip=chips())
@settings(max_examples=60, deadline=None)
def test_a_fused_product_takes_at_most_its_parts_one_after_another(op, chip):
    both = chip_table([chip])
    plain = Op(**({name: getattr(op, name) for name in Op.__slots__} | {"vector": ()}))
    fused, product = table_of(op, both), table_of(plain, both)
    gemm = op.gemm
    m, n, k = gemm.m.at(2), gemm.n.at(2), gemm.k.at(2)
    side_bytes = op.input_bytes.at(2) + op.output_bytes.at(2) - 2 * (m * k + k * n + m * n)
    assert side_bytes > 0
    slowest = np.minimum(both.hbm_bytes_per_s / both.clock_hz, both.global_buffer_bytes_per_cycle)
    lanes = np.ceil(m * n / both.num_lanes) * 32
    apart = product.all_cores_cycles_oc[0] + side_bytes / slowest + lanes + 1
    assert (fused.all_cores_cycles_oc[0] <= apart).all()
    assert (fused.all_cores_cycles_oc[0] >= product.all_cores_cycles_oc[0]).all()


def test_a_wider_array_does_not_slow_a_product_whose_side_operand_binds_the_buffer():
    op = fused_op(100, 64, 64, "add")
    narrow = Chip(
        name="narrow",
        num_tensor_cores=16,
        tensor_width=2,
        tensor_depth=16,
        num_vector_cores=1,
        vector_lanes=2048,
        tensor_scratchpad_bytes=1024,
        vector_scratchpad_bytes=32768,
        global_buffer_bytes=2**20,
        num_hbm_stacks=2,
        hbm_bytes=2**35,
        hbm_bytes_per_s=8.2e11,
        clock_hz=1.05e9,
        scratchpad_bytes_per_cycle=136.0,
        global_buffer_bytes_per_cycle=64.0,
        global_buffer_multicast=8,
    )
    wide = Chip(**(asdict(narrow) | {"tensor_width": 4}))
    table = table_of(op, chip_table([narrow, wide]))
    assert table.all_cores_cycles_oc[0, 1] <= table.all_cores_cycles_oc[0, 0]


@given(op=any_op, chip=chips())
# Smaller blocks fill the four arrays, larger ones move less: which is faster hangs on the bandwidth.
@example(op=attention(1, 50, 64, False, False), chip=four_arrays_short_of_buffer_rate())
@settings(max_examples=200, deadline=None)
def test_bounds_shares_and_utilisation(op, chip):
    both = chip_table([chip])
    exact, bound = table_of(op, both), table_of(op, both, exact=False)
    # Mode by mode: no less time, and what is held of the bandwidths meanwhile is the same.
    every = modes_of(op, chip)
    assert bound.all_cores_m.tolist() == every.all_cores_m.tolist()
    assert (every.cycles_om >= bound.cycles_moc[:, :, 0].T).all()
    assert bound.hbm_share_om.tolist() == every.hbm_share_om.tolist()
    assert bound.buffer_share_om.tolist() == every.buffer_share_om.tolist()
    for mode in ("one_core", "all_cores"):
        for level in ("hbm", "buffer"):
            share = getattr(exact, f"{mode}_{level}_share_oc")
            assert (share >= 0).all()
            assert (share <= 1).all()
        possible = getattr(exact, f"{mode}_cycles_oc") < IMPOSSIBLE_CYCLES
        assert (getattr(exact, f"{mode}_j_oc")[possible] >= 0).all()
    if op.gemm is not None:
        ideal = op.num_flops.at(2) / 2 / chip.num_macs
        assert exact.all_cores_cycles_oc[0, 0] >= ideal * (1 - 1e-9)


def test_elementwise_operators_are_bound_by_hbm_on_tpuv4():
    op = Op(
        name="add",
        target="aten.add",
        kind=OpKind.VECTOR,
        module="",
        vector=(VectorWork(function="add", num_elements=per_sample(2**24)),),
        input_bytes=per_sample(2**26),
        output_bytes=per_sample(2**25),
    )
    chip = preset_chip("tpuv4")
    table = table_of(op, chip_table([chip]))
    assert table.all_cores_hbm_share_oc[0, 0] == pytest.approx(1.0, rel=1e-3)
    moved_s = 2 * (2**26 + 2**25) / chip.hbm_bytes_per_s
    assert table.all_cores_cycles_oc[0, 0] == pytest.approx(moved_s * chip.clock_hz, rel=1e-3)


@given(op=st.one_of(vector_ops, fused_ops), chip=chips())
@settings(max_examples=40, deadline=None)
def test_the_papers_rules_know_no_memory(op, chip):
    table = table_of(op, chip_table([chip]), model=PAPER)
    assert not table.one_core_hbm_share_oc.any()
    slower = chip_table([Chip(**(asdict(chip) | {"hbm_bytes_per_s": chip.hbm_bytes_per_s / 2}))])
    again = table_of(op, slower, model=PAPER)
    assert np.array_equal(table.all_cores_cycles_oc, again.all_cores_cycles_oc)
