"""Lower bounds on the passes of layers, in seconds: of all that passes have in common, on one chip or on many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rephaze.measure.pass_classes import CommonPass
from rephaze.schedule.bounds import lower_bounds
from rephaze.schedule.packing_bounds import KnownTeams, packing_bounds
from rephaze.types.chip import ChipTable
from rephaze.types.latency import IMPOSSIBLE_CYCLES, ModeBounds
from rephaze.types.schedule import Exclusion

Floats = NDArray[np.float64]


def pass_bound_s(common: CommonPass, table: ModeBounds, chips: ChipTable, exclusion: Exclusion) -> Floats:
    """What no schedule of a pass takes less than, a value a chip; infinite where it cannot run.

    Args:
        common: What the passes have in common.
        table: Its operators on the chips.
        chips: The chips.
        exclusion: What all-cores operators exclude.
    """
    return _bound_s(lower_bounds, common, table, chips, exclusion)


def packing_bound_s(
    common: CommonPass, table: ModeBounds, chips: ChipTable, exclusion: Exclusion, known: KnownTeams
) -> Floats:
    """The same by packing: where operators share much, some percent better, and a millisecond a chip longer."""
    return _bound_s(partial(packing_bounds, known=known), common, table, chips, exclusion)


def _bound_s(
    bounds: Callable[..., NDArray[np.int64]],
    common: CommonPass,
    table: ModeBounds,
    chips: ChipTable,
    exclusion: Exclusion,
) -> Floats:
    cycles = bounds(
        common.structure,
        table,
        num_tensor_cores_c=chips.num_tensor_cores,
        num_vector_cores_c=chips.num_vector_cores,
        exclusion=exclusion,
    )
    return np.where(cycles >= IMPOSSIBLE_CYCLES, np.inf, cycles / chips.clock_hz)
