"""Schedules of the chips of a latency table: what its bounds are held against.

A search bounds many chips by such a table and schedules one chip by its modes, so nothing else needs these.
"""

import numpy as np

from rephaze.schedule.parts import Effort
from rephaze.schedule.solve import LayerModes, schedule_layer
from rephaze.schedule.tasks import Cores
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.schedule import Exclusion


def serial_makespans(structure, table):
    """Cycles of every operator one after another in its faster mode, one a chip; no optimum is longer."""
    fastest_oc = np.minimum(table.one_core_cycles_oc, table.all_cores_cycles_oc)
    fastest_oc[~structure.takes_time[structure.place]] = 0
    possible_c = (fastest_oc < IMPOSSIBLE_CYCLES).all(axis=0)
    return np.where(possible_c, fastest_oc.sum(axis=0), IMPOSSIBLE_CYCLES)


def schedule_on_chip(
    structure, table, chip, *, num_tensor_cores, num_vector_cores, exclusion=Exclusion.ENGINE, time_limit_s=10.0
):
    """The best schedule of a layer on one chip, a column, of a latency table."""

    def both(one_oc, all_oc):
        return np.stack([one_oc[:, chip], all_oc[:, chip]], axis=1)

    modes = LayerModes(
        cycles_om=both(table.one_core_cycles_oc, table.all_cores_cycles_oc),
        hbm_share_om=both(table.one_core_hbm_share_oc, table.all_cores_hbm_share_oc),
        buffer_share_om=both(table.one_core_buffer_share_oc, table.all_cores_buffer_share_oc),
    )
    cores = Cores(num_tensor_cores=num_tensor_cores, num_vector_cores=num_vector_cores, exclusion=exclusion)
    return schedule_layer(structure, modes, cores, Effort(time_limit_s=time_limit_s))
