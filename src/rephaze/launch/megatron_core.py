"""Plans in the settings of Megatron Core, which Megatron-LM takes as arguments and NeMo as fields of a recipe."""

from __future__ import annotations

from collections.abc import Mapping

from rephaze.errors import SpecError
from rephaze.launch.line import schedule_of, whole_line
from rephaze.launch.notes import Notes, common_notes, note_recompute, note_zero_bubble, whole_batch
from rephaze.launch.pipeline_layout import layout_text, read_layout
from rephaze.types.full import DeviceOrder, PipelineSchedule, Sharding
from rephaze.types.launch import LaunchPlan, LayerLine, PlanSettings, Recomputing

Value = int | str | bool

STRATEGY_OF = {Sharding.GRADIENTS: "optim_grads", Sharding.WEIGHTS: "optim_grads_params"}
"""Of Megatron-FSDP; optimizer state alone is sharded by the distributed optimizer."""


def core_settings(launch: LaunchPlan, framework: str) -> tuple[dict[str, Value], Notes]:
    """The settings by Megatron Core's names, and what they do not say."""
    own, notes = launch.settings, common_notes(launch, framework)
    found: dict[str, Value] = {
        "tensor_model_parallel_size": own.tp,
        "pipeline_model_parallel_size": own.pp,
        "context_parallel_size": own.cp,
        "expert_model_parallel_size": own.ep,
        "expert_tensor_parallel_size": own.etp,
        "micro_batch_size": own.microbatch,
        "global_batch_size": whole_batch(own),
    }
    if own.sp:
        found["sequence_parallel"] = True
    if launch.seq_len is not None:
        found["seq_length"] = launch.seq_len
    if own.order is DeviceOrder.DP_OUTER:
        found["use_tp_pp_dp_mapping"] = True
    found |= _sharding(launch, notes, framework)
    if launch.line is not None:
        found["num_layers"] = launch.line.num_blocks
    if own.pp > 1 and own.stages is not None:
        found["pipeline_model_parallel_layout"] = layout_text(own.stages)
    elif own.chunks > 1:
        notes.cannot("chunks", f"{own.chunks} chunks a device: needs the stage map")
        notes.cannot("schedule", "interleaved: needs the stage map")
    note_zero_bubble(notes, launch, framework)
    if own.tp > 1 and not own.sp and own.ep * own.etp > 1:
        notes.know(f"{framework} refuses experts with tensor but no sequence parallelism: switch that on")
    if own.recompute is not Recomputing.NONE:
        found |= {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    note_recompute(notes, launch, "full recompute is written, which fits wherever the plan does; selective may do")
    return found, notes


def _sharding(launch: LaunchPlan, notes: Notes, framework: str) -> dict[str, Value]:
    own = launch.settings
    if own.sharding is Sharding.NONE:
        return {"overlap_grad_reduce": True} if launch.overlap else {}
    found: dict[str, Value] = {"use_distributed_optimizer": True}
    if own.sharding in STRATEGY_OF:
        found |= {"use_megatron_fsdp": True, "data_parallel_sharding_strategy": STRATEGY_OF[own.sharding]}
        # Both frameworks refuse to start Megatron-FSDP with any other.
        found["ckpt_format"] = "fsdp_dtensor"
        if own.sharding is Sharding.WEIGHTS and not own.reshard:
            notes.cannot(
                "reshard",
                f"weights are gathered once a batch in the plan; {framework} gathers them for every pass",
            )
    if own.shard_group < own.num_replicas:
        found["num_distributed_optimizer_instances"] = own.num_replicas // own.shard_group
    if launch.overlap:
        found |= {"overlap_grad_reduce": True, "overlap_param_gather": True}
    return found


def read_core(found: Mapping[str, Value], num_devices: int, line: LayerLine | None) -> PlanSettings:
    """The plan that Megatron Core's settings stand for on so many devices."""
    tp, pp, cp = (
        _count(found, name)
        for name in ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
    )
    if num_devices % (tp * pp * cp):
        rule = f"must divide the {num_devices} devices"
        raise SpecError("tp x pp x cp", tp * pp * cp, rule)
    dp = num_devices // (tp * pp * cp)
    stages = None if line is None else whole_line(line)
    if "pipeline_model_parallel_layout" in found:
        stages = read_layout(str(found["pipeline_model_parallel_layout"]))
    elif pp > 1:
        stages = None
    chunks = 1 if stages is None or pp == 1 else len(stages) // pp
    sharding = _read_sharding(found)
    copies = _count(found, "num_distributed_optimizer_instances")
    is_outer = bool(found.get("use_tp_pp_dp_mapping")) and dp > 1 and pp > 1
    return PlanSettings(
        tp=tp,
        sp=bool(found.get("sequence_parallel", False)),
        cp=cp,
        ep=_count(found, "expert_model_parallel_size"),
        # Megatron Core cuts experts as it does the rest unless it is told otherwise.
        etp=int(found.get("expert_tensor_parallel_size", tp)),
        dp=dp,
        pp=pp,
        microbatch=_count(found, "micro_batch_size"),
        global_batch=_count(found, "global_batch_size"),
        order=DeviceOrder.DP_OUTER if is_outer else DeviceOrder.PP_OUTER,
        sharding=sharding,
        shard_group=1 if sharding is Sharding.NONE else dp * cp // copies,
        reshard=sharding is Sharding.WEIGHTS,
        schedule=schedule_of(chunks) if pp > 1 else PipelineSchedule.ONE_F_ONE_B,
        chunks=chunks,
        stages=stages,
        recompute=Recomputing.FULL if found.get("recompute_granularity") == "full" else Recomputing.NONE,
    )


def _read_sharding(found: Mapping[str, Value]) -> Sharding:
    if found.get("use_megatron_fsdp"):
        strategies = {text: sharding for sharding, text in STRATEGY_OF.items()}
        strategy = str(found.get("data_parallel_sharding_strategy", "no_shard"))
        return strategies.get(strategy, Sharding.OPTIMIZER if strategy == "optim" else Sharding.NONE)
    return Sharding.OPTIMIZER if found.get("use_distributed_optimizer") else Sharding.NONE


def _count(found: Mapping[str, Value], name: str) -> int:
    value = found.get(name, 1)
    if not isinstance(value, int) or value < 1:
        raise SpecError(name, value, "must be a whole number from 1")
    return value
