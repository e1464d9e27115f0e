"""Search, CP-SAT and the integer program on attention blocks of 8 to 20 operators: none contradicts another."""

from unittest import mock

import numpy as np
import pytest

from rephaze.schedule import nodes
from rephaze.schedule.parts import Solver
from rephaze.schedule.solve import solve_problem
from rephaze.schedule.validate import find_violations
from rephaze.types.latency import Engine
from rephaze.types.schedule import Exclusion, ScheduleOp, ScheduleProblem, ScheduleStatus

T, V, F, L = Engine.TENSOR, Engine.VECTOR, Engine.FUSED, Engine.LINK
FORWARD = (
    ("q", T, ()),
    ("k", T, ()),
    ("v", T, ()),
    ("rope_q", V, ("q",)),
    ("rope_k", V, ("k",)),
    ("scores", F, ("rope_q", "rope_k")),
    ("softmax", V, ("scores",)),
    ("mix", T, ("softmax", "v")),
)
"""Eight operators: what each reads."""


def _backward():
    """Gradients of the inputs in reverse order; of the weights, nothing waits for them but the reduction."""
    readers = {name: [] for name, _, _ in FORWARD}
    for name, _, reads in FORWARD:
        for source in reads:
            readers[source].append(name)
    rows = []
    for name, engine, _ in reversed(FORWARD):
        sources = tuple(f"d_{reader}" for reader in readers[name])
        rows.append((f"d_{name}", engine, sources))
        if name in "qkv":
            rows.append((f"w_{name}", T, sources))
    return (*rows, ("d_in", V, ("d_q", "d_k", "d_v")), ("reduce", L, ("w_q", "w_k", "w_v")))


def block(seed, rule, with_shares, rows=FORWARD, copies=1):
    """A problem with random durations; copies are independent of each other, as two microbatches are."""
    rng = np.random.default_rng(seed)
    num_tensor, num_vector = (int(n) for n in rng.integers(1, 4, 2))
    ops, edges = [], []
    for copy in range(copies):
        place = {name: len(ops) + k for k, (name, _, _) in enumerate(rows)}
        edges += [(place[source], place[name]) for name, _, reads in rows for source in reads]
        for name, engine, _ in rows:
            one = int(rng.integers(20, 400))
            speedup = {T: num_tensor, F: num_tensor, V: num_vector, L: 1}[engine]
            every = int(one / rng.uniform(1, speedup)) + int(rng.integers(0, 20))
            shares = rng.choice([0.0, 0.2, 0.35, 0.5, 0.65, 0.8], 4) if with_shares else np.zeros(4)
            ops.append(
                ScheduleOp(
                    name=f"{name}_{copy}",
                    engine=engine,
                    one_core_cycles=one,
                    all_cores_cycles=every,
                    one_core_hbm_share=float(min(shares[:2])),
                    all_cores_hbm_share=float(max(shares[:2])),
                    one_core_buffer_share=float(min(shares[2:])),
                    all_cores_buffer_share=float(max(shares[2:])),
                )
            )
    return ScheduleProblem(
        num_tensor_cores=num_tensor,
        num_vector_cores=num_vector,
        ops=tuple(ops),
        edges=tuple(edges),
        all_cores_excludes=rule,
    )


def agree(problem, *answers):
    """All valid, no bound above a makespan, hence proven values equal."""
    for found in answers:
        assert find_violations(problem, found) == []
    assert max(found.bound_cycles for found in answers) <= min(found.makespan_cycles for found in answers)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("with_shares", [False, True], ids=["free", "shares"])
@pytest.mark.parametrize("rule", list(Exclusion))
def test_all_three_prove_the_same_optimum_of_eight_operators(rule, with_shares, seed):
    problem = block(seed, rule, with_shares)
    answers = [
        solve_problem(problem, solver=Solver.SEARCH, work_limit=10**6),
        solve_problem(problem, solver=Solver.CPSAT, work_limit=10**7),
        solve_problem(problem, solver=Solver.ILP, backend="cp_sat", time_limit_s=120),
    ]
    agree(problem, *answers)
    assert {found.status for found in answers} == {ScheduleStatus.OPTIMAL}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", ["backward", "two copies"])
@pytest.mark.parametrize("with_shares", [False, True], ids=["free", "shares"])
@pytest.mark.parametrize("rule", list(Exclusion))
def test_search_and_cpsat_agree_on_larger_blocks(rule, with_shares, shape, seed):
    if shape == "backward":
        problem = block(seed, rule, with_shares, rows=_backward())
    else:
        problem = block(seed, rule, with_shares, copies=2)
    search = solve_problem(problem, solver=Solver.SEARCH, work_limit=10**6)
    cpsat = solve_problem(problem, solver=Solver.CPSAT, work_limit=100_000)
    with mock.patch.multiple(nodes, FIRST_TUNING=0, FIRST_PACKING=0):
        tuned = solve_problem(problem, solver=Solver.SEARCH, work_limit=10**6)
    agree(problem, search, cpsat, tuned)
    assert search.status is tuned.status is ScheduleStatus.OPTIMAL
