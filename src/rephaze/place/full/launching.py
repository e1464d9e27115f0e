"""Why a family of plans cannot launch a plan: each rule it breaks, with its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from rephaze.place.full.layouts import EQUAL_BLOCKS, FAMILY_SHARDING, WHOLE_CLUSTER, has_equal_blocks
from rephaze.types.full import DeviceOrder, FullGraph, FullPlan, FullProblem, PlanFamily, Sharding


def broken_rules(problem: FullProblem, family: PlanFamily, graph: FullGraph, plan: FullPlan) -> list[str]:
    """What keeps a legal plan out of the family, in words; nothing if it belongs to it."""
    return [] if family is PlanFamily.ANY else list(_broken(problem, family, graph, plan))


def _broken(problem: FullProblem, family: PlanFamily, graph: FullGraph, plan: FullPlan) -> Iterator[str]:
    devices = problem.cluster.num_devices
    if family in WHOLE_CLUSTER and plan.num_devices != devices:
        yield f"{plan.num_devices:,} of {devices:,} devices"
    samples = plan.dp * plan.microbatch
    if problem.global_batch % samples:
        yield f"{problem.global_batch / samples:,.6g} microbatches a replica"
    if family in WHOLE_CLUSTER and plan.dp > 1 and plan.pp > 1 and plan.order is not DeviceOrder.PP_OUTER:
        yield f"order {plan.order}"
    if plan.num_replicas > 1 and plan.sharding not in FAMILY_SHARDING.get(family, tuple(Sharding)):
        yield f"sharding {plan.sharding}"
    if family in EQUAL_BLOCKS and not has_equal_blocks(graph, [stage.layers for stage in plan.stages]):
        yield "stages of unequal numbers of blocks"
