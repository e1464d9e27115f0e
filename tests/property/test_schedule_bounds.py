"""Vectorised bounds against exact optima: never above, and never above the serial schedule either."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.schedule.bounds import lower_bounds
from rephaze.schedule.packing_bounds import packing_bounds
from rephaze.schedule.structure import compile_structure
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine, ModeBounds
from rephaze.types.schedule import Exclusion, ScheduleStatus
from tests.kits.latency_schedules import schedule_on_chip, serial_makespans


@st.composite
def layers(draw, num_chips=4):
    size = draw(st.integers(1, 9))
    engines = tuple(draw(st.sampled_from(list(Engine))) for _ in range(size))
    edges = [(a, b) for b in range(size) for a in range(b) if draw(st.integers(0, 3)) == 0]
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    shape = (size, num_chips)
    free = np.array([engine is Engine.NONE for engine in engines])[:, None]
    num_modes = draw(st.sampled_from([2, 4]))
    cycles = np.where(free, 0, rng.integers(0, 60, (num_modes, *shape)))
    cycles[0, ~free[:, 0] & (rng.random(size) < 0.05)] = IMPOSSIBLE_CYCLES
    cycles[1, (rng.random(shape) < 0.05) & ~free] = IMPOSSIBLE_CYCLES
    scale = draw(st.sampled_from([0.0, 0.5, 1.0]))
    shares = [np.round(scale * rng.random((size, num_modes)), 2) for _ in range(2)]
    table = ModeBounds(
        all_cores_m=np.tile([False, True], num_modes // 2),
        cycles_moc=cycles.astype(np.int64),
        hbm_share_om=shares[0],
        buffer_share_om=shares[1],
    )
    cores = rng.integers(1, 5, (2, num_chips))
    return (
        compile_structure(engines, edges),
        table,
        cores[0],
        cores[1],
        draw(st.sampled_from(list(Exclusion))),
    )


@pytest.mark.parametrize("bounds", [lower_bounds, packing_bounds])
@settings(max_examples=150, deadline=None)
@given(layer=layers())
def test_bounds_bracket_every_optimum(bounds, layer):
    structure, table, tensor_c, vector_c, exclusion = layer
    below = bounds(structure, table, num_tensor_cores_c=tensor_c, num_vector_cores_c=vector_c, exclusion=exclusion)
    above = serial_makespans(structure, table)
    for c in range(len(tensor_c)):
        exact = schedule_on_chip(
            structure,
            table,
            c,
            num_tensor_cores=int(tensor_c[c]),
            num_vector_cores=int(vector_c[c]),
            exclusion=exclusion,
        )
        if exact.status is ScheduleStatus.INFEASIBLE:
            assert below[c] == above[c] == IMPOSSIBLE_CYCLES
        else:
            assert exact.status is ScheduleStatus.OPTIMAL
            assert below[c] <= exact.makespan_cycles <= above[c]


def test_the_bound_of_a_chain_is_exact():
    engines = (Engine.TENSOR, Engine.VECTOR, Engine.LINK)
    table = ModeBounds(
        all_cores_m=np.array([False, True]),
        cycles_moc=np.array([[[9, 8], [5, 5], [3, 3]], [[4, 9], [6, 6], [3, 3]]], dtype=np.int64),
        hbm_share_om=np.zeros((3, 2)),
        buffer_share_om=np.zeros((3, 2)),
    )
    cores = np.array([2, 2])
    structure = compile_structure(engines, [(0, 1), (1, 2)])
    found = lower_bounds(
        structure, table, num_tensor_cores_c=cores, num_vector_cores_c=cores, exclusion=Exclusion.ENGINE
    )
    assert found.tolist() == [12, 16] == serial_makespans(structure, table).tolist()


def test_packing_says_more_than_a_mix_where_no_two_of_three_fit_together():
    """Each pair shares another resource: every load is two thirds of the time it takes, and no path is longer."""
    engines = (Engine.FUSED, Engine.TENSOR, Engine.VECTOR)
    table = ModeBounds(
        all_cores_m=np.array([False, True]),
        cycles_moc=np.full((2, 3, 1), 10, dtype=np.int64),
        hbm_share_om=np.array([[0.0, 0.0], [0.6, 0.6], [0.6, 0.6]]),
        buffer_share_om=np.zeros((3, 2)),
    )
    one, structure = np.array([1]), compile_structure(engines, [])
    mixed, packed = (
        bounds(structure, table, num_tensor_cores_c=one, num_vector_cores_c=one, exclusion=Exclusion.ENGINE)
        for bounds in (lower_bounds, packing_bounds)
    )
    assert mixed[0] < packed[0] == 30
