"""What a plan of cost model ``full`` spends: the time of a batch and the memory of a device, by cause."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.full import DeviceMemory, TimeCauses


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanAccount:
    """Of one model's plan."""

    model: str
    causes: TimeCauses
    devices: tuple[DeviceMemory, ...]
    """Of each device of a pipeline."""
    num_keep_positions: int
    """Of the lists of what layers may keep: the first position keeps everything, the last least."""
