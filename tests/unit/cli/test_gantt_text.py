from rephaze.cli.gantt_text import gantt_lines
from rephaze.schedule.solve import solve_problem
from rephaze.types.latency import Engine
from rephaze.types.schedule import Mode, Schedule, ScheduledOp, ScheduleOp, ScheduleProblem, ScheduleStatus, Way


def lines_of(ops, edges=(), tensor=2):
    problem = ScheduleProblem(num_tensor_cores=tensor, num_vector_cores=1, ops=ops, edges=edges)
    return [line.plain for line in gantt_lines(problem, solve_problem(problem), width=61)]


def op(name, engine, one, every):
    return ScheduleOp(name=name, engine=engine, one_core_cycles=one, all_cores_cycles=every)


def test_concurrent_ops_have_lanes_of_their_own():
    lines = lines_of((op("left", Engine.TENSOR, 10, 10), op("right", Engine.TENSOR, 10, 10)))
    assert [line.split()[1] for line in lines[:2]] == ["left", "right"]
    assert lines[-1].split() == ["cycles", "0", "10"]


def test_bars_lie_where_they_run():
    lines = lines_of((op("aa", Engine.TENSOR, 10, 9), op("bb", Engine.VECTOR, 9, 9)), edges=((0, 1),))
    tensor, vector = (next(line for line in lines if name in line) for name in ("aa", "bb"))
    assert tensor.index("aa") == 11
    assert vector.index("bb") == 11 + 25


def test_nothing_timed_draws_nothing():
    assert lines_of((op("view", Engine.NONE, 0, 0),)) == []


def test_a_bar_is_as_long_as_the_way_that_was_chosen():
    slow = Way(mode=Mode.ONE_CORE, cycles=40)
    ops = (ScheduleOp(name="aa", engine=Engine.TENSOR, one_core_cycles=10, all_cores_cycles=10, further=(slow,)),)
    problem = ScheduleProblem(num_tensor_cores=1, num_vector_cores=1, ops=ops, edges=())
    start = ScheduledOp(op="aa", start_cycles=0, mode=Mode.ONE_CORE, further=0)
    schedule = Schedule(
        status=ScheduleStatus.FEASIBLE, makespan_cycles=50, bound_cycles=10, starts=(start,), solve_s=0.0
    )
    bar = gantt_lines(problem, schedule, width=61)[0].plain
    assert f"{'aa':<40}" in bar
