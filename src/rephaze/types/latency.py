"""Operator estimates for many chips, as the scheduler takes them.

Axis letters: o = operator, c = chip, m = mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

IMPOSSIBLE_CYCLES = 2**53
"""Marks a mode that cannot run; a sum with one in it is at least this, a thousand still fit int64."""


class Engine(StrEnum):
    """What an operator holds while it runs."""

    TENSOR = "tensor"
    VECTOR = "vector"
    FUSED = "fused"
    """A tensor core and a vector core."""
    LINK = "link"
    NONE = "none"
    """Nothing: views and other operators of no duration."""


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class ModeTable:
    """Every operator of one OpGraph on one chip, in every way it may run.

    Modes differ in the cores they take and in the part of both bandwidths they are given; an operator that moves
    nothing through one holds nothing of it. Axis letter: m = mode, one core before all cores, most bandwidth
    first.
    """

    op_names: tuple[str, ...]
    engines: tuple[Engine, ...]
    all_cores_m: NDArray[np.bool_]
    cycles_om: NDArray[np.int64]
    energy_j_om: NDArray[np.float64]
    hbm_share_om: NDArray[np.float64]
    buffer_share_om: NDArray[np.float64]

    @property
    def energy_j(self) -> float:
        """Of the pass: every operator in its fastest mode, of several as fast in the one of least energy.

        A number of the operators alone. Schedules of one least time choose different modes, and which of them is
        found first must not decide what a plan is worth.
        """
        return float(self.energy_j_o.sum())

    @property
    def energy_j_o(self) -> NDArray[np.float64]:
        """Of each operator as ``energy_j`` counts it."""
        fastest_om = self.cycles_om == self.cycles_om.min(axis=1, keepdims=True)
        found: NDArray[np.float64] = np.where(fastest_om, self.energy_j_om, np.inf).min(axis=1)
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class LatencyTable:
    """Every operator of one OpGraph on every chip, on one core and on all cores of its engine.

    Shares are the parts of the chip's HBM and global-buffer bandwidth the operator needs while it runs.
    """

    op_names: tuple[str, ...]
    engines: tuple[Engine, ...]
    one_core_cycles_oc: NDArray[np.int64]
    all_cores_cycles_oc: NDArray[np.int64]
    one_core_j_oc: NDArray[np.float64]
    all_cores_j_oc: NDArray[np.float64]
    one_core_hbm_share_oc: NDArray[np.float64]
    all_cores_hbm_share_oc: NDArray[np.float64]
    one_core_buffer_share_oc: NDArray[np.float64]
    all_cores_buffer_share_oc: NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class ModeBounds:
    """Every operator of one OpGraph on many chips: cycles that no way to run it goes below.

    Modes as those of ``ModeTable``, and what each holds of the bandwidths is the same on all chips.
    """

    all_cores_m: NDArray[np.bool_]
    cycles_moc: NDArray[np.int64]
    hbm_share_om: NDArray[np.float64]
    buffer_share_om: NDArray[np.float64]

    @property
    def fastest_oc(self) -> NDArray[np.int64]:
        """In whatever mode."""
        found: NDArray[np.int64] = self.cycles_moc.min(axis=0)
        return found
