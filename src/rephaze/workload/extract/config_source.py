"""A module to trace from a Hugging Face config: built on the meta device, without weights."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rephaze.errors import SpecError, UnsupportedError
from rephaze.types.checks import did_you_mean
from rephaze.workload.extract.hugging_face import ModelClass, attention_name, quiet_library, skip_data_checks
from rephaze.workload.extract.source import Inputs, Source, element_type, require_torch, told

if TYPE_CHECKING:
    import torch

Settings = Any
"""A configuration of transformers: each class has attributes of its own, and the library gives them no types."""

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

    numbers = element_type(dtype)
    with quiet_library():
        settings = _hugging_face_config(config, name)
        model_class = _model_class(settings, config, name)
        settings._attn_implementation = attention_name(model_class, attention)
        if model_class._can_set_experts_implementation():
            # The default loops over nonzero(), which cannot run without data; grouped products can.
            settings._experts_implementation = "grouped_mm"
        try:
            with torch.device("meta"):
                module = model_class._from_config(settings, dtype=numbers)
        except Exception as error:
            raise UnsupportedError(
                f"{name}: {model_class.__name__} could not be built from this config: {told(error)}"
            ) from error
    skip_data_checks(module)
    length = _sequence_length(settings, seq_len, name)
    return Source(
        name=name,
        module=module,
        inputs_at=_input_maker(module, settings, length, numbers),
        seq_len=length if not _is_image_model(module) else _image_tokens(settings),
        config_hash=hash_config(config),
    )


def hash_config(config: dict[str, Any]) -> str:
    """A short fingerprint of a config's content, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16]


def _hugging_face_config(config: dict[str, Any], name: str) -> Settings:
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
        raise UnsupportedError(f"{name}: not a valid {model_type} config: {told(error)}") from error
    for sub in _with_parts(settings):
        for key, value in _CONFIG_OVERRIDES.items():
            if hasattr(sub, key):
                setattr(sub, key, value)
    if getattr(settings, "is_encoder_decoder", False) and not hasattr(settings, "decoder_start_token_id"):
        settings.decoder_start_token_id = 0
    return settings


def _with_parts(settings: Settings) -> list[Settings]:
    """The settings and those of the parts (encoder, vision tower) that have their own."""
    parts = [getattr(settings, key, None) for key in getattr(settings, "sub_configs", {})]
    return [settings, *(part for part in parts if part is not None)]


def _model_class(settings: Settings, config: dict[str, Any], name: str) -> ModelClass:
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


def _sequence_length(settings: Settings, seq_len: int | None, name: str) -> int:
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


def _is_image_model(module: torch.nn.Module) -> bool:
    return getattr(module, "main_input_name", "") == "pixel_values"


def _image_tokens(settings: Settings) -> int:
    """Patches of an image, and the class token."""
    size, patch = (getattr(settings, key, 1) for key in ("image_size", "patch_size"))
    height, width = size if isinstance(size, list | tuple) else (size, size)
    patch_h, patch_w = patch if isinstance(patch, list | tuple) else (patch, patch)
    return int((height // patch_h) * (width // patch_w) + 1)


def _input_maker(
    module: torch.nn.Module, settings: Settings, seq_len: int, dtype: torch.dtype
) -> Callable[[int], Inputs]:
    import torch

    accepted = inspect.signature(module.forward).parameters

    def tokens(*shape: int) -> torch.Tensor:
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
