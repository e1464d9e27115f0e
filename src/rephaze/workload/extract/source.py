"""A module to trace and its inputs, on the meta device; what both kinds of source share."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rephaze.errors import MissingExtraError, SpecError
from rephaze.types.checks import did_you_mean
from rephaze.workload.extract.known_values import KnownValues

if TYPE_CHECKING:
    import torch

MAX_TOLD_CHARS = 300
_MIXED_TYPES = re.compile(r"expected scalar type (?:torch\.)?(\w+) but found (?:torch\.)?(\w+)")
_MISSING_LIBRARY = re.compile(r"requires the (\w+) library")
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
    """An error of the user's own code in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:MAX_TOLD_CHARS]}"


def in_words(error: BaseException) -> str:
    """An error of a library's code in one line of words: what it needs and has not, where that can be told."""
    text = " ".join(str(error).split())[:MAX_TOLD_CHARS]
    if mixed := _MIXED_TYPES.search(text):
        return f"it mixes {mixed[1]} and {mixed[2]} numbers, which only autocast allows; give --dtype float32"
    if "Unsupported dtype" in text or "not implemented for" in text:
        return f"torch has no such operator for these numbers ({text}); give --dtype float32"
    if library := _MISSING_LIBRARY.search(text):
        return f"it needs the library {library[1]}, which is not installed; pip install {library[1]}"
    if "NoneType" in text:
        return f"it needs an input or a setting that the config and the made-up batch leave out ({text})"
    if isinstance(error, KeyError | IndexError | StopIteration | AttributeError | TypeError):
        looked_for = text or "one more item"
        return f"its code and its config or inputs do not fit each other (at {looked_for})"
    return text or "it gives no reason"
