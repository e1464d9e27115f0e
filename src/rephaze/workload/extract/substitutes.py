"""Calls whose recording on meta tensors would not be what a chip runs, and what is recorded instead.

``scaled_dot_product_attention`` takes a float32 path on meta tensors, and dropout falls apart into four
operators: the first becomes one operator of ours (or two products and a softmax), the second
``native_dropout``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from rephaze.workload.extract.known_values import KnownValues, value_questions

if TYPE_CHECKING:
    from torch import Tensor
    from torch.overrides import TorchFunctionMode

# A module-level class cannot derive from a torch class here: torch is imported when a trace starts.


def substitutes(attention: str, known: KnownValues) -> TorchFunctionMode:
    """A torch-function mode, to be entered around a module's forward and backward."""
    import torch
    from torch.overrides import TorchFunctionMode

    replacements: dict[Callable[..., Any], Callable[..., Any]] = {
        torch.nn.functional.dropout: _dropout,
        torch.dropout: _dropout,
        torch.nn.functional.scaled_dot_product_attention: (
            fused_attention if attention == "fused" else eager_attention
        ),
        **value_questions(known),
        **_joined_again(),
    }

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            return replacements.get(func, func)(*args, **(kwargs or {}))

    return Mode()


def _joined_again() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Cutting a tensor into its samples, and joining the pieces again: no work, so that none is recorded.

    Models with images cut features by sample only to join them; the number of pieces would be that of samples.
    """
    import torch

    pieces: list[tuple[tuple[Tensor, ...], Tensor, bool]] = []

    def cutting(cut: Callable[..., Any], drops_axis: bool) -> Callable[..., Any]:
        def run(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            made = cut(tensor, *args, **kwargs)
            dim = kwargs.get("dim", args[-1] if len(args) > (0 if drops_axis else 1) else 0)
            if dim == 0 and isinstance(made, tuple | list):
                made = tuple(made)
                pieces.append((made, tensor, drops_axis))
            return made

        return run

    def source_of(tensors: Any) -> tuple[Tensor, bool] | None:
        for made, source, drops_axis in pieces:
            if len(made) == len(tensors) and all(a is b for a, b in zip(made, tensors, strict=True)):
                return source, drops_axis
        return None

    def cat(tensors: Any, dim: int = 0, *, axis: int | None = None, **kwargs: Any) -> Any:
        dim = dim if axis is None else axis
        found = source_of(tensors) if dim == 0 and isinstance(tensors, tuple | list) else None
        if found is None:
            return torch.cat(tensors, dim=dim, **kwargs)
        source, drops_axis = found
        return source.flatten(0, 1) if drops_axis else source

    def stack(tensors: Any, dim: int = 0, **kwargs: Any) -> Any:
        found = source_of(tensors) if dim == 0 and isinstance(tensors, tuple | list) else None
        if found is None or not found[1]:
            return torch.stack(tensors, dim=dim, **kwargs)
        return found[0]

    def iterate(tensor: Tensor) -> Any:
        return iter(cutting(torch.Tensor.unbind, True)(tensor))

    return {
        torch.Tensor.__iter__: iterate,
        torch.split: cutting(torch.split, False),
        torch.Tensor.split: cutting(torch.Tensor.split, False),
        torch.unbind: cutting(torch.unbind, True),
        torch.Tensor.unbind: cutting(torch.Tensor.unbind, True),
        torch.cat: cat,
        torch.stack: stack,
    }


def _dropout(
    input: Tensor,  # noqa: A002 - the name torch gives it
    p: float = 0.5,
    training: bool | None = True,
    inplace: bool = False,  # noqa: ARG001
    train: bool | None = None,
) -> Tensor:
    import torch

    if not (training if train is None else train) or p == 0.0:
        return input
    return torch.native_dropout(input, p, True)[0]


def eager_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention as two products and a float32 softmax, the scores kept in memory."""
    import torch

    if enable_gqa and key.shape[1] != query.shape[1]:
        key, value = (_repeat_heads(t, query.shape[1]) for t in (key, value))
    scores = torch.matmul(query, key.transpose(-2, -1)) * (scale or query.shape[-1] ** -0.5)
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        scores = scores + attn_mask
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(hidden, float("-inf"))
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(_dropout(weights, p=dropout_p), value)


def _repeat_heads(tensor: Tensor, num_heads: int) -> Tensor:
    """Key or value heads repeated to one for each query head."""
    batch, num_kv_heads, length, dim = tensor.shape
    grouped = tensor[:, :, None].expand(batch, num_kv_heads, num_heads // num_kv_heads, length, dim)
    return grouped.reshape(batch, num_heads, length, dim)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,  # noqa: ARG001 - part of torch's signature, folded into the kernel
    enable_gqa: bool = False,  # noqa: ARG001 - the operator takes fewer key heads as they are
    *,
    window_len: int = 0,
) -> Tensor:
    """Attention as one operator; its backward computes the scores again."""
    return _attention_operator()(query, key, value, attn_mask, dropout_p, is_causal, window_len)[0]


@cache
def _attention_operator() -> Callable[..., tuple[Tensor, Tensor]]:
    """``rephaze::attention`` and its gradient, registered with torch once a process."""
    import torch

    library: Any = torch.library.Library("rephaze", "DEF")  # type: ignore[no-untyped-call]
    library.define(
        "attention(Tensor query, Tensor key, Tensor value, Tensor? bias, float dropout_p, bool is_causal,"
        " int window_len) -> (Tensor, Tensor)"
    )
    library.define(
        "attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor out,"
        " Tensor logsumexp, float dropout_p, bool is_causal, int window_len, bool needs_bias) -> Tensor[]"
    )

    def forward_meta(query: Tensor, _key: Tensor, value: Tensor, *_rest: Any) -> tuple[Tensor, Tensor]:
        rows = query.shape[:-1]
        return query.new_empty((*rows, value.shape[-1])), query.new_empty(rows, dtype=torch.float32)

    def backward_meta(
        _grad: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *rest: Any
    ) -> list[Tensor]:
        needs_bias = rest[-1]
        differentiated = (query, key, value, bias) if needs_bias else (query, key, value)
        return [torch.empty_like(t) for t in differentiated if t is not None]

    library.impl("attention", forward_meta, "Meta")
    library.impl("attention_backward", backward_meta, "Meta")
    forward, backward = torch.ops.rephaze.attention.default, torch.ops.rephaze.attention_backward.default

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any,
            query: Tensor,
            key: Tensor,
            value: Tensor,
            bias: Tensor | None,
            dropout_p: float,
            is_causal: bool,
            window_len: int,
        ) -> tuple[Tensor, Tensor]:
            out, logsumexp = forward(query, key, value, bias, dropout_p, is_causal, window_len)
            ctx.save_for_backward(query, key, value, bias, out, logsumexp)
            ctx.mark_non_differentiable(logsumexp)
            ctx.options = (dropout_p, is_causal, window_len)
            return out, logsumexp

        @staticmethod
        def backward(ctx: Any, grad: Tensor, _grad_logsumexp: Any) -> Any:
            needs_bias = ctx.needs_input_grad[3]
            grads = backward(grad, *ctx.saved_tensors, *ctx.options, needs_bias)
            return (*grads, *[None] * (3 if needs_bias else 4))

    # The library object must outlive the registration.
    Attention.library = library  # type: ignore[attr-defined]
    return Attention.apply
