"""Operators with their ways to run, and what a problem refuses."""

import pytest

from rephaze.errors import SpecError
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine
from rephaze.types.schedule import MAX_FURTHER, Mode, ScheduleOp, ScheduleProblem, Way, operator_of, scheduled

ONE = Way(mode=Mode.ONE_CORE, cycles=9, hbm_share=0.5, energy_j=2.0)
EVERY = Way(mode=Mode.ALL_CORES, cycles=4, buffer_share=0.25)
SLOW = Way(mode=Mode.ONE_CORE, cycles=12, hbm_share=0.25)


def op(name="a", **fields):
    return ScheduleOp(
        **{"name": name, "engine": Engine.TENSOR, "one_core_cycles": 9, "all_cores_cycles": 4} | fields
    )


def test_an_operator_gives_back_the_ways_it_was_made_of():
    made = operator_of("a", Engine.TENSOR, [ONE, EVERY, SLOW])
    assert made.ways == (ONE, EVERY, SLOW)
    assert made.further == (SLOW,)


@pytest.mark.parametrize("way", [0, 1, 2])
def test_a_started_operator_knows_its_way(way):
    made = operator_of("a", Engine.TENSOR, [ONE, EVERY, SLOW])
    begun = scheduled(made, 7, way)
    assert (begun.op, begun.start_cycles) == ("a", 7)
    assert begun.way_of(made) == made.ways[way]
    assert begun.further == (0 if way == 2 else None)


def test_an_operator_is_possible_if_any_way_is():
    never = {"one_core_cycles": IMPOSSIBLE_CYCLES, "all_cores_cycles": IMPOSSIBLE_CYCLES}
    assert not op(**never).is_possible
    assert op(**never, further=(SLOW,)).is_possible


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"one_core_cycles": -1}, "op 'a': one_core_cycles is -1"),
        ({"all_cores_hbm_share": 1.5}, "op 'a': all_cores_hbm_share is 1.5"),
        ({"one_core_j": -1.0}, "op 'a': one_core_j is -1.0"),
        ({"engine": Engine.NONE}, "must be 0 for core none"),
        ({"further": (SLOW,) * (MAX_FURTHER + 1)}, "at most 6 further ways"),
        ({"further": (Way(mode=Mode.ONE_CORE, cycles=-3),)}, r"op 'a': further\[0\].cycles is -3"),
    ],
)
def test_a_wrong_operator_is_refused_by_field(fields, said):
    with pytest.raises(SpecError, match=said):
        op(**fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"num_tensor_cores": 0}, "num_tensor_cores is 0"),
        ({"ops": (op(), op())}, "'a': is used twice"),
        ({"edges": ((0, 1),)}, "must hold positions of the 1 ops"),
    ],
)
def test_a_wrong_problem_is_refused_by_field(fields, said):
    whole = {"num_tensor_cores": 1, "num_vector_cores": 1, "ops": (op(),), "edges": ()}
    with pytest.raises(SpecError, match=said):
        ScheduleProblem(**whole | fields)
