"""Climbs on a grid whose values are known: they end on a peak, look at nothing twice, and need a plan to begin."""

import numpy as np
import pytest

from rephaze.hardware.grid import Boxes, DesignGrid
from rephaze.search import box_climb
from rephaze.search.box_bounds import BoxBounds
from rephaze.search.box_climb import Climb
from rephaze.types.boxes import Trial
from tests.property.box_cases import box_settings, every_position


@pytest.fixture(scope="module")
def grid():
    return DesignGrid(box_settings(5, most_points=48, space={}).scenario.space)


class Land:
    """What designs are worth, and what was asked."""

    def __init__(self, grid, worth):
        self.grid, self.worth, self.asked = grid, worth, []

    def try_designs(self, boxes, goal):
        self.asked.append([box.first for box in boxes])
        trials = [Trial(box=box, objective=self.worth(box.first)) for box in boxes]
        return [trial for trial in trials if trial.objective >= max(goal.cutoff, 1e-9)]

    def bound(self, at_cf):
        upper_b = np.array([float(sum(at)) + 1 for at in at_cf.tolist()])
        return BoxBounds(Boxes(at_cf, at_cf), at_cf, upper_b, [""] * len(at_cf), [()] * len(at_cf))


def test_a_climb_goes_on_while_there_is_a_better_neighbour_and_looks_at_none_twice(grid):
    land = Land(grid, lambda at: 1.0 + sum(at))
    found = Climb(grid, land.try_designs).from_answer((0,) * len(grid.shape), 1.0)
    best = max(every_position(grid)[grid.is_design(every_position(grid))].sum(axis=1))
    assert sum(found.first) == best
    asked = [at for one in land.asked for at in one]
    assert len(asked) == len(set(asked))


def test_where_nothing_near_is_better_there_is_nothing_to_solve(grid):
    start = (0,) * len(grid.shape)
    land = Land(grid, lambda at: 5.0 if at == start else 1.0)
    assert Climb(grid, land.try_designs).from_answer(start, 5.0) is None


def test_drawn_designs_are_tried_a_few_at_a_time_until_one_has_a_plan(grid, monkeypatch):
    monkeypatch.setattr(box_climb, "NUM_ABREAST", 2)
    monkeypatch.setattr(box_climb, "neighbours", lambda _grid, _at: np.empty((0, len(grid.shape)), dtype=np.int64))
    land = Land(grid, lambda _at: 0.0)
    climb = Climb(grid, land.try_designs)
    assert climb.from_drawn(0, land.bound) == []
    every = [at for one in land.asked for at in one]
    assert len(every) > 4
    uppers = [sum(at) for at in every]
    assert uppers == sorted(uppers, reverse=True), "the best bounds first"
    only = every[3]
    again = Land(grid, lambda at: float(at == only))
    (found,) = Climb(grid, again.try_designs).from_drawn(0, again.bound)
    assert found.first == only
    assert again.asked == [every[:2], every[2:4]]


def test_a_little_better_answer_is_not_climbed_from_again(grid):
    land = Land(grid, lambda at: 1.0 + sum(at))
    climb, start = Climb(grid, land.try_designs), (0,) * len(grid.shape)
    highest = 1.0 + sum(climb.from_answer(start, 1.0).first)
    num_asked = len(land.asked)
    assert climb.from_answer(start, highest * (1 + box_climb.LEAST_GAIN / 2)) is None
    assert len(land.asked) == num_asked
    climb.from_answer(start, highest * (1 + box_climb.LEAST_GAIN * 2))
    assert len(land.asked) > num_asked


class Bounds(Land):
    """What bounds leave of designs: the best of some, as workers tell it."""

    def try_designs(self, boxes, goal):
        trials = super().try_designs(boxes, goal)
        return sorted(trials, key=lambda trial: -trial.objective)[:1]


def test_by_bounds_a_climb_goes_on_past_designs_that_are_less_by_a_hair(grid, monkeypatch):
    """A dip of less than a hair between two peaks is crossed; without patience it is not."""
    peaks = {(0,) * len(grid.shape): 100.0}
    every = [tuple(at) for at in every_position(grid)[grid.is_design(every_position(grid))].tolist()]
    far = max(every, key=sum)

    def worth(at):
        # Falls by a hair from the start, and is the best at the far end.
        return 101.0 if at == far else peaks.get(at, 100.0 - 1e-3 * sum(at))

    land = Bounds(grid, worth)
    monkeypatch.setattr(box_climb, "BOUNDS_IN_VAIN", len(every))
    start = (0,) * len(grid.shape)
    assert Climb(grid, land.try_designs, by_bounds=True).from_answer(start, 1.0).first == far
    monkeypatch.setattr(box_climb, "BOUNDS_IN_VAIN", 0)
    assert Climb(grid, Bounds(grid, worth).try_designs, by_bounds=True).from_answer(start, 1.0) is None


def test_by_bounds_no_climb_ends_where_one_did(grid):
    land = Bounds(grid, lambda at: 1.0 + sum(at))
    climb, start = Climb(grid, land.try_designs, by_bounds=True), (0,) * len(grid.shape)
    end = climb.from_answer(start, 0.5)
    assert end is not None
    assert climb.from_answer(start, 0.6) is None
    assert climb.from_answer(end.first, 0.7) is None


def test_the_next_best_design_that_is_not_alike_is_of_use_too(grid):
    """Designs that differ by next to nothing are as good as one; what is far below the best is not asked for."""
    every = [tuple(at) for at in every_position(grid)[grid.is_design(every_position(grid))].tolist()]
    best, alike, other = sorted(every, key=lambda at: (-sum(at), at))[:3]
    worth = {best: 100.0, alike: 100.0 * (1 - box_climb.ALIKE / 2), other: 100.0 * (1 - box_climb.NEXT_BEST / 2)}

    def ends(**options):
        land = Land(grid, lambda at: worth.get(at, 1.0 + sum(at)))
        climb = Climb(grid, land.try_designs, by_bounds=True, **options)
        found = [box.first for box in climb.from_drawn(0, land.bound)]
        assert all(climb.from_answer(at, worth[at]) is None for at in found), "it came by there"
        return found

    assert ends() == [best]
    assert ends(has_next_best=True) == [best, other]
