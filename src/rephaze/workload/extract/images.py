"""Images and films for a model, as large as its config says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rephaze.workload.extract.architecture import Settings

if TYPE_CHECKING:
    import torch

_USUAL_SIZE = 224
_GRID_PIXELS = 448
"""Side of the image for models that take any size."""


_TOLD_SIZES = ("llava_next", "llava_next_video", "llava_onevision", "mistral3", "pixtral")
"""Kinds of model that want to know how large each image was; others that could take it mean something else."""


class Maker(Protocol):
    """What makes tensors here."""

    def numbers(self, shape: tuple[int, ...], value: int | list[int]) -> torch.Tensor: ...

    def blank(self, *shape: int) -> torch.Tensor: ...

    def image(self, *shape: int) -> torch.Tensor: ...


def is_image_model(module: torch.nn.Module) -> bool:
    """Whether a model takes images and nothing else."""
    return getattr(module, "main_input_name", "") == "pixel_values"


def image_tokens(settings: Settings) -> int:
    """Patches of an image, and the class token."""
    vision = _vision(settings)
    height, width = _pair(getattr(vision, "image_size", None) or 1)
    patch_h, patch_w = _pair(getattr(vision, "patch_size", None) or 1)
    return int((height // patch_h) * (width // patch_w) + 1)


def image_inputs(maker: Maker, settings: Settings, accepted: frozenset[str], microbatch: int) -> dict[str, Any]:
    """One image (or film) a sample, in the form the model takes it."""
    if "pixel_values" not in accepted:
        return {}
    vision = _vision(settings)
    channels = _first(vision, ("num_channels", "in_channels", "in_chans"), 3)
    if "spatial_shapes" in accepted:
        return _patches_with_shapes(maker, vision, channels, microbatch)
    if "aspect_ratio_ids" in accepted:
        return _tiles(maker, vision, channels, microbatch)
    if "image_grid_thw" in accepted:
        return _patches_of_any_size(maker, vision, channels, microbatch)
    height, width = _image_size(settings, vision)
    made: dict[str, Any] = {}
    shape: tuple[int, ...] = (channels, height, width)
    if settings.model_type in ("idefics2", "idefics3", "smolvlm", "idefics"):
        shape = (1, *shape)  # images of a sample
    num_frames = _first(vision, ("num_frames",), 0)
    if num_frames and settings.model_type in ("videomae", "vivit", "timesformer", "xclip"):
        shape = (num_frames, *shape)
    made["pixel_values"] = maker.image(microbatch, *shape)
    if "bool_masked_pos" in accepted:
        made["bool_masked_pos"] = _masked_patches(maker, settings, vision, microbatch)
    if settings.model_type in _TOLD_SIZES:
        made["image_sizes"] = maker.numbers((microbatch, 2), [height, width])
    return made


def _vision(settings: Settings) -> Settings:
    for key in ("vision_config", "image_config"):
        found = getattr(settings, key, None)
        if found is not None:
            return found
    return settings


def _first(settings: Settings, keys: tuple[str, ...], usual: int) -> int:
    for key in keys:
        found = getattr(settings, key, None)
        if isinstance(found, int):
            return found
    return usual


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, dict):
        return int(size["height"]), int(size["width"])
    if isinstance(size, list | tuple):
        return int(size[0]), int(size[-1])
    return int(size), int(size)


def _image_size(settings: Settings, vision: Settings) -> tuple[int, int]:
    for part in (vision, settings):
        found = getattr(part, "image_size", None)
        if found:
            return _pair(found)
    return _USUAL_SIZE, _USUAL_SIZE


def _patches_of_any_size(maker: Maker, vision: Settings, channels: int, microbatch: int) -> dict[str, Any]:
    """Images cut into patches already, with their numbers of patches down and across."""
    patch = _first(vision, ("patch_size", "spatial_patch_size"), 14)
    merged = _first(vision, ("spatial_merge_size",), 1)
    side = _GRID_PIXELS // (patch * merged) * merged
    depth = channels * _first(vision, ("temporal_patch_size",), 1) * patch * patch
    return {
        "pixel_values": maker.blank(microbatch * side * side, depth),
        "image_grid_thw": maker.numbers((microbatch, 3), [1, side, side]),
    }


def _patches_with_shapes(maker: Maker, vision: Settings, channels: int, microbatch: int) -> dict[str, Any]:
    """Images cut into patches already, as many as the model takes at most, with their number down and across."""
    num_patches, patch = _first(vision, ("num_patches",), 256), _first(vision, ("patch_size",), 16)
    side = int(num_patches**0.5)
    return {
        "pixel_values": maker.blank(microbatch, side * side, channels * patch * patch),
        "pixel_attention_mask": maker.numbers((microbatch, side * side), 1),
        "spatial_shapes": maker.numbers((microbatch, 2), [side, side]),
    }


def _tiles(maker: Maker, vision: Settings, channels: int, microbatch: int) -> dict[str, Any]:
    """One image a sample, in as many tiles as the model takes at most."""
    height, width = _image_size(vision, vision)
    tiles = _first(vision, ("max_num_tiles",), 1)
    return {
        "pixel_values": maker.image(microbatch, 1, tiles, channels, height, width),
        "aspect_ratio_ids": maker.numbers((microbatch, 1), 1),
        "aspect_ratio_mask": maker.numbers((microbatch, 1, tiles), 1),
    }


def _masked_patches(maker: Maker, settings: Settings, vision: Settings, microbatch: int) -> torch.Tensor:
    """Which patches are hidden: the same share of each sample's, from the first on."""
    import torch

    height, width = _image_size(settings, vision)
    patch_h, patch_w = _pair(vision.patch_size)
    tube = _first(vision, ("tubelet_size",), 1)
    count = (height // patch_h) * (width // patch_w) * (_first(vision, ("num_frames",), tube) // tube)
    hidden = count // 2
    mask = maker.numbers((microbatch, count), [1] * hidden + [0] * (count - hidden))
    return mask.to(torch.bool)
