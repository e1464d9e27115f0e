import pytest

from rephaze.schedule.usage import usage_of
from rephaze.types.latency import Engine
from rephaze.types.schedule import (
    Mode,
    Schedule,
    ScheduledOp,
    ScheduleOp,
    ScheduleProblem,
    ScheduleStatus,
)


def schedule_of(makespan, *starts):
    return Schedule(
        status=ScheduleStatus.OPTIMAL,
        makespan_cycles=makespan,
        bound_cycles=makespan,
        starts=tuple(ScheduledOp(op=name, start_cycles=at, mode=mode) for name, at, mode in starts),
        solve_s=0.0,
    )


def test_peak_mean_and_energy_by_hand():
    problem = ScheduleProblem(
        num_tensor_cores=4,
        num_vector_cores=2,
        ops=(
            ScheduleOp(name="t", engine=Engine.TENSOR, one_core_cycles=10, all_cores_cycles=4, all_cores_j=3.0),
            ScheduleOp(name="f", engine=Engine.FUSED, one_core_cycles=10, all_cores_cycles=4, one_core_j=1.0),
            ScheduleOp(name="v", engine=Engine.VECTOR, one_core_cycles=10, all_cores_cycles=6, one_core_j=0.5),
            ScheduleOp(name="l", engine=Engine.LINK, one_core_cycles=7, all_cores_cycles=7),
        ),
        edges=((0, 1),),
    )
    found = schedule_of(
        14,
        ("t", 0, Mode.ALL_CORES),
        ("f", 4, Mode.ONE_CORE),
        ("v", 4, Mode.ONE_CORE),
        ("l", 4, Mode.ONE_CORE),
    )
    usage = usage_of(problem, found)
    assert usage.tensor_peak_utilization == 1.0
    assert usage.vector_peak_utilization == 1.0
    assert usage.tensor_mean_utilization == pytest.approx((4 * 4 + 10) / (4 * 14))
    assert usage.vector_mean_utilization == pytest.approx((10 + 10) / (2 * 14))
    assert usage.link_mean_utilization == pytest.approx(7 / 14)
    assert usage.energy_j == 4.5


def test_a_fused_op_on_all_cores_counts_pairs():
    problem = ScheduleProblem(
        num_tensor_cores=8,
        num_vector_cores=2,
        ops=(ScheduleOp(name="f", engine=Engine.FUSED, one_core_cycles=9, all_cores_cycles=3),),
        edges=(),
    )
    usage = usage_of(problem, schedule_of(3, ("f", 0, Mode.ALL_CORES)))
    assert usage.tensor_peak_utilization == usage.tensor_mean_utilization == 0.25
    assert usage.vector_mean_utilization == 1.0


def test_one_op_ending_as_another_starts_does_not_raise_the_peak():
    problem = ScheduleProblem(
        num_tensor_cores=2,
        num_vector_cores=1,
        ops=tuple(
            ScheduleOp(name=name, engine=Engine.TENSOR, one_core_cycles=5, all_cores_cycles=5) for name in "ab"
        ),
        edges=((0, 1),),
    )
    usage = usage_of(problem, schedule_of(10, ("a", 0, Mode.ONE_CORE), ("b", 5, Mode.ONE_CORE)))
    assert usage.tensor_peak_utilization == 0.5
