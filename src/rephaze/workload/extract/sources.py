"""Where a module to trace comes from: a Hugging Face config, or a function in a user's Python file."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rephaze.errors import FileError, MissingExtraError, SpecError, UnsupportedError
from rephaze.types.checks import did_you_mean

if TYPE_CHECKING:
    import torch

Inputs = dict[str, Any] | tuple[Any, ...]

# Tried in turn when a config names no architecture: the task a model type is pre-trained for comes first.
_TASKS = (
    "MODEL_FOR_PRETRAINING_MAPPING",
    "MODEL_FOR_CAUSAL_LM_MAPPING",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "MODEL_FOR_MASKED_LM_MAPPING",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING",
)
# Features that make a step depend on data or on earlier steps.
_CONFIG_OVERRIDES = {"use_cache": False, "layerdrop": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}


@dataclass(frozen=True, slots=True)
class Source:
    """A module on the meta device and how to make a microbatch for it."""

    name: str
    module: torch.nn.Module
    inputs_at: Callable[[int], Inputs]
    """Inputs for a given microbatch size, on the meta device."""
    seq_len: int
    config_hash: str


def require_torch(needs_transformers: bool = True) -> None:
    """Raise ``MissingExtraError`` unless the libraries that extraction needs are installed."""
    wanted = ("torch", "transformers") if needs_transformers else ("torch",)
    for name in wanted:
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(
                f"extraction needs {name}, which is not installed; run: pip install 'rephaze[extract]'"
            )


def source_from_config(
    config: dict[str, Any], *, name: str, seq_len: int | None, dtype: str, attention: str
) -> Source:
    """The module a Hugging Face config describes, without weights.

    Args:
        config: The content of a ``config.json``.
        name: Shown in messages and kept as the model's name.
        seq_len: Tokens a sample; None takes the config's own longest. Image models have their own.
        dtype: Of parameters and activations, such as ``bfloat16``.
        attention: ``fused`` or ``eager``.
    """
    require_torch()
    import torch

    from rephaze.workload.extract.hugging_face import attention_name, quiet_library, skip_data_checks

    element_type = _dtype(dtype)
    with quiet_library():
        settings = _hugging_face_config(config, name)
        model_class = _model_class(settings, config, name)
        settings._attn_implementation = attention_name(model_class, attention)
        if model_class._can_set_experts_implementation():
            # The default loops over nonzero(), which cannot run without data; grouped products can.
            settings._experts_implementation = "grouped_mm"
        try:
            with torch.device("meta"):
                module = model_class._from_config(settings, dtype=element_type)
        except Exception as error:
            raise UnsupportedError(
                f"{name}: {model_class.__name__} could not be built from this config: {_told(error)}"
            ) from error
    skip_data_checks(module)
    length = _sequence_length(settings, seq_len, name)
    return Source(
        name=name,
        module=module,
        inputs_at=_input_maker(module, settings, length, element_type),
        seq_len=length if not _is_image_model(module) else _image_tokens(settings),
        config_hash=hash_config(config),
    )


def source_from_function(text: str, *, dtype: str) -> Source:
    """What ``module.py:function`` returns: a module and its inputs, moved to the meta device.

    The function takes a microbatch size and returns ``(module, inputs)``; it runs because the user named it.
    """
    require_torch(needs_transformers=False)
    path_text, _, function_name = text.rpartition(":")
    path = Path(path_text)
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location("rephaze_user_module", path)
    assert spec is not None
    assert spec.loader is not None
    user = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(user)
    except Exception as error:
        raise FileError(f"{path}: importing it failed: {_told(error)}") from error
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

    takes_microbatch = len(inspect.signature(function).parameters) > 0
    if not takes_microbatch:
        raise SpecError(
            "source", name, "must take the microbatch size", f"write it as def {name}(microbatch): ..."
        )

    def call(microbatch: int) -> tuple[Any, Inputs]:
        try:
            with torch.device("meta"):
                returned = function(microbatch)
        except Exception as error:
            raise UnsupportedError(f"{name}({microbatch}) failed: {_told(error)}") from error
        if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], torch.nn.Module)):
            raise SpecError("source", name, "must return a module and its inputs", "return (module, {'x': ...})")
        module, inputs = returned
        if isinstance(inputs, torch.Tensor):
            inputs = (inputs,)
        if not isinstance(inputs, dict | tuple):
            inputs = tuple(inputs)
        return module, inputs

    module, sample = call(2)
    module = module.to(device="meta", dtype=_dtype(dtype))
    return Source(
        name=name,
        module=module,
        inputs_at=lambda microbatch: _on_meta(call(microbatch)[1], _dtype(dtype)),
        seq_len=_guessed_length(sample),
        config_hash=digest,
    )


def hash_config(config: dict[str, Any]) -> str:
    """A short fingerprint of a config's content, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16]


def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _hugging_face_config(config: dict[str, Any], name: str) -> Any:
    from transformers import CONFIG_MAPPING

    model_type = config.get("model_type")
    if model_type is None:
        raise SpecError(
            f"{name}: model_type", None, "is required and missing", "is it a Hugging Face config.json?"
        )
    if model_type not in CONFIG_MAPPING:
        raise SpecError(
            f"{name}: model_type",
            model_type,
            "is not an architecture this transformers version knows",
            did_you_mean(model_type, CONFIG_MAPPING.keys()),
        )
    values = {key: value for key, value in config.items() if key not in ("auto_map", "quantization_config")}
    try:
        settings = CONFIG_MAPPING[model_type](**values)
    except Exception as error:
        raise UnsupportedError(f"{name}: not a valid {model_type} config: {_told(error)}") from error
    for sub in _with_parts(settings):
        for key, value in _CONFIG_OVERRIDES.items():
            if hasattr(sub, key):
                setattr(sub, key, value)
    if getattr(settings, "is_encoder_decoder", False) and not hasattr(settings, "decoder_start_token_id"):
        settings.decoder_start_token_id = 0
    return settings


def _with_parts(settings: Any) -> list[Any]:
    parts = [getattr(settings, key, None) for key in getattr(settings, "sub_configs", {})]
    return [settings, *(part for part in parts if part is not None)]


def _model_class(settings: Any, config: dict[str, Any], name: str) -> Any:
    import transformers
    from transformers.models.auto import modeling_auto

    for architecture in config.get("architectures") or []:
        found = getattr(transformers, str(architecture), None)
        if found is None:
            known = [n for n in dir(transformers) if "For" in n or n.endswith("Model")]
            raise SpecError(
                f"{name}: architectures",
                architecture,
                "is not an architecture this transformers version knows",
                did_you_mean(architecture, known),
            )
        if inspect.isclass(found) and issubclass(found, transformers.PreTrainedModel):
            return found
    for task in _TASKS:
        mapping = getattr(modeling_auto, task, {})
        if type(settings) in mapping:
            found = mapping[type(settings)]
            return found[0] if isinstance(found, tuple) else found
    raise UnsupportedError(f"{name}: {settings.model_type} has no architecture with a training loss")


def _dtype(name: str) -> Any:
    import torch

    known = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
    if name not in known:
        raise SpecError("dtype", name, f"must be one of {', '.join(known)}", did_you_mean(name, known))
    return known[name]


def _sequence_length(settings: Any, seq_len: int | None, name: str) -> int:
    text = settings.get_text_config() if hasattr(settings, "get_text_config") else settings
    longest = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None)
    if seq_len is None:
        return int(longest or 512)
    # Learned position tables end; rotations do not.
    is_learned = not hasattr(text, "rope_parameters") and not hasattr(text, "relative_attention_num_buckets")
    if longest and is_learned and seq_len > longest:
        raise SpecError(
            "seq_len", seq_len, f"{name} has positions for {longest} tokens", "give a shorter sequence"
        )
    return seq_len


def _is_image_model(module: Any) -> bool:
    return getattr(module, "main_input_name", "") == "pixel_values"


def _image_tokens(settings: Any) -> int:
    size, patch = (getattr(settings, key, 1) for key in ("image_size", "patch_size"))
    height, width = size if isinstance(size, list | tuple) else (size, size)
    patch_h, patch_w = patch if isinstance(patch, list | tuple) else (patch, patch)
    return int((height // patch_h) * (width // patch_w) + 1)


def _input_maker(module: Any, settings: Any, seq_len: int, dtype: Any) -> Callable[[int], Inputs]:
    import torch

    accepted = inspect.signature(module.forward).parameters

    def tokens(*shape: int) -> Any:
        return torch.empty(shape, dtype=torch.long, device="meta")

    def make(microbatch: int) -> Inputs:
        made: dict[str, Any] = {}
        if _is_image_model(module):
            size = getattr(settings, "image_size", 224)
            height, width = size if isinstance(size, list | tuple) else (size, size)
            made["pixel_values"] = torch.empty(
                (microbatch, settings.num_channels, height, width), dtype=dtype, device="meta"
            )
            made["labels"] = tokens(microbatch)
        else:
            made["input_ids"] = tokens(microbatch, seq_len)
            per_sample = type(module).__name__.endswith("ForSequenceClassification")
            made["labels"] = tokens(microbatch) if per_sample else tokens(microbatch, seq_len)
        if settings._attn_implementation in ("eager", "sdpa"):
            # Models that pick attention by name look for packed sequences unless a mask is given.
            made["attention_mask"] = tokens(microbatch, seq_len)
        if "next_sentence_label" in accepted:
            made["next_sentence_label"] = tokens(microbatch)
        return {key: value for key, value in made.items() if key in accepted}

    return make


def _on_meta(inputs: Inputs, dtype: Any) -> Inputs:
    import torch
    from torch.utils._pytree import tree_map

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(device="meta", dtype=dtype if value.is_floating_point() else value.dtype)

    moved: Inputs = tree_map(move, inputs)
    return moved


def _guessed_length(inputs: Inputs) -> int:
    import torch
    from torch.utils._pytree import tree_leaves

    shapes = [t.shape for t in tree_leaves(inputs) if isinstance(t, torch.Tensor)]
    return int(shapes[0][1]) if shapes and len(shapes[0]) > 1 else 1


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
