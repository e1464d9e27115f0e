"""Answers for people: reasons, comparisons and remedies."""

import math
from dataclasses import replace

import pytest

from rephaze.errors import SpecError
from rephaze.place.answer import find_placement, warm_up
from rephaze.place.precision import named_precision
from rephaze.place.price import price_plan
from rephaze.place.remedies import suggest_remedies
from rephaze.place.simulate import MAX_REPLAYED_PASSES, replay_plan, replayed_batch_s
from rephaze.place.why_not import explain_alternative, parse_limits
from rephaze.types.cluster import flat_cluster
from rephaze.types.placement import (
    LayerCost,
    LayerGraph,
    LayerLink,
    Optimizer,
    PlacementModel,
    PlacementProblem,
    Plan,
    PlanLimits,
    PlannedStage,
    Recompute,
    RecomputePolicy,
    SolveStatus,
)
from rephaze.units import GIB


def blocks(tp, count=8, microbatch=1):
    layers = tuple(
        LayerCost(
            name=f"block{v}", param_bytes=0.2 * GIB / tp, activation_bytes=0.5 * GIB * microbatch,
            forward_s=0.1 / tp * microbatch, backward_s=0.2 / tp * microbatch, is_sharded=tp > 1,
            input_bytes=0.05 * GIB * microbatch,
        )
        for v in range(count)
    )  # fmt: skip
    links = tuple(LayerLink(src=v, dst=v + 1, payload_bytes=0.05 * GIB * microbatch) for v in range(count - 1))
    return LayerGraph(tp=tp, microbatch=microbatch, layers=layers, links=links)


PROBLEM = PlacementProblem(
    cost_model=PlacementModel.ONE_F_ONE_B,
    cluster=flat_cluster(16, 50 * GIB),
    device_memory_bytes=16 * GIB,
    graphs=(blocks(1), blocks(2), blocks(1, microbatch=2)),
    recompute=RecomputePolicy.AUTO,
    optimizer=Optimizer.ADAM,
    precision=named_precision("mixed", Optimizer.ADAM),
    global_batch=64,
)


def even_plan(num_stages, dp=1, microbatch=1, recompute=Recompute.NONE):
    size = 8 // num_stages
    stages = tuple(
        PlannedStage(layers=tuple(range(k * size, (k + 1) * size)), recompute=recompute) for k in range(num_stages)
    )
    return Plan(tp=1, dp=dp, microbatch=microbatch, stages=stages)


def test_too_little_memory_says_how_much_would_do():
    tight = replace(PROBLEM, device_memory_bytes=1.0 * GIB)
    placement = find_placement(tight)
    assert placement.status is SolveStatus.INFEASIBLE
    assert placement.reason.startswith("memory: ")
    needed = float(placement.reason.split("memory: ")[1].split(" GiB")[0])
    assert find_placement(replace(tight, device_memory_bytes=needed * 1.001 * GIB)).best is not None
    assert find_placement(replace(tight, device_memory_bytes=needed * 0.99 * GIB)).best is None


def test_too_few_devices_for_the_memory_says_how_many_would_do():
    tight = replace(PROBLEM, device_memory_bytes=4 * GIB, cluster=flat_cluster(2, 50 * GIB))
    reason = find_placement(tight).reason
    needed = int(reason.split("; or ")[1].split(" devices")[0])
    assert find_placement(replace(tight, cluster=flat_cluster(needed, 50 * GIB))).best is not None
    assert find_placement(replace(tight, cluster=flat_cluster(needed - 1, 50 * GIB))).best is None


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (PlanLimits(tp=4), "no graph comes with tp 4"),
        (PlanLimits(pp=9), "layers: 9 stages asked for, 8 layers given"),
        (PlanLimits(dp=65), "microbatches: dp 65 asked for"),
        (PlanLimits(tp=2, pp=8, dp=2), "devices: at least 32 are needed, 16 given"),
    ],
)
def test_impossible_choices_say_why(limits, says):
    placement = find_placement(PROBLEM, limits)
    assert placement.status is SolveStatus.INFEASIBLE
    assert says in placement.reason


def test_endless_loads_are_told():
    layers = tuple(replace(layer, forward_s=1e30) for layer in PROBLEM.graphs[0].layers)
    graph = replace(PROBLEM.graphs[0], layers=layers)
    endless = replace(PROBLEM, cost_model=PlacementModel.PAPER, recompute=RecomputePolicy.NONE, graphs=(graph,))
    placement = find_placement(endless)
    assert placement.status is SolveStatus.INFEASIBLE
    assert "5e+29 s or more" in placement.reason


def test_the_alternative_is_the_best_under_its_choices():
    best = find_placement(PROBLEM)
    other = explain_alternative(PROBLEM, best, parse_limits("tp=1, pp=8"))
    assert other.placement.best.plan.pp == 8
    assert other.placement.best.batch_s >= best.best.batch_s
    assert math.isclose(sum(other.loss_s.values()), other.placement.best.batch_s - best.best.batch_s)
    assert "slower" in other.text
    assert other.record()["choices"] == {"tp": 1, "pp": 8}


def test_the_optimum_loses_nothing_to_itself():
    best = find_placement(PROBLEM)
    same = explain_alternative(PROBLEM, best, PlanLimits(pp=best.best.plan.pp))
    assert same.text == "it is as fast as the optimum"


def test_an_alternative_that_cannot_run_says_why():
    other = explain_alternative(PROBLEM, find_placement(PROBLEM), PlanLimits(pp=9))
    assert other.text.startswith("it cannot run")
    assert other.record()["status"] == "infeasible"


@pytest.mark.parametrize("text", ["tq=8", "tp", "tp=x", "tp=0", "recompute=some", "tp=-3"])
def test_choices_that_are_none_are_refused(text):
    with pytest.raises(SpecError, match="--why"):
        parse_limits(text)


def test_a_plan_that_fits_needs_no_remedy():
    assert suggest_remedies(PROBLEM, price_plan(PROBLEM, even_plan(4))) == []


def test_remedies_work_when_followed():
    tight = replace(PROBLEM, device_memory_bytes=4.2 * GIB)
    plan = even_plan(8, microbatch=2)
    priced = price_plan(tight, plan)
    assert not priced.fits
    said = " | ".join(suggest_remedies(tight, priced))
    assert "GiB over" in said
    assert "recompute stage in stage" in said
    assert "microbatch 1 would fit" not in said or price_plan(tight, replace(plan, microbatch=1)).fits
    needed = priced.device_memory_bytes - priced.margin_bytes
    assert f"a device memory of {needed / GIB:.4g} GiB would do" in said
    assert price_plan(replace(tight, device_memory_bytes=needed * (1 + 1e-9)), plan).fits


def test_too_many_devices_are_told():
    priced = price_plan(PROBLEM, even_plan(8, dp=4))
    assert "dp 2 would do" in suggest_remedies(PROBLEM, priced)[0]


def test_every_reported_plan_can_be_replayed():
    best = find_placement(PROBLEM).best
    timeline = replay_plan(PROBLEM, best.plan)
    assert timeline.batch_s == replayed_batch_s(PROBLEM, best.plan)
    assert timeline.pipeline_s <= timeline.batch_s
    passes = [event for event in timeline.events if event.microbatch >= 0]
    assert len(passes) == 2 * best.plan.pp * best.num_microbatches


def test_a_very_long_batch_is_not_replayed():
    long = replace(PROBLEM, global_batch=MAX_REPLAYED_PASSES)
    assert replayed_batch_s(long, even_plan(8)) is None


def test_warming_up_solves_both_models():
    warm_up()


def with_bound(graph, part, layers=(3,)):
    """The graph with some backward passes not proven shortest: they might take that part of their time."""
    return replace(
        graph,
        layers=tuple(
            replace(layer, backward_bound_s=part * layer.backward_s) if v in layers else layer
            for v, layer in enumerate(graph.layers)
        ),
    )


@pytest.mark.parametrize("cost_model", list(PlacementModel))
def test_a_layer_time_that_is_not_proven_leaves_a_gap(cost_model):
    policy = RecomputePolicy.NONE if cost_model is PlacementModel.PAPER else RecomputePolicy.AUTO
    exact = replace(PROBLEM, cost_model=cost_model, recompute=policy)
    graphs = tuple(with_bound(graph, 0.5, range(8)) for graph in exact.graphs)
    faster = replace(
        exact,
        graphs=tuple(
            replace(graph, layers=tuple(replace(one, backward_s=one.backward_bound_s) for one in graph.layers))
            for graph in graphs
        ),
    )
    before, limit = find_placement(exact), find_placement(faster)
    found = find_placement(replace(exact, graphs=graphs))
    assert before.status is limit.status is SolveStatus.OPTIMAL
    assert (found.status, found.best.batch_s) == (SolveStatus.FEASIBLE, before.best.batch_s)
    assert found.bound_s == pytest.approx(limit.best.batch_s, rel=1e-12)
    assert found.bound_s < found.best.batch_s
    assert found.gap == pytest.approx(found.best.batch_s / found.bound_s - 1)
    assert "not proven shortest" in found.reason


def test_an_unproven_time_that_cannot_matter_leaves_the_proof():
    best = find_placement(PROBLEM).best.plan
    others = [(graph.tp, graph.microbatch) != (best.tp, best.microbatch) for graph in PROBLEM.graphs]
    assert any(others)
    graphs = tuple(
        with_bound(graph, 0.999) if other else graph for graph, other in zip(PROBLEM.graphs, others, strict=True)
    )
    found = find_placement(replace(PROBLEM, graphs=graphs))
    assert (found.status, found.reason, found.gap) == (SolveStatus.OPTIMAL, "", 0.0)
    assert found.bound_s == found.best.batch_s


def test_an_alternative_is_no_better_proven_than_its_layers():
    problem = replace(PROBLEM, graphs=tuple(with_bound(graph, 0.5) for graph in PROBLEM.graphs))
    found = explain_alternative(problem, find_placement(problem), PlanLimits(tp=2))
    assert found.placement.status is SolveStatus.FEASIBLE
    assert found.record()["bound_s"] < found.record()["batch_s"]
    assert found.record()["gap"] > 0
