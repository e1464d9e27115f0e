"""What a plan does with its time and memory, derived again so that people can look at it.

Axis letters: e = event.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rephaze.types.comparison import Baseline
from rephaze.types.full import DeviceMemory, TimeCauses
from rephaze.types.operator_estimate import OperatorEstimate
from rephaze.types.schedule import PassSchedule


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanAccount:
    """Of one model's plan: the time of a batch and the memory of a device, by cause."""

    model: str
    causes: TimeCauses
    devices: tuple[DeviceMemory, ...]
    """Of each device of a pipeline."""
    num_keep_positions: int
    """Of the lists of what layers may keep: the first position keeps everything, the last least; 1 under cost
    models without such lists."""
    bound_by_fractions: dict[str, float] = field(default_factory=dict)
    """Compute by the resource that binds: the part of the operators' time, one after the other, that array, lanes,
    buffer, HBM or link takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanTimeline:
    """What every device of a pipeline does when, one column for each property of an event."""

    num_devices: int
    """Of a pipeline."""
    num_microbatches: int
    batch_s: float
    """As replayed; the formula's is with the plan."""
    kinds: tuple[str, ...]
    """What events may be: ``forward``, ``backward`` ..."""
    device_e: tuple[int, ...]
    kind_e: tuple[int, ...]
    """Position in ``kinds``."""
    microbatch_e: tuple[int, ...]
    """Which one, from 0; -1 for what happens once a batch."""
    start_s_e: tuple[float, ...]
    end_s_e: tuple[float, ...]
    left_out_from_s: float = 0.0
    left_out_to_s: float = 0.0
    """Of a long batch the middle is not kept: what happens between these is not here. Both zero if all is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanDetail:
    """One model's plan on the winner, and how the chip runs its layers."""

    model: str
    account: PlanAccount | None
    timeline: PlanTimeline | None
    """None under the paper's cost model, which has no schedule to replay."""
    operators: tuple[OperatorEstimate, ...]
    passes: tuple[PassSchedule, ...]
    """Forward and backward of every layer type."""
    missing: str = ""
    """Why something is not there, if it should be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WinnerDetails:
    """Of all models of a search."""

    plans: tuple[PlanDetail, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineAccounts:
    """Where the time of one baseline's plans goes."""

    name: str
    plans: tuple[PlanAccount | None, ...]
    """One a model; None where it has no plan, or the plan could not be priced again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunBaselines:
    """What a search is set beside: chips that exist and other ways to plans, with where their time goes."""

    baselines: tuple[Baseline, ...]
    accounts: tuple[BaselineAccounts, ...]
