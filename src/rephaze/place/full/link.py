"""Transfers beside compute: one compute unit, one link that serves one transfer at a time in order of issue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passes:
    """One microbatch through one stage."""

    forward_s: float
    backward_s: float
    tail_s: float
    """From the end of the backward pass until its last gradient is summed: the next gather waits for it."""
    input_backward_s: float
    """The backward pass without the gradients of weights."""

    @property
    def load_s(self) -> float:
        """Both passes."""
        return self.forward_s + self.backward_s


def gathered_passes(
    forward_s: Sequence[float],
    backward_s: Sequence[float],
    gather_s: Sequence[float],
    scatter_s: Sequence[float],
) -> Passes:
    """Passes whose weights are gathered one layer ahead and whose gradients are scattered behind the compute.

    Args:
        forward_s: By layer.
        backward_s: By layer, replays included.
        gather_s: All-gather of each layer's weights.
        scatter_s: Reduce-scatter of each layer's gradients.
    """
    forward_end, link_free, issued = 0.0, 0.0, 0.0
    for compute, gather in zip(forward_s, gather_s, strict=True):
        link_free = max(issued, link_free) + gather
        issued = max(forward_end, link_free)  # when the layer starts, the next one's weights are asked for
        forward_end = issued + compute
    backward_end, link_free, issued = 0.0, 0.0, 0.0
    waiting: float | None = None
    """The reduce-scatter of the layer before: the link serves it after this layer's weights."""
    scattered_at = 0.0
    for compute, gather, scatter in zip(backward_s[::-1], gather_s[::-1], scatter_s[::-1], strict=True):
        link_free = max(issued, link_free) + gather
        start = max(backward_end, link_free)
        if waiting is not None:
            link_free = max(scattered_at, link_free) + waiting
        issued = start
        backward_end = start + compute
        waiting, scattered_at = scatter, backward_end
    assert waiting is not None
    link_free = max(scattered_at, link_free) + waiting
    return Passes(forward_end, backward_end, link_free - backward_end, 0.0)


def hidden_behind_compute(compute_s: Sequence[float], transfer_s: Sequence[float]) -> float:
    """How long transfers, each issued when its own compute ends, go on after all compute."""
    computed, link_free = 0.0, 0.0
    for compute, transfer in zip(compute_s, transfer_s, strict=True):
        computed += compute
        link_free = max(computed, link_free) + transfer
    return link_free - computed


def hidden_before_compute(compute_s: Sequence[float], transfer_s: Sequence[float]) -> float:
    """How long compute waits in all, if each part needs its transfer and all transfers are issued at once."""
    moved, computed, worst = 0.0, 0.0, 0.0
    for compute, transfer in zip(compute_s, transfer_s, strict=True):
        moved += transfer
        worst = max(worst, moved - computed)
        computed += compute
    return worst
