"""Experts of mixtures whose library code looks at the router's choice: run on equal shares of the tokens instead.

Most mixtures of transformers can be told to use grouped products. The others loop over the experts that were chosen,
which needs the router's values. Here every expert gets its average share, as grouped products count it anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

from rephaze.errors import UnsupportedError

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def group_experts(module: torch.nn.Module) -> None:
    """Let the experts of a module run without looking at the router's values, where the library offers no other way."""
    for part in module.modules():
        forward = _FORWARD_OF.get(type(part).__name__)
        if forward is not None:
            part.forward = MethodType(forward, part)


def _sorted_by_expert(hidden: Tensor, chosen: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens in the order of their experts, the order itself, and where each expert's tokens end."""
    import torch

    top_k = chosen.shape[-1]
    experts, order = torch.sort(chosen.reshape(-1))
    counts = torch.histc(experts.int(), bins=num_experts, min=0, max=num_experts - 1)
    return hidden[order // top_k], order, torch.cumsum(counts, dim=0, dtype=torch.int32)


def _back_in_place(made: Tensor, order: Tensor, weights: Tensor, hidden: Tensor) -> Tensor:
    """Results times the router's weights, summed where their tokens came from."""
    import torch

    top_k = order.shape[0] // hidden.shape[0]
    weighted = made * weights.reshape(-1)[order][:, None]
    return torch.zeros_like(hidden).index_add(0, order // top_k, weighted.to(hidden.dtype))


def _grouped(tokens: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    import torch

    made: Tensor = torch.nn.functional.grouped_mm(tokens.to(weight.dtype), weight, offs=ends)
    return made


def _packed_experts(self: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Experts with gate and up projection in one weight (LongCat); ones that do nothing get their share of tokens."""
    num_real, num_all = self.down_proj.shape[0], self.total_experts
    tokens, order, ends = _sorted_by_expert(hidden, chosen, num_all)
    num_worked = tokens.shape[0] * num_real // num_all
    gate, up = _grouped(tokens[:num_worked], self.gate_up_proj[:num_real].mT, ends[:num_real]).chunk(2, dim=-1)
    made = _grouped(self.act_fn(gate) * up, self.down_proj.mT, ends[:num_real])
    import torch

    return _back_in_place(torch.cat([made, tokens[num_worked:]]), order, weights, hidden)


def _flat_experts(self: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """Experts whose weights lie below each other in one matrix (DBRX)."""
    shape = hidden_states.shape
    hidden = hidden_states.reshape(-1, self.hidden_size)
    tokens, order, ends = _sorted_by_expert(hidden, top_k_index, self.num_experts)
    split = (self.num_experts, self.ffn_hidden_size, self.hidden_size)
    gate = _grouped(tokens, self.mlp.w1.view(split).mT, ends)
    up = _grouped(tokens, self.mlp.v1.view(split).mT, ends)
    made = _grouped(self.mlp.activation_fn(gate) * up, self.mlp.w2.view(split), ends)
    return _back_in_place(made, order, top_k_weights, hidden).view(shape)


def _separate_experts(self: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Experts that are modules of their own (Switch, NLLB): each runs on an equal share."""
    import torch

    num_experts = len(self)
    if chosen.shape[-1] == num_experts and weights.shape[-1] != num_experts:
        chosen = chosen.argmax(dim=-1)  # a mask over the experts instead of their numbers
    chosen = chosen.reshape(hidden.shape[0], -1)
    tokens, order, _ = _sorted_by_expert(hidden, chosen, num_experts)
    if tokens.shape[0] % num_experts:
        raise UnsupportedError(
            f"{tokens.shape[0]} tokens do not divide among {num_experts} experts; give a sequence that does"
        )
    shares = tokens.split(tokens.shape[0] // num_experts)
    made = torch.cat([expert(share) for expert, share in zip(self.values(), shares, strict=True)])
    if weights.shape[-1] != chosen.shape[-1]:
        weights = weights.gather(-1, chosen)
    return _back_in_place(made, order, weights, hidden)


def _gating_by_counts(self: Any, hidden_states: Tensor) -> tuple[Any, ...]:
    """JetMoE's router with the counts of tokens left in a tensor."""
    import torch

    logits = self.layer(hidden_states).float()
    top_logits, chosen = logits.topk(self.top_k, dim=1)
    gates = torch.softmax(top_logits, dim=1).type_as(hidden_states)
    experts, order = chosen.flatten().sort(0)
    counts = torch.histc(experts.int(), bins=self.num_experts, min=0, max=self.num_experts - 1)
    return order, order // self.top_k, gates.flatten()[order], counts, logits


def _counted_experts(self: Any, inputs: Tensor, expert_size: Tensor) -> Tensor:
    import torch

    return _grouped(inputs, self.weight.mT, torch.cumsum(expert_size, dim=0, dtype=torch.int32))


_FORWARD_OF: dict[str, Callable[..., Any]] = {
    "LongcatFlashExperts": _packed_experts,
    "DbrxExperts": _flat_experts,
    "SwitchTransformersExperts": _separate_experts,
    "NllbMoeExperts": _separate_experts,
    "JetMoeTopKGating": _gating_by_counts,
    "JetMoeParallelExperts": _counted_experts,
}
