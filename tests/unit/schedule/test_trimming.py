import numpy as np

from rephaze.schedule.needs import Cores, PartModes
from rephaze.schedule.relaxation import NEVER
from rephaze.schedule.structure import compile_structure, series_parts
from rephaze.schedule.tasks import make_task
from rephaze.schedule.trimming import trimmed
from rephaze.types.latency import Engine
from rephaze.types.schedule import Exclusion

T, V = Engine.TENSOR, Engine.VECTOR


def task_of(engines, edges, cycles, units):
    """A part under rule engine; modes: one core, all cores, all cores at half the bandwidth (2 units)."""
    structure = compile_structure(engines, edges)
    (part,) = series_parts(structure, structure.takes_time)
    modes = PartModes(
        cycles_im=np.array(cycles)[part.ops],
        all_cores_im=np.array([[False, True, True]] * len(part.ops)),
        hbm_units_im=np.array(units)[part.ops],
        share_units=2,
    )
    return part, make_task(part, modes, Cores(num_tensor_cores=4, num_vector_cores=4, exclusion=Exclusion.ENGINE))


def test_modes_that_take_longer_than_a_known_schedule_leaves_go_and_engines_become_one():
    part, task = task_of([T, T, V], [(0, 2)], [[90, 10, 14], [90, 10, 14], [90, 5, 8]], [[1, 2, 1]] * 3)
    small, was_im, width = trimmed(task, part.width, 30)
    assert set(was_im[small.dur_im < NEVER].tolist()) == {1, 2}
    assert small.cap_r.tolist() == [1, 2]  # the tensor cores as one, and the bandwidth
    assert width == 2


def test_what_a_schedule_of_that_very_length_uses_stays():
    part, task = task_of([T, V, T], [(0, 1)], [[21, 10, 12], [9, 4, 5], [9, 4, 5]], [[1, 2, 1]] * 3)
    # The first operator may take up to 25 - 4 cycles.
    assert 21 in trimmed(task, part.width, 25).task.dur_im
    assert 21 not in trimmed(task, part.width, 24).task.dur_im
