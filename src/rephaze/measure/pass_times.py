"""The passes of layers on one chip: their times, and what plans ask a solver of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.op_block import OpBlock
from rephaze.measure.model_work import ModelWork
from rephaze.types.chip import Chip
from rephaze.types.cut import GraphCut
from rephaze.types.energy import AccessEnergy
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.stopping import StopSignal

Floats = NDArray[np.float64]

FORWARD, BACKWARD, INPUT_PART = 0, 1, 2
"""Directions of a pass; the last is what earlier layers wait for of the second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassTimes:
    """One pass of one layer type on one chip."""

    cycles: int
    bound_cycles: int
    energy_j: float

    @property
    def is_proven(self) -> bool:
        """No schedule of the pass is shorter."""
        return self.bound_cycles >= self.cycles


class Times(Enum):
    """Which times of a model's passes."""

    OF_CLASS = auto()
    """What little work proves of schedules of what the passes of a class have in common."""
    HURRIED = auto()
    """What little work proves of the schedules."""
    SKETCHED = auto()
    """What some more does, of forms of a cut sequence that may be the quickest."""
    LEAST = auto()
    """What all the work there is proves of them."""
    SCHEDULED = auto()


class FastestForm(NamedTuple):
    """The form of a cut sequence that a layer type runs in."""

    form: int
    is_proven: bool
    """No other form can be quicker, were its schedules as short as their bounds."""
    possible: tuple[int, ...]
    """All that may be the quickest: those that are by their bounds, and this."""


class LayerSeconds(NamedTuple):
    """Every layer type's passes; the last is the part of the backward pass that earlier layers wait for."""

    forward_s_t: Floats
    backward_s_t: Floats
    input_s_t: Floats


class OpTimes(NamedTuple):
    """Every operator a layer type may replay, alone on the chip."""

    op_s_n: Floats
    op_j_n: Floats


class PassSource(Protocol):
    """One chip that times passes: what plans need of a ``PassSolver``."""

    chip: Chip
    energy: AccessEnergy
    stop: StopSignal

    def pass_times(self, work: ModelWork, cut: GraphCut, microbatch: int, kind: int, direction: int) -> PassTimes:
        """The scheduled pass of a layer type, in the fastest form of the cut."""

    def pass_seconds(
        self,
        work: ModelWork,
        cut: GraphCut,
        microbatch: int,
        direction: int,
        times: Times,
        kinds: Sequence[int] | None = None,
    ) -> Floats:
        """Seconds by layer type, of some or all; infinite where an operator cannot run."""

    def fastest_form(self, work: ModelWork, cut: GraphCut, microbatch: int, kind: int) -> FastestForm:
        """Which form of a cut sequence a layer type runs in."""

    def op_times(self, work: ModelWork, cut: GraphCut, microbatch: int, kind: int, form: int) -> OpTimes:
        """The operators a layer type may replay, each in its fastest mode."""

    def least_op_s(self, work: ModelWork, ops: OpBlock) -> Floats:
        """Seconds that operators take at least, products mapped."""


def seconds_of(cycles: list[int], clock_hz: float) -> Floats:
    """As seconds; infinite where it is impossible."""
    found = np.array(cycles, dtype=np.float64) / clock_hz
    found[np.array(cycles) >= IMPOSSIBLE_CYCLES] = np.inf
    return found
