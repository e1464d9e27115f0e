import numpy as np
import pytest

from rephaze.schedule import nodes, resumable_search
from rephaze.schedule.list_schedule import first_schedule
from rephaze.schedule.needs import Cores, PartModes
from rephaze.schedule.parts import Effort, Solver, replay, solve_part
from rephaze.schedule.resumable_search import Limit, PartSolution, ResumableSearch
from rephaze.schedule.structure import compile_structure, series_parts
from rephaze.schedule.tasks import make_task
from rephaze.types.latency import Engine
from rephaze.types.schedule import Exclusion

SEARCH = Effort(solver=Solver.SEARCH)


@pytest.fixture
def hard_part():
    """Twelve independent operators on two cores of each kind: thousands of nodes to a proof."""
    rng = np.random.default_rng(0)
    engines = [list(Engine)[k] for k in rng.integers(0, 3, 12)]
    structure = compile_structure(engines, [])
    (part,) = series_parts(structure, structure.takes_time)
    cycles = rng.integers(200, 900, (12, 2))
    all_cores = np.array([[False, True]] * len(part.ops))
    modes = PartModes(cycles_im=cycles[part.ops], all_cores_im=all_cores, share_units=1)
    return part, make_task(part, modes, Cores(num_tensor_cores=2, num_vector_cores=2, exclusion=Exclusion.CHIP))


def test_a_search_in_many_turns_ends_where_one_turn_does(hard_part):
    part, task = hard_part
    whole = solve_part(task, part.width, SEARCH, time_limit_s=60.0)
    size = len(task.dur_im)
    weight = np.zeros((size, 2))
    known = PartSolution(0, 0, np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64))
    known.bound, known.makespan = first_schedule(task, 200, weight, known.start_i, known.mode_i)
    search = ResumableSearch(task, known, weight, part.width)
    bounds = []
    for turn in range(1, 100_000):
        search.slice = 16
        search.run(Limit(num_nodes=16 * turn))
        bounds.append(known.bound)
        assert replay(task, known.start_i, known.mode_i) == known.makespan
        if known.is_proven:
            break
    assert bounds == sorted(bounds)
    assert known.is_proven
    assert known.makespan == whole.makespan == whole.bound


def test_a_full_memory_leaves_an_honest_bound(hard_part, monkeypatch):
    part, task = hard_part
    optimum = solve_part(task, part.width, SEARCH, time_limit_s=60.0).makespan
    monkeypatch.setattr(resumable_search, "_MAX_NODE_BYTES", 1)
    stopped = solve_part(task, part.width, SEARCH, time_limit_s=60.0)
    assert stopped.bound <= optimum <= stopped.makespan
    assert replay(task, stopped.start_i, stopped.mode_i) == stopped.makespan


def test_growing_keeps_every_node_on_file(hard_part):
    part, task = hard_part
    small = nodes.new_nodes(task, part.width, 64)
    grown = nodes.enlarged(small, 1, 256)
    assert len(grown.fact) == len(grown.bits) == len(grown.heap) == 256
    assert (grown.fact[:64] == small.fact).all()


def test_replay_refuses_what_overlaps(hard_part):
    _, task = hard_part
    size = len(task.dur_im)
    mode = (task.dur_im[:, 0] > task.dur_im[:, 1]).astype(np.int64)
    assert replay(task, np.zeros(size, dtype=np.int64), mode) is None
