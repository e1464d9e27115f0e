"""The validator must catch every kind of broken schedule."""

from dataclasses import replace

import pytest

from rephaze.schedule.validate import find_violations
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine
from rephaze.types.schedule import (
    Exclusion,
    Mode,
    Schedule,
    ScheduledOp,
    ScheduleOp,
    ScheduleProblem,
    ScheduleStatus,
)

ONE, ALL = Mode.ONE_CORE, Mode.ALL_CORES


def op(name, engine=Engine.TENSOR, one=10, every=5, **more):
    return ScheduleOp(name=name, engine=engine, one_core_cycles=one, all_cores_cycles=every, **more)


def problem(*ops, edges=(), tensor=1, vector=1, rule=Exclusion.CHIP):
    return ScheduleProblem(
        num_tensor_cores=tensor, num_vector_cores=vector, ops=ops, edges=edges, all_cores_excludes=rule
    )


def answer(makespan, *starts, bound=None, status=None):
    bound = makespan if bound is None else bound
    proven = ScheduleStatus.OPTIMAL if bound == makespan else ScheduleStatus.FEASIBLE
    return Schedule(
        status=status or proven,
        makespan_cycles=makespan,
        bound_cycles=bound,
        starts=tuple(ScheduledOp(op=name, start_cycles=at, mode=mode) for name, at, mode in starts),
        solve_s=0.0,
    )


def test_a_valid_schedule_has_no_violations():
    both = problem(op("a"), op("b", Engine.VECTOR), edges=((0, 1),))
    assert find_violations(both, answer(15, ("a", 0, ALL), ("b", 5, ONE))) == []


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (answer(15, ("a", 0, ALL), ("b", 4, ONE)), "before its input"),
        (answer(10, ("a", 0, ONE)), "b is never started"),
        (answer(20, ("a", 0, ONE), ("b", 10, ONE), ("b", 10, ONE)), "b starts twice"),
        (answer(20, ("a", 0, ONE), ("b", 10, ONE), ("c", 10, ONE)), "c is no op"),
        (answer(9, ("a", -1, ONE), ("b", 9, ONE)), "a starts at -1"),
        (answer(19, ("a", 0, ONE), ("b", 10, ONE)), "the last op ends at 20"),
        (answer(20, ("a", 0, ONE), ("b", 10, ONE), bound=21), "above the makespan"),
        (
            answer(20, ("a", 0, ONE), ("b", 10, ONE), bound=19, status=ScheduleStatus.OPTIMAL),
            "called optimal",
        ),
        (answer(0, status=ScheduleStatus.INFEASIBLE), "every op has a possible mode"),
    ],
)
def test_what_is_wrong_is_said(schedule, said):
    both = problem(op("a"), op("b", Engine.VECTOR), edges=((0, 1),))
    assert any(said in line for line in find_violations(both, schedule))


def test_an_impossible_mode_is_caught():
    lone = problem(op("a", one=IMPOSSIBLE_CYCLES))
    assert "impossible" in find_violations(lone, answer(10, ("a", 0, ONE)))[0]


@pytest.mark.parametrize("engine", [Engine.TENSOR, Engine.VECTOR, Engine.FUSED, Engine.LINK])
def test_more_users_than_cores_are_caught(engine):
    two = problem(op("a", engine), op("b", engine))
    assert find_violations(two, answer(10, ("a", 0, ONE), ("b", 0, ONE)))
    assert find_violations(two, answer(20, ("a", 0, ONE), ("b", 10, ONE))) == []


def test_exclusivity_follows_the_rule():
    chip = problem(op("a"), op("b", Engine.VECTOR))
    beside = answer(10, ("a", 0, ALL), ("b", 0, ONE))
    assert find_violations(chip, beside)
    assert find_violations(replace(chip, all_cores_excludes=Exclusion.ENGINE), beside) == []


def test_under_rule_engine_a_fused_op_excludes_both_engines_but_not_the_link():
    rule = Exclusion.ENGINE
    for engine, clashes in ((Engine.TENSOR, True), (Engine.VECTOR, True), (Engine.LINK, False)):
        pair = problem(op("f", Engine.FUSED), op("x", engine), tensor=9, vector=9, rule=rule)
        assert bool(find_violations(pair, answer(10, ("f", 0, ALL), ("x", 0, ONE)))) == clashes


@pytest.mark.parametrize("bandwidth", ["hbm", "buffer"])
def test_bandwidth_over_one_is_caught(bandwidth):
    def pair(share):
        shares = {f"one_core_{bandwidth}_share": share}
        return problem(op("a", **shares), op("b", Engine.VECTOR, **shares))

    together = answer(10, ("a", 0, ONE), ("b", 0, ONE))
    assert find_violations(pair(0.5), together) == []
    assert f"{bandwidth} bandwidth" in find_violations(pair(0.500001), together)[0]
