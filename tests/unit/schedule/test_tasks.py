import numpy as np

from rephaze.schedule.needs import Cores, PartModes
from rephaze.schedule.relaxation import NEVER
from rephaze.schedule.structure import compile_structure, series_parts
from rephaze.schedule.tasks import make_task
from rephaze.types.latency import Engine
from rephaze.types.schedule import Exclusion

T, V = Engine.TENSOR, Engine.VECTOR


def task_of(engines, cycles, *, edges=(), hbm=None, tensor=2, vector=2, exclusive=True):
    structure = compile_structure(engines, edges)
    (part,) = series_parts(structure, structure.takes_time)
    by_op = np.array(cycles, dtype=np.int64)[part.ops]
    units = None if hbm is None else np.array(hbm, dtype=np.int64)[part.ops]
    all_cores = np.array([[False, True]] * len(by_op))
    modes = PartModes(cycles_im=by_op, all_cores_im=all_cores, hbm_units_im=units, share_units=100)
    exclusion = Exclusion.CHIP if exclusive else Exclusion.ENGINE
    return make_task(part, modes, Cores(num_tensor_cores=tensor, num_vector_cores=vector, exclusion=exclusion))


def test_a_mode_no_faster_and_no_lighter_is_dropped():
    task = task_of([T, T, T], [(5, 5), (5, 4), (5, 9)])
    assert (task.dur_im[:, 1] >= NEVER).tolist() == [True, False, True]
    assert (task.dur_im[:, 0] < NEVER).all()


def test_a_slower_mode_that_needs_less_bandwidth_is_kept():
    task = task_of([T, T], [(5, 7), (5, 7)], hbm=[(90, 10), (90, 90)], exclusive=False, tensor=1)
    assert (task.dur_im[:, 1] < NEVER).tolist() == [True, False]


def test_cores_beyond_what_can_be_busy_are_no_resource():
    narrow = task_of([T, T, V], [(5, 3)] * 3, tensor=1, vector=9)
    wide = task_of([T, T, V], [(5, 3)] * 3, tensor=2, vector=9)
    assert narrow.cap_r.tolist() == [1, 3]  # one tensor core, and the chip
    assert wide.cap_r.tolist() == [3]


def test_under_rule_engine_all_cores_take_the_capped_engine():
    task = task_of([T, T, V], [(5, 3)] * 3, tensor=8, vector=8, exclusive=False)
    assert task.cap_r.tolist() == [2, 1]
    assert task.need_imr[:, 1].max(axis=0).tolist() == [2, 1]


def test_bandwidth_that_cannot_run_out_is_no_resource():
    assert len(task_of([T, T], [(5, 3)] * 2, hbm=[(50, 10), (50, 10)]).cap_r) == 1
    assert len(task_of([T, T], [(5, 3)] * 2, hbm=[(60, 10), (50, 10)]).cap_r) == 2


def test_twins_need_equal_times_and_needs():
    same = task_of([T, T], [(5, 3), (5, 3)])
    other = task_of([T, T], [(5, 3), (5, 4)])
    assert same.twin_i.tolist() == [-1, 0]
    assert other.twin_i.tolist() == [-1, -1]
