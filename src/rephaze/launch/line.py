"""Stages as pieces of a line of blocks: what frameworks take as their stage map."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from rephaze.types.full import DeviceOrder, FullPlan, PipelineSchedule
from rephaze.types.launch import LayerLine, PlanSettings, Recomputing, StageParts


def layer_line(is_block_l: Sequence[bool], num_keep_points_l: Sequence[int]) -> LayerLine | None:
    """The layers as a line of blocks with something before and after; None if other layers stand between blocks.

    Args:
        is_block_l: By layer, in the model's order, whether it is one of the repeated blocks.
        num_keep_points_l: By layer, how many choices there are of what it keeps.
    """
    blocks = [at for at, is_block in enumerate(is_block_l) if is_block] or list(range(len(is_block_l)))
    first, last = blocks[0], blocks[-1]
    if len(blocks) != last - first + 1:
        return None
    return LayerLine(
        num_before=first,
        num_blocks=len(blocks),
        num_after=len(is_block_l) - last - 1,
        num_keep_points_l=tuple(num_keep_points_l),
    )


def settings_of(
    plan: FullPlan, line: LayerLine | None, num_keep_points_l: Sequence[int], batch: int
) -> PlanSettings:
    """The decisions of a plan; ``batch`` is the global one."""
    return PlanSettings(
        tp=plan.tp,
        sp=plan.sp,
        cp=plan.cp,
        ep=plan.ep,
        etp=plan.etp,
        dp=plan.dp,
        pp=plan.pp,
        microbatch=plan.microbatch,
        global_batch=batch,
        order=plan.order if plan.dp > 1 and plan.pp > 1 else DeviceOrder.PP_OUTER,
        sharding=plan.sharding,
        shard_group=plan.shard_group,
        reshard=plan.reshard,
        schedule=plan.schedule,
        chunks=plan.chunks,
        stages=None if line is None else _parts(plan, line),
        recompute=_recomputing(plan, num_keep_points_l),
    )


def whole_line(line: LayerLine) -> tuple[StageParts, ...]:
    """The map of one stage."""
    return (StageParts(has_embedding=True, num_blocks=line.num_blocks, has_head=True),)


def schedule_of(chunks: int) -> PipelineSchedule:
    """What frameworks run that are told no schedule but the number of chunks a device has."""
    return PipelineSchedule.INTERLEAVED if chunks > 1 else PipelineSchedule.ONE_F_ONE_B


def _parts(plan: FullPlan, line: LayerLine) -> tuple[StageParts, ...] | None:
    if list(chain.from_iterable(stage.layers for stage in plan.stages)) != list(range(line.num_layers)):
        return None
    blocks = range(line.num_before, line.num_before + line.num_blocks)
    parts = []
    for at, stage in enumerate(plan.stages):
        before = sum(layer < blocks.start for layer in stage.layers)
        after = sum(layer >= blocks.stop for layer in stage.layers)
        if before not in (0, line.num_before) or after not in (0, line.num_after):
            return None
        parts.append(
            StageParts(
                has_embedding=before > 0 or (line.num_before == 0 and at == 0),
                num_blocks=len(stage.layers) - before - after,
                has_head=after > 0 or (line.num_after == 0 and at == len(plan.stages) - 1),
            )
        )
    return tuple(parts)


def _recomputing(plan: FullPlan, num_keep_points_l: Sequence[int]) -> Recomputing:
    if all(stage.keep == 0 for stage in plan.stages):
        return Recomputing.NONE
    if all(stage.keep >= _last_point(stage.layers, num_keep_points_l) for stage in plan.stages):
        return Recomputing.FULL
    return Recomputing.SOME


def _last_point(layers: Sequence[int], num_keep_points_l: Sequence[int]) -> int:
    return max(num_keep_points_l[layer] for layer in layers) - 1
