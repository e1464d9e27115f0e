"""The models that ship with rephaze: graphs made by the extractor, read without torch."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from rephaze.errors import SpecError
from rephaze.types.checks import check_choice, did_you_mean
from rephaze.types.files import read_mapping
from rephaze.types.graph import ModelGraph
from rephaze.workload.graph_file import read_graph

ZOO_NAMES = (
    "opt-350m",
    "bert-large",
    "gpt2-xl",
    "llama2-7b",
    "megatron-bert",
    "megatron-gpt2-xl",
    "megatron-gpt2-2.5b",
    "megatron-gpt2-8.3b",
    "gpt3-175b",
    "llama3-8b",
    "llama3-70b",
    "mixtral-8x7b",
    "t5-large",
    "vit-large",
    "deepseek-v3",
    "qwen3-235b-a22b",
    "gpt-oss-120b",
)
_GRAPH_SUFFIXES = (".json", ".gz")


def load_model(name_or_path: str, attention: str = "fused") -> ModelGraph:
    """A model's graph at tp = 1, unfused: one of the zoo by name, or a graph file by path.

    Args:
        name_or_path: Such as ``llama2-7b``, or the path of a ``.json`` or ``.json.gz`` graph file.
        attention: For zoo names, ``fused`` or ``eager``; a file has its own.
    """
    check_choice("attention", attention, ("fused", "eager"))
    if name_or_path in ZOO_NAMES:
        return _load_zoo(name_or_path, attention)
    if Path(name_or_path).suffix in _GRAPH_SUFFIXES:
        return read_graph(Path(name_or_path))
    raise SpecError(
        "model",
        name_or_path,
        f"is neither a graph file nor one of {', '.join(ZOO_NAMES)}",
        did_you_mean(name_or_path, ZOO_NAMES),
    )


def zoo_config(name: str) -> dict[str, Any]:
    """The facts a zoo model was extracted from: ``source``, ``seq_len`` and the Hugging Face ``config``."""
    check_choice("model", name, ZOO_NAMES)
    return read_mapping(_data() / "configs" / f"{name}.json")


def zoo_graph_path(name: str, attention: str) -> Path:
    """Where a zoo model's graph lies."""
    return _data() / "graphs" / f"{name}.{attention}.json.gz"


@cache
def _load_zoo(name: str, attention: str) -> ModelGraph:
    return read_graph(zoo_graph_path(name, attention))


def _data() -> Path:
    return Path(str(files("rephaze.workload"))) / "data"
