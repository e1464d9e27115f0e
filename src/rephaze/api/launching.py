"""Plans of answers and runs made ready for frameworks' settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rephaze.types.cluster import Cluster
from rephaze.types.full import DeviceOrder, FullGraph, FullPlan, FullProblem, FullStage, PipelineSchedule, Sharding
from rephaze.types.launch import LaunchPlan
from rephaze.types.placement import PlacementProblem, Plan, Recompute
from rephaze.types.scenario import Scenario
from rephaze.types.search import ModelPlan

_KEEP_POINTS = 2
"""Of cost models other than ``full``: everything is kept, or as little as can be."""


def launch_of_full(
    model: str, problem: FullProblem, graph: FullGraph, plan: FullPlan, seq_len: int | None = None
) -> LaunchPlan:
    """A plan of cost model ``full``."""
    found = _launch(
        model,
        plan,
        problem.global_batch,
        problem.cluster,
        is_block_l=[layer.is_block for layer in graph.layers],
        num_keep_points_l=[len(layer.keep) for layer in graph.layers],
        overlap=problem.options.overlap,
        seq_len=seq_len,
    )
    if plan.schedule is not PipelineSchedule.ZERO_BUBBLE:
        return found
    from rephaze.place.full.price import price_full_plan

    own, other = (
        price_full_plan(problem, graph, replace(plan, schedule=schedule)).batch_s
        for schedule in (plan.schedule, PipelineSchedule.ONE_F_ONE_B)
    )
    return replace(found, one_f_one_b_factor=other / own)


def launch_of_simple(model: str, problem: PlacementProblem, plan: Plan, seq_len: int | None = None) -> LaunchPlan:
    """A plan of cost model ``1f1b`` or ``paper``: a corner of the plans of ``full``."""
    graph = problem.graphs[0]
    stages = [
        FullStage(layers=stage.layers, keep=0 if stage.recompute is Recompute.NONE else _KEEP_POINTS - 1)
        for stage in plan.stages
    ]
    batch = problem.global_batch
    if batch is None:
        assert problem.num_microbatches is not None, "one of the two is given"
        batch = problem.num_microbatches * plan.microbatch
    names = [layer.name for layer in graph.layers]
    return _simple(model, (plan.tp, plan.dp, plan.microbatch), stages, batch, problem.cluster, names, seq_len)


def launch_of_recorded(
    plan: ModelPlan, scenario: Scenario, layer_names: Sequence[str], seq_len: int | None
) -> LaunchPlan:
    """A plan that a search under cost model ``1f1b`` or ``paper`` recorded: stages as runs of layers."""
    stages = []
    for stage in plan.stages:
        first = layer_names.index(stage.first_layer)
        layers = tuple(range(first, min(first + stage.num_layers, len(layer_names))))
        stages.append(FullStage(layers=layers, keep=0 if stage.recompute == Recompute.NONE else _KEEP_POINTS - 1))
    degrees = (plan.tp, plan.dp, plan.microbatch)
    batch, cluster = scenario.training.global_batch, scenario.cluster
    return _simple(plan.model, degrees, stages, batch, cluster, layer_names, seq_len)


def _simple(
    model: str,
    degrees: tuple[int, int, int],
    stages: Sequence[FullStage],
    batch: int,
    cluster: Cluster,
    layer_names: Sequence[str],
    seq_len: int | None,
) -> LaunchPlan:
    tp, dp, microbatch = degrees
    plan = FullPlan(
        tp=tp,
        cp=1,
        ep=1,
        etp=1,
        sp=False,
        dp=dp,
        microbatch=microbatch,
        order=DeviceOrder.DP_OUTER,
        sharding=Sharding.NONE,
        shard_group=1,
        reshard=False,
        schedule=PipelineSchedule.ONE_F_ONE_B,
        chunks=1,
        stages=tuple(stages),
    )
    return _launch(
        model,
        plan,
        batch,
        cluster,
        is_block_l=_numbered(layer_names),
        num_keep_points_l=[_KEEP_POINTS] * len(layer_names),
        overlap=False,
        seq_len=seq_len,
    )


def _numbered(names: Sequence[str]) -> list[bool]:
    """Which layers are repeated: those whose names differ only in a number from another's."""
    kinds = ["".join(letter for letter in name if not letter.isdecimal()) for name in names]
    return [
        any(letter.isdecimal() for letter in name) and kinds.count(kind) > 1
        for name, kind in zip(names, kinds, strict=True)
    ]


def _launch(
    model: str,
    plan: FullPlan,
    batch: int,
    cluster: Cluster,
    *,
    is_block_l: Sequence[bool],
    num_keep_points_l: Sequence[int],
    overlap: bool,
    seq_len: int | None,
) -> LaunchPlan:
    from rephaze.launch.line import layer_line, settings_of

    line = layer_line(is_block_l, num_keep_points_l)
    return LaunchPlan(
        model=model,
        settings=settings_of(plan, line, num_keep_points_l, batch),
        line=line,
        num_cluster_devices=cluster.num_devices,
        num_node_devices=cluster.levels[0].num_devices,
        overlap=overlap,
        seq_len=seq_len,
    )
