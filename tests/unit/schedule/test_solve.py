import itertools
import time

import numpy as np
import pytest

from rephaze.errors import SpecError
from rephaze.schedule.needs import Cores
from rephaze.schedule.parts import Effort, Solver
from rephaze.schedule.problem_file import FORMAT, problem_from
from rephaze.schedule.solve import LayerModes, ScheduleMemo, schedule_layer, solve_problem
from rephaze.schedule.structure import compile_structure
from rephaze.schedule.validate import find_violations
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine
from rephaze.types.schedule import Exclusion, Mode, ScheduleOp, ScheduleProblem, ScheduleStatus
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal

T, V, F, L, N = Engine.TENSOR, Engine.VECTOR, Engine.FUSED, Engine.LINK, Engine.NONE


def problem_of(rows, edges=(), tensor=1, vector=1, rule=Exclusion.CHIP):
    ops = tuple(
        ScheduleOp(name=f"o{o}", engine=engine, one_core_cycles=one, all_cores_cycles=every, **dict(shares))
        for o, (engine, one, every, *shares) in enumerate(rows)
    )
    return ScheduleProblem(
        num_tensor_cores=tensor, num_vector_cores=vector, ops=ops, edges=edges, all_cores_excludes=rule
    )


def random_problem(seed, size=10, rule=Exclusion.CHIP, shares=False):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(size):
        one = int(rng.integers(5, 400))
        row = [[T, V, F, L][rng.integers(0, 4)], one, int(one / rng.uniform(0.8, 4)) + 1]
        if shares:
            row += [
                ("one_core_hbm_share", rng.integers(0, 50) / 100),
                ("all_cores_hbm_share", rng.integers(0, 100) / 100),
            ]
        rows.append(tuple(row))
    edges = tuple((a, b) for b in range(size) for a in range(b) if rng.random() < 1.5 / size)
    return problem_of(rows, edges, int(rng.integers(1, 4)), int(rng.integers(1, 4)), rule)


def test_the_paper_example_two_gemms_share_or_take_turns():
    # Two one-core cycles of 100 side by side on two cores, or 60 after 60: sharing wins.
    found = solve_problem(problem_of([(T, 100, 60), (T, 100, 60)], tensor=2))
    assert (found.makespan_cycles, found.status) == (100, ScheduleStatus.OPTIMAL)
    found = solve_problem(problem_of([(T, 100, 40), (T, 100, 40)], tensor=2))
    assert found.makespan_cycles == 80
    assert {start.mode for start in found.starts} == {Mode.ALL_CORES}


def test_no_ops_take_no_time():
    found = solve_problem(problem_of([]))
    assert (found.status, found.makespan_cycles, found.starts) == (ScheduleStatus.OPTIMAL, 0, ())


def test_views_start_when_their_inputs_are_ready():
    problem = problem_of([(T, 10, 10), (N, 0, 0), (V, 5, 5)], edges=((0, 1), (1, 2)))
    found = solve_problem(problem)
    assert [start.start_cycles for start in found.starts] == [0, 10, 10]
    assert find_violations(problem, found) == []


def test_one_impossible_mode_leaves_the_other():
    found = solve_problem(problem_of([(T, IMPOSSIBLE_CYCLES, 7), (V, 9, IMPOSSIBLE_CYCLES)]))
    assert found.makespan_cycles == 16
    assert [start.mode for start in found.starts] == [Mode.ALL_CORES, Mode.ONE_CORE]


def test_the_op_that_cannot_run_is_named():
    found = solve_problem(problem_of([(T, 5, 5), (V, IMPOSSIBLE_CYCLES, IMPOSSIBLE_CYCLES)]))
    assert found.status is ScheduleStatus.INFEASIBLE
    assert "'o1'" in found.reason
    assert found.starts == ()


def test_links_overlap_cores_but_not_each_other():
    found = solve_problem(problem_of([(L, 10, 10), (L, 10, 10), (T, 20, 20)]))
    assert found.makespan_cycles == 20


def test_shares_keep_ops_apart():
    wide = [("one_core_hbm_share", 0.6)]
    assert solve_problem(problem_of([(T, 10, 10, *wide), (V, 10, 10)])).makespan_cycles == 10
    assert solve_problem(problem_of([(T, 10, 10, *wide), (V, 10, 10, *wide)])).makespan_cycles == 20


@pytest.mark.parametrize("rule", list(Exclusion))
@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_search_cpsat_and_auto_agree_beyond_brute_force(seed, rule, shares):
    problem = random_problem(seed, rule=rule, shares=shares)
    found = [
        solve_problem(problem, solver=solver, time_limit_s=60)
        for solver in (Solver.SEARCH, Solver.CPSAT, Solver.AUTO)
    ]
    assert [find_violations(problem, answer) for answer in found] == [[], [], []]
    assert {answer.status for answer in found} == {ScheduleStatus.OPTIMAL}
    assert len({answer.makespan_cycles for answer in found}) == 1


@pytest.mark.parametrize("rule", list(Exclusion))
@pytest.mark.parametrize("seed", range(3))
def test_the_integer_program_agrees_beyond_brute_force(seed, rule):
    problem = random_problem(seed, size=7, rule=rule, shares=True)
    program = solve_problem(problem, solver=Solver.ILP, time_limit_s=60)
    assert program.status is ScheduleStatus.OPTIMAL
    assert program.makespan_cycles == solve_problem(problem, solver=Solver.SEARCH).makespan_cycles


@pytest.mark.parametrize("limit_s", [0.0, 0.01, 0.2])
@pytest.mark.parametrize("rule", list(Exclusion))
def test_out_of_time_the_schedule_is_valid_and_the_bound_honest(limit_s, rule):
    problem = random_problem(3, size=70, rule=rule, shares=True)
    found = solve_problem(problem, time_limit_s=limit_s)
    assert find_violations(problem, found) == []
    assert 0 < found.bound_cycles <= found.makespan_cycles


def test_relabelling_operators_changes_nothing():
    problem = random_problem(5)
    back = {o: len(problem.ops) - 1 - o for o in range(len(problem.ops))}
    turned = ScheduleProblem(
        num_tensor_cores=problem.num_tensor_cores,
        num_vector_cores=problem.num_vector_cores,
        ops=problem.ops[::-1],
        edges=tuple((back[a], back[b]) for a, b in problem.edges),
    )
    assert solve_problem(turned).makespan_cycles == solve_problem(problem).makespan_cycles


def test_a_reversed_graph_takes_as_long():
    problem = random_problem(8)
    mirrored = ScheduleProblem(
        num_tensor_cores=problem.num_tensor_cores,
        num_vector_cores=problem.num_vector_cores,
        ops=problem.ops,
        edges=tuple((b, a) for a, b in problem.edges),
    )
    assert solve_problem(mirrored).makespan_cycles == solve_problem(problem).makespan_cycles


def test_the_memo_serves_chips_that_differ_only_in_cores_beyond_use():
    structure = compile_structure([T, T, V, V], [(0, 2), (1, 3)])
    modes = LayerModes(cycles_om=np.array([[50, 30], [60, 40], [30, 20], [20, 15]], dtype=np.int64))
    memo = ScheduleMemo()

    def solve(num_cores):
        cores = Cores(num_tensor_cores=num_cores, num_vector_cores=num_cores, exclusion=Exclusion.CHIP)
        return schedule_layer(structure, modes, cores, memo=memo)

    found = [solve(num_cores) for num_cores in (2, 8, 64)]
    assert len(memo) == 1
    assert len({answer.makespan_cycles for answer in found}) == 1
    solve(1)
    assert len(memo) == 2


@pytest.mark.parametrize("rule", list(Exclusion))
def test_a_work_limit_reads_no_clock(rule, monkeypatch):
    problem = random_problem(3, size=40, rule=rule, shares=True)
    first = solve_problem(problem, work_limit=3000)
    hours = itertools.count(step=3600.0)
    monkeypatch.setattr("time.perf_counter", lambda: next(hours))
    again = solve_problem(problem, work_limit=3000)
    assert find_violations(problem, first) == []
    assert (again.starts, again.bound_cycles) == (first.starts, first.bound_cycles)
    assert first.status is ScheduleStatus.FEASIBLE  # else the limit was not met


def test_more_work_never_gives_a_weaker_answer():
    problem = random_problem(3, size=40, shares=True)
    found = [solve_problem(problem, solver=Solver.SEARCH, work_limit=limit) for limit in (100, 1000, 10_000)]
    assert [answer.bound_cycles for answer in found] == sorted(answer.bound_cycles for answer in found)
    spans = [answer.makespan_cycles for answer in found]
    assert spans == sorted(spans, reverse=True)


def test_the_memo_keeps_what_work_could_not_prove_with_its_limit():
    problem = random_problem(3, size=40, shares=True)
    memo = ScheduleMemo()
    first, again = (solve_problem(problem, work_limit=500, memo=memo) for _ in range(2))
    assert first.status is ScheduleStatus.FEASIBLE
    assert again.starts == first.starts
    kept = len(memo)
    solve_problem(problem, work_limit=600, memo=memo)
    assert len(memo) > kept


def layer_of(problem):
    structure = compile_structure([op.engine for op in problem.ops], problem.edges)
    cycles_om = np.array([(op.one_core_cycles, op.all_cores_cycles) for op in problem.ops], dtype=np.int64)
    cores = Cores(
        num_tensor_cores=problem.num_tensor_cores,
        num_vector_cores=problem.num_vector_cores,
        exclusion=problem.all_cores_excludes,
    )

    def solve(memo, stop, solver=Solver.AUTO, work_limit=2_000_000):
        effort = Effort(work_limit=work_limit, solver=solver, stop=stop)
        return schedule_layer(structure, LayerModes(cycles_om=cycles_om), cores, effort, memo)

    return solve


@pytest.mark.parametrize("solver", [Solver.AUTO, Solver.SEARCH, Solver.CPSAT])
@pytest.mark.parametrize("rule", list(Exclusion))
def test_a_deadline_interrupts_work_and_leaves_nothing_in_the_memo(rule, solver):
    solve, memo = layer_of(random_problem(3, size=60, rule=rule)), ScheduleMemo()
    solve(memo, UNSTOPPED, work_limit=1)  # kernels are compiled before the clock is read
    kept = dict(memo.parts)
    began = time.perf_counter()
    with pytest.raises(StoppedError):
        solve(memo, StopSignal(began + 0.3), solver)
    assert time.perf_counter() - began < 5.0
    assert memo.parts == kept


def test_asked_to_stop_the_search_does():
    solve, memo = layer_of(random_problem(3, size=60)), ScheduleMemo()
    asked = itertools.count()
    with pytest.raises(StoppedError):
        solve(memo, StopSignal(is_asked=lambda: next(asked) > 20))
    assert not memo.parts


@pytest.mark.parametrize("rule", list(Exclusion))
def test_a_deadline_that_does_not_come_changes_nothing(rule):
    solve = layer_of(random_problem(3, size=40, rule=rule))
    plain = solve(None, UNSTOPPED, work_limit=3000)
    timed = solve(None, StopSignal(time.perf_counter() + 3600), work_limit=3000)
    assert plain.status is ScheduleStatus.FEASIBLE  # else no limit was met
    assert (timed.makespan_cycles, timed.bound_cycles) == (plain.makespan_cycles, plain.bound_cycles)
    assert timed.start_cycles_o.tolist() == plain.start_cycles_o.tolist()


def test_a_further_way_too_long_to_run_is_refused():
    op = {"name": "a", "core": "tensor", "one_core_cycles": 5, "all_cores_cycles": 3}
    further = [{"mode": "one_core", "cycles": IMPOSSIBLE_CYCLES}]
    data = {"format": FORMAT, "num_tensor_cores": 1, "num_vector_cores": 1, "edges": []}
    with pytest.raises(SpecError, match=r"further\[0\].cycles is .* too long; leave out a way"):
        problem_from(data | {"ops": [op | {"further": further}]})


@pytest.mark.parametrize("rule", list(Exclusion))
@pytest.mark.parametrize("seed", range(6))
def test_a_question_is_answered_by_a_proven_schedule_below_it_or_by_a_bound(seed, rule):
    problem = random_problem(seed, size=12, rule=rule, shares=True)
    optimum = solve_problem(problem, time_limit_s=60).makespan_cycles
    structure = compile_structure([op.engine for op in problem.ops], problem.edges)
    cores = Cores(
        num_tensor_cores=problem.num_tensor_cores, num_vector_cores=problem.num_vector_cores, exclusion=rule
    )
    modes = LayerModes(
        cycles_om=np.array([[way.cycles for way in op.ways] for op in problem.ops]),
        hbm_share_om=np.array([[way.hbm_share for way in op.ways] for op in problem.ops]),
        buffer_share_om=np.array([[way.buffer_share for way in op.ways] for op in problem.ops]),
    )
    memo = ScheduleMemo()
    for cutoff in (optimum // 2, optimum - 1, optimum, optimum + 1, 2 * optimum):
        found = schedule_layer(structure, modes, cores, Effort(work_limit=10**6, cutoff_cycles=cutoff), memo)
        assert found.bound_cycles <= optimum <= found.makespan_cycles
        if optimum < cutoff:
            assert found.status is ScheduleStatus.OPTIMAL
        else:
            assert found.bound_cycles >= cutoff
            # What was left open is not taken for what a whole search could not prove.
            assert all(part.is_proven for part in memo.parts.values())
    assert schedule_layer(structure, modes, cores, Effort(work_limit=10**6), memo).makespan_cycles == optimum
