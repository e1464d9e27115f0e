"""Which class of transformers a config stands for: the one it names, else the one its kind is trained as."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from rephaze.errors import SpecError, UnsupportedError
from rephaze.types.checks import did_you_mean
from rephaze.workload.extract.hugging_face import ModelClass

Settings = Any
"""A configuration of transformers: each class has attributes of its own, and the library gives them no types."""

# Tried in turn when a config names no architecture: the task a model type is pre-trained for comes first.
_PRETRAINED = ("PRETRAINING",)
_WITH_ENCODER = ("SPEECH_SEQ_2_SEQ", "SEQ_TO_SEQ_CAUSAL_LM")
_WITH_IMAGES = ("IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM")
_TASKS = (
    "CAUSAL_LM",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "MASKED_LM",
    "IMAGE_TEXT_TO_TEXT",
    "MULTIMODAL_LM",
    "SPEECH_SEQ_2_SEQ",
    "CTC",
    "IMAGE_CLASSIFICATION",
    "VIDEO_CLASSIFICATION",
    "AUDIO_CLASSIFICATION",
    "OBJECT_DETECTION",
    "SEMANTIC_SEGMENTATION",
    "UNIVERSAL_SEGMENTATION",
    "MASK_GENERATION",
    "DEPTH_ESTIMATION",
    "IMAGE_TO_IMAGE",
    "VISUAL_QUESTION_ANSWERING",
    "TIME_SERIES_PREDICTION",
    "QUESTION_ANSWERING",
    "SEQUENCE_CLASSIFICATION",
)


def class_of(settings: Settings, config: dict[str, Any], name: str) -> ModelClass:
    """The class to build, or an error that says why there is none."""
    import transformers

    listed = config.get("architectures") or []
    if not isinstance(listed, list):
        raise SpecError(f"{name}: architectures", listed, "must be a list of names of classes")
    for architecture in listed:
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
    for mapping in _mappings(settings):
        if type(settings) in mapping:
            found = mapping[type(settings)]
            return found[0] if isinstance(found, tuple) else found
    raise UnsupportedError(f"{name}: {settings.model_type} has no architecture that could be trained")


def _mappings(settings: Settings) -> Iterator[Any]:
    from transformers.models.auto import modeling_auto

    base = modeling_auto.MODEL_MAPPING
    parts = set(getattr(settings, "sub_configs", {}))
    tasks: tuple[str, ...] = _PRETRAINED
    if getattr(settings, "is_encoder_decoder", False):
        tasks += _WITH_ENCODER
    has_images = any("vision" in part or "vq" in part for part in parts)
    if has_images:
        tasks += _WITH_IMAGES
    for task in tasks:
        yield _mapping(modeling_auto, task)
    # Two towers that are compared (CLIP): the model itself; its heads are for other tasks.
    if has_images and "text_config" in parts and type(settings) in base and _is_contrastive(base[type(settings)]):
        yield base
    for task in _TASKS:
        yield _mapping(modeling_auto, task)
    yield base


def _mapping(module: Any, task: str) -> Any:
    return getattr(module, f"MODEL_FOR_{task}_MAPPING", {})


def _is_contrastive(found: ModelClass) -> bool:
    one = found[0] if isinstance(found, tuple) else found
    return "return_loss" in inspect.signature(one.forward).parameters
