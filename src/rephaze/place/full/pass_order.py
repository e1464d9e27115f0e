"""In which order a device runs its passes: the published orders of 1F1B, interleaved 1F1B and zero-bubble H1.

A pass is told by a kind and a number: pass p of a kind is the p-th of that kind the device runs. With one chunk a
device it is that of microbatch p; with several, devices take turns at them ``pp`` microbatches at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.types.full import PipelineSchedule

Ints = NDArray[np.int64]

FORWARD, BACKWARD, WEIGHT = 0, 1, 2
"""Under zero-bubble the backward pass is the part others wait for, and weights' gradients come apart."""
NUM_KINDS = 3


def pass_order(schedule: PipelineSchedule, *, device: int, pp: int, chunks: int, num_microbatches: int) -> Ints:
    """What a device does, in order: ``NUM_KINDS`` times the number of the pass, plus its kind."""
    total = num_microbatches * chunks
    ahead = _passes_ahead(schedule, pp - device - 1, pp, chunks)
    ahead = min(ahead, total)
    number = np.arange(total, dtype=np.int64)
    # Forward passes ahead, then forward and backward in turn, then the backward passes left.
    forward_at = np.where(number < ahead, number, 2 * number - ahead)
    backward_at = np.where(number < total - ahead, ahead + 2 * number + 1, total + number)
    kinds = [(FORWARD, forward_at), (BACKWARD, backward_at)]
    if schedule is PipelineSchedule.ZERO_BUBBLE:
        kinds.append((WEIGHT, _weight_parts_at(backward_at, device)))
    codes = np.concatenate([NUM_KINDS * number + kind for kind, _ in kinds])
    return codes[np.argsort(np.concatenate([at for _, at in kinds]), kind="stable")]


def _passes_ahead(schedule: PipelineSchedule, devices_after: int, pp: int, chunks: int) -> int:
    if schedule is PipelineSchedule.INTERLEAVED:
        return 2 * devices_after + (chunks - 1) * pp
    return devices_after


def _weight_parts_at(backward_at: Ints, device: int) -> NDArray[np.float64]:
    """Device k puts weight parts off by k microbatches: one after each backward pass, k are left at the end."""
    total = len(backward_at)
    right_after = backward_at[min(device, total) :] + 0.5
    left = 2 * total + np.arange(total - len(right_after))
    return np.concatenate([right_after, left])
