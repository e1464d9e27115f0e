"""Sound for a model: samples of a wave, or features of frames, as long as its config says."""

from __future__ import annotations

from typing import Any

from rephaze.workload.extract.architecture import Settings
from rephaze.workload.extract.images import Maker

_NUM_WAVE_SAMPLES = 16_000 * 5
"""Five seconds at 16 kHz, for models that take any length."""
_NUM_FRAMES = 512


def sound_inputs(maker: Maker, settings: Settings, accepted: frozenset[str], microbatch: int) -> dict[str, Any]:
    """One sound a sample, in the form the model takes it."""
    made: dict[str, Any] = {}
    sound = _sound(settings)
    if "input_values" in accepted:
        bins = getattr(settings, "num_mel_bins", None)
        length = getattr(settings, "max_length", None)
        if settings.model_type == "audio-spectrogram-transformer" and bins and length:
            made["input_values"] = maker.blank(microbatch, length, bins)
        else:
            made["input_values"] = maker.blank(microbatch, _NUM_WAVE_SAMPLES)
    if "input_features" in accepted:
        made["input_features"] = _features(maker, sound, microbatch)
    return made


def _features(maker: Maker, sound: Settings, microbatch: int) -> Any:
    positions = getattr(sound, "max_source_positions", None)
    bins = getattr(sound, "num_mel_bins", None)
    if positions and bins and not hasattr(sound, "conv_kernel_sizes"):
        # Whisper. Bins first; a convolution of stride 2 gives the encoder its positions.
        return maker.blank(microbatch, bins, 2 * positions)
    for key in ("input_feat_per_channel", "feature_projection_input_dim", "num_mel_bins", "input_dim"):
        depth = getattr(sound, key, None)
        if depth:
            return maker.blank(microbatch, _NUM_FRAMES, depth)
    return maker.blank(microbatch, _NUM_FRAMES, 80)


def _sound(settings: Settings) -> Settings:
    for key in ("audio_config", "audio_encoder", "encoder_config", "speech_config"):
        found = getattr(settings, key, None)
        if found is not None:
            return found
    return settings
