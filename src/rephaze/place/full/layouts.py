"""Every way to lay a model over the cluster but for the cut into stages: degrees, order, sharding, schedule.

What is legal is in docs/plans.md, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rephaze.place.full.groups import PlanGroups
from rephaze.place.full.limits import is_within
from rephaze.types.full import (
    DeviceOrder,
    FullGraph,
    FullPlan,
    FullProblem,
    FullStage,
    PipelineSchedule,
    PlanFamily,
    ShardGroups,
    Sharding,
)

WHOLE_CLUSTER = (PlanFamily.MEGATRON, PlanFamily.TORCHTITAN, PlanFamily.MAXTEXT)
"""Families whose plans use every device, and put replicas of a stage beside each other."""
EQUAL_BLOCKS = (PlanFamily.MEGATRON, PlanFamily.MAXTEXT)
"""Families whose stages have the same number of blocks; the first and the last may have fewer."""
LEAST_ZERO_BUBBLE_STAGES = 1
"""With one stage nothing is put off, and gradients hide behind the weight part alone: legal, never worth it
where 1F1B may be chosen. 2 forbids it, here, in brute force and where plans are checked."""
FAMILY_SHARDING = {
    PlanFamily.MEGATRON: (Sharding.NONE, Sharding.OPTIMIZER),
    PlanFamily.TORCHTITAN: (Sharding.WEIGHTS,),
    PlanFamily.MAXTEXT: (Sharding.WEIGHTS,),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """A plan of one graph without its stages."""

    dp: int
    pp: int
    order: DeviceOrder
    sharding: Sharding
    shard_group: int
    reshard: bool
    schedule: PipelineSchedule
    chunks: int

    @property
    def is_gathering(self) -> bool:
        """Weights are gathered for every pass."""
        return self.sharding is Sharding.WEIGHTS and self.reshard

    def plan(self, graph: FullGraph, stages: tuple[FullStage, ...]) -> FullPlan:
        """The plan with these stages."""
        return FullPlan(
            tp=graph.tp,
            cp=graph.cp,
            ep=graph.ep,
            etp=graph.etp,
            sp=graph.sp,
            dp=self.dp,
            microbatch=graph.microbatch,
            order=self.order,
            sharding=self.sharding,
            shard_group=self.shard_group,
            reshard=self.reshard,
            schedule=self.schedule,
            chunks=self.chunks,
            stages=stages,
        )

    def groups(self, graph: FullGraph) -> PlanGroups:
        """The groups of its devices."""
        return PlanGroups(
            tp=graph.tp,
            cp=graph.cp,
            dp=self.dp,
            pp=self.pp,
            order=self.order,
            expert_devices=graph.ep * graph.etp,
            shard_group=self.shard_group,
        )


def layouts(problem: FullProblem, graph: FullGraph) -> Iterator[Layout]:
    """Every legal one of a graph that the problem's options, their limits and family allow."""
    limits = problem.limits
    for layout in _all_layouts(problem, graph):
        if limits is None or is_within(limits, layout):
            yield layout


def _all_layouts(problem: FullProblem, graph: FullGraph) -> Iterator[Layout]:
    for dp in _replicas(problem, graph):
        for pp in range(1, len(graph.layers) + 1):
            num_used = dp * pp * graph.stage_width
            if num_used > problem.cluster.num_devices:
                break
            if problem.options.family in WHOLE_CLUSTER and num_used != problem.cluster.num_devices:
                continue
            for order in _orders(problem, graph, dp, pp):
                for schedule, chunks in _schedules(problem, graph, dp, pp):
                    for sharding, shard_group, reshard in _shardings(problem, graph, dp):
                        if schedule is PipelineSchedule.ZERO_BUBBLE and sharding is Sharding.WEIGHTS and reshard:
                            continue
                        yield Layout(
                            dp=dp,
                            pp=pp,
                            order=order,
                            sharding=sharding,
                            shard_group=shard_group,
                            reshard=reshard,
                            schedule=schedule,
                            chunks=chunks,
                        )


def _replicas(problem: FullProblem, graph: FullGraph) -> Iterator[int]:
    most = min(problem.num_microbatches(graph), problem.cluster.num_devices // graph.stage_width)
    for dp in range(1, most + 1):
        is_ragged = problem.global_batch % (dp * graph.microbatch) != 0
        if problem.options.family is not PlanFamily.ANY and is_ragged:
            continue
        if are_experts_legal(graph, dp):
            yield dp


def _orders(problem: FullProblem, graph: FullGraph, dp: int, pp: int) -> tuple[DeviceOrder, ...]:
    if dp == 1 or pp == 1:
        return (DeviceOrder.DP_OUTER,)  # both are the same
    asked = tuple(order for order in problem.options.order if order in graph.orders)
    if problem.options.family in WHOLE_CLUSTER:
        return tuple(order for order in asked if order is DeviceOrder.PP_OUTER)
    return asked


def _schedules(problem: FullProblem, graph: FullGraph, dp: int, pp: int) -> Iterator[tuple[PipelineSchedule, int]]:
    for schedule in problem.options.schedule:
        if schedule is PipelineSchedule.INTERLEAVED:
            for chunks in problem.options.chunks:
                if are_chunks_legal(problem, graph, dp, pp, chunks):
                    yield schedule, chunks
        elif schedule is PipelineSchedule.ONE_F_ONE_B or (
            pp >= LEAST_ZERO_BUBBLE_STAGES and has_split_backward(graph)
        ):
            yield schedule, 1


def _shardings(problem: FullProblem, graph: FullGraph, dp: int) -> Iterator[tuple[Sharding, int, bool]]:
    options, num_replicas = problem.options, dp * graph.cp
    if num_replicas == 1:
        yield Sharding.NONE, 1, False
        return
    for sharding in options.sharding:
        if sharding not in FAMILY_SHARDING.get(options.family, tuple(Sharding)):
            continue
        if sharding is Sharding.NONE:
            yield sharding, 1, False
            continue
        sizes = set(shard_group_sizes(graph.cp, dp)) if ShardGroups.LEVEL in options.shard_group else set()
        if ShardGroups.ALL in options.shard_group:
            sizes.add(num_replicas)
        for size in sorted(sizes, reverse=True):
            for reshard in options.reshard if sharding is Sharding.WEIGHTS else (False,):
                yield sharding, size, reshard


def shard_group_sizes(cp: int, dp: int) -> list[int]:
    """Numbers of devices a weight can be sharded over: part of a context group, or whole ones of some replicas."""
    inside = [size for size in range(2, cp + 1) if cp % size == 0]
    across = [cp * replicas for replicas in range(1, dp + 1) if dp % replicas == 0 and cp * replicas > 1]
    return sorted({*inside, *across})


def are_experts_legal(graph: FullGraph, dp: int) -> bool:
    """Whether experts take whole factors of the devices, from the inside."""
    devices, tp, width = graph.ep * graph.etp, graph.tp, graph.stage_width
    if tp % devices == 0:
        return True
    if devices % tp == 0 and graph.cp % (devices // tp) == 0:
        return True
    return devices % width == 0 and dp % (devices // width) == 0


def are_chunks_legal(problem: FullProblem, graph: FullGraph, dp: int, pp: int, chunks: int) -> bool:
    """Whether devices can take turns at so many chunks each."""
    count = -(-problem.num_microbatches(graph) // dp)
    return pp >= 2 and chunks >= 2 and count % pp == 0 and pp * chunks <= len(graph.layers)


def has_split_backward(graph: FullGraph) -> bool:
    """Whether the backward pass of every layer comes in two parts."""
    return None not in [layer.weight_backward_s for layer in graph.layers]


def has_equal_blocks(graph: FullGraph, stages: list[tuple[int, ...]]) -> bool:
    """Whether all stages have the same number of blocks; the first and the last may have fewer."""
    counts = [sum(graph.layers[v].is_block for v in layers) for layers in stages]
    return all(count == max(counts) for count in counts[1:-1])
