"""Which frameworks a plan can be written for, and who writes and reads their settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rephaze.launch import deepspeed, maxtext, megatron, nemo, torchtitan
from rephaze.types.launch import LaunchFile, LaunchPlan, LayerLine, PlanSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class Framework:
    """One framework's settings."""

    write: Callable[[LaunchPlan], LaunchFile]
    read: Callable[[str, LayerLine | None], PlanSettings]
    suffix: str
    """Of the file."""
    sources: tuple[str, ...]
    """Pages that its names are taken from."""


FRAMEWORKS = {
    name: Framework(write=room.write_settings, read=room.read_settings, suffix=suffix, sources=room.SOURCES)
    for name, room, suffix in (
        ("megatron", megatron, ".sh"),
        ("torchtitan", torchtitan, ".toml"),
        ("deepspeed", deepspeed, ".json"),
        ("maxtext", maxtext, ".yml"),
        ("nemo", nemo, ".txt"),
    )
}
