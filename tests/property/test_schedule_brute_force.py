"""Every solver against a brute force that steps through time cycle by cycle and knows no theorem."""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import cache
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.schedule import nodes
from rephaze.schedule.parts import Solver
from rephaze.schedule.shares import SHARE_UNITS, share_units
from rephaze.schedule.solve import solve_problem
from rephaze.schedule.validate import find_violations
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine
from rephaze.types.schedule import (
    Exclusion,
    Mode,
    ScheduleOp,
    ScheduleProblem,
    ScheduleStatus,
    Way,
    operator_of,
)

CORES = {
    Engine.TENSOR: (1, 0, 0),
    Engine.VECTOR: (0, 1, 0),
    Engine.FUSED: (1, 1, 0),
    Engine.LINK: (0, 0, 1),
    Engine.NONE: (0, 0, 0),
}


def shortest_makespan(problem: ScheduleProblem) -> int:
    """The optimum by trying, at every cycle, every set of starts that the rules allow."""
    ops = problem.ops
    preds = [[a for a, b in problem.edges if b == o] for o in range(len(ops))]
    units = [[(share_units(way.hbm_share), share_units(way.buffer_share)) for way in op.ways] for op in ops]
    cycles = [[way.cycles for way in op.ways] for op in ops]
    takes_all = [[way.mode is Mode.ALL_CORES for way in op.ways] for op in ops]

    def allowed(running):
        for o, m in running:
            if takes_all[o][m]:
                for p, _ in running:
                    shared = any(x and y for x, y in zip(CORES[ops[o].engine], CORES[ops[p].engine], strict=True))
                    if p != o and (problem.all_cores_excludes is Exclusion.CHIP or shared):
                        return False
        held = [sum(CORES[ops[o].engine][k] for o, _ in running) for k in range(3)]
        if held[0] > problem.num_tensor_cores or held[1] > problem.num_vector_cores or held[2] > 1:
            return False
        return all(sum(int(units[o][m][k]) for o, m in running) <= SHARE_UNITS for k in range(2))

    @cache
    def rest(waiting, running):
        """Cycles from now to the end; running: (op, mode, cycles left)."""
        if not waiting and not running:
            return 0
        busy = {o for o, _, _ in running}
        ready = [o for o in waiting if not any(p in waiting or p in busy for p in preds[o])]
        free = [o for o in ready if min(cycles[o]) == 0]
        if free:  # takes no time, holds nothing
            return rest(waiting - {free[0]}, running)
        best = 10**9
        for modes in itertools.product(*((None, *range(len(cycles[o]))) for o in ready)):
            started = [(o, m) for o, m in zip(ready, modes, strict=True) if m is not None]
            if any(cycles[o][m] >= IMPOSSIBLE_CYCLES for o, m in started) or not (started or running):
                continue
            if not allowed([(o, m) for o, m, _ in running] + started):
                continue
            now = [*running, *((o, m, cycles[o][m]) for o, m in started)]
            later = tuple(sorted((o, m, left - 1) for o, m, left in now if left > 1))
            best = min(best, 1 + rest(waiting - {o for o, _ in started}, later))
        return best

    return rest(frozenset(range(len(ops))), ())


@st.composite
def problems(draw, max_ops=5, max_cycles=5, num_kinds=None):
    """Small problems; with ``num_kinds``, of operators of so many kinds only, many of which may change places."""
    size = draw(st.integers(1, max_ops))
    most_further = draw(st.sampled_from([0, 0, 2]))
    with_shares = draw(st.booleans())
    engines = [Engine.TENSOR, Engine.VECTOR, Engine.FUSED, Engine.LINK]
    shares = (
        st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.4, 0.5, 0.6, 2 / 3, 0.9, 1.0]) if with_shares else st.just(0.0)
    )

    def op(o):
        engine = draw(st.sampled_from([*engines, *engines, Engine.NONE]))
        if engine is Engine.NONE:
            return ScheduleOp(name=f"v{o}", engine=engine, one_core_cycles=0, all_cores_cycles=0)
        one = draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, max_cycles))
        every = draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, max_cycles))
        gone = draw(st.integers(0, 9))
        return ScheduleOp(
            name=f"o{o}",
            engine=engine,
            one_core_cycles=IMPOSSIBLE_CYCLES if gone == 0 else one,
            all_cores_cycles=IMPOSSIBLE_CYCLES if gone == 1 else every,
            one_core_hbm_share=draw(shares),
            all_cores_hbm_share=draw(shares),
            one_core_buffer_share=draw(shares),
            all_cores_buffer_share=draw(shares),
            further=tuple(
                Way(
                    mode=draw(st.sampled_from(list(Mode))),
                    cycles=draw(st.integers(1, max_cycles)),
                    hbm_share=draw(shares),
                    buffer_share=draw(shares),
                )
                for _ in range(draw(st.integers(0, most_further)))
            ),
        )

    if num_kinds is None:
        ops = [op(o) for o in range(size)]
    else:
        kinds = [op(k) for k in range(num_kinds)]
        ops = [replace(draw(st.sampled_from(kinds)), name=f"o{o}") for o in range(size)]
    names = draw(st.permutations(range(size)))  # edges need not follow the order of the ops
    edges = tuple(
        (names[a], names[b]) for a in range(size) for b in range(a + 1, size) if draw(st.integers(0, 3)) == 0
    )
    return ScheduleProblem(
        num_tensor_cores=draw(st.integers(1, 3)),
        num_vector_cores=draw(st.integers(1, 3)),
        ops=tuple(ops),
        edges=edges,
        all_cores_excludes=draw(st.sampled_from(list(Exclusion))),
    )


@settings(max_examples=600, deadline=None)
@given(problems())
def test_search_finds_the_brute_force_optimum(problem):
    found = solve_problem(problem, solver=Solver.SEARCH, time_limit_s=60)
    assert find_violations(problem, found) == []
    assert found.status is ScheduleStatus.OPTIMAL
    assert found.makespan_cycles == shortest_makespan(problem)


@settings(max_examples=40, deadline=None)
@given(problems(max_ops=7, max_cycles=3))
def test_search_finds_the_optimum_of_wider_problems(problem):
    found = solve_problem(problem, solver=Solver.SEARCH, time_limit_s=60)
    assert found.makespan_cycles == found.bound_cycles == shortest_makespan(problem)


@settings(max_examples=200, deadline=None)
@given(problems(max_ops=6, max_cycles=3, num_kinds=2))
def test_search_finds_the_optimum_where_operators_may_change_places(problem):
    found = solve_problem(problem, solver=Solver.SEARCH, time_limit_s=60)
    assert find_violations(problem, found) == []
    assert found.makespan_cycles == found.bound_cycles == shortest_makespan(problem)


@st.composite
def halved_problems(draw, max_ops=5):
    """Operators at all of the bandwidth or, slower, at half of it: chains, and what nothing waits for."""
    size = draw(st.integers(2, max_ops))
    ops = []
    for o in range(size):
        full = draw(st.integers(1, 4))
        half = full + draw(st.integers(0, full))
        engine = draw(st.sampled_from([Engine.TENSOR, Engine.VECTOR, Engine.FUSED, Engine.LINK]))
        one = Way(mode=Mode.ONE_CORE, cycles=draw(st.integers(half, 12)), hbm_share=0.5, buffer_share=0.0)
        every = Way(mode=Mode.ALL_CORES, cycles=full, hbm_share=1.0, buffer_share=0.0)
        slower = Way(mode=Mode.ALL_CORES, cycles=half, hbm_share=0.5, buffer_share=0.0)
        ops.append(operator_of(f"o{o}", engine, [one, every, slower]))
    num_spine = draw(st.integers(0, size))
    edges = [(o - 1, o) for o in range(1, num_spine)]
    edges += [(draw(st.integers(0, o - 1)), o) for o in range(max(num_spine, 1), size) if draw(st.booleans())]
    return ScheduleProblem(
        num_tensor_cores=2,
        num_vector_cores=2,
        ops=tuple(ops),
        edges=tuple(edges),
        all_cores_excludes=Exclusion.ENGINE,
    )


@settings(max_examples=150, deadline=None)
@given(halved_problems())
def test_search_finds_the_optimum_where_bandwidth_is_halved(problem):
    found = solve_problem(problem, solver=Solver.SEARCH, time_limit_s=60)
    assert find_violations(problem, found) == []
    assert found.makespan_cycles == found.bound_cycles == shortest_makespan(problem)


@settings(max_examples=200, deadline=None)
@given(problems(max_ops=6, max_cycles=4))
def test_search_with_bounds_tuned_at_every_node_finds_the_optimum(problem):
    with mock.patch.multiple(nodes, FIRST_TUNING=0, FIRST_PACKING=0):
        found = solve_problem(problem, solver=Solver.SEARCH, time_limit_s=60)
    assert find_violations(problem, found) == []
    assert found.makespan_cycles == found.bound_cycles == shortest_makespan(problem)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_cpsat_finds_the_brute_force_optimum(problem):
    found = solve_problem(problem, solver=Solver.CPSAT, time_limit_s=60)
    assert find_violations(problem, found) == []
    assert found.makespan_cycles == found.bound_cycles == shortest_makespan(problem)


@pytest.mark.parametrize("backend", ["scip", "highs", "cp_sat"])
@settings(max_examples=20, deadline=None)
@given(problem=problems())
def test_the_integer_program_finds_the_brute_force_optimum(backend, problem):
    found = solve_problem(problem, solver=Solver.ILP, backend=backend, time_limit_s=60)
    assert find_violations(problem, found) == []
    assert found.makespan_cycles == found.bound_cycles == shortest_makespan(problem)


@given(st.integers(1, 16), st.integers(1, 16))
def test_fractions_that_fill_a_bandwidth_fit_it(numerator, denominator):
    share = min(numerator, denominator) / denominator
    times = Fraction(denominator, min(numerator, denominator)).__floor__()
    assert times * int(share_units(share)) <= SHARE_UNITS
