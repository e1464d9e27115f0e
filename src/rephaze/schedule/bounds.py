"""Bounds on a layer's makespan for thousands of chips at once, for an outer search over chips.

Axis letters: o = operator of the graph, i = operator of a part, c = chip, m = mode (0 one core, 1 all cores),
r = resource.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import kernel
from rephaze.schedule.relaxation import NEVER, ceil_safely, relax, tails
from rephaze.schedule.structure import Part, ScheduleStructure, series_parts
from rephaze.types.latency import IMPOSSIBLE_CYCLES, LatencyTable
from rephaze.types.schedule import Exclusion

Ints = NDArray[np.int64]

_NUM_ROUNDS = 24
_TOLERANCE = 1e-3
_NUM_RESOURCES = 5  # tensor cores, vector cores, link, HBM, global buffer


def lower_bounds(
    structure: ScheduleStructure,
    table: LatencyTable,
    *,
    num_tensor_cores_c: Ints,
    num_vector_cores_c: Ints,
    exclusion: Exclusion,
) -> Ints:
    """Cycles below which no schedule of the layer can go, one per chip; ``IMPOSSIBLE_CYCLES`` if none exists.

    The longest path in the faster modes, and the best mix found of paths and loads on tensor and vector cores
    (no more of them than can be busy at once), link, HBM and buffer, summed over the series parts.

    Args:
        structure: Of the layer's operator graph.
        table: Its operators on the chips.
        num_tensor_cores_c: Of each chip.
        num_vector_cores_c: Of each chip.
        exclusion: What all-cores operators exclude.
    """
    fastest_oc = _fastest(structure, table)
    total_c = np.zeros(fastest_oc.shape[1], dtype=np.int64)
    # An operator that takes no time on some chips only is kept: the cut stays valid, the bound too.
    kept = structure.takes_time & (fastest_oc[structure.order] > 0).any(axis=1)
    possible_c = np.asarray((fastest_oc < IMPOSSIBLE_CYCLES).all(axis=0))
    for part in series_parts(structure, kept):
        if len(part.ops) == 1:
            total_c += fastest_oc[part.ops[0]]
        else:
            total_c += _bounds_of_part(part, table, num_tensor_cores_c, num_vector_cores_c, exclusion, possible_c)
    return np.where(possible_c, total_c, IMPOSSIBLE_CYCLES)


def serial_makespans(structure: ScheduleStructure, table: LatencyTable) -> Ints:
    """Makespan of every operator one after another in its faster mode, one per chip: a first incumbent.

    ``IMPOSSIBLE_CYCLES`` where some operator can run in no mode.
    """
    fastest_oc = _fastest(structure, table)
    possible_c = (fastest_oc < IMPOSSIBLE_CYCLES).all(axis=0)
    return np.where(possible_c, fastest_oc.sum(axis=0), IMPOSSIBLE_CYCLES)


def _fastest(structure: ScheduleStructure, table: LatencyTable) -> Ints:
    fastest_oc = np.minimum(table.one_core_cycles_oc, table.all_cores_cycles_oc)
    fastest_oc[~structure.takes_time[structure.place]] = 0
    return fastest_oc


def _bounds_of_part(
    part: Part,
    table: LatencyTable,
    num_tensor_cores_c: Ints,
    num_vector_cores_c: Ints,
    exclusion: Exclusion,
    possible_c: NDArray[np.bool_],
) -> Ints:
    def rows(one_oc: Any, all_oc: Any) -> Any:
        return np.ascontiguousarray(np.stack([one_oc[part.ops].T, all_oc[part.ops].T], axis=2))

    cycles_cim = rows(table.one_core_cycles_oc, table.all_cores_cycles_oc)
    cycles_cim[cycles_cim >= IMPOSSIBLE_CYCLES] = NEVER
    cycles_cim[~possible_c] = 0  # their answer is known; keep their sums from overflowing
    bound_c = np.zeros(len(cycles_cim), dtype=np.int64)
    _fill_bounds(
        cycles_cim,
        rows(table.one_core_hbm_share_oc, table.all_cores_hbm_share_oc),
        rows(table.one_core_buffer_share_oc, table.all_cores_buffer_share_oc),
        np.minimum(num_tensor_cores_c, max(part.tensor_width, 1)),
        np.minimum(num_vector_cores_c, max(part.vector_width, 1)),
        part.uses_tensor,
        part.uses_vector,
        part.uses_link,
        part.pred_start,
        part.pred_index,
        exclusion is Exclusion.CHIP,
        bound_c,
    )
    return bound_c


@kernel
def _fill_bounds(
    cycles_cim: Any,
    hbm_cim: Any,
    buffer_cim: Any,
    num_tensor_c: Any,
    num_vector_c: Any,
    uses_tensor: Any,
    uses_vector: Any,
    uses_link: Any,
    pred_start: Any,
    pred_index: Any,
    exclusive: bool,
    bound_c: Any,
) -> None:
    num_chips, size = cycles_cim.shape[:2]
    frac_imr = np.zeros((size, 2, _NUM_RESOURCES))
    weight_im = np.zeros((size, 2))
    alone_im = np.zeros((size, 2), dtype=np.bool_)
    alone_im[:, 1] = exclusive
    pick_i = np.zeros(size, dtype=np.int64)
    tail_i = np.zeros(size, dtype=np.int64)
    for c in range(num_chips):
        dur_im = cycles_cim[c]
        longest = tails(dur_im, pred_start, pred_index, tail_i)
        for i in range(size):
            for m in range(2):
                one_of = m == 0
                frac_imr[i, m, 0] = (1.0 / num_tensor_c[c] if one_of else 1.0) if uses_tensor[i] else 0.0
                frac_imr[i, m, 1] = (1.0 / num_vector_c[c] if one_of else 1.0) if uses_vector[i] else 0.0
                frac_imr[i, m, 2] = 1.0 if uses_link[i] else 0.0
                frac_imr[i, m, 3] = hbm_cim[c, i, m]
                frac_imr[i, m, 4] = buffer_cim[c, i, m]
        relaxed = relax(
            dur_im, frac_imr, alone_im, pred_start, pred_index, _NUM_ROUNDS, _TOLERANCE, weight_im, pick_i
        )
        bound_c[c] = max(longest, ceil_safely(relaxed))
