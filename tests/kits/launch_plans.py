"""Random plans of a line of blocks, legal by the definitions of docs/plans.md, by family."""

import random

from rephaze.launch.line import layer_line, settings_of
from rephaze.types.full import (
    DeviceOrder,
    FullPlan,
    FullStage,
    PipelineSchedule,
    PlanFamily,
    Sharding,
)
from rephaze.types.launch import LaunchPlan, Recomputing

SHARDINGS = {
    PlanFamily.MEGATRON: (Sharding.NONE, Sharding.OPTIMIZER),
    PlanFamily.TORCHTITAN: (Sharding.WEIGHTS,),
    PlanFamily.MAXTEXT: (Sharding.WEIGHTS,),
}
EVEN = (PlanFamily.MEGATRON, PlanFamily.MAXTEXT)


def random_launch(seed, family=PlanFamily.ANY, *, has_part_recompute=True):
    """A launch plan and the plan it is of."""
    rng = random.Random(seed)
    before, after = rng.choice([0, 1, 1, 1, 2]), rng.choice([0, 1, 1])
    schedule = rng.choice(list(PipelineSchedule))
    pp = rng.choice([1, 1, 2, 3, 4, 8])
    if schedule is PipelineSchedule.INTERLEAVED:
        pp = max(2, pp)
    chunks = rng.choice([2, 3]) if schedule is PipelineSchedule.INTERLEAVED else 1
    num_stages = pp * chunks
    if family in EVEN:
        blocks = num_stages * rng.randint(1, 4)
        cut = [blocks // num_stages] * num_stages
    else:
        cut = [rng.randint(1, 5) for _ in range(num_stages)]
        blocks = sum(cut)
    num_layers = before + blocks + after
    keep_points = [rng.choice([1, 16]) for _ in range(num_layers)]
    stages, at = [], 0
    how = rng.choice(["none", "full", "some"] if has_part_recompute else ["none", "full"])
    for number, count in enumerate(cut):
        count += before * (number == 0) + after * (number == num_stages - 1)
        layers = tuple(range(at, at + count))
        at += count
        last = max(keep_points[layer] for layer in layers) - 1
        stages.append(FullStage(layers=layers, keep={"none": 0, "full": last, "some": rng.randint(0, last)}[how]))
    tp, cp, dp = (rng.choice(some) for some in ([1, 2, 4, 8], [1, 1, 2, 4], [1, 2, 3, 4, 8, 12]))
    ep, etp = rng.choice([(1, 1), (1, 1), (dp, tp), (2, 1), (1, tp)])
    if tp * cp * dp % (ep * etp):
        ep = etp = 1
    microbatch = rng.choice([1, 2, 4])
    per_replica = pp * rng.randint(1, 5)
    is_ragged = family is PlanFamily.ANY and rng.random() < 0.2
    sharding = rng.choice(SHARDINGS.get(family, tuple(Sharding)))
    groups = [cp * h for h in range(1, dp + 1) if dp % h == 0 and cp * h > 1]
    if family in (PlanFamily.ANY, PlanFamily.EXACT):
        groups += [f for f in range(2, cp) if cp % f == 0]
    if cp * dp == 1:
        sharding = Sharding.NONE
    is_free = family in (PlanFamily.ANY, PlanFamily.EXACT)
    reshard = sharding is Sharding.WEIGHTS and schedule is not PipelineSchedule.ZERO_BUBBLE and rng.random() < 0.5
    plan = FullPlan(
        tp=tp,
        cp=cp,
        ep=ep,
        etp=etp,
        sp=tp > 1 and rng.random() < 0.7,
        dp=dp,
        microbatch=microbatch,
        order=rng.choice(list(DeviceOrder)) if is_free and dp > 1 and pp > 1 else DeviceOrder.PP_OUTER,
        sharding=sharding,
        shard_group=1 if sharding is Sharding.NONE else rng.choice(groups),
        reshard=reshard,
        schedule=schedule,
        chunks=chunks,
        stages=tuple(stages),
    )
    line = layer_line([before <= at < before + blocks for at in range(num_layers)], keep_points)
    batch = dp * microbatch * per_replica - (
        rng.randint(1, microbatch * dp - 1) if is_ragged and microbatch * dp > 1 else 0
    )
    launch = LaunchPlan(
        model=rng.choice(["llama3-8b", "two\nlines; rm -rf $HOME", "<script>alert(1)</script>", "名前"]),
        settings=settings_of(plan, line, keep_points, batch),
        line=line,
        num_cluster_devices=plan.num_devices + rng.choice([0, 0, 5]),
        num_node_devices=rng.choice([1, 4, 8]),
        overlap=rng.random() < 0.5,
        seq_len=rng.choice([None, 4096]),
    )
    return launch, plan


def plan_of(settings, line):
    """The plan with these settings; they must have a stage map, and recompute nothing or all of the blocks."""
    assert settings.stages is not None, "the layers of a stage come from the map"
    assert settings.recompute is not Recomputing.SOME, "what is kept must be told"
    stages, at = [], 0
    for part in settings.stages:
        count = line.num_before * part.has_embedding + part.num_blocks + line.num_after * part.has_head
        layers = tuple(range(at, at + count))
        keep = (
            max(line.num_keep_points_l[layer] for layer in layers) - 1
            if settings.recompute is Recomputing.FULL
            else 0
        )
        stages.append(FullStage(layers=layers, keep=keep))
        at += count
    return FullPlan(
        tp=settings.tp,
        cp=settings.cp,
        ep=settings.ep,
        etp=settings.etp,
        sp=settings.sp,
        dp=settings.dp,
        microbatch=settings.microbatch,
        order=settings.order,
        sharding=settings.sharding,
        shard_group=settings.shard_group,
        reshard=settings.reshard,
        schedule=settings.schedule,
        chunks=settings.chunks,
        stages=tuple(stages),
    )
