"""Compile (or load from numba's cache) every kernel the solver may call, before any clock is started."""

from __future__ import annotations

import numpy as np

from rephaze.schedule import nodes
from rephaze.schedule.bestfirst import search_slice
from rephaze.schedule.bounds import lower_bounds
from rephaze.schedule.list_schedule import first_schedule, improve
from rephaze.schedule.needs import Cores, PartModes
from rephaze.schedule.structure import compile_structure, series_parts
from rephaze.schedule.tasks import make_task
from rephaze.types.latency import Engine, ModeBounds
from rephaze.types.schedule import Exclusion


def compile_kernels() -> None:
    """Make later solves run at full speed: some thirty seconds once on a machine, then about one."""
    structure = compile_structure([Engine.TENSOR, Engine.TENSOR, Engine.VECTOR], [(0, 2)])
    (part,) = series_parts(structure, structure.takes_time)
    cycles_im = np.array([[7, 5], [6, 5], [5, 9]], dtype=np.int64)
    all_cores_im = np.array([[False, True]] * len(part.ops))
    task = make_task(
        part,
        PartModes(cycles_im=cycles_im, all_cores_im=all_cores_im, share_units=1),
        Cores(num_tensor_cores=1, num_vector_cores=1, exclusion=Exclusion.CHIP),
    )
    size = len(part.ops)
    weight_im = np.zeros((size, 2))
    start_i, mode_i = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    bound, makespan = first_schedule(task, 1, weight_im, start_i, mode_i)
    improve(task, 1, bound, 0.02, 1, mode_i, start_i, makespan)
    memory = nodes.new_nodes(task, part.width, 8 * size)
    nodes.put_weights(task, memory, weight_im, nodes.FIRST_RELAXED_SET)
    memory = nodes.enlarged(memory, part.ancestors_iw.shape[1], 16 * size)
    memory.control[nodes.INCUMBENT] = makespan
    nodes.reorder(memory, 0)
    search_slice(task, memory, 1)
    table = ModeBounds(
        all_cores_m=np.array([False, True]),
        cycles_moc=np.ascontiguousarray(cycles_im.T)[:, :, None],
        hbm_share_om=np.ones((size, 2)),
        buffer_share_om=np.ones((size, 2)),
    )
    one = np.ones(1, dtype=np.int64)
    lower_bounds(structure, table, num_tensor_cores_c=one, num_vector_cores_c=one, exclusion=Exclusion.CHIP)
