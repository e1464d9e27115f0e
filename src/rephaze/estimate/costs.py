"""What one operator costs on many chips, and the chips' rates it is computed from.

Axis letters: c = chip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rephaze.estimate.arrays import Floats, Ints
from rephaze.types.chip import ChipTable
from rephaze.types.energy import AccessEnergy

ELEMENT_BYTES = 2
"""Of operands and results; partial sums take twice as much."""
ONE_CORE_HBM_FRACTION = 0.5
"""Most of the HBM bandwidth an operator on one vector core draws. A placeholder: no vendor publishes what one
core's DMA engines reach."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipRates:
    """Columns the cost formulas use, in bytes and operations per clock cycle."""

    chips: ChipTable
    energy: AccessEnergy
    hbm_bytes_per_cycle_c: Floats
    buffer_bytes_per_cycle_c: Floats
    one_core_hbm_bytes_per_cycle_c: Floats
    """The most an operator on one vector core draws."""

    def __len__(self) -> int:
        return len(self.chips)


def chip_rates(chips: ChipTable, energy: AccessEnergy, bandwidth_share: float = 1.0) -> ChipRates:
    """The rates of these chips for an operator that gets this part of both bandwidths."""
    hbm_bytes_per_cycle_c = chips.hbm_bytes_per_s / chips.clock_hz
    return ChipRates(
        chips=chips,
        energy=energy,
        hbm_bytes_per_cycle_c=bandwidth_share * hbm_bytes_per_cycle_c,
        buffer_bytes_per_cycle_c=bandwidth_share * chips.global_buffer_bytes_per_cycle,
        one_core_hbm_bytes_per_cycle_c=min(bandwidth_share, ONE_CORE_HBM_FRACTION) * hbm_bytes_per_cycle_c,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeCost:
    """One operator in one mode: time, what it moves, energy; infinite time where it cannot run."""

    cycles_c: Floats
    hbm_bytes_c: Floats
    buffer_bytes_c: Floats
    energy_of: Callable[[], Floats]
    """Worked out where it is asked for: bounds of times, by far the most there is of costs, never do."""

    @property
    def energy_j_c(self) -> Floats:
        """Energy on each chip."""
        return self.energy_of()


@dataclass(frozen=True, kw_only=True, slots=True)
class OpCost:
    """One operator on one core and on all cores of its engine."""

    one_core: ModeCost
    all_cores: ModeCost


def bounded_by_memory(cycles_c: Floats, hbm_bytes_c: Floats, buffer_bytes_c: Floats, rates: ChipRates) -> Floats:
    """The time of work that overlaps its memory traffic: the slowest of the three."""
    hbm = hbm_bytes_c / rates.hbm_bytes_per_cycle_c
    buffer = buffer_bytes_c / rates.buffer_bytes_per_cycle_c
    return np.maximum(np.maximum(cycles_c, hbm), buffer)


def share_of(num_bytes_c: Floats, cycles_c: Ints, bytes_per_cycle_c: Floats) -> Floats:
    """The part of a bandwidth held while the operator runs; at most 1 by construction of its time."""
    busy = num_bytes_c / bytes_per_cycle_c
    share = np.divide(busy, cycles_c, out=np.zeros_like(busy), where=cycles_c > 0)
    return np.minimum(1.0, share)
