"""NeMo 2 (up to 2.5): overrides of a pretraining recipe, one a line, as its command line takes them."""

from __future__ import annotations

from rephaze.errors import SpecError
from rephaze.launch.megatron_core import Value, core_settings, read_core
from rephaze.launch.notes import heading, nodes_of
from rephaze.types.launch import LaunchFile, LaunchPlan, LayerLine, PlanSettings

SOURCES = (
    "https://docs.nvidia.com/nemo-framework/user-guide/latest/nemotoolkit/features/parallelisms.html",
    "https://github.com/NVIDIA/NeMo/blob/v2.5.3/nemo/lightning/pytorch/strategies/megatron_strategy.py",
)
_PLACES = {
    "trainer.strategy": (
        "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
        "expert_model_parallel_size", "expert_tensor_parallel_size", "sequence_parallel", "use_tp_pp_dp_mapping",
        # NeMo copies the strategy's layout over the model's, also where it has none.
        "num_distributed_optimizer_instances", "pipeline_model_parallel_layout",
    ),
    "trainer.strategy.ddp": (
        "use_distributed_optimizer", "use_megatron_fsdp", "data_parallel_sharding_strategy", "overlap_grad_reduce",
        "overlap_param_gather",
    ),
    "data": ("micro_batch_size", "global_batch_size", "seq_length"),
    "model.config": (
        "num_layers", "recompute_granularity", "recompute_method", "recompute_num_layers",
    ),
}  # fmt: skip
"""Where a recipe has each setting of Megatron Core."""
_PLACE_OF = {name: f"{place}.{name}" for place, names in _PLACES.items() for name in names}
_PLACE_OF["ckpt_format"] = "trainer.strategy.save_ckpt_format"


def write_settings(launch: LaunchPlan) -> LaunchFile:
    """The overrides: ``nemo llm pretrain --factory RECIPE $(grep -v '^#' FILE)``."""
    found, notes = core_settings(launch, "NeMo")
    nodes, per_node = nodes_of(launch)
    lines = [f"# {line}" for line in heading(launch, notes, SOURCES)]
    lines += [f"trainer.num_nodes={nodes}", f"trainer.devices={per_node}"]
    if launch.settings.chunks > 1 and launch.settings.stages is not None:
        lines.append(f"trainer.strategy.virtual_pipeline_model_parallel_size={launch.settings.chunks}")
    lines += [f"{_PLACE_OF[name]}={value}" for name, value in found.items()]
    return LaunchFile(text="\n".join(lines) + "\n", unsaid=tuple(notes.found))


def read_settings(text: str, line: LayerLine | None) -> PlanSettings:
    """The plan that such overrides stand for."""
    values: dict[str, Value] = {}
    for number, row in enumerate(text.splitlines(), start=1):
        if not row or row.startswith("#"):
            continue
        name, is_there, value = row.partition("=")
        if not is_there:
            raise SpecError(f"line {number}", row, "must be an override such as trainer.devices=8")
        values[name] = (
            value == "True" if value in ("True", "False") else int(value) if value.isdecimal() else value
        )
    found = {name: values[place] for name, place in _PLACE_OF.items() if place in values}
    return read_core(found, int(values["trainer.num_nodes"]) * int(values["trainer.devices"]), line)
