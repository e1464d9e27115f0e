"""The engine over boxes on toy problems: any function of a grid, bounds as loose as one likes."""

import itertools
import math
import random
from dataclasses import dataclass, replace

import numpy as np
import pytest

from rephaze.measure.best_plan import STAGE_NAMES
from rephaze.search import box_waves
from rephaze.search.box_engine import BoxState, run_boxes
from rephaze.types.boxes import SOLVED, ClosedBox, Expansion, OpenBox
from rephaze.types.search import Evaluation, Unsettled
from rephaze.types.stopping import StoppedError

LOOSE = "a loose bound"
DROPPED = "dropped meanwhile"


@dataclass
class Toy:
    """Values on a grid, areas that grow along it; ties are many."""

    seed: int
    shape: tuple[int, ...] = (4, 5, 3)
    looseness: float = 0.3
    cut_after: float = math.inf
    """Calls after which nobody waits for an answer."""

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        self.values = rng.integers(0, 12, self.shape).astype(float)
        self.num_calls = 0

    def area_of(self, design):
        return float(sum(np.unravel_index(design, self.shape)))

    def design_at(self, position):
        return int(np.ravel_multi_index(position, self.shape))

    def rank(self, item):
        return (-item.objective, self.area_of(item.design), float(item.design))

    @property
    def best(self):
        order = [(-value, self.area_of(d), d) for d, value in enumerate(self.values.ravel().tolist()) if value > 0]
        return min(order, default=(0.0, 0.0, None))

    def inside(self, box):
        return self.values[tuple(slice(low, high + 1) for low, high in zip(box.first, box.last, strict=True))]

    def upper(self, box):
        """Above everything inside, by a part that depends on the box alone."""
        rng = random.Random(hash((box.first, box.last)))
        return float(self.inside(box).max()) * (1 + self.looseness * rng.random())

    def state(self, **fields):
        state = BoxState(rank=self.rank, area_of=self.area_of, **fields)
        last = tuple(size - 1 for size in self.shape)
        state.push(OpenBox(first=(0,) * len(self.shape), last=last, upper=math.inf, bounded_by="", times=()))
        return state

    def _count(self):
        self.num_calls += 1
        if self.num_calls > self.cut_after:
            raise StoppedError

    def expand(self, pieces, goal):
        for piece in pieces:
            self._count()
            yield [self._expanded(box, goal) for box in piece]

    def _expanded(self, box, goal):
        upper = min(box.upper, self.upper(box))
        if upper <= 0 or upper < goal.threshold:
            return Expansion(closed=(closed(box, upper, LOOSE),), open=())
        box = replace(box, upper=upper, bounded_by=LOOSE)
        if box.num_points == 1:
            return Expansion(closed=(), open=(replace(box, is_ready=True),))
        f = max(range(len(box.first)), key=lambda f: box.last[f] - box.first[f])
        middle = (box.first[f] + box.last[f]) // 2
        low = replace(box, last=changed(box.last, f, middle))
        return Expansion(closed=(), open=(low, replace(box, first=changed(box.first, f, middle + 1))))

    def solve(self, boxes, goal):
        for box in boxes:
            self._count()
            value, design = float(self.values[box.first]), self.design_at(box.first)
            if value < goal.cutoff:
                yield evaluation(design, -math.inf, bound=value, dropped_by=DROPPED, is_exact=False)
            else:
                yield evaluation(design, value or -math.inf, bound=value)


def evaluation(design, objective, *, bound, dropped_by="", is_exact=True):
    return Evaluation(
        design=design, is_exact=is_exact, objective=objective, bound=bound, plans=(), dropped_by=dropped_by
    )


def closed(box, bound, by):
    return ClosedBox(first=box.first, last=box.last, bound=bound, closed_by=by)


def changed(position, f, at):
    return (*position[:f], at, *position[f + 1 :])


def run(toy, state, **how):
    return run_boxes(state, toy.expand, toy.solve, design_at=toy.design_at, **how)


def check_cover(toy, boxes):
    count = np.zeros(toy.shape, dtype=int)
    for box in boxes:
        count[tuple(slice(low, high + 1) for low, high in zip(box.first, box.last, strict=True))] += 1
    assert (count == 1).all()


@pytest.fixture(params=[(1, 1), (2, 3), (128, 8)], ids=str)
def sizes(request, monkeypatch):
    """Waves and batches, from one box at a time to all at once."""
    monkeypatch.setattr(box_waves, "LEAST_WAVE", request.param[0])
    monkeypatch.setattr(box_waves, "LEAST_BATCH", request.param[1])


@pytest.mark.parametrize("seed", range(20))
def test_the_answer_is_the_best_of_all_and_of_those_the_smallest(seed, sizes):
    toy = Toy(seed, looseness=(0.0, 0.1, 2.0)[seed % 3])
    state = toy.state()
    assert run(toy, state)
    objective, _, design = toy.best
    assert (state.incumbent.design, state.objective, state.bound) == (design, -objective, -objective)
    boxes = state.take_fresh()
    check_cover(toy, boxes)
    for box in boxes:
        assert toy.inside(box).max() <= box.bound
        assert box.closed_by == SOLVED or box.bound < state.objective
    assert state.open_boxes() == []


def test_a_grid_without_a_design_that_is_worth_anything():
    toy = Toy(0)
    toy.values[:] = 0.0
    state = toy.state()
    assert run(toy, state)
    assert state.incumbent is None
    check_cover(toy, state.take_fresh())


@pytest.mark.parametrize("seed", range(6))
def test_stopped_anywhere_the_boxes_still_cover_and_the_bound_holds(seed, sizes):
    whole = Toy(seed)
    run(whole, whole.state())
    for cut_after in range(whole.num_calls):
        toy = Toy(seed, cut_after=cut_after)
        state = toy.state()
        assert not run(toy, state)
        check_cover(toy, [*state.take_fresh(), *state.open_boxes()])
        assert state.bound >= toy.values.max()


@pytest.mark.parametrize("seed", range(6))
def test_taken_up_again_the_answer_is_the_same(seed, sizes):
    whole = Toy(seed)
    run(whole, whole.state())
    for cut_after in range(0, whole.num_calls, 3):
        toy = Toy(seed, cut_after=cut_after)
        first = toy.state()
        run(toy, first)
        again = BoxState(rank=toy.rank, area_of=toy.area_of)
        again.absorb(list(first.evaluations.values()))
        for box in first.open_boxes():
            again.push(replace(box, is_ready=False))
        toy.cut_after = math.inf
        assert run(toy, again, known=list(first.evaluations.values()))
        assert again.incumbent.design == toy.best[2]
        check_cover(toy, [*first.take_fresh(), *again.take_fresh()])


@pytest.mark.parametrize("seed", range(6))
def test_whatever_lies_near_the_best_is_solved_where_it_is_asked_for(seed):
    toy = Toy(seed)
    state = toy.state(within=0.3)
    assert run(toy, state)
    floor = state.objective * 0.7
    solved = {d for d, item in state.evaluations.items() if item.is_exact and item.objective >= floor}
    assert solved == {d for d, value in enumerate(toy.values.ravel().tolist()) if value >= floor}


def test_designs_put_aside_are_solved_first_and_belong_to_no_box():
    toy = Toy(3)
    state = toy.state()
    best = np.unravel_index(toy.best[2], toy.shape)
    at = tuple(int(one) for one in best)
    state.aside = [OpenBox(first=at, last=at, upper=math.inf, bounded_by="", times=(), is_ready=True)]
    assert run(toy, state)
    assert next(iter(state.evaluations)) == toy.best[2]
    check_cover(toy, state.take_fresh())


def test_a_climb_ends_and_changes_no_answer():
    toy = Toy(5)
    asked = itertools.count()

    def near(answer):
        next(asked)
        at = np.array(np.unravel_index(answer.design, toy.shape))
        steps = [np.clip(at + step, 0, np.array(toy.shape) - 1) for step in np.eye(3, dtype=int)]
        return [
            OpenBox(first=tuple(one.tolist()), last=tuple(one.tolist()), upper=99.0, bounded_by="", times=())
            for one in steps
        ]

    state = toy.state()
    assert run(toy, state, better_than=near)
    assert state.incumbent.design == toy.best[2]
    check_cover(toy, state.take_fresh())
    assert next(asked) < toy.values.size


def test_a_design_dropped_while_being_solved_is_not_called_solved():
    assert SOLVED not in STAGE_NAMES
    toy = Toy(1, looseness=2.0)
    state = toy.state()
    run(toy, state)
    by = {box.closed_by for box in state.take_fresh() if box.first == box.last}
    dropped = [item for item in state.evaluations.values() if not item.is_exact]
    assert dropped, "nothing was dropped: the test shows nothing"
    assert DROPPED in by
    assert {SOLVED, DROPPED, LOOSE} >= by


def test_unsettled_designs_stay_open():
    toy = Toy(2)
    state = toy.state()

    def solve(boxes, _goal):
        return [Unsettled(design=toy.design_at(box.first), bound=box.upper) for box in boxes]

    assert not run_boxes(state, toy.expand, solve, design_at=toy.design_at)
    check_cover(toy, [*state.take_fresh(), *state.open_boxes()])


def test_stopped_as_the_last_box_closes_the_search_is_complete():
    toy = Toy(3)
    state = toy.state()
    assert run(toy, state, should_stop=lambda: not state.open_boxes())
    assert not state.open_boxes()
    assert state.objective == toy.values.max()


class InHalves(Toy):
    """Cuts the second half of a wave, one way or the other."""

    raises = False

    def expand(self, pieces, goal):
        answers = list(super().expand(pieces, goal))
        if len(answers) < 2:
            yield from answers
            return
        self.cut = len(answers)
        for at, answer in enumerate(answers):
            if self.raises and at >= len(answers) // 2:
                raise StoppedError
            yield answer if at < len(answers) // 2 else None


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_what_was_expanded_of_a_wave_that_was_cut_is_kept(seed, raises, monkeypatch):
    monkeypatch.setattr(box_waves, "PIECE_BOXES", 1)
    toy, again = InHalves(seed), Toy(seed)
    toy.raises = raises
    state = toy.state()
    before = []
    assert not run(toy, state, on_wave=lambda _solved: before.append(state.progress().num_open))
    assert toy.cut > 1, "a wave of one piece shows nothing"
    check_cover(toy, [*state.take_fresh(), *state.open_boxes()])
    # Half of the boxes of the last wave were split in two, or closed.
    assert len(state.open_boxes()) + state.num_closed > toy.cut
    assert run(again, state)
    assert state.objective == toy.values.max()


@pytest.mark.parametrize("seed", range(5))
def test_after_every_piece_what_is_open_and_closed_covers_all_and_the_bound_holds(seed, monkeypatch):
    monkeypatch.setattr(box_waves, "PIECE_BOXES", 2)
    toy = Toy(seed, looseness=2.0)
    state = toy.state()
    closed, num_in_hand = [], []

    def note(_solved):
        closed.extend(state.take_fresh())
        num_in_hand.append(len(state.in_hand))
        check_cover(toy, [*closed, *state.open_boxes()])
        assert state.bound >= toy.values.max()

    assert run(toy, state, on_wave=note)
    assert max(num_in_hand) > 2, "no wave had several pieces: the test shows nothing"


@pytest.mark.parametrize("seed", range(5))
def test_what_is_being_looked_at_counts_in_the_bound(seed, sizes):
    toy = Toy(seed, looseness=2.0)
    state = toy.state()
    best = toy.values.max()

    def expand(pieces, goal):
        assert state.bound >= max(box.upper for piece in pieces for box in piece)
        for found in toy.expand(pieces, goal):
            assert state.bound >= best
            yield found

    def solve(boxes, goal):
        assert state.bound >= best
        return list(toy.solve(boxes, goal))

    assert run_boxes(state, expand, solve, design_at=toy.design_at)
    assert state.bound == best


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("margins", [(0.3, 0.1, 0.0), (0.05, 0.0)])
def test_below_margins_first_the_answer_is_the_same(seed, margins):
    toy = Toy(seed)
    plain, state = toy.state(), toy.state(margins=margins)
    assert run(toy, plain)
    assert run(toy, state)
    assert state.at_margin == len(margins) - 1
    best = toy.best[2]
    assert best == (None if state.incumbent is None else state.incumbent.design)
    assert plain.incumbent == state.incumbent
    check_cover(toy, state.take_fresh())
    assert not state.open_boxes()


@pytest.mark.parametrize("seed", range(20))
def test_cut_below_a_margin_what_is_open_is_no_more_than_the_margin_above_the_answer(seed):
    """As soon as the next margin is taken up, the gap is no more than the one before."""
    toy, gaps = Toy(seed, looseness=0.6), {}
    state = toy.state(margins=(0.4, 0.15, 0.0))

    def note(_solved):
        # Solved designs count with what they are worth: nothing is unproven here.
        if state.incumbent is not None:
            gaps.setdefault(state.at_margin, state.bound / state.objective - 1)

    assert run(toy, state, on_wave=note)
    for at, margin in ((1, 0.4), (2, 0.15)):
        assert gaps.get(at, 0.0) <= margin * (1 + 1e-9)


def test_below_margins_a_grid_without_a_plan_is_closed_whole():
    toy = Toy(0, cut_after=1000)
    toy.values[:] = 0.0
    state = toy.state(margins=(0.3, 0.0))
    assert run(toy, state), "ends"
    assert state.incumbent is None
    check_cover(toy, state.take_fresh())


class AtGoal(Toy):
    """Tells of boxes that are closed only that they do not reach the goal, as plans do."""

    def _expanded(self, box, goal):
        found = super()._expanded(box, goal)
        told = tuple(replace(one, bound=max(one.bound, goal.threshold)) for one in found.closed if one.bound > 0)
        return replace(found, closed=(*told, *(one for one in found.closed if one.bound <= 0)))


@pytest.mark.parametrize("seed", range(10))
def test_what_was_brought_just_to_a_margin_is_not_brought_there_again(seed):
    toy, plain = AtGoal(seed), AtGoal(seed)
    state = toy.state(margins=(0.3, 0.1, 0.0))
    assert run(plain, plain.state())
    toy.cut_after = 20 * plain.num_calls
    assert run(toy, state), "ends"
    assert (None if state.incumbent is None else state.incumbent.design) == toy.best[2]


@pytest.mark.parametrize("cut_after", range(1, 30, 3))
def test_stopped_within_a_margin_nothing_is_lost(cut_after):
    toy = Toy(7, cut_after=cut_after)
    state = toy.state(margins=(0.2, 0.0))
    is_complete = run(toy, state)
    boxes = [*state.take_fresh(), *state.open_boxes()]
    check_cover(toy, boxes)
    assert state.bound >= toy.values.max() or is_complete
