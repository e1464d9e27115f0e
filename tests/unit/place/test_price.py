"""Prices worked out by hand."""

import pytest

from rephaze.errors import SpecError
from rephaze.place.precision import named_precision
from rephaze.place.price import price_plan, run_layers
from rephaze.types.cluster import flat_cluster
from rephaze.types.placement import (
    LayerCost,
    LayerGraph,
    LayerLink,
    Optimizer,
    PlacementModel,
    PlacementProblem,
    Plan,
    PlannedStage,
    PrecisionPolicy,
    Recompute,
    RecomputePolicy,
    TiedWeights,
)


def layer(name, forward_s, params=2.0, kept=3.0, **more):
    return LayerCost(
        name=name, param_bytes=params, activation_bytes=kept, forward_s=forward_s, backward_s=2 * forward_s,
        is_sharded=False, **more,
    )  # fmt: skip


def problem_of(cost_model, layers, links, tied=(), memory=1000.0, count=4, hbm=None):
    return PlacementProblem(
        cost_model=cost_model,
        cluster=flat_cluster(4, 2.0, 0.0 if cost_model is PlacementModel.PAPER else 0.5),
        device_memory_bytes=memory,
        graphs=(LayerGraph(tp=1, microbatch=1, layers=layers, links=links, tied=tied),),
        recompute=RecomputePolicy.AUTO,
        optimizer=Optimizer.ADAM,
        precision=named_precision("paper" if cost_model is PlacementModel.PAPER else "mixed", Optimizer.ADAM),
        num_microbatches=count,
        hbm_bytes_per_s=hbm,
    )


def plan_of(dp, *stages):
    return Plan(
        tp=1,
        dp=dp,
        microbatch=1,
        stages=tuple(PlannedStage(layers=layers, recompute=mode) for layers, mode in stages),
    )


LAYERS = (layer("a", 1.0), layer("b", 2.0), layer("c", 4.0, input_bytes=1.0, working_bytes=5.0))
LINKS = (LayerLink(src=0, dst=1, payload_bytes=6.0), LayerLink(src=1, dst=2, payload_bytes=4.0))


def test_the_papers_formula_on_two_stages():
    problem = problem_of(PlacementModel.PAPER, LAYERS, LINKS)
    priced = price_plan(problem, plan_of(2, ((0, 1), Recompute.STAGE), ((2,), Recompute.STAGE)))
    # First: forward 3, gradients come in 4 / 2 = 2 s while it replays 3, backward 6. Last: receive 2, 4, 8.
    assert [stage.load_s for stage in priced.stages] == [12.0, 14.0]
    assert priced.stages[1].recompute is Recompute.NONE
    assert priced.batch_s == 14.0 * (2 + 2 - 1) + 4 * 1 / 2 * 4.0 / 2.0
    # 3 x 4 bytes resident, 6 of activations; the first stage's input is not kept.
    assert priced.stages[0].memory.total_bytes == 18.0
    assert priced.stages[1].memory.total_bytes == 9.0


def test_the_1f1b_formula_on_two_stages():
    tied = (TiedWeights(layers=(0, 2), param_bytes=1.0),)
    problem = problem_of(PlacementModel.ONE_F_ONE_B, LAYERS, LINKS, tied=tied, hbm=10.0)
    priced = price_plan(problem, plan_of(2, ((0, 1), Recompute.NONE), ((2,), Recompute.BLOCK)))
    transfer = 4.0 / 2.0 + 0.5
    assert [stage.load_s for stage in priced.stages] == [9.0 + transfer, 12.0 + 4.0 + transfer]
    # Stage 0 holds 4 bytes of weights, stage 1 two and a copy of one: gradients take twice the weights.
    sync = 2 * 1 / 2 * (4.0 * 2) / 2.0 + 2 * 0.5
    assert [stage.sync_s for stage in priced.stages] == [sync, 3.0 * 2 / 2.0 + 1.0]
    assert priced.stages[1].tied_s == 1.0 * 2 / 2.0 + 0.5
    assert priced.time.step_s == 4.0 * 15 / 10.0
    pipe = 11.5 + 18.5 + (2 - 1) * 18.5
    assert priced.batch_s == pytest.approx(pipe + sync + 1.5 + 6.0, rel=1e-12)
    assert priced.time.total_s == priced.batch_s


def test_memory_is_itemised_by_recompute_mode():
    problem = problem_of(PlacementModel.ONE_F_ONE_B, LAYERS, LINKS, count=8)
    for mode, kept, replay in ((Recompute.NONE, 3.0, 0.0), (Recompute.BLOCK, 1.0, 2.0)):
        priced = price_plan(problem, plan_of(1, ((0, 1), Recompute.NONE), ((2,), mode)))
        memory = priced.stages[1].memory
        assert (memory.weights_bytes, memory.gradients_bytes, memory.state_bytes) == (2.0, 4.0, 12.0)
        assert (memory.kept_bytes, memory.replay_bytes) == (kept, replay)
        assert memory.working_bytes == 5.0
    first = price_plan(
        problem, plan_of(1, ((0,), Recompute.NONE), ((1,), Recompute.STAGE), ((2,), Recompute.NONE))
    )
    # Two in flight: the input of one, and everything of the one whose backward pass runs.
    assert first.stages[1].memory.kept_bytes == 6.0
    assert first.stages[1].memory.replay_bytes == 3.0
    assert first.stages[0].memory.kept_bytes == 9.0


def test_few_microbatches_hold_less_than_the_depth():
    problem = problem_of(PlacementModel.ONE_F_ONE_B, LAYERS, LINKS, count=2)
    priced = price_plan(problem, plan_of(1, *(((v,), Recompute.NONE) for v in range(3))))
    assert [stage.num_in_flight for stage in priced.stages] == [2, 2, 1]


def test_memory_met_to_the_byte_fits():
    plan = plan_of(1, ((0, 1, 2), Recompute.NONE))
    for cost_model, needed in ((PlacementModel.PAPER, 27.0), (PlacementModel.ONE_F_ONE_B, 9 + 54 + 5.0)):
        assert price_plan(problem_of(cost_model, LAYERS, LINKS, memory=needed), plan).fits
        assert not price_plan(problem_of(cost_model, LAYERS, LINKS, memory=needed * 0.999), plan).fits


def test_a_plan_on_too_many_devices_does_not_fit():
    problem = problem_of(PlacementModel.PAPER, LAYERS, LINKS)
    priced = price_plan(problem, plan_of(3, ((0, 1), Recompute.NONE), ((2,), Recompute.NONE)))
    assert priced.num_devices == 6
    assert not priced.fits


@pytest.mark.parametrize(
    ("stages", "says"),
    [
        ([((0, 1), Recompute.NONE)], "in no stage"),
        ([((0, 1), Recompute.NONE), ((1, 2), Recompute.NONE)], "two stages"),
        ([((2,), Recompute.NONE), ((0, 1), Recompute.NONE)], "earlier stage"),
        ([((0, 1, 2), Recompute.NONE), ((), Recompute.NONE)], "at least one layer"),
        ([], "at least one stage"),
        ([((0, 1, 2, 7), Recompute.NONE)], "no such layer"),
    ],
)
def test_what_is_no_plan_is_said(stages, says):
    with pytest.raises(SpecError, match=says):
        price_plan(problem_of(PlacementModel.PAPER, LAYERS, LINKS), plan_of(1, *stages))


def test_unknown_degrees_are_said():
    problem = problem_of(PlacementModel.PAPER, LAYERS, LINKS)
    plan = Plan(tp=8, dp=1, microbatch=1, stages=(PlannedStage(layers=(0, 1, 2), recompute=Recompute.NONE),))
    with pytest.raises(SpecError, match="tp, microbatch"):
        price_plan(problem, plan)
    with pytest.raises(SpecError, match="dp is 5"):
        price_plan(problem, plan_of(5, ((0, 1, 2), Recompute.NONE)))


def test_a_device_waits_only_when_it_must():
    # Layer 1's tensor comes at 5; layer 2 is ready at once and runs first.
    assert run_layers({0: 1.0, 1: 2.0, 2: 3.0}, {0: [], 1: [0], 2: [0]}, {0: 0.0, 1: 5.0, 2: 0.0}) == 7.0
    assert run_layers({0: 1.0, 1: 2.0}, {0: [], 1: [0]}, {0: 4.0, 1: 0.0}) == 7.0


def test_policies_have_the_bytes_they_are_known_for():
    assert named_precision("mixed", Optimizer.ADAM).resident_ratio == 9.0
    assert named_precision("paper", Optimizer.SGD).resident_ratio == 2.0
    assert named_precision("paper", Optimizer.ADAM).resident_ratio == 3.0
    with pytest.raises(SpecError, match="did you mean 'mixed'"):
        named_precision("mixd", Optimizer.SGD)
    with pytest.raises(SpecError, match="weight_bytes"):
        PrecisionPolicy(name="x", weight_bytes=0.0, gradient_bytes=1.0, state_bytes=1.0, step_bytes=1.0)
