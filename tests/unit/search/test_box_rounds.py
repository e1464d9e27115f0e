"""Boxes expanded more than once at a time: what becomes of them is what becomes of them one step after another."""

import math

import pytest

from rephaze.search.box_rounds import BOXES_EACH, FEW_WORKERS, MOST_ROUNDS, expand_in_rounds, num_rounds
from rephaze.types.boxes import NO_GOAL, Goal
from rephaze.types.stopping import StoppedError
from tests.unit.search.test_box_engine import Toy, check_cover

GOAL = Goal(threshold=9.0, objective=9.0, area_um2=math.inf, cutoff=9.0)


class Counted:
    """A toy as an evaluator, cut after some calls."""

    def __init__(self, toy, most_calls=math.inf):
        self.toy, self.most_calls, self.num_calls = toy, most_calls, 0

    def expand(self, boxes, goal, _stop):
        self.num_calls += 1
        if self.num_calls > self.most_calls:
            raise StoppedError
        return self.toy.expand(boxes, goal)


def whole(toy):
    return toy.state().open_boxes()


@pytest.mark.parametrize("rounds", [1, 2, 4, 9])
def test_every_point_stays_covered_and_nothing_good_is_closed(rounds):
    toy = Toy(3)
    (found,) = expand_in_rounds(Counted(toy), whole(toy), GOAL, rounds)
    check_cover(toy, [*found.closed, *found.open])
    assert all(toy.inside(box).max() < GOAL.threshold for box in found.closed)


def test_answers_are_those_of_single_rounds():
    toy, again = Toy(5), Toy(5)
    (at_once,) = expand_in_rounds(Counted(toy), whole(toy), GOAL, 3)
    boxes, closed = whole(again), []
    for _ in range(3):
        found = again.expand([box for box in boxes if not box.is_ready], GOAL)
        closed += [box for one in found for box in one.closed]
        boxes = [box for box in boxes if box.is_ready] + [box for one in found for box in one.open]
    assert sorted(at_once.closed, key=str) == sorted(closed, key=str)
    assert sorted(at_once.open, key=str) == sorted(boxes, key=str)


def test_cut_it_gives_what_the_rounds_before_found():
    toy = Toy(4)
    evaluator = Counted(toy, most_calls=2)
    (found,) = expand_in_rounds(evaluator, whole(toy), NO_GOAL, 5)
    check_cover(toy, [*found.closed, *found.open])
    with pytest.raises(StoppedError):
        expand_in_rounds(evaluator, whole(toy), NO_GOAL, 5)


def test_rounds_are_for_many_workers_with_few_boxes():
    assert num_rounds(1, FEW_WORKERS) == 1
    assert num_rounds(64 * BOXES_EACH, 64) == 1
    assert num_rounds(64 * BOXES_EACH // 2, 64) == 2
    assert num_rounds(1, 64) == MOST_ROUNDS
