"""MaxText: a flat YAML file of its mesh axes, pipeline and rematerialisation."""

from __future__ import annotations

from rephaze.errors import SpecError
from rephaze.launch.line import schedule_of, whole_line
from rephaze.launch.notes import Notes, common_notes, heading, note_recompute, note_zero_bubble
from rephaze.types.full import DeviceOrder, Sharding
from rephaze.types.launch import LaunchFile, LaunchPlan, LayerLine, PlanSettings, Recomputing, StageParts

SOURCES = (
    "https://github.com/AI-Hypercomputer/maxtext/blob/main/src/maxtext/configs/base.yml",
    "https://maxtext.readthedocs.io/en/latest/guides/optimization/sharding.html",
)
Value = int | float | bool | str


def write_settings(launch: LaunchPlan) -> LaunchFile:
    """The file for MaxText's ``train``; axes are of one slice (``ici``), to be split where there are several."""
    own, notes = launch.settings, common_notes(launch, "MaxText")
    found: dict[str, Value] = _axes(own, notes)
    num_microbatches = _whole_rounds(own, notes)
    found |= _batch(own, num_microbatches)
    if own.pp > 1:
        found |= _pipeline(launch, num_microbatches, notes)
    elif own.sharding is Sharding.WEIGHTS and not own.reshard:
        notes.cannot(
            "reshard",
            "weights are gathered once a batch in the plan; without a pipeline MaxText gathers them by layer",
        )
    note_zero_bubble(notes, launch, "MaxText")
    if launch.seq_len is not None:
        found["max_target_length"] = launch.seq_len
    found["remat_policy"] = "none" if own.recompute is Recomputing.NONE else "full"
    note_recompute(
        notes, launch, "remat_policy full is written, which fits wherever the plan does; minimal may do"
    )
    lines = [f"# {line}" for line in heading(launch, notes, SOURCES)]
    lines += [
        f"{name}: {str(value).lower() if isinstance(value, bool) else value}" for name, value in found.items()
    ]
    return LaunchFile(text="\n".join(lines) + "\n", unsaid=tuple(notes.found))


def _axes(own: PlanSettings, notes: Notes) -> dict[str, Value]:
    """Devices by axis. Experts have an axis of their own, which is one of replicas to everything else."""
    ep = own.ep
    if own.dp % ep:
        notes.cannot(
            "ep", f"ep {ep} does not divide dp {own.dp}: 1 is written; MaxText's expert axis is made of replicas"
        )
        ep = 1
    if own.etp != (own.tp if ep > 1 else 1):
        notes.cannot("etp", f"MaxText cuts experts over all of tp, {own.tp}; the plan over {own.etp}")
    shards = _shards(own, ep, notes)
    copies = own.dp // (shards * ep)
    if own.pp > 1 and own.dp > 1:
        written = DeviceOrder.DP_OUTER if shards * ep == 1 else DeviceOrder.PP_OUTER
        if copies > 1 and shards * ep > 1:
            notes.cannot("order", "MaxText puts copies outside stages and shards inside them")
        elif own.order is not written:
            notes.cannot("order", f"MaxText's mesh has order {written} here, the plan {own.order}")
    found: dict[str, Value] = {
        "ici_data_parallelism": copies,
        "ici_pipeline_parallelism": own.pp,
        "ici_fsdp_parallelism": shards,
        "ici_context_parallelism": own.cp,
        "ici_tensor_parallelism": 1 if own.sp else own.tp,
        "ici_tensor_sequence_parallelism": own.tp if own.sp else 1,
        "ici_expert_parallelism": ep,
    }
    if own.sharding is Sharding.OPTIMIZER and shards * ep * own.cp == 1:
        found["shard_optimizer_over_data"] = True
    return found


def _shards(own: PlanSettings, ep: int, notes: Notes) -> int:
    """The fsdp axis: what is left of the shard group beside context and experts."""
    if own.sharding is Sharding.WEIGHTS:
        if own.shard_group % (own.cp * ep) == 0:
            return own.shard_group // (own.cp * ep)
        notes.cannot(
            "shard_group", f"weights are sharded over the {own.cp * ep} devices of context and experts at least"
        )
        return 1
    is_whole = own.cp * ep == 1 and own.shard_group in (1, own.dp)
    if own.sharding is Sharding.GRADIENTS or (own.sharding is Sharding.OPTIMIZER and not is_whole):
        notes.cannot(
            "sharding",
            f"MaxText shards weights, or optimizer state over all replicas: weights are written, the "
            f"plan has {own.sharding}",
        )
        if own.shard_group != own.num_replicas:
            notes.cannot("shard_group", "weights are sharded over all replicas")
        notes.cannot("reshard", "weights are gathered by layer")
        return own.dp // ep
    if own.sharding is Sharding.NONE and own.cp * ep > 1:
        notes.cannot("sharding", "MaxText shards weights over the axes of context and experts")
        notes.cannot("shard_group", f"weights are sharded over {own.cp * ep} devices")
        notes.cannot("reshard", "weights are gathered by layer")
    return 1


def _whole_rounds(own: PlanSettings, notes: Notes) -> int:
    """Microbatches of a replica, filled up to a multiple of the stages: MaxText's pipelines take no other."""
    filled = -(-own.num_microbatches // own.pp) * own.pp
    if filled != own.num_microbatches:
        notes.found = [note for note in notes.found if note.field != "global_batch"]
        text = (
            f"MaxText's pipelines take microbatches in multiples of their {own.pp} stages: {filled} are written, "
            f"the plan has {own.num_microbatches}, and a batch has {filled * own.dp * own.microbatch} samples"
        )
        notes.cannot("global_batch", text)
    return filled


def _batch(own: PlanSettings, num_microbatches: int) -> dict[str, Value]:
    """Samples of a device, which may be a fraction, and how many passes make a batch."""
    steps = 1 if own.pp > 1 else num_microbatches
    per_device = num_microbatches * own.dp * own.microbatch / steps / own.num_devices
    return {"per_device_batch_size": per_device, "gradient_accumulation_steps": steps}


def _pipeline(launch: LaunchPlan, num_microbatches: int, notes: Notes) -> dict[str, Value]:
    own, num_stages = launch.settings, launch.settings.pp * launch.settings.chunks
    found: dict[str, Value] = {
        "num_pipeline_microbatches": num_microbatches,
        "num_pipeline_repeats": own.chunks,
        "pipeline_fsdp_ag_once": own.sharding is Sharding.WEIGHTS and not own.reshard,
    }
    notes.know(
        "MaxText runs embedding and head outside the pipeline, and all forward passes before the backward ones"
    )
    if launch.line is None or own.stages is None:
        return found
    if own.stages == even_stages(launch.line, num_stages):
        found["num_layers_per_pipeline_stage"] = launch.line.num_blocks // num_stages
    else:
        notes.cannot(
            "stages",
            f"MaxText's stages have equal numbers of blocks: {num_stages} stages of "
            f"{launch.line.num_blocks} do not",
        )
    return found


def even_stages(line: LayerLine, num_stages: int) -> tuple[StageParts, ...] | None:
    """Equal numbers of blocks in each stage, if there are."""
    each, left = divmod(line.num_blocks, num_stages)
    if left:
        return None
    return tuple(
        StageParts(has_embedding=at == 0, num_blocks=each, has_head=at == num_stages - 1)
        for at in range(num_stages)
    )


def read_settings(text: str, line: LayerLine | None) -> PlanSettings:
    """The plan that such a file stands for."""
    found = _read(text)
    copies, pp, shards, cp, plain_tp, cut_tp, ep = (
        int(found[f"ici_{axis}_parallelism"])
        for axis in ("data", "pipeline", "fsdp", "context", "tensor", "tensor_sequence", "expert")
    )
    tp, dp = plain_tp * cut_tp, copies * shards * ep
    steps, chunks = int(found["gradient_accumulation_steps"]), int(found.get("num_pipeline_repeats", 1))
    batch = round(float(found["per_device_batch_size"]) * tp * cp * dp * pp) * steps
    num_microbatches = int(found["num_pipeline_microbatches"]) if pp > 1 else steps
    group = shards * ep * cp
    sharding = Sharding.WEIGHTS if group > 1 else Sharding.NONE
    if found.get("shard_optimizer_over_data"):
        sharding, group = Sharding.OPTIMIZER, dp
    stages = None if line is None else whole_line(line)
    if pp > 1:
        stages = (
            None
            if line is None or "num_layers_per_pipeline_stage" not in found
            else even_stages(line, pp * chunks)
        )
    is_outer = pp > 1 and dp > 1 and shards * ep == 1
    return PlanSettings(
        tp=tp,
        sp=cut_tp > 1,
        cp=cp,
        ep=ep,
        etp=tp if ep > 1 else 1,
        dp=dp,
        pp=pp,
        microbatch=batch // (dp * num_microbatches),
        global_batch=batch,
        order=DeviceOrder.DP_OUTER if is_outer else DeviceOrder.PP_OUTER,
        sharding=sharding,
        shard_group=group if sharding is not Sharding.NONE else 1,
        reshard=sharding is Sharding.WEIGHTS and not found.get("pipeline_fsdp_ag_once", False),
        schedule=schedule_of(chunks),
        chunks=chunks,
        stages=stages,
        recompute=Recomputing.NONE if found["remat_policy"] == "none" else Recomputing.FULL,
    )


def _read(text: str) -> dict[str, Value]:
    """Values by name: MaxText's files are flat."""
    found: dict[str, Value] = {}
    for number, row in enumerate(text.splitlines(), start=1):
        if not row or row.startswith("#"):
            continue
        name, is_there, value = row.partition(": ")
        if not is_there:
            raise SpecError(f"line {number}", row, "must be a name and a value")
        words = {"true": True, "false": False}
        try:
            found[name] = words[value] if value in words else float(value)
        except ValueError:
            found[name] = value
    return found
