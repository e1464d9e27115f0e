"""What is sent to Dask workers is what they get."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rephaze.search.workers.packing import (
    pack_boxes,
    pack_expansions,
    pack_goal,
    unpack_boxes,
    unpack_expansions,
    unpack_goal,
)
from rephaze.types.boxes import NO_GOAL, ClosedBox, Expansion, Goal, OpenBox, UnitTimes

positions = st.tuples(st.integers(0, 50), st.integers(0, 50))
seconds = st.floats(0.0, allow_nan=False)
units = st.dictionaries(st.integers(0, 2000), seconds, max_size=5)
unit_times = st.builds(
    lambda by_unit, others_s: UnitTimes(
        unit_u=tuple(by_unit), batch_s_u=tuple(by_unit.values()), others_s=others_s
    ),
    units,
    seconds,
)
open_boxes = st.builds(
    OpenBox,
    first=positions,
    last=positions,
    upper=seconds,
    bounded_by=st.text(max_size=5),
    times=st.lists(unit_times, max_size=3).map(tuple),
    is_ready=st.booleans(),
)
closed_boxes = st.builds(ClosedBox, first=positions, last=positions, bound=seconds, closed_by=st.text(max_size=5))
expansions = st.builds(
    Expansion,
    closed=st.lists(closed_boxes, max_size=3).map(tuple),
    open=st.lists(open_boxes, max_size=3).map(tuple),
)


@given(st.lists(open_boxes, max_size=4))
def test_boxes_come_as_they_went(boxes):
    found = unpack_boxes(pack_boxes(boxes))
    assert found == boxes
    numbers = [number for box in found for own in box.times for number in (*own.unit_u, *own.batch_s_u)]
    assert {type(number) for number in numbers} <= {int, float}


@given(st.lists(expansions, max_size=4))
def test_expansions_come_as_they_went(found):
    assert unpack_expansions(pack_expansions(found)) == found


def test_goals_come_as_they_went():
    goal = Goal(threshold=1.0 / 3, objective=2.0, area_um2=math.inf, cutoff=0.1)
    assert unpack_goal(pack_goal(goal)) == goal
    assert unpack_goal(pack_goal(NO_GOAL)) == NO_GOAL
