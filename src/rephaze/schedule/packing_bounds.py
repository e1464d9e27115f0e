"""Bounds on a layer's makespan by the best weight set there is, chip by chip: a millisecond each.

``bounds`` mixes a few paths and loads for thousands of chips at once; where several operators share engines and
bandwidths, as in most backward passes, the linear program of ``packing`` says some percent more.

Axis letters: c = chip, o = operator of the graph, i = operator of a part, m = mode, r = resource.
"""

from __future__ import annotations

import numpy as np

from rephaze.recent import Recent
from rephaze.schedule.bounds import fastest_cycles
from rephaze.schedule.needs import Cores, PartModes, needs_of
from rephaze.schedule.packing import pack
from rephaze.schedule.relaxation import NEVER, ceil_safely
from rephaze.schedule.shares import SHARE_UNITS, share_units
from rephaze.schedule.structure import Part, ScheduleStructure, series_parts
from rephaze.schedule.tables import Ints
from rephaze.schedule.teams import NUM_TEAMS, Teams, no_teams
from rephaze.types.latency import IMPOSSIBLE_CYCLES, ModeBounds
from rephaze.types.schedule import Exclusion

_NUM_TEAMS = 1024
"""Room for so many: what is not found by then is left."""
_NUM_PIVOTS = 1024
"""Steps of the simplex method. Most parts need some tens, the widest 400, with no bound long before the last."""
_MOST_POOLS = 64
"""A seventh of a megabyte each."""


class KnownTeams:
    """Teams of parts that were packed before, of which a part with other durations mostly needs no others.

    Which are known decides how long a packing takes, not what comes of it: the best weights are those of a linear
    program over all teams, and its rounding is taken away before a bound is used.
    """

    def __init__(self) -> None:
        self._pools: Recent[tuple[bytes, ...], Teams] = Recent(_MOST_POOLS)

    def of(self, part: Part, need_imr: Ints, cap_r: Ints) -> Teams:
        """Those of a part whose operators hold so much, to be added to."""
        key = (part.ancestors_iw.tobytes(), need_imr.tobytes(), cap_r.tobytes())
        teams = self._pools.get(key)
        if teams is None:
            teams = self._pools[key] = no_teams(part.ancestors_iw, part.descendants_iw, part.width, _NUM_TEAMS)
        if 2 * teams.num[NUM_TEAMS] > _NUM_TEAMS:
            # Looking through very many takes longer than making the few that are needed.
            teams.num[NUM_TEAMS] = 0
        return teams


def packing_bounds(
    structure: ScheduleStructure,
    table: ModeBounds,
    *,
    num_tensor_cores_c: Ints,
    num_vector_cores_c: Ints,
    exclusion: Exclusion,
    known: KnownTeams | None = None,
) -> Ints:
    """Cycles below which no schedule of the layer can go, one per chip; ``IMPOSSIBLE_CYCLES`` if none exists.

    Series parts add up; each is charged by its packing (docs/proof.md, 4.2).

    Args:
        structure: Of the layer's operator graph.
        table: Its operators on the chips.
        num_tensor_cores_c: Of each chip.
        num_vector_cores_c: Of each chip.
        exclusion: What all-cores operators exclude.
        known: Teams of parts packed before; grows.
    """
    known = known or KnownTeams()
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
            cores = Cores(
                num_tensor_cores=int(num_tensor_cores_c[c]),
                num_vector_cores=int(num_vector_cores_c[c]),
                exclusion=exclusion,
            )
            bound_c[c] += _packed(part, table, cycles_im, cores, known)
    return bound_c


def _packed(part: Part, table: ModeBounds, cycles_im: Ints, cores: Cores, known: KnownTeams) -> int:
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
    need_imr, cap_r = needs_of(part, modes, cores)
    weight_im = np.zeros(cycles_im.shape)
    teams = known.of(part, need_imr, cap_r)
    return ceil_safely(pack(cycles_im, need_imr, cap_r, part.ancestors_iw, teams, _NUM_PIVOTS, weight_im))
