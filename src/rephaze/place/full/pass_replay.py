"""One pass through one stage, layer by layer, on one compute unit and one link (docs/plans.md)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum


@dataclass(frozen=True, slots=True)
class PassEnd:
    """When a pass that starts at 0 is over."""

    compute_s: float
    """End of the last layer."""
    link_s: float
    """End of the last transfer."""


class _Ended(IntEnum):
    GATHER = 0
    COMPUTE = 1
    SCATTER = 2


@dataclass(slots=True)
class _Device:
    """The state of both resources, and what is under way."""

    num_layers: int
    lasts_s: dict[_Ended, Sequence[float]]
    has_weights: set[int] = field(default_factory=set)
    asked: deque[tuple[_Ended, int]] = field(default_factory=deque)
    """Transfers issued and not begun: the link serves one at a time, in this order."""
    under_way: list[tuple[float, int, _Ended, int]] = field(default_factory=list)
    next_layer: int = 0
    is_computing: bool = False
    is_moving: bool = False
    num_begun: int = 0

    def begin(self, now_s: float, kind: _Ended, layer: int) -> None:
        self.num_begun += 1
        heapq.heappush(self.under_way, (now_s + self.lasts_s[kind][layer], self.num_begun, kind, layer))

    def go_on(self, now_s: float) -> None:
        """Begin what can begin now."""
        if not self.is_computing and self.next_layer in self.has_weights:
            self.is_computing = True
            self.begin(now_s, _Ended.COMPUTE, self.next_layer)
            if self.next_layer + 1 < self.num_layers:
                self.asked.append((_Ended.GATHER, self.next_layer + 1))
        if not self.is_moving and self.asked:
            self.is_moving = True
            self.begin(now_s, *self.asked.popleft())

    def end(self, kind: _Ended, layer: int) -> None:
        """What has ended frees its resource, and has consequences."""
        if kind is _Ended.COMPUTE:
            self.is_computing = False
            self.next_layer += 1
            if _Ended.SCATTER in self.lasts_s:
                self.asked.append((_Ended.SCATTER, layer))
            return
        self.is_moving = False
        if kind is _Ended.GATHER:
            self.has_weights.add(layer)


def replay_pass(
    compute_s: Sequence[float], gather_s: Sequence[float], scatter_s: Sequence[float] | None = None
) -> PassEnd:
    """The ends of a pass whose weights are asked for one layer ahead.

    Args:
        compute_s: By layer, in the order in which the pass computes them.
        gather_s: To have each layer's weights there.
        scatter_s: To sum each layer's gradients, asked for when it is computed; None: of a forward pass.
    """
    lasts_s = {_Ended.GATHER: gather_s, _Ended.COMPUTE: compute_s}
    if scatter_s is not None:
        lasts_s[_Ended.SCATTER] = scatter_s
    device = _Device(num_layers=len(compute_s), lasts_s=lasts_s)
    device.asked.append((_Ended.GATHER, 0))
    device.go_on(0.0)
    last_s = {_Ended.GATHER: 0.0, _Ended.COMPUTE: 0.0, _Ended.SCATTER: 0.0}
    while device.under_way:
        now_s, _, kind, layer = heapq.heappop(device.under_way)
        last_s[kind] = now_s
        device.end(kind, layer)
        device.go_on(now_s)
    assert device.next_layer == len(compute_s), "a pass came to a halt"
    return PassEnd(compute_s=last_s[_Ended.COMPUTE], link_s=max(last_s[_Ended.GATHER], last_s[_Ended.SCATTER]))
