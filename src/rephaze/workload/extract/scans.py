"""Loops over time as one operator each: a recurrence over the sequence is recorded once, not step by step.

Transformers runs selective scans and the like token by token where their kernels are missing: thousands of small
operators whose number grows with the sequence. What they compute is ``state[t] = gate[t] * state[t-1] + update[t]``,
here one operator ``rephaze::scan`` with one backward, and products over all tokens at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_MODELS = "transformers.models."
_SELECTIVE = ("mamba", "falcon_mamba", "jamba", "zamba")


@contextmanager
def loops_as_scans(module: torch.nn.Module) -> Iterator[None]:
    """Let the recurrences of a model of transformers run as scans while the context is open."""
    replaced: list[tuple[Any, str, Any]] = []

    def replace(holder: Any, name: str, with_what: Any) -> None:
        if hasattr(holder, name):
            replaced.append((holder, name, getattr(holder, name)))
            setattr(holder, name, with_what)

    for kind in _SELECTIVE:
        replace(sys.modules.get(f"{_MODELS}{kind}.modeling_{kind}"), "mamba_selective_scan", selective_scan)
    replace(sys.modules.get(f"{_MODELS}rwkv.modeling_rwkv"), "rwkv_linear_attention", decayed_average)
    for part in {type(child) for child in module.modules()}:
        if part.__name__ == "RecurrentGemmaRglru":
            replace(part, "_rnn_scan", _gated_recurrence)
    for place in {type(child).__module__ for child in module.modules()}:
        # Images packed in one sequence: one call for all of them, as for kernels that take lengths.
        if hasattr(sys.modules.get(place), "get_max_seqlen"):
            replace(sys.modules[place], "is_flash_attention_requested", _takes_lengths)
    try:
        yield
    finally:
        for holder, name, before in reversed(replaced):
            setattr(holder, name, before)


def _takes_lengths(config: Any = None, *_args: Any, **_kwargs: Any) -> bool:
    return str(getattr(config, "_attn_implementation", "")).startswith("rephaze_")


def selective_scan(
    hidden: Tensor,
    step: Tensor,
    decay: Tensor,
    into: Tensor,
    out_of: Tensor,
    skip: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    D: Tensor | None = None,  # the name the library calls it by
    **_kwargs: Any,
) -> Any:
    """Mamba's selective state space (Gu and Dao 2023, algorithm 2), in the library's order of arguments.

    Args:
        hidden: (batch, width, length).
        step: The same, before bias and softplus.
        decay: (width, states).
        into: (batch, states, length): how much of a token goes into each state.
        out_of: The same: how much of each state comes out.
    """
    import torch
    from torch.nn import functional

    skip = D if skip is None else skip
    dtype = hidden.dtype
    if delta_bias is not None:
        step = step + delta_bias.to(step.dtype)[..., None]
    if delta_softplus:
        step = functional.softplus(step)
    into, out_of = into.transpose(1, 2), out_of.transpose(1, 2)
    gate = torch.exp(decay[None, :, None, :] * step[:, :, :, None])
    update = step[:, :, :, None] * into[:, None, :, :].float() * hidden[:, :, :, None].float()
    states = scan(gate, update, 2)
    # One product a token, (width, states) by states, as in the loop.
    made = torch.matmul(states.transpose(1, 2).to(dtype), out_of.unsqueeze(-1)).squeeze(-1).transpose(1, 2)
    if skip is not None:
        made = made + hidden * skip[None, :, None]
    if z is not None:
        made = made * functional.silu(z)
    return (made, states[:, :, -1]) if return_last_state else made


def decayed_average(
    time_decay: Tensor,
    time_first: Tensor,
    key: Tensor,
    value: Tensor,
    state: Any = None,
    return_state: bool = False,  # noqa: ARG001 - part of the library's signature
) -> tuple[Tensor, Any]:
    """RWKV's average of values under decaying weights (Peng and others 2023, equation 16).

    Keys and values are (batch, length, width).
    """
    import torch

    decay = -torch.exp(time_decay)
    keys = key.float()
    # The largest exponent so far keeps the sums in range; its recurrence is a scan as well.
    largest = scan(decay.expand(keys.shape), keys, 1)
    gate, weight = torch.exp(largest + decay - keys), torch.exp(keys - largest)
    numerator, denominator = scan(gate, weight * value, 1), scan(gate, weight, 1)
    for_output = torch.maximum(largest, keys + time_first)
    before, now = torch.exp(largest - for_output), torch.exp(keys + time_first - for_output)
    made = (before * numerator + now * value) / (before * denominator + now)
    return made.to(key.dtype), state


def _gated_recurrence(
    _self: Any, hidden_states: Tensor, recurrent_gate: Tensor, reset: Tensor, _before: Any, acc_dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The real-gated linear recurrence of Griffin (De and others 2024); all (batch, length, width)."""
    gate = (recurrent_gate * ~reset).type(acc_dtype)
    states = scan(gate, hidden_states.type(acc_dtype), 1)
    return states.type(hidden_states.dtype), states[:, -1]


def scan(gate: Tensor, update: Tensor, dim: int) -> Tensor:
    """``state[t] = gate[t] * state[t-1] + update[t]`` along ``dim``, all states."""
    made: Tensor = _scan_operator()(gate, update, dim)
    return made


@cache
def _scan_operator() -> Callable[..., Any]:
    """``rephaze::scan`` and its gradient, registered with torch once a process."""
    import torch

    library: Any = torch.library.Library("rephaze", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define("scan(Tensor gate, Tensor update, int dim) -> Tensor")
    library.define("scan_backward(Tensor grad, Tensor gate, Tensor states, int dim) -> (Tensor, Tensor)")

    def forward_meta(gate: Tensor, update: Tensor, _dim: int) -> Tensor:
        return update.new_empty(torch.broadcast_shapes(gate.shape, update.shape))

    def backward_meta(grad: Tensor, gate: Tensor, _states: Tensor, _dim: int) -> tuple[Tensor, Tensor]:
        return grad.new_empty(gate.shape, dtype=gate.dtype), grad.new_empty(grad.shape)

    library.impl("scan", forward_meta, "Meta")
    library.impl("scan_backward", backward_meta, "Meta")
    forward, backward = torch.ops.rephaze.scan.default, torch.ops.rephaze.scan_backward.default

    class Scan(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, gate: Tensor, update: Tensor, dim: int) -> Tensor:
            states: Tensor = forward(gate, update, dim)
            ctx.save_for_backward(gate, states)
            ctx.dim = dim
            return states

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            gate, states = ctx.saved_tensors
            grad_gate, grad_update = backward(grad, gate, states, ctx.dim)
            return grad_gate, grad_update, None

    # The library object must outlive the registration.
    Scan.library = library  # type: ignore[attr-defined]
    return Scan.apply
