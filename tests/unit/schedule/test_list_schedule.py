import numpy as np
import pytest

from rephaze.schedule.list_schedule import first_schedule, improve
from rephaze.schedule.needs import Cores, PartModes
from rephaze.schedule.parts import replay
from rephaze.schedule.structure import compile_structure, series_parts
from rephaze.schedule.tasks import make_task
from rephaze.types.latency import Engine
from rephaze.types.schedule import Exclusion


def random_task(seed, exclusive):
    rng = np.random.default_rng(seed)
    size = 20
    engines = [list(Engine)[k] for k in rng.integers(0, 4, size)]
    edges = [(a, b) for b in range(size) for a in range(b) if rng.random() < 0.08]
    structure = compile_structure([*engines, Engine.VECTOR], edges)  # the last is free of all: one part
    (part,) = series_parts(structure, structure.takes_time)
    cycles = rng.integers(1, 90, (size + 1, 2))
    shares = rng.integers(0, 60, (size + 1, 2))
    all_cores = np.array([[False, True]] * len(part.ops))
    modes = PartModes(
        cycles_im=cycles[part.ops], all_cores_im=all_cores, hbm_units_im=shares[part.ops], share_units=100
    )
    exclusion = Exclusion.CHIP if exclusive else Exclusion.ENGINE
    return make_task(part, modes, Cores(num_tensor_cores=2, num_vector_cores=2, exclusion=exclusion))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_list_schedules_are_valid_and_moves_only_improve_them(seed, exclusive):
    task = random_task(seed, exclusive)
    size = len(task.dur_im)
    weight = np.zeros((size, 2))
    start, mode = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    bound, makespan = first_schedule(task, 100, weight, start, mode)
    assert replay(task, start, mode) == makespan >= bound
    shorter = improve(task, 100, bound, 0.02, 7, mode, start, makespan)
    assert replay(task, start, mode) == shorter <= makespan
    assert shorter >= bound
