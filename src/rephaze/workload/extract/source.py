"""A module to trace and its inputs, on the meta device; what both kinds of source share."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rephaze.errors import MissingExtraError, SpecError
from rephaze.types.checks import did_you_mean
from rephaze.workload.extract.known_values import KnownValues

if TYPE_CHECKING:
    import torch

Inputs = dict[str, Any] | tuple[Any, ...]
"""Keyword or positional arguments of a module's ``forward``: tensors, and whatever else it takes."""


@dataclass(frozen=True, slots=True)
class Source:
    """A module on the meta device and how to make a microbatch for it."""

    name: str
    module: torch.nn.Module
    inputs_at: Callable[[int], Inputs]
    """Inputs for a given microbatch size, on the meta device."""
    seq_len: int
    config_hash: str
    known: KnownValues = field(default_factory=KnownValues)
    """Values of the batch and of constants."""
    makes_constants_by_sample: bool = False
    """Whether constants are made sample by sample, such as positions of patches: they are taken as given."""


def require_torch(needs_transformers: bool = True) -> None:
    """Raise ``MissingExtraError`` unless the libraries that extraction needs are installed."""
    wanted = ("torch", "transformers") if needs_transformers else ("torch",)
    for name in wanted:
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(
                f"extraction needs {name}, which is not installed; run: pip install 'rephaze[extract]'"
            )


def element_type(name: str) -> torch.dtype:
    """Torch's type of numbers for a name such as ``bfloat16``."""
    import torch

    known = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
    if name not in known:
        raise SpecError("dtype", name, f"must be one of {', '.join(known)}", did_you_mean(name, known))
    return known[name]


def told(error: BaseException) -> str:
    """An error of someone else's code in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
