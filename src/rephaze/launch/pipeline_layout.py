"""Megatron's string for a stage map: ``Et*3|t*4|t*3L``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rephaze.errors import SpecError
from rephaze.types.launch import StageParts

SOURCE = "https://docs.nvidia.com/megatron-core/developer-guide/nightly/user-guide/features/pipeline_parallel_layout.html"
_REPEAT = re.compile(r"\(([^()]*)\)\*(\d+)|([EtmL])\*(\d+)")


def layout_text(stages: Sequence[StageParts]) -> str:
    """The map as Megatron takes it: E embedding, t a block, L loss; stages in order, chunk after chunk."""
    return "|".join(
        "E" * stage.has_embedding + _blocks(stage.num_blocks) + "L" * stage.has_head for stage in stages
    )


def _blocks(count: int) -> str:
    return "t" * count if count < 3 else f"t*{count}"


def read_layout(text: str) -> tuple[StageParts, ...]:
    """The map of a string, groups in brackets and all."""
    flat = "".join(text.replace(",", "").split())
    while found := _REPEAT.search(flat):
        group, count, letter, repeats = found.groups()
        flat = (
            flat[: found.start()] + (group * int(count) if count else letter * int(repeats)) + flat[found.end() :]
        )
    if set(flat) - set("EtL|"):
        raise SpecError("--pipeline-model-parallel-layout", text, "must be of E, t, L, | and repeats of them")
    return tuple(
        StageParts(has_embedding="E" in stage, num_blocks=stage.count("t"), has_head="L" in stage)
        for stage in flat.split("|")
    )
