"""How transformers is made to record attention our way: functions registered under names of our own.

A registered name without a mask function also skips the library's mask code, which reads tensor values and so
cannot run on meta tensors.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from rephaze.errors import UnsupportedError
from rephaze.workload.extract.substitutes import eager_attention, fused_attention

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import Module

ModelClass = Any
"""A class of models of transformers; what is asked of it here is not typed by the library."""


def attention_name(model_class: ModelClass, attention: str) -> str:
    """The ``attn_implementation`` that records ``attention`` (fused or eager) for this class of model."""
    _register()
    if hasattr(sys.modules[model_class.__module__], "ALL_ATTENTION_FUNCTIONS"):
        return f"rephaze_{attention}"
    # Older code chooses by name and calls torch itself; that call is recorded as one operator too.
    return "sdpa" if attention == "fused" and getattr(model_class, "_supports_sdpa", False) else "eager"


@cache
def _register() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register("rephaze_fused", _fused)
    AttentionInterface.register("rephaze_eager", _eager)


def _is_causal(module: Module, kwargs: dict[str, Any], query: Tensor, key: Tensor) -> bool:
    given = kwargs.get("is_causal")
    causal = getattr(module, "is_causal", False) if given is None else given
    return bool(causal) and query.shape[-2] == key.shape[-2]


def _fused(
    module: Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    bias = attention_mask if position_bias is None else position_bias
    num_packed = _num_packed(query, kwargs)
    out = fused_attention(
        _unpacked(query, num_packed),
        _unpacked(key, num_packed),
        _unpacked(value, num_packed),
        bias,
        dropout_p=dropout,
        is_causal=_is_causal(module, kwargs, query, key),
        window_len=int(kwargs.get("sliding_window") or 0),
    )
    return _packed(out, num_packed).transpose(1, 2), None


def _eager(
    module: Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    bias = attention_mask if position_bias is None else position_bias
    num_packed = _num_packed(query, kwargs)
    out = eager_attention(
        _unpacked(query, num_packed),
        _unpacked(key, num_packed),
        _unpacked(value, num_packed),
        bias,
        dropout_p=dropout,
        is_causal=_is_causal(module, kwargs, query, key),
        enable_gqa=True,
    )
    return _packed(out, num_packed).transpose(1, 2).contiguous(), None


def _num_packed(query: Tensor, kwargs: dict[str, Any]) -> int:
    """Sequences (images, windows of them) that lie behind each other in one; 1 if they do not."""
    ends = kwargs.get("cu_seq_lens_q")
    if ends is None or query.shape[0] != 1:
        return 1
    count = int(ends.shape[0]) - 1
    if query.shape[2] % count:
        raise UnsupportedError(
            f"{query.shape[2]} patches lie in {count} windows of different size; they must be alike"
        )
    return count


def _unpacked(tensor: Tensor, count: int) -> Tensor:
    """(1, heads, all tokens, dim) as (sequences, heads, tokens, dim)."""
    if count == 1:
        return tensor
    _, heads, length, dim = tensor.shape
    return tensor.reshape(heads, count, length // count, dim).transpose(0, 1)


def _packed(tensor: Tensor, count: int) -> Tensor:
    return tensor if count == 1 else tensor.transpose(0, 1).flatten(1, 2)[None]


@contextmanager
def plain_masks() -> Iterator[None]:
    """Masks of the right size without looking at token values, for models that pick attention by name."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as FUNCTIONS

    FUNCTIONS["eager"], FUNCTIONS["sdpa"] = _blank_mask, _no_mask
    try:
        yield
    finally:
        del FUNCTIONS["eager"], FUNCTIONS["sdpa"]


def _blank_mask(
    *_args: Any,
    q_length: int,
    kv_length: int,
    dtype: torch.dtype,
    batch_size: int = 1,
    device: torch.device | str = "meta",
    **_kwargs: Any,
) -> Tensor:
    import torch

    # The same for every sample; some models want to see it for each.
    return torch.zeros((1, 1, q_length, kv_length), dtype=dtype, device=device).expand(batch_size, -1, -1, -1)


def _no_mask(*_args: Any, **_kwargs: Any) -> None:
    return None


def skip_data_checks(module: Module) -> None:
    """Let models not look at token values to warn about padding: there are none on meta tensors."""
    for part in module.modules():
        if hasattr(part, "warn_if_padding_and_no_attention_mask"):
            part.warn_if_padding_and_no_attention_mask = _no_mask  # type: ignore[assignment]


@contextmanager
def quiet_library() -> Iterator[None]:
    """Silence the library's advice about training settings while the context is open."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
