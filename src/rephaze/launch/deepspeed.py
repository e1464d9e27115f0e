"""DeepSpeed: its JSON file; what it takes in Python alone stands under ``rephaze``, a key it passes over."""

from __future__ import annotations

import json
from typing import Any

from rephaze.launch.line import schedule_of, whole_line
from rephaze.launch.notes import Notes, common_notes, heading, nodes_of, note_order, note_zero_bubble, whole_batch
from rephaze.types.full import DeviceOrder, PipelineSchedule, Sharding
from rephaze.types.launch import LaunchFile, LaunchPlan, LayerLine, PlanSettings, Recomputing, StageParts

SOURCES = (
    "https://www.deepspeed.ai/docs/config-json/",
    "https://deepspeed.readthedocs.io/en/latest/pipeline.html",
    "https://deepspeed.readthedocs.io/en/latest/zero3.html",
    "https://www.deepspeed.ai/tutorials/autotp-training/",
)
_STAGES = {Sharding.NONE: 0, Sharding.OPTIMIZER: 1, Sharding.GRADIENTS: 2, Sharding.WEIGHTS: 3}


def write_settings(launch: LaunchPlan) -> LaunchFile:
    """The file for ``--deepspeed_config``."""
    own, notes = launch.settings, common_notes(launch, "DeepSpeed")
    zero = _zero(launch, notes)
    found: dict[str, Any] = {
        "train_batch_size": whole_batch(own),
        "train_micro_batch_size_per_gpu": own.microbatch,
        "gradient_accumulation_steps": own.num_microbatches,
        "zero_optimization": zero,
        "tensor_parallel": {"autotp_size": own.tp},
        "sequence_parallel_size": own.cp,
    }
    arguments: dict[str, Any] = {}
    if own.pp > 1:
        found["pipeline"] = {"stages": own.pp, "partition": "uniform"}
        arguments["PipelineModule"] = {"num_stages": own.pp, "partition_method": "uniform"}
        arguments["PipeModelDataParallelTopology"] = {"num_pp": own.pp, "num_mp": own.tp, "num_dp": own.dp}
        _check_map(launch, notes)
    if own.recompute is not Recomputing.NONE and own.pp > 1:
        found["pipeline"]["activation_checkpoint_interval"] = 1
        arguments["PipelineModule"]["activation_checkpoint_interval"] = 1
        if own.recompute is Recomputing.SOME:
            notes.cannot(
                "recompute",
                "the plan keeps part of the activations, chosen by operator; every block is recomputed",
            )
    elif own.recompute is not Recomputing.NONE:
        notes.cannot(
            "recompute",
            "activation checkpointing is switched on in the model, for instance by "
            "gradient_checkpointing_enable()",
        )
    if own.sp:
        notes.cannot("sp", "DeepSpeed's tensor parallelism (AutoTP) does not cut sequences")
    if own.ep * own.etp > 1:
        arguments["MoE"] = {"ep_size": own.ep}
        for name in ("ep", "etp"):
            if getattr(own, name) > 1:
                notes.cannot(
                    name, f"{name} {getattr(own, name)} is an argument of deepspeed.moe.layer.MoE, not of the file"
                )
    note_zero_bubble(notes, launch, "DeepSpeed")
    if own.schedule is PipelineSchedule.INTERLEAVED:
        notes.cannot("schedule", f"DeepSpeed's pipelines are 1F1B; the plan's is {own.schedule}")
    if own.chunks > 1:
        notes.cannot("chunks", f"{own.chunks} chunks a device: DeepSpeed has one stage a device")
    note_order(notes, own, "DeepSpeed")
    nodes, per_node = nodes_of(launch)
    found["rephaze"] = {
        "about": heading(launch, notes, SOURCES),
        "launcher": f"deepspeed --num_nodes {nodes} --num_gpus {per_node}",
        "python_arguments": arguments,
    }
    return LaunchFile(text=json.dumps(found, indent=2) + "\n", unsaid=tuple(notes.found))


def _zero(launch: LaunchPlan, notes: Notes) -> dict[str, Any]:
    own = launch.settings
    stage = _STAGES[own.sharding]
    if own.pp > 1 and stage > 1:
        notes.cannot(
            "sharding",
            f"DeepSpeed's pipelines go with ZeRO 1 at most: it is written, the plan shards {own.sharding}",
        )
        if own.reshard:
            notes.cannot("reshard", "without ZeRO 3 nothing is gathered for every pass")
        stage = 1
    if own.tp > 1 and stage > 2:
        notes.cannot(
            "sharding",
            "DeepSpeed's tensor parallelism (AutoTP) goes with ZeRO 2 at most: it is written for sharded weights",
        )
        if own.reshard:
            notes.cannot("reshard", "without ZeRO 3 nothing is gathered for every pass")
        stage = 2
    found: dict[str, Any] = {"stage": stage, "overlap_comm": launch.overlap}
    if stage == 3 and not own.reshard:
        notes.cannot(
            "reshard", "weights are gathered once a batch in the plan; ZeRO 3 gathers them for every pass"
        )
    if own.shard_group < own.num_replicas and stage:
        if stage == 3:
            found["mics_shard_size"] = own.shard_group
        else:
            notes.cannot(
                "shard_group",
                f"ZeRO {stage} shards over all {own.num_replicas} replicas, the plan over {own.shard_group}",
            )
    return found


def _check_map(launch: LaunchPlan, notes: Notes) -> None:
    own = launch.settings
    if own.stages is None or launch.line is None or own.chunks > 1:
        if own.stages is not None:
            notes.cannot("stages", "one stage a device is written")
        return
    if own.stages != uniform_stages(launch.line, own.pp):
        notes.cannot(
            "stages",
            "PipelineModule takes no list of stages: layers are dealt out uniformly, the plan cuts otherwise",
        )


def uniform_stages(line: LayerLine, pp: int) -> tuple[StageParts, ...] | None:
    """The cut of ``partition_method="uniform"``: equal numbers of layers, the first stages one more."""
    each, more = divmod(line.num_layers, pp)
    parts, at = [], 0
    for number in range(pp):
        layers = range(at, at + each + (number < more))
        at = layers.stop
        before = sum(layer < line.num_before for layer in layers)
        after = sum(layer >= line.num_before + line.num_blocks for layer in layers)
        if before not in (0, line.num_before) or after not in (0, line.num_after):
            return None
        is_first, is_last = number == 0, number == pp - 1
        parts.append(
            StageParts(
                has_embedding=before > 0 or (line.num_before == 0 and is_first),
                num_blocks=len(layers) - before - after,
                has_head=after > 0 or (line.num_after == 0 and is_last),
            )
        )
    return tuple(parts)


def read_settings(text: str, line: LayerLine | None) -> PlanSettings:
    """The plan that such a file stands for; what is an argument of Python is not read."""
    found = json.loads(text)
    zero, pipeline = found["zero_optimization"], found.get("pipeline", {})
    pp, cp = pipeline.get("stages", 1), found["sequence_parallel_size"]
    microbatch = found["train_micro_batch_size_per_gpu"]
    dp = found["train_batch_size"] // (microbatch * found["gradient_accumulation_steps"])
    sharding = {number: sharding for sharding, number in _STAGES.items()}[zero["stage"]]
    stages = None
    if line is not None:
        stages = whole_line(line) if pp == 1 else uniform_stages(line, pp)
    return PlanSettings(
        tp=found["tensor_parallel"]["autotp_size"],
        sp=False,
        cp=cp,
        ep=1,
        etp=1,
        dp=dp,
        pp=pp,
        microbatch=microbatch,
        global_batch=found["train_batch_size"],
        order=DeviceOrder.PP_OUTER,
        sharding=sharding,
        shard_group=1 if sharding is Sharding.NONE else zero.get("mics_shard_size", dp * cp),
        reshard=sharding is Sharding.WEIGHTS,
        schedule=schedule_of(1),
        chunks=1,
        stages=stages,
        recompute=Recomputing.FULL if pipeline.get("activation_checkpoint_interval") else Recomputing.NONE,
    )
