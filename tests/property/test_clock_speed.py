"""A faster clock: what it does to times, before and after rounding; no operator draws more than the peak."""

from dataclasses import asdict

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rephaze.estimate.estimate_model import DEFAULT
from rephaze.estimate.estimator import Estimator
from rephaze.estimate.gemm_default.mapper import REGISTER_BYTES_PER_MAC
from rephaze.estimate.ticks import TICK_CYCLES, whole_ticks
from rephaze.estimate.vector import LANE_OP_BYTES
from rephaze.hardware import peak_power as peak
from rephaze.hardware.clock import at_clock, clock_scale
from rephaze.hardware.energy import access_energy, full_power
from rephaze.hardware.template import build_chips, load_template
from rephaze.types.chip import Chip, chip_table
from rephaze.types.graph import Affine, GemmDims, Op, OpGraph, OpKind, VectorWork
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.space import AreaModel
from rephaze.units import MIB
from tests.property.test_operator_monotone import CLUSTER, any_op, chips, four_arrays_short_of_buffer_rate

NOMINAL_HZ = 1.05e9
CLOCKS = st.floats(0.4e9, 1.736e9)
MICROBATCH = 2


def plain_product(m, n, k):
    dims = GemmDims(batch=Affine(1), m=Affine(0, m), n=Affine(n), k=Affine(k), shared_rhs=True)
    return Op(
        name="g",
        target="aten.mm",
        kind=OpKind.GEMM,
        module="",
        gemm=dims,
        num_flops=Affine(0, 2 * m * n * k),
        input_bytes=Affine(2 * n * k, 2 * m * k),
        output_bytes=Affine(0, 2 * m * n),
    )


plain_products = st.builds(plain_product, *[st.sampled_from([1, 64, 100, 1600, 4096])] * 3)
ops = st.one_of(any_op, plain_products)


def at(chip, clock_hz):
    return Chip(**(asdict(chip) | {"clock_hz": clock_hz}))


def estimator_of(chip, share=1.0):
    one = chip_table([chip])
    energy = at_clock(access_energy(one, AreaModel.CORRECTED), clock_scale(one.clock_hz, NOMINAL_HZ))
    return Estimator(one, energy, CLUSTER, DEFAULT, bandwidth_share=share)


def raw_seconds(op, chip):
    """Seconds in every mode (cores, part of the bandwidths) before anything is rounded."""
    costs = [estimator_of(chip, share).op_cost(op, MICROBATCH) for share in (1.0, 0.5)]
    cycles = [mode.cycles_c[0] for cost in costs for mode in (cost.one_core, cost.all_cores)]
    return np.array(cycles) / chip.clock_hz


def rounded_cycles(op, chip):
    return estimator_of(chip).modes(OpGraph(ops=(op,), edges=()), MICROBATCH).cycles_om[0]


def least_cycles(cycles):
    """What whole ticks were rounded up from, at least."""
    _, num_bits = np.frexp(cycles.astype(np.float64))
    tick = np.maximum(TICK_CYCLES, 1 << np.maximum(num_bits.astype(np.int64) - 10, 0))
    return np.maximum(0, cycles - tick)


@given(op=ops, chip=chips(), clocks=st.tuples(CLOCKS, CLOCKS).map(sorted))
@settings(max_examples=250, deadline=None)
def test_before_rounding_a_faster_clock_is_never_slower_in_any_mode(op, chip, clocks):
    slow, fast = (raw_seconds(op, at(chip, clock_hz)) for clock_hz in clocks)
    assert (fast <= slow * (1 + 1e-12)).all()


@given(op=ops, chip=chips(), clocks=st.tuples(CLOCKS, CLOCKS).map(sorted))
@settings(max_examples=250, deadline=None)
def test_after_rounding_it_is_slower_by_a_tick_at_most(op, chip, clocks):
    slow, fast = (rounded_cycles(op, at(chip, clock_hz)) for clock_hz in clocks)
    possible = slow < IMPOSSIBLE_CYCLES
    slow_s, fast_s = slow[possible] / clocks[0], fast[possible] / clocks[1]
    tick_s = np.maximum(TICK_CYCLES, fast[possible] / 512) / clocks[1]
    assert (fast_s <= slow_s * (1 + 1e-12) + tick_s).all()
    # What a box of clocks may use: the fastest clock's times less a tick are no more than those of any slower one.
    assert (least_cycles(fast[possible]) / clocks[1] <= slow_s * (1 + 1e-12)).all()


@given(op=ops, chip=chips(), clock_hz=st.floats(0.4e9, 0.868e9), doublings=st.integers(1, 2))
@settings(max_examples=150, deadline=None)
def test_clocks_a_power_of_two_apart_keep_their_order(op, chip, clock_hz, doublings):
    slow, fast = rounded_cycles(op, at(chip, clock_hz)), rounded_cycles(op, at(chip, clock_hz * 2**doublings))
    possible = slow < IMPOSSIBLE_CYCLES
    assert (fast[possible] <= slow[possible] << doublings).all()


def hbm_bound_op(num_bytes):
    return Op(
        name="v",
        target="aten.v",
        kind=OpKind.VECTOR,
        module="",
        vector=(VectorWork(function="add", num_elements=Affine(1), row_length=1),),
        input_bytes=Affine(num_bytes),
        output_bytes=Affine(0),
    )


def test_rounding_does_make_a_faster_clock_slower():
    """So a box must not take rounded times of its fastest clock for a bound."""
    chip = Chip(**(asdict(four_arrays_short_of_buffer_rate()) | {"hbm_bytes_per_s": 4e11}))
    # 64 cycles at 1 GHz, 64.6 at 1.01: one tick and two. A hundred thousand cycles: 1 part in 512.
    for seconds, worst in ((64e-9, 1.98), (99_968e-9, 1.0005)):
        op = hbm_bound_op(int(seconds * chip.hbm_bytes_per_s))
        slow = rounded_cycles(op, at(chip, 1.0e9))[1] / 1.0e9
        faster = [
            rounded_cycles(op, at(chip, clock_hz))[1] / clock_hz for clock_hz in np.linspace(1e9, 1.02e9, 40)
        ]
        assert max(faster) / slow > worst


@given(cycles=st.integers(1, 2**50))
@settings(max_examples=500)
def test_what_ticks_are_less_one_is_no_more_than_what_was_rounded(cycles):
    rounded = whole_ticks(np.array([cycles]))
    assert least_cycles(rounded)[0] < cycles <= rounded[0]


@given(op=ops, chip=chips(), clock_hz=CLOCKS)
@example(op=plain_product(4096, 4096, 4096), chip=four_arrays_short_of_buffer_rate(), clock_hz=1.7e9)
@settings(max_examples=250, deadline=None)
def test_no_operator_draws_more_than_the_peak(op, chip, clock_hz):
    chip = at(chip, clock_hz)
    estimator = estimator_of(chip)
    table = estimator.exact(OpGraph(ops=(op,), edges=()), MICROBATCH)
    power = peak.peak_power(estimator.rates.chips, estimator.rates.energy)
    link_bytes_per_s = sum(level.bytes_per_s for level in CLUSTER.levels)
    most_w = (
        power.total_w_c[0] - power.idle_w_c[0] + link_bytes_per_s * estimator.rates.energy.link_j_per_byte_c[0]
    )
    for cycles, joule in (
        (table.one_core_cycles_oc[0, 0], table.one_core_j_oc[0, 0]),
        (table.all_cores_cycles_oc[0, 0], table.all_cores_j_oc[0, 0]),
    ):
        if 0 < cycles < IMPOSSIBLE_CYCLES:
            assert joule / (cycles / clock_hz) <= most_w * (1 + 1e-9)


def test_the_full_power_of_the_area_model_can_be_passed():
    """Why budgets are not kept by ``full_power``: registers take as much as the arithmetic."""
    many_small_arrays = build_chips(
        num_tensor_cores=np.array([64]),
        tensor_width=np.array([32]),
        tensor_depth=np.array([64]),
        num_vector_cores=np.array([4]),
        vector_lanes=np.array([512]),
        global_buffer_bytes=np.array([64 * MIB]),
        num_hbm_stacks=np.array([1]),
        template=load_template("default"),
    ).chip(0)
    estimator = estimator_of(many_small_arrays)
    table = estimator.exact(OpGraph(ops=(plain_product(8192, 8192, 8192),), edges=()), MICROBATCH)
    busy_w = table.all_cores_j_oc[0, 0] / (table.all_cores_cycles_oc[0, 0] / NOMINAL_HZ)
    full = full_power(estimator.rates.chips, AreaModel.CORRECTED)
    assert busy_w + full.idle_w_c[0] > 1.4 * full.total_w_c[0]
    assert (
        busy_w + full.idle_w_c[0]
        > 0.9 * peak.peak_power(estimator.rates.chips, estimator.rates.energy).total_w_c[0]
    )


def test_registers_are_counted_as_estimates_do():
    assert peak.REGISTER_BYTES_PER_MAC == REGISTER_BYTES_PER_MAC
    assert peak.REGISTER_BYTES_PER_LANE_OP == LANE_OP_BYTES
