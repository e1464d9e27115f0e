"""Vectorised bounds against exact optima: never above, and never above the serial schedule either."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.schedule.bounds import lower_bounds
from rephaze.schedule.packing_bounds import KnownTeams, packing_bounds
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


def test_teams_that_are_known_change_no_bound():
    """One memory for all layers, chip after chip, in both orders: the same cycles as with none."""
    rng, known = np.random.default_rng(1), KnownTeams()
    engines = (
        Engine.TENSOR,
        Engine.VECTOR,
        Engine.FUSED,
        Engine.TENSOR,
        Engine.VECTOR,
        Engine.LINK,
        Engine.TENSOR,
    )
    structure, cores = compile_structure(engines, [(0, 2), (1, 3), (2, 5)]), {"exclusion": Exclusion.ENGINE}
    for _ in range(30):
        cycles = rng.integers(1, 10**6, (4, len(engines), 5))
        share_om = np.tile([0.5, 0.5, 1.0, 1.0], (len(engines), 1))
        table = ModeBounds(
            all_cores_m=np.tile([False, True], 2),
            cycles_moc=cycles.astype(np.int64),
            hbm_share_om=share_om,
            buffer_share_om=share_om,
        )
        cores |= {"num_tensor_cores_c": rng.integers(1, 4, 5), "num_vector_cores_c": rng.integers(1, 4, 5)}
        alone = packing_bounds(structure, table, **cores)
        np.testing.assert_array_equal(packing_bounds(structure, table, **cores, known=known), alone)
    assert len(known._pools) > 1


@pytest.mark.parametrize("seed", [2, 4])
def test_a_wide_part_is_packed_to_the_end(seed):
    """Of 72 operators, as many as in the backward pass of a mixture, that wait for few others."""
    rng, size = np.random.default_rng(seed), 72
    kinds = [Engine.VECTOR, Engine.TENSOR, Engine.LINK, Engine.FUSED]
    engines = [kinds[at] for at in rng.choice(4, size, p=[0.35, 0.5, 0.1, 0.05])]
    reach = int(rng.integers(6, 20))
    edges = [(a, b) for b in range(1, size) for a in range(max(0, b - reach), b) if rng.random() < 1.5 / reach]
    structure = compile_structure(engines, edges)
    short, long = rng.integers(10**2, 10**4, (size, 1)), rng.integers(10**5, 10**6, (size, 1))
    fastest = np.where(rng.random((size, 1)) < 0.4, short, long)
    slower = np.where(rng.random((size, 1)) < 0.6, 2 * fastest, fastest + fastest // 10)
    cycles = [fastest * rng.integers(4, 16, (size, 1)), slower, fastest * rng.integers(4, 16, (size, 1)), fastest]
    share_om = np.tile([0.5, 0.5, 1.0, 1.0], (size, 1))
    share_om[[engine is Engine.LINK for engine in engines]] = 0.0
    table = ModeBounds(
        all_cores_m=np.array([False, True, False, True]),
        cycles_moc=np.stack(cycles).astype(np.int64),
        hbm_share_om=share_om,
        buffer_share_om=share_om,
    )
    packed, mixed = (
        bounds(
            structure,
            table,
            num_tensor_cores_c=np.array([16]),
            num_vector_cores_c=np.array([2]),
            exclusion=Exclusion.ENGINE,
        )[0]
        for bounds in (packing_bounds, lower_bounds)
    )
    assert packed >= mixed > 0


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
