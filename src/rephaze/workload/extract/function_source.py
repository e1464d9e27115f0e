"""A module to trace from a function in a user's Python file."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rephaze.errors import FileError, SpecError, UnsupportedError
from rephaze.types.checks import did_you_mean
from rephaze.types.files import is_file
from rephaze.workload.extract.source import Inputs, Source, element_type, require_torch, told

if TYPE_CHECKING:
    import torch


def source_from_function(text: str, *, dtype: str) -> Source:
    """What ``module.py:function`` returns: a module and its inputs, moved to the meta device.

    The function takes a microbatch size and returns ``(module, inputs)``; it runs because the user named it.
    """
    require_torch(needs_transformers=False)
    path_text, _, function_name = text.rpartition(":")
    path = Path(path_text)
    if not is_file(path):
        raise FileError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location("rephaze_user_module", path)
    assert spec is not None
    assert spec.loader is not None
    user = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(user)
    except (Exception, SystemExit) as error:  # a script that ends the process is no module either
        raise FileError(f"{path}: importing it failed: {told(error)}") from error
    function = getattr(user, function_name, None)
    if not callable(function):
        names = [key for key, value in vars(user).items() if inspect.isfunction(value)]
        raise SpecError(
            "source",
            text,
            f"{path.name} has no function {function_name!r}",
            did_you_mean(function_name, names),
        )
    return _source_from_callable(function, name=function_name, dtype=dtype, digest=_file_hash(path))


def _source_from_callable(function: Callable[..., Any], *, name: str, dtype: str, digest: str) -> Source:
    import torch

    try:
        takes_microbatch = len(inspect.signature(function).parameters) > 0
    except (TypeError, ValueError):  # what is written in C may not say; calling it will
        takes_microbatch = True
    if not takes_microbatch:
        raise SpecError(
            "source", name, "must take the microbatch size", f"write it as def {name}(microbatch): ..."
        )

    def call(microbatch: int) -> tuple[torch.nn.Module, Inputs]:
        try:
            with torch.device("meta"):
                returned = function(microbatch)
        except (Exception, SystemExit) as error:
            raise UnsupportedError(f"{name}({microbatch}) failed: {told(error)}") from error
        if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], torch.nn.Module)):
            raise SpecError("source", name, "must return a module and its inputs", "return (module, {'x': ...})")
        module, inputs = returned
        if isinstance(inputs, torch.Tensor):
            inputs = (inputs,)
        if isinstance(inputs, Mapping):  # such as what a tokenizer returns
            inputs = dict(inputs)
        elif isinstance(inputs, list):
            inputs = tuple(inputs)
        if not isinstance(inputs, dict | tuple):
            rule = f"must return its inputs as a dict, tuple, list or tensor, not {type(inputs).__name__}"
            raise SpecError("source", name, rule, "return (module, {'x': ...})")
        return module, inputs

    module, sample = call(2)
    module = module.to(device="meta", dtype=element_type(dtype))
    return Source(
        name=name,
        module=module,
        inputs_at=lambda microbatch: _on_meta(call(microbatch)[1], element_type(dtype)),
        seq_len=_guessed_length(sample),
        config_hash=digest,
    )


def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _on_meta(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    import torch
    from torch.utils._pytree import tree_map

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(device="meta", dtype=dtype if value.is_floating_point() else value.dtype)

    moved: Inputs = tree_map(move, inputs)
    return moved


def _guessed_length(inputs: Inputs) -> int:
    """Tokens a sample: the second axis of the first tensor, as batches of sequences have it; else 1."""
    import torch
    from torch.utils._pytree import tree_leaves

    shapes = [t.shape for t in tree_leaves(inputs) if isinstance(t, torch.Tensor)]
    return int(shapes[0][1]) if shapes and len(shapes[0]) > 1 else 1
