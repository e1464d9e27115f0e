"""Placement records: what they refuse, and what follows from their fields."""

import dataclasses
import math

import pytest

from rephaze.errors import SpecError
from rephaze.types.cluster import flat_cluster
from rephaze.types.placement import (
    BatchTime,
    LayerGraph,
    Optimizer,
    Placement,
    PlacementModel,
    PlacementProblem,
    Plan,
    PlannedStage,
    PrecisionPolicy,
    PricedPlan,
    Recompute,
    RecomputePolicy,
    SolveStatus,
    StageCost,
    StageMemory,
)

PRECISION = PrecisionPolicy(name="mixed", weight_bytes=2, gradient_bytes=4, state_bytes=12, step_bytes=30)
PROBLEM = PlacementProblem(
    cost_model=PlacementModel.ONE_F_ONE_B,
    cluster=flat_cluster(4, 1e9),
    device_memory_bytes=1e9,
    graphs=(),
    recompute=RecomputePolicy.AUTO,
    optimizer=Optimizer.ADAM,
    precision=PRECISION,
    global_batch=10,
)
MEMORY = StageMemory(
    weights_bytes=1, gradients_bytes=2, state_bytes=4, kept_bytes=8, replay_bytes=16, working_bytes=32
)
TIME = BatchTime(compute_s=1, replay_s=2, transfer_s=4, bubble_s=8, sync_s=16, tied_s=32, step_s=64)
STAGE = StageCost(
    layers=("a",),
    num_devices=1,
    recompute=Recompute.NONE,
    num_in_flight=1,
    forward_s=1,
    backward_s=2,
    replay_s=4,
    transfer_s=8,
    sync_s=100,
    tied_s=100,
    step_s=100,
    param_bytes=1,
    memory=MEMORY,
    fits=True,
)
PRICED = PricedPlan(
    plan=Plan(tp=1, dp=1, microbatch=1, stages=(PlannedStage(layers=(0,), recompute=Recompute.NONE),) * 3),
    batch_s=127,
    time=TIME,
    stages=(STAGE, dataclasses.replace(STAGE, memory=dataclasses.replace(MEMORY, kept_bytes=9))),
    num_microbatches=1,
    num_devices=3,
    device_memory_bytes=60,
    fits=False,
)


def test_a_policy_says_how_much_stays_resident():
    assert PRECISION.resident_ratio == (2 + 4 + 12) / 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("weight_bytes", 0),
        ("weight_bytes", 65),
        ("gradient_bytes", -1),
        ("gradient_bytes", 65),
        ("state_bytes", 257),
        ("state_bytes", math.nan),
        ("step_bytes", 1025),
        ("step_bytes", "30"),
    ],
)
def test_a_policy_of_absurd_sizes_is_refused(field, value):
    with pytest.raises(SpecError, match=f"^precision.{field} is {value!r}"):
        dataclasses.replace(PRECISION, **{field: value})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device_memory_bytes": 0}, "device_memory_bytes is 0"),
        ({"device_memory_bytes": math.inf}, "device_memory_bytes is inf: must be finite"),
        ({"num_microbatches": 4}, "num_microbatches is 4: give it, or global_batch, not both"),
        ({"global_batch": None}, "num_microbatches is None: give it, or global_batch"),
        ({"global_batch": 0}, "global_batch is 0"),
        ({"global_batch": None, "num_microbatches": 0}, "num_microbatches is 0"),
        ({"hbm_bytes_per_s": 0.0}, "hbm_bytes_per_s is 0.0"),
    ],
)
def test_a_problem_that_cannot_be_is_refused(changes, said):
    with pytest.raises(SpecError, match=f"^{said}"):
        dataclasses.replace(PROBLEM, **changes)


@pytest.mark.parametrize(("microbatch", "num"), [(1, 10), (5, 2), (4, 3), (10, 1), (16, 1)])
def test_the_last_microbatch_may_be_smaller(microbatch, num):
    graph = LayerGraph(tp=1, microbatch=microbatch, layers=(), links=())
    assert PROBLEM.microbatches_of(graph) == num
    fixed = dataclasses.replace(PROBLEM, global_batch=None, num_microbatches=7)
    assert fixed.microbatches_of(graph) == 7


def test_parts_add_up():
    assert MEMORY.total_bytes == 63
    assert TIME.total_s == 127
    assert STAGE.load_s == 15  # once a microbatch: without synchronisation and step
    assert PRICED.plan.pp == 3


def test_the_fullest_stage_decides_the_margin():
    assert PRICED.margin_bytes == 60 - 64


@pytest.mark.parametrize(
    ("status", "best", "bound_s", "gap"),
    [
        (SolveStatus.OPTIMAL, PRICED, 127, 0.0),
        (SolveStatus.OPTIMAL, PRICED, 126.9999, 0.0),  # rounding is no gap
        (SolveStatus.FEASIBLE, PRICED, 63.5, 1.0),
        (SolveStatus.FEASIBLE, PRICED, 0.0, math.inf),
        (SolveStatus.INFEASIBLE, None, math.inf, 0.0),
    ],
)
def test_the_gap_is_what_another_plan_might_gain(status, best, bound_s, gap):
    assert Placement(status=status, best=best, bound_s=bound_s).gap == gap
