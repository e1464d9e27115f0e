"""Bounds on a layer's makespan by the best weight set there is, chip by chip: a millisecond each.

``bounds`` mixes a few paths and loads for thousands of chips at once; where several operators share engines and
bandwidths, as in most backward passes, the linear program of ``packing`` says some percent more.

Axis letters: c = chip, o = operator of the graph, i = operator of a part, m = mode, r = resource.
"""

from __future__ import annotations

import numpy as np

from rephaze.schedule.bounds import fastest_cycles
from rephaze.schedule.needs import Cores, PartModes, needs_of
from rephaze.schedule.packing import pack
from rephaze.schedule.relaxation import NEVER, ceil_safely
from rephaze.schedule.shares import SHARE_UNITS, share_units
from rephaze.schedule.structure import Part, ScheduleStructure, series_parts
from rephaze.schedule.tables import Ints
from rephaze.schedule.teams import no_teams
from rephaze.types.latency import IMPOSSIBLE_CYCLES, ModeBounds
from rephaze.types.schedule import Exclusion

_NUM_TEAMS = 1024
"""Room for so many: what is not found by then is left."""
_NUM_PIVOTS = 256
"""Steps of the simplex method; each leaves a bound, and most parts need some tens."""


def packing_bounds(
    structure: ScheduleStructure,
    table: ModeBounds,
    *,
    num_tensor_cores_c: Ints,
    num_vector_cores_c: Ints,
    exclusion: Exclusion,
) -> Ints:
    """Cycles below which no schedule of the layer can go, one per chip; ``IMPOSSIBLE_CYCLES`` if none exists.

    Series parts add up; each is charged by its packing (docs/proof.md, 4.2).

    Args:
        structure: Of the layer's operator graph.
        table: Its operators on the chips.
        num_tensor_cores_c: Of each chip.
        num_vector_cores_c: Of each chip.
        exclusion: What all-cores operators exclude.
    """
    fastest_oc = fastest_cycles(structure, table)
    bound_c = np.zeros(fastest_oc.shape[1], dtype=np.int64)
    for c in range(len(bound_c)):
        fastest_o = fastest_oc[:, c]
        if fastest_o.size and fastest_o.max() >= IMPOSSIBLE_CYCLES:
            bound_c[c] = IMPOSSIBLE_CYCLES
            continue
        for part in series_parts(structure, structure.takes_time & (fastest_o[structure.order] > 0)):
            if len(part.ops) == 1:
                bound_c[c] += fastest_o[part.ops[0]]
                continue
            cycles_im = np.ascontiguousarray(table.cycles_moc[:, part.ops, c].T)
            cycles_im[cycles_im >= IMPOSSIBLE_CYCLES] = NEVER
            num_cores = int(num_tensor_cores_c[c]), int(num_vector_cores_c[c])
            bound_c[c] += _packed(part, table, cycles_im, num_cores, exclusion)
    return bound_c


def _packed(
    part: Part, table: ModeBounds, cycles_im: Ints, num_cores: tuple[int, int], exclusion: Exclusion
) -> int:
    hbm_im, buffer_im = (
        share_units(share_om[part.ops]) for share_om in (table.hbm_share_om, table.buffer_share_om)
    )
    modes = PartModes(
        cycles_im=cycles_im,
        all_cores_im=np.broadcast_to(table.all_cores_m, cycles_im.shape),
        hbm_units_im=hbm_im,
        buffer_units_im=buffer_im,
        share_units=SHARE_UNITS,
    )
    num_tensor_cores, num_vector_cores = num_cores
    cores = Cores(num_tensor_cores=num_tensor_cores, num_vector_cores=num_vector_cores, exclusion=exclusion)
    need_imr, cap_r = needs_of(part, modes, cores)
    weight_im = np.zeros(cycles_im.shape)
    teams = no_teams(part.ancestors_iw, part.descendants_iw, part.width, _NUM_TEAMS)
    return ceil_safely(pack(cycles_im, need_imr, cap_r, part.ancestors_iw, teams, _NUM_PIVOTS, weight_im))
