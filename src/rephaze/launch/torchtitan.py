"""torchtitan 0.2: a job's TOML file, sections ``training``, ``parallelism`` and ``activation_checkpoint``."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from rephaze.launch.line import schedule_of, whole_line
from rephaze.launch.notes import (
    Notes,
    common_notes,
    heading,
    nodes_of,
    note_order,
    note_recompute,
    note_zero_bubble,
    whole_batch,
)
from rephaze.types.full import DeviceOrder, PipelineSchedule, Sharding
from rephaze.types.launch import LaunchFile, LaunchPlan, LayerLine, PlanSettings, Recomputing, StageParts

SOURCES = (
    "https://github.com/pytorch/torchtitan/blob/v0.2.2/torchtitan/config/job_config.py",
    "https://github.com/pytorch/torchtitan/blob/v0.2.2/docs/fsdp.md",
)
_SCHEDULES = {PipelineSchedule.ONE_F_ONE_B: "1F1B", PipelineSchedule.INTERLEAVED: "Interleaved1F1B"}
_EMBEDDING, _BLOCK, _HEAD = "tok_embeddings", "layers.", ("norm", "output")


def write_settings(launch: LaunchPlan) -> LaunchFile:
    """The file; give it to ``--job.config_file`` after the settings of the model."""
    own, notes = launch.settings, common_notes(launch, "torchtitan")
    etp = own.etp if own.etp in (1, own.tp) else 1
    shards = _room_for_experts(own, _groups(own, notes), etp, notes)
    notes.know("torchtitan 0.3 takes these names in a Python configuration, and no expert_tensor_parallel_degree")
    if own.tp > 1 and not own.sp:
        notes.cannot("sp", "torchtitan's tensor parallelism always cuts sequences too")
    if own.etp not in (1, own.tp):
        notes.cannot("etp", f"etp {own.etp} is neither 1 nor tp: 1 is written")
    note_order(notes, own, "torchtitan")
    note_zero_bubble(notes, launch, "torchtitan")
    parallelism: dict[str, Any] = {
        "data_parallel_replicate_degree": own.dp // shards,
        "data_parallel_shard_degree": shards,
        "fsdp_reshard_after_forward": "always" if own.reshard else "never",
        "tensor_parallel_degree": own.tp,
        "context_parallel_degree": own.cp,
        "expert_parallel_degree": own.ep,
        "expert_tensor_parallel_degree": etp,
        "pipeline_parallel_degree": own.pp,
    }
    if own.pp > 1:
        kind = _SCHEDULES.get(own.schedule, "1F1B")
        if own.stages is None and own.chunks > 1:
            notes.cannot("chunks", f"{own.chunks} chunks a device: needs the stage map")
        parallelism |= {"pipeline_parallel_schedule": kind, "pipeline_parallel_microbatch_size": own.microbatch}
        if own.stages is not None:
            parallelism["module_fqns_per_model_part"] = _modules(own.stages)
    # With a pipeline all microbatches of a replica go through it; without one gradients are accumulated.
    local_batch = own.microbatch * (own.num_microbatches if own.pp > 1 else 1)
    training = {"local_batch_size": local_batch, "global_batch_size": whole_batch(own)}
    if launch.seq_len is not None:
        training["seq_len"] = launch.seq_len
    mode = {Recomputing.NONE: "none", Recomputing.FULL: "full", Recomputing.SOME: "full"}[own.recompute]
    note_recompute(notes, launch, 'mode "full" is written, which fits wherever the plan does; "selective" may do')
    nodes, per_node = nodes_of(launch)
    lines = [f"# {line}" for line in heading(launch, notes, SOURCES)]
    lines.append(
        f"# torchrun --nnodes {nodes} --nproc-per-node {per_node} -m torchtitan.train --job.config_file FILE"
    )
    for name, section in (
        ("training", training),
        ("parallelism", parallelism),
        ("activation_checkpoint", {"mode": mode}),
    ):
        lines += ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in section.items())]
    return LaunchFile(text="\n".join(lines) + "\n", unsaid=tuple(notes.found))


def _groups(own: PlanSettings, notes: Notes) -> int:
    """Replicas that share a shard; weights are always sharded over a context group."""
    if own.sharding is Sharding.NONE:
        if own.cp > 1:
            notes.cannot("sharding", "torchtitan shards weights over a context group: the plan shards nothing")
            notes.cannot("shard_group", f"weights are sharded over the {own.cp} devices of a context group")
        return 1
    if own.sharding is not Sharding.WEIGHTS:
        text = f"torchtitan shards weights or nothing: weights are written, the plan has {own.sharding}"
        notes.cannot("sharding", text)
    if own.shard_group % own.cp:
        notes.cannot("shard_group", f"{own.shard_group} devices are part of a context group: {own.cp} are written")
        return 1
    return own.shard_group // own.cp


def _room_for_experts(own: PlanSettings, shards: int, etp: int, notes: Notes) -> int:
    """Replicas that share a shard, more than in the plan if need be: experts are spread over such alone."""
    counts = [count for count in range(shards, own.dp + 1) if own.dp % count == 0]
    needed = own.ep * etp if own.ep > 1 else 1
    enough = next(count for count in counts if count * own.cp * own.tp % needed == 0)
    if enough > shards:
        text = f"torchtitan spreads experts over replicas that share shards: {enough} of them are written"
        told = {note.field for note in notes.found}
        changed = ("sharding", "shard_group") if own.sharding is Sharding.NONE else ("shard_group",)
        for field in changed:
            if field not in told:
                notes.cannot(field, text)
    return enough


def _modules(stages: tuple[StageParts, ...]) -> list[list[str]]:
    parts, block = [], 0
    for stage in stages:
        names = [_EMBEDDING] if stage.has_embedding else []
        names += [f"{_BLOCK}{number}" for number in range(block, block + stage.num_blocks)]
        parts.append([*names, *(_HEAD if stage.has_head else ())])
        block += stage.num_blocks
    return parts


def read_settings(text: str, line: LayerLine | None) -> PlanSettings:
    """The plan that such a file starts."""
    data = tomllib.loads(text)
    found, training = data["parallelism"], data["training"]
    pp, cp = found["pipeline_parallel_degree"], found["context_parallel_degree"]
    shards, copies = found["data_parallel_shard_degree"], found["data_parallel_replicate_degree"]
    is_sharded = shards * cp > 1
    stages = None if line is None else whole_line(line)
    if pp > 1:
        parts = found.get("module_fqns_per_model_part")
        stages = None if parts is None else tuple(map(_read_part, parts))
    chunks = 1 if stages is None or pp == 1 else len(stages) // pp
    names = {name: schedule for schedule, name in _SCHEDULES.items()}
    local = training["local_batch_size"]
    return PlanSettings(
        tp=found["tensor_parallel_degree"],
        sp=found["tensor_parallel_degree"] > 1,
        cp=cp,
        ep=found["expert_parallel_degree"],
        etp=found["expert_tensor_parallel_degree"],
        dp=shards * copies,
        pp=pp,
        microbatch=found["pipeline_parallel_microbatch_size"] if pp > 1 else local,
        global_batch=training["global_batch_size"],
        order=DeviceOrder.PP_OUTER,
        sharding=Sharding.WEIGHTS if is_sharded else Sharding.NONE,
        shard_group=shards * cp if is_sharded else 1,
        reshard=is_sharded and found["fsdp_reshard_after_forward"] == "always",
        schedule=names[found["pipeline_parallel_schedule"]] if pp > 1 else schedule_of(1),
        chunks=chunks,
        stages=stages,
        recompute=Recomputing(data["activation_checkpoint"]["mode"]),
    )


def _read_part(names: list[str]) -> StageParts:
    blocks = sum(name.startswith(_BLOCK) for name in names)
    return StageParts(has_embedding=_EMBEDDING in names, num_blocks=blocks, has_head=_HEAD[1] in names)
