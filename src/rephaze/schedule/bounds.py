"""Bounds on a layer's makespan for thousands of chips at once, for an outer search over chips.

Axis letters: o = operator of the graph, i = operator of a part, c = chip, m = mode, r = resource.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rephaze.compiled import kernel
from rephaze.schedule.relaxation import NEVER, ceil_safely, relax, tails
from rephaze.schedule.structure import Part, ScheduleStructure, series_parts
from rephaze.schedule.tables import Flags, Floats, Ints, Preds
from rephaze.types.latency import IMPOSSIBLE_CYCLES, ModeBounds
from rephaze.types.schedule import Exclusion

_NUM_ROUNDS = 24
_TOLERANCE = 1e-3
# Resources as columns.
_TENSOR, _VECTOR, _LINK, _HBM, _BUFFER = range(5)
_NUM_RESOURCES = 5


class _PartOnChips(NamedTuple):
    """A part's operators on many chips, and the chips' cores."""

    cycles_cim: Ints
    all_cores_m: Flags
    hbm_im: Floats
    """Part of the HBM bandwidth held."""
    buffer_im: Floats
    num_tensor_c: Ints
    """No more than can be busy at once."""
    num_vector_c: Ints


class _Engines(NamedTuple):
    """What each operator of a part runs on."""

    uses_tensor: Flags
    uses_vector: Flags
    uses_link: Flags


def lower_bounds(
    structure: ScheduleStructure,
    table: ModeBounds,
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
    fastest_oc = fastest_cycles(structure, table)
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


def fastest_cycles(structure: ScheduleStructure, table: ModeBounds) -> Ints:
    """Cycles of each operator in its fastest mode, operators x chips; none of those that never take any."""
    fastest_oc = table.fastest_oc
    fastest_oc[~structure.takes_time[structure.place]] = 0
    return fastest_oc


def _bounds_of_part(
    part: Part,
    table: ModeBounds,
    num_tensor_cores_c: Ints,
    num_vector_cores_c: Ints,
    exclusion: Exclusion,
    possible_c: Flags,
) -> Ints:
    cycles_cim = np.ascontiguousarray(table.cycles_moc[:, part.ops].transpose(2, 1, 0))
    cycles_cim[cycles_cim >= IMPOSSIBLE_CYCLES] = NEVER
    cycles_cim[~possible_c] = 0  # their answer is known; keep their sums from overflowing
    bound_c = np.zeros(len(cycles_cim), dtype=np.int64)
    chips = _PartOnChips(
        cycles_cim=cycles_cim,
        all_cores_m=table.all_cores_m,
        hbm_im=table.hbm_share_om[part.ops],
        buffer_im=table.buffer_share_om[part.ops],
        num_tensor_c=np.minimum(num_tensor_cores_c, max(part.tensor_width, 1)),
        num_vector_c=np.minimum(num_vector_cores_c, max(part.vector_width, 1)),
    )
    engines = _Engines(part.uses_tensor, part.uses_vector, part.uses_link)
    _fill_bounds(chips, engines, part.preds, exclusion is Exclusion.CHIP, bound_c)
    return bound_c


@kernel
def _fill_bounds(chips: _PartOnChips, engines: _Engines, preds: Preds, exclusive: bool, bound_c: Ints) -> None:
    # Unpacked once: every field access of a tuple in compiled code counts references.
    cycles_cim, all_cores_m, hbm_im, buffer_im = chips.cycles_cim, chips.all_cores_m, chips.hbm_im, chips.buffer_im
    num_tensor_c, num_vector_c = chips.num_tensor_c, chips.num_vector_c
    uses_tensor, uses_vector, uses_link = engines.uses_tensor, engines.uses_vector, engines.uses_link
    num_chips, size, num_modes = cycles_cim.shape
    frac_imr = np.zeros((size, num_modes, _NUM_RESOURCES))
    weight_im = np.zeros((size, num_modes))
    alone_im = np.zeros((size, num_modes), dtype=np.bool_)
    for m in range(num_modes):
        alone_im[:, m] = exclusive and all_cores_m[m]
    pick_i = np.zeros(size, dtype=np.int64)
    tail_i = np.zeros(size, dtype=np.int64)
    for i in range(size):
        for m in range(num_modes):
            frac_imr[i, m, _LINK] = 1.0 if uses_link[i] else 0.0
            frac_imr[i, m, _HBM] = hbm_im[i, m]
            frac_imr[i, m, _BUFFER] = buffer_im[i, m]
    for c in range(num_chips):
        dur_im = cycles_cim[c]
        longest = tails(dur_im, preds, tail_i)
        for i in range(size):
            for m in range(num_modes):
                tensor = 1.0 if all_cores_m[m] else 1.0 / num_tensor_c[c]
                vector = 1.0 if all_cores_m[m] else 1.0 / num_vector_c[c]
                frac_imr[i, m, _TENSOR] = tensor if uses_tensor[i] else 0.0
                frac_imr[i, m, _VECTOR] = vector if uses_vector[i] else 0.0
        relaxed = relax(dur_im, frac_imr, alone_im, preds, _NUM_ROUNDS, _TOLERANCE, weight_im, pick_i)
        bound_c[c] = max(longest, ceil_safely(relaxed))
