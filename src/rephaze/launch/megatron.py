"""Megatron-LM: a shell script that starts ``pretrain_gpt.py`` under torchrun with the plan's arguments."""

from __future__ import annotations

import shlex

from rephaze.errors import SpecError
from rephaze.launch import pipeline_layout
from rephaze.launch.megatron_core import Value, core_settings, read_core
from rephaze.launch.notes import heading, nodes_of
from rephaze.types.launch import LaunchFile, LaunchPlan, LayerLine, PlanSettings

SOURCES = (
    "https://docs.nvidia.com/megatron-core/developer-guide/latest/user-guide/parallelism-guide.html",
    pipeline_layout.SOURCE,
    "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py",
)
_SCRIPT = "pretrain_gpt.py"


def write_settings(launch: LaunchPlan) -> LaunchFile:
    """The script; whatever else a model needs is given to it as arguments."""
    found, notes = core_settings(launch, "Megatron-LM")
    nodes, per_node = nodes_of(launch)
    lines = ["#!/bin/sh", *(f"# {line}" for line in heading(launch, notes, SOURCES))]
    if "use_megatron_fsdp" in found:
        lines.append("# Megatron-FSDP refuses to start where CUDA_DEVICE_MAX_CONNECTIONS is 1")
    elif launch.settings.tp * launch.settings.cp > 1:
        lines += [
            "# with tensor or context parallelism Megatron-LM refuses to start without it, up to Hopper",
            "export CUDA_DEVICE_MAX_CONNECTIONS=1",
        ]
    words = [f"torchrun --nnodes {nodes} --nproc-per-node {per_node} {_SCRIPT}"]
    words += [_argument(name, value) for name, value in found.items()]
    lines += [
        "# further arguments (rendezvous before the script's name, shape, data, learning rate) are yours to give",
        " \\\n  ".join([*words, '"$@"']),
    ]
    return LaunchFile(text="\n".join(lines) + "\n", unsaid=tuple(notes.found))


def read_settings(text: str, line: LayerLine | None) -> PlanSettings:
    """The plan that such a script starts."""
    words = shlex.split(text.replace("\\\n", " "), comments=True)
    if "torchrun" not in words or _SCRIPT not in words:
        raise SpecError("launch script", " ".join(words[:3]), f"must run {_SCRIPT} under torchrun")
    begin, at = words.index("torchrun"), words.index(_SCRIPT)
    runner, arguments = _named(words[begin + 1 : at]), _named(words[at + 1 :])
    return read_core(arguments, int(runner["nnodes"]) * int(runner["nproc_per_node"]), line)


def _argument(name: str, value: Value) -> str:
    flag = "--" + name.replace("_", "-")
    return flag if value is True else f"{flag} {shlex.quote(str(value))}"


def _named(words: list[str]) -> dict[str, Value]:
    """Values by flag; a flag that is followed by another is on."""
    found: dict[str, Value] = {}
    for at, word in enumerate(words):
        if not word.startswith("--"):
            continue
        value = words[at + 1] if at + 1 < len(words) else "--"
        name = word[2:].replace("-", "_")
        if value.startswith("--") or value == "$@":
            found[name] = True
        else:
            found[name] = int(value) if value.isdecimal() else value
    return found
