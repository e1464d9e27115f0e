"""A module to trace from a Hugging Face config: built on the meta device, without weights."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from rephaze.errors import SpecError, UnsupportedError
from rephaze.types.checks import did_you_mean
from rephaze.types.quantities import MAX_LAYERS
from rephaze.workload.extract.architecture import Settings, class_of
from rephaze.workload.extract.batch import BatchMaker
from rephaze.workload.extract.experts import group_experts
from rephaze.workload.extract.hugging_face import ModelClass, attention_name, quiet_library, skip_data_checks
from rephaze.workload.extract.known_values import KnownValues, watching
from rephaze.workload.extract.source import Source, element_type, in_words, require_torch

if TYPE_CHECKING:
    import torch

# Features that make a step depend on data or on earlier steps.
_CONFIG_OVERRIDES = {
    **dict.fromkeys(("layerdrop", "encoder_layerdrop", "decoder_layerdrop"), 0.0),
    "use_cache": False,
    "apply_spec_augment": False,
}
_IGNORED_KEYS = ("auto_map", "quantization_config")
MAX_SEQ_LEN = 2**24
MAX_SIZE = 2**31
"""Of a whole number of a config."""
_COUNTS_MODULES = re.compile(r"(layers?|blocks?|experts|depths?|stages|heads?)$")
"""Names of fields that say how many modules there are."""
_TAGGED_FLOATS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}
"""How transformers writes numbers that JSON has no text for: ``{"__float__": "Infinity"}``."""


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
    known = KnownValues()
    with quiet_library():
        settings = _hugging_face_config(config, name)
        model_class = class_of(settings, config, name)
        settings._attn_implementation = attention_name(model_class, attention)
        if model_class._can_set_experts_implementation():
            # The default loops over nonzero(), which cannot run without data; grouped products can.
            settings._experts_implementation = "grouped_mm"
        try:
            with torch.device("meta"), watching(known):
                module = _built(model_class, settings, numbers, attention)
                if any(t.device.type != "meta" for t in (*module.parameters(), *module.buffers())):
                    module = module.to("meta")  # some are made without asking for a device
        except Exception as error:
            raise UnsupportedError(
                f"{name}: {model_class.__name__} could not be built from this config: {in_words(error)}"
            ) from error
    skip_data_checks(module)
    group_experts(module)
    length = _sequence_length(settings, seq_len, name)
    batch = BatchMaker(name=name, module=module, settings=settings, asked_len=length, dtype=numbers, known=known)
    return Source(
        name=name,
        module=module,
        inputs_at=batch.make,
        seq_len=batch.seq_len,
        config_hash=hash_config(config),
        known=known,
        makes_constants_by_sample=batch.has_features,
    )


def _built(model_class: ModelClass, settings: Settings, dtype: torch.dtype, attention: str) -> torch.nn.Module:
    module: torch.nn.Module
    try:
        module = model_class._from_config(settings, dtype=dtype)
    except KeyError as error:
        if settings._attn_implementation not in error.args:
            raise
        # A part of it (SAM's vision tower) knows the library's own names alone.
        settings._attn_implementation = "sdpa" if attention == "fused" else "eager"
        module = model_class._from_config(settings, dtype=dtype)
    return module


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
    if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING:
        raise SpecError(
            f"{name}: model_type",
            model_type,
            "is not an architecture this transformers version knows",
            did_you_mean(model_type, CONFIG_MAPPING.keys()),
        )
    _check_sizes(config, f"{name}: ")
    values = {key: _decoded(value) for key, value in config.items() if key not in _IGNORED_KEYS}
    try:
        settings = CONFIG_MAPPING[model_type](**values)
    except Exception as error:
        raise UnsupportedError(f"{name}: not a valid {model_type} config: {in_words(error)}") from error
    for sub in _with_parts(settings):
        for key, value in _CONFIG_OVERRIDES.items():
            if hasattr(sub, key):
                setattr(sub, key, value)
        if hasattr(sub, "mask_time_prob"):
            # Code that hides random spans of sound asks for this, also of configs that do not have it.
            sub.apply_spec_augment = False
    if getattr(settings, "is_encoder_decoder", False) and not hasattr(settings, "decoder_start_token_id"):
        settings.decoder_start_token_id = 0
    return settings


def _check_sizes(part: dict[str, Any], place: str) -> None:
    """Raise if a model would have more of something than can be built, one Python object each, or be counted."""
    for key, value in part.items():
        if isinstance(value, dict):
            _check_sizes(value, f"{place}{key}.")
            continue
        most = MAX_LAYERS if _COUNTS_MODULES.search(key) else MAX_SIZE
        for size in value if isinstance(value, list) else [value]:
            if type(size) is int and size > most:
                raise SpecError(f"{place}{key}", size, f"must be at most {most:,}")


def _decoded(value: Any) -> Any:
    """A value of a config with the library's own form of infinite numbers read."""
    if isinstance(value, dict):
        if set(value) == {"__float__"} and value["__float__"] in _TAGGED_FLOATS:
            return _TAGGED_FLOATS[value["__float__"]]
        return {key: _decoded(item) for key, item in value.items()}
    return [_decoded(item) for item in value] if isinstance(value, list) else value


def _with_parts(settings: Settings) -> list[Settings]:
    """The settings and those of the parts (encoder, vision tower) that have their own."""
    parts = [getattr(settings, key, None) for key in getattr(settings, "sub_configs", {})]
    return [settings, *(part for part in parts if part is not None)]


def _sequence_length(settings: Settings, seq_len: int | None, name: str) -> int:
    text = settings.get_text_config() if hasattr(settings, "get_text_config") else settings
    keys = ("max_position_embeddings", "n_positions", "max_target_positions")
    longest = next((found for key in keys if (found := getattr(text, key, None)) and found > 0), None)
    if seq_len is None:
        found = int(longest or 512)
        if found > MAX_SEQ_LEN:
            rule = f"is the longest of {name}; at most {MAX_SEQ_LEN:,} are recorded"
            raise SpecError("seq_len", found, rule, "give --seq-len")
        return found
    # Learned position tables end; rotations do not.
    is_learned = not hasattr(text, "rope_parameters") and not hasattr(text, "relative_attention_num_buckets")
    if longest and is_learned and seq_len > longest:
        raise SpecError(
            "seq_len", seq_len, f"{name} has positions for {longest} tokens", "give a shorter sequence"
        )
    return seq_len
