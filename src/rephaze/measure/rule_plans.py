"""Plans by rule instead of search (cost model ``full``): published degrees, FSDP, Megatron's rule of thumb.

Each rule says which layouts to look at, in its order of preference; the first of which some form fits is taken,
with the microbatch size that is fastest. Stages have equal blocks and keep as much as fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from rephaze.measure.even_stages import split_evenly
from rephaze.measure.full_planner import FullPlanner
from rephaze.measure.model_work import ModelWork
from rephaze.measure.pass_times import PassSource
from rephaze.measure.units import Memory, Unit
from rephaze.types.comparison import ExpertDegrees
from rephaze.types.full import (
    DeviceOrder,
    FullPlan,
    FullPrice,
    FullStage,
    PipelineSchedule,
    Sharding,
)
from rephaze.types.placement import RecomputePolicy


class PlanRule(StrEnum):
    """How a practitioner would choose."""

    FSDP = "FSDP rule"
    """Everything sharded over all replicas, no pipeline, the least tp inside a node with which it fits."""
    MEGATRON = "Megatron rule"
    """Optimizer state sharded; tp inside a node, then a pipeline, the fewest devices a replica that fit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleLayout:
    """A layout a rule wants, but for the microbatch size."""

    tp: int
    dp: int
    pp: int
    sharding: Sharding
    reshard: bool
    order: DeviceOrder


def rule_layouts(rule: PlanRule, work: ModelWork) -> Iterator[tuple[RuleLayout, ...]]:
    """Layouts by falling preference; those preferred alike together."""
    cluster = work.scenario.cluster
    node = cluster.levels[0].num_devices
    degrees = sorted(tp for tp in work.tp_degrees if tp <= node)
    if rule is PlanRule.FSDP:
        for tp in degrees:
            dp = cluster.num_devices // tp
            yield (_layout(tp, dp, 1, Sharding.WEIGHTS if dp > 1 else Sharding.NONE),)
        return
    sizes = sorted({(tp * pp, pp, tp) for tp in degrees for pp in range(1, len(work.layer_type_of) + 1)})
    for width, pp, tp in sizes:
        if cluster.num_devices % width == 0:
            dp = cluster.num_devices // width
            yield (_layout(tp, dp, pp, Sharding.OPTIMIZER if dp > 1 else Sharding.NONE),)


def published_layout(degrees: ExpertDegrees) -> RuleLayout:
    """The layout of published degrees: nothing sharded, pipelines on neighbouring devices."""
    return replace(_layout(degrees.tp, degrees.dp, degrees.pp, Sharding.NONE), order=DeviceOrder.DP_OUTER)


def _layout(tp: int, dp: int, pp: int, sharding: Sharding) -> RuleLayout:
    is_weights = sharding is Sharding.WEIGHTS
    return RuleLayout(tp=tp, dp=dp, pp=pp, sharding=sharding, reshard=is_weights, order=DeviceOrder.PP_OUTER)


@dataclass(frozen=True, kw_only=True, slots=True)
class RulePrice:
    """The fastest form of a layout, or how far it is from fitting."""

    planner: FullPlanner | None
    price: FullPrice | None
    fullest_bytes: float
    """On the fullest device of the form that needs least; infinite if no form is legal."""


def best_form(
    solver: PassSource, work: ModelWork, layouts: Sequence[RuleLayout], memory: Memory, *, may_be_ragged: bool
) -> RulePrice:
    """The fastest of some layouts over the microbatch sizes, stages even, each keeping as much as fits."""
    best = RulePrice(planner=None, price=None, fullest_bytes=math.inf)
    for layout in layouts:
        stages = split_evenly(work.layer_type_of, layout.pp)
        if stages is None:
            continue
        for unit in _units(work, layout, may_be_ragged=may_be_ragged):
            planner = FullPlanner(solver, work, unit, memory)
            times = planner.times()
            if not times.is_possible:
                continue
            price = _most_kept(planner, _plan(work, unit, layout, stages), times.num_positions, memory)
            fullest = max(device.total_bytes for device in price.devices)
            is_better = price.fits and (best.price is None or price.batch_s < best.price.batch_s)
            best = RulePrice(
                planner=planner if is_better else best.planner,
                price=price if is_better else best.price,
                fullest_bytes=min(best.fullest_bytes, fullest),
            )
    return best


def _units(work: ModelWork, layout: RuleLayout, *, may_be_ragged: bool) -> Iterator[Unit]:
    """Microbatch sizes at the layout's tp, the sequence whole and experts cut as everything else."""
    global_batch = work.scenario.training.global_batch
    plain = [cut for cut in work.base_cuts if cut.tp == layout.tp and cut.ep == 1]
    for cut in plain[:1]:
        for microbatch in work.microbatches:
            is_ragged = global_batch % (layout.dp * microbatch) != 0
            if layout.dp <= -(-global_batch // microbatch) and (may_be_ragged or not is_ragged):
                yield Unit(cut, microbatch, RecomputePolicy.AUTO)


def _plan(work: ModelWork, unit: Unit, layout: RuleLayout, stages: tuple[tuple[int, ...], ...]) -> FullPlan:
    graph = work.graph(unit.cut)
    return FullPlan(
        tp=layout.tp,
        cp=1,
        ep=1,
        etp=graph.etp,
        sp=unit.cut.sp,
        dp=layout.dp,
        microbatch=unit.microbatch,
        order=layout.order,
        sharding=layout.sharding,
        shard_group=1 if layout.sharding is Sharding.NONE else layout.dp,
        reshard=layout.reshard,
        schedule=PipelineSchedule.ONE_F_ONE_B,
        chunks=1,
        stages=tuple(FullStage(layers=layers) for layers in stages),
    )


def _most_kept(planner: FullPlanner, plan: FullPlan, num_positions: int, memory: Memory) -> FullPrice:
    """The plan with each stage at the first position that fits; at the last where none does."""
    keep = [num_positions - 1] * plan.pp
    problem = planner.problem()
    for position in reversed(range(num_positions)):
        trial = replace(plan, stages=tuple(replace(stage, keep=position) for stage in plan.stages))
        for at, device in enumerate(planner.priced(trial, problem).devices):
            if device.total_bytes <= memory.hbm_bytes:
                keep[at] = position
    stages = tuple(replace(stage, keep=at) for stage, at in zip(plan.stages, keep, strict=True))
    return planner.priced(replace(plan, stages=stages), problem)
