"""Schedules of the chips of a table of bounds, as if these were the times: what its bounds are held against.

A search bounds many chips by such a table and schedules one chip by its modes, so nothing else needs these.
"""

import numpy as np

from rephaze.schedule.needs import Cores
from rephaze.schedule.parts import Effort
from rephaze.schedule.solve import LayerModes, schedule_layer
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.schedule import Exclusion


def serial_makespans(structure, table):
    """Cycles of every operator one after another in its faster mode, one a chip; no optimum is longer."""
    fastest_oc = table.fastest_oc
    fastest_oc[~structure.takes_time[structure.place]] = 0
    possible_c = (fastest_oc < IMPOSSIBLE_CYCLES).all(axis=0)
    return np.where(possible_c, fastest_oc.sum(axis=0), IMPOSSIBLE_CYCLES)


def schedule_on_chip(
    structure, table, chip, *, num_tensor_cores, num_vector_cores, exclusion=Exclusion.ENGINE, time_limit_s=10.0
):
    """The best schedule of a layer on one chip, a column, of a table."""

    modes = LayerModes(
        cycles_om=table.cycles_moc[:, :, chip].T,
        all_cores_om=np.tile(table.all_cores_m, (table.cycles_moc.shape[1], 1)),
        hbm_share_om=table.hbm_share_om,
        buffer_share_om=table.buffer_share_om,
    )
    cores = Cores(num_tensor_cores=num_tensor_cores, num_vector_cores=num_vector_cores, exclusion=exclusion)
    return schedule_layer(structure, modes, cores, Effort(time_limit_s=time_limit_s))
