"""A made-up batch for a model of transformers: tokens, images, sound, by what it takes and what its config says.

Every sample is alike, so that sizes grow in proportion to the microbatch. Whole numbers (tokens, sizes of images)
have values, since models look at them; images and sound have none.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from rephaze.errors import SpecError, UnsupportedError
from rephaze.workload.extract.architecture import Settings
from rephaze.workload.extract.images import image_inputs, image_tokens, is_image_model
from rephaze.workload.extract.known_values import KnownValues, watching
from rephaze.workload.extract.sounds import sound_inputs
from rephaze.workload.extract.source import Inputs, in_words

if TYPE_CHECKING:
    import torch

_NUM_WORDS = 61
"""Different tokens in a text; a prime, so that no length is a whole number of them."""
_PER_SAMPLE = ("Classification", "ForSequenceClassification", "ForNextSentencePrediction")


@dataclass(slots=True)
class BatchMaker:
    """Makes the inputs of a module for any microbatch."""

    name: str
    module: torch.nn.Module
    settings: Settings
    asked_len: int
    dtype: torch.dtype
    known: KnownValues
    seq_len: int = 0
    """Tokens a sample has; for a model of images alone, its patches and the class token."""
    _accepted: frozenset[str] = frozenset()
    _num_features: dict[str, int] = field(default_factory=dict)
    """For each kind of feature (image, audio), the tokens of a text that one sample's stand for."""

    def __post_init__(self) -> None:
        self._accepted = frozenset(inspect.signature(self.module.forward).parameters)
        self.seq_len = self.asked_len
        if is_image_model(self.module):
            self.seq_len = image_tokens(self.settings)
        for kind in ("image", "audio"):
            self._measure_features(kind)
        taken = sum(self._num_features.values())
        if taken >= self.seq_len and self._has_text():
            raise SpecError(
                "seq_len",
                self.seq_len,
                f"{self.name} has {taken} tokens an image or sound",
                "give a longer sequence",
            )

    @property
    def has_features(self) -> bool:
        """Whether some tokens of a text stand for images or sound."""
        return bool(self._num_features)

    def make(self, microbatch: int) -> Inputs:
        """The inputs of one step."""
        made: dict[str, Any] = {}
        if self._has_text():
            made.update(self._text(microbatch))
        made.update(self._features(microbatch))
        if "cross_attention_mask" in self._accepted and "aspect_ratio_mask" in made:
            tiles = made["aspect_ratio_mask"].shape[-1]
            made["cross_attention_mask"] = self.numbers((microbatch, self.seq_len, 1, tiles), 1)
        made.update(self._labels(microbatch, made))
        for key in ("next_sentence_label", "sentence_order_label"):
            if key in self._accepted:
                made[key] = self.numbers((microbatch,), 0)
        if self.settings._attn_implementation in ("eager", "sdpa") and self._has_text():
            # Models that pick attention by name look for packed sequences unless a mask is given.
            made["attention_mask"] = self.numbers((microbatch, self.seq_len), 1)
        return {key: value for key, value in made.items() if key in self._accepted}

    def numbers(self, shape: tuple[int, ...], value: int | list[int]) -> torch.Tensor:
        """A tensor of whole numbers with known values: one of them everywhere, or the last axis."""
        import torch

        tensor = torch.empty(shape, dtype=torch.long, device="meta")
        self.known.give(tensor, torch.tensor(value, device="cpu").expand(shape))
        return tensor

    def blank(self, *shape: int) -> torch.Tensor:
        """A tensor of numbers nobody knows, of the model's type."""
        import torch

        return torch.empty(shape, dtype=self.dtype, device="meta")

    def image(self, *shape: int) -> torch.Tensor:
        """Images: nobody knows them, but they are not blank, which some models look for."""
        made = self.blank(*shape)
        self.known.give_even(made, 1.0)
        return made

    def _has_text(self) -> bool:
        return "input_ids" in self._accepted or "decoder_input_ids" in self._accepted

    def _text(self, microbatch: int) -> dict[str, Any]:
        row = self._row()
        shape = (microbatch, self.seq_len)
        made = {"input_ids": self.numbers(shape, row)}
        if "bbox" in self._accepted:
            made["bbox"] = self.numbers((*shape, 4), [0, 0, 1, 1])
        if self._num_features:
            is_feature = [int(token in self._feature_tokens()) for token in row]
            for key in ("token_type_ids", "mm_token_type_ids"):
                made[key] = self.numbers(shape, is_feature)
            if "image_grid_thw" in self._accepted:
                # Without them the library works positions out sample by sample.
                made["position_ids"] = self.numbers((3, *shape), list(range(self.seq_len)))
        return made

    def _row(self) -> list[int]:
        """The tokens of a sample: those that images and sound stand for, then words that mean nothing special."""
        special = set(_special_tokens(self.settings))
        vocabulary = _vocabulary(self.settings)
        plain = (token for token in range(vocabulary) if token not in special)
        words = list(islice(plain, 1, 1 + _NUM_WORDS)) or [0]
        row = [token for kind in self._num_features for token in [self._token_of(kind)] * self._num_features[kind]]
        return row + [words[i % len(words)] for i in range(self.seq_len - len(row))]

    def _feature_tokens(self) -> set[int]:
        return {self._token_of(kind) for kind in self._num_features}

    def _token_of(self, kind: str) -> int:
        for key in (f"{kind}_token_id", f"{kind}_token_index", f"{kind}_token"):
            found = getattr(self.settings, key, None)
            if isinstance(found, int):
                return found
        raise UnsupportedError(f"{self.name}: its config names no token that stands for {kind}s")

    def _features(self, microbatch: int) -> dict[str, Any]:
        return {
            **image_inputs(self, self.settings, self._accepted, microbatch),
            **sound_inputs(self, self.settings, self._accepted, microbatch),
        }

    def _measure_features(self, kind: str) -> None:
        """Ask the model itself how many tokens of a text one sample's features stand for."""
        import torch

        ask = getattr(self.module, f"get_{kind}_features", None)
        is_joined = any(hasattr(self.settings, f"{kind}_{key}") for key in ("token_id", "token_index", "token"))
        if ask is None or not is_joined or not self._has_text():
            return
        accepted = inspect.signature(ask).parameters
        inputs = {key: value for key, value in self._features(1).items() if key in accepted}
        if not inputs:
            return
        try:
            with torch.no_grad(), watching(self.known):
                found = ask(**inputs)
        except Exception as error:
            raise UnsupportedError(f"{self.name}: {kind}s could not be made for it: {in_words(error)}") from error
        for key in ("pooler_output", "last_hidden_state"):
            found = getattr(found, key, None) if getattr(found, key, None) is not None else found
        if isinstance(found, tuple | list):
            found = torch.cat([one.reshape(-1, one.shape[-1]) for one in found])
        self._num_features[kind] = found.numel() // found.shape[-1]

    def _labels(self, microbatch: int, made: dict[str, Any]) -> dict[str, Any]:
        name = type(self.module).__name__
        if "Classification" in name and "Token" not in name:
            return {"labels": self.numbers((microbatch,), 0)}
        if name.endswith("ForSemanticSegmentation") and "pixel_values" in made:
            return {"labels": self.numbers((microbatch, *made["pixel_values"].shape[-2:]), 0)}
        if self._has_text() and ("input_ids" in made) and not name.endswith(("ForQuestionAnswering",)):
            return {"labels": self.numbers((microbatch, self.seq_len), self._row())}
        return {}


def _parts_of(settings: Settings) -> Iterator[Settings]:
    yield settings
    for key in getattr(settings, "sub_configs", {}):
        part = getattr(settings, key, None)
        if part is not None and part is not settings:
            yield from _parts_of(part)


def _vocabulary(settings: Settings) -> int:
    text = settings.get_text_config() if hasattr(settings, "get_text_config") else settings
    found = getattr(text, "vocab_size", None) or getattr(settings, "vocab_size", None)
    return found if isinstance(found, int) else 1000


def _special_tokens(settings: Settings) -> Iterator[int]:
    """Numbers of tokens with a meaning of their own, whatever they are called."""
    for part in _parts_of(settings):
        for key, value in vars(part).items():
            if "token" in key and isinstance(value, int):
                yield value
            if "token" in key and isinstance(value, list):
                yield from (item for item in value if isinstance(item, int))
