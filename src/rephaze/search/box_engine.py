"""Best-first branch and bound over boxes of designs: no design is looked at that a box around it settles.

A wave takes the open boxes with the best bounds and has each expanded (``box_evaluator``): cut, closed or split.
Designs that no bound drops are solved, best bound first, as soon as there are some: every bound is cheaper to ask
for with a better answer to hold it against. Waves and their pieces are sized by the search's own state
(``box_waves``), never by who works: runs repeat on any machine, box by box. What becomes of a piece is taken in as
soon as it and those before it are back.

Where a look at a box is dear, all boxes are first brought below the answer and a *margin*, then below the answer:
a small gap is so proven long before the rest is, and what lies in the margin is not looked at before.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rephaze.search.box_waves import batch_size, box_pieces, wave_size
from rephaze.search.engine import RELATIVE_SLACK
from rephaze.types.boxes import NO_GOAL, NO_PLAN, SOLVED, ClosedBox, Expansion, Goal, OpenBox, Position, UnitTimes
from rephaze.types.search import Evaluation, Unsettled
from rephaze.types.stopping import StoppedError

Expand = Callable[[Sequence[Sequence[OpenBox]], Goal], Iterator[Sequence[Expansion] | None]]
"""Pieces of open boxes in, what became of the boxes of each out, in the same order; None for a piece that was cut,
or ``StoppedError`` for all that are left."""
Solve = Callable[[Sequence[OpenBox], Goal], Iterable[Evaluation | Unsettled]]
"""Boxes of one design each in, one answer each out, in the same order."""
BetterThan = Callable[[Evaluation], Sequence[OpenBox]]
"""An answer in, designs near it that are likely to be better out."""
Rank = Callable[[Evaluation], tuple[float, ...]]
"""Smaller is better."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BoxProgress:
    """Where a search stands."""

    incumbent: Evaluation | None
    bound: float
    """No design does better than this."""
    num_open: int
    """Boxes whose bound still beats the answer."""
    num_closed: int
    num_evaluated: int


@dataclass(eq=False, kw_only=True, slots=True)
class BoxState:
    """A search over boxes: the answer, what is open, and what was closed or solved since it was last asked for."""

    rank: Rank
    area_of: Callable[[int], float]
    within: float = 0.0
    """Designs that lie within this part of the best are solved too."""
    margins: tuple[float, ...] = (0.0,)
    """Parts of the answer above it that boxes are brought below, one after the other; the last is none."""
    at_margin: int = 0
    """The one that boxes are brought below now."""
    incumbent: Evaluation | None = None
    evaluations: dict[int, Evaluation] = field(default_factory=dict)
    heap: list[tuple[float, int, OpenBox]] = field(default_factory=list)
    ready: list[tuple[float, int, OpenBox]] = field(default_factory=list)
    aside: list[OpenBox] = field(default_factory=list)
    """Designs to be solved before anything else, beside the cover."""
    num_pushed: int = 0
    num_closed: int = 0
    unproven_bound: float = -np.inf
    """Of designs solved, but whose schedules were not all proven: they may be this good."""
    in_hand: list[OpenBox] = field(default_factory=list)
    """Boxes that are being looked at."""
    fresh: list[ClosedBox] = field(default_factory=list)
    """Closed since ``take_fresh``."""

    @property
    def objective(self) -> float:
        """Of the answer."""
        return -np.inf if self.incumbent is None else self.incumbent.objective

    @property
    def goal(self) -> Goal:
        """What designs must reach to matter."""
        if self.incumbent is None:
            return NO_GOAL
        cutoff = self.objective * (1 - self.within)
        threshold = cutoff * (1 - RELATIVE_SLACK)
        if self.within:  # what ties is to be counted
            return Goal(threshold=threshold, objective=-np.inf, area_um2=np.inf, cutoff=cutoff)
        area_um2 = self.area_of(self.incumbent.design)
        return Goal(threshold=threshold, objective=self.objective, area_um2=area_um2, cutoff=cutoff)

    @property
    def next_goal(self) -> Goal:
        """What boxes must reach to be looked at now: the goal, and a margin above it."""
        goal, margin = self.goal, self.margins[self.at_margin]
        if not margin or not goal.has_answer:
            return goal
        above = 1 + margin
        return replace(
            goal, threshold=goal.threshold * above, cutoff=goal.cutoff * above, later_threshold=goal.threshold
        )

    @property
    def has_margins(self) -> bool:
        """Whether a look at a box is dear."""
        return len(self.margins) > 1

    @property
    def bound(self) -> float:
        """No design does better than this."""
        ahead = [-queue[0][0] for queue in (self.heap, self.ready) if queue]
        return max([self.objective, self.unproven_bound, *(box.upper for box in self.in_hand), *ahead])

    def push(self, box: OpenBox) -> None:
        """Keep a box open."""
        self.num_pushed += 1
        heapq.heappush(self.ready if box.is_ready else self.heap, (-box.upper, self.num_pushed, box))

    def close(self, boxes: Iterable[ClosedBox]) -> None:
        """Take closed boxes."""
        before = len(self.fresh)
        self.fresh.extend(boxes)
        self.num_closed += len(self.fresh) - before

    def take(self, queue: list[tuple[float, int, OpenBox]], size: int) -> list[OpenBox]:
        """The best boxes of a queue that reach the next goal; the others are closed if they cannot matter."""
        threshold, asked = self.goal.threshold, self.next_goal.threshold
        # What was brought below a margin may be just as good as that: it is not to be brought there again.
        asked = np.nextafter(asked, np.inf) if self.margins[self.at_margin] else asked
        found: list[OpenBox] = []
        while queue and len(found) < size and -queue[0][0] >= asked:
            found.append(heapq.heappop(queue)[2])
        if queue and -queue[0][0] < threshold:
            self.close(_by_own_bound(box) for _, _, box in queue)
            queue.clear()
        return found

    def keep(self, closed: Iterable[ClosedBox], times: tuple[UnitTimes, ...], *, is_ready: bool = False) -> None:
        """Close boxes, but for those that only fell below the margin: they stay open with what is known of them.

        Args:
            closed: The boxes.
            times: Of units in a box around them.
            is_ready: They are single designs to be solved.
        """
        # Without an answer only what holds no design with a plan is closed.
        is_for_good = not self.margins[self.at_margin] or not self.goal.has_answer
        threshold = np.inf if is_for_good else self.goal.threshold
        for box in closed:
            if box.closed_by in (SOLVED, NO_PLAN) or box.bound < threshold:
                self.close([box])
                continue
            self.push(
                OpenBox(
                    first=box.first,
                    last=box.last,
                    upper=box.bound,
                    bounded_by=box.closed_by,
                    times=times,
                    is_ready=is_ready,
                )
            )

    def absorb(self, solved: Sequence[Evaluation]) -> bool:
        """Take answers; whether one is better than all before."""
        before = self.incumbent
        for item in solved:
            self.evaluations[item.design] = item
            if not item.is_exact:
                continue
            self.unproven_bound = max(self.unproven_bound, item.bound)
            if item.objective > 0 and (self.incumbent is None or self.rank(item) < self.rank(self.incumbent)):
                self.incumbent = item
        return self.incumbent is not before

    def take_fresh(self) -> list[ClosedBox]:
        """Boxes closed since this was last called."""
        found, self.fresh = self.fresh, []
        return found

    def open_boxes(self) -> list[OpenBox]:
        """All that is open, in no particular order."""
        return [*self.in_hand, *(box for queue in (self.heap, self.ready) for _, _, box in queue)]

    def put_back(self) -> None:
        """Keep open what is in hand."""
        for box in self.in_hand:
            self.push(box)
        self.in_hand = []

    def progress(self) -> BoxProgress:
        """Where the search stands."""
        return BoxProgress(
            incumbent=self.incumbent,
            bound=self.bound,
            num_open=len(self.heap) + len(self.ready) + len(self.in_hand),
            num_closed=self.num_closed,
            num_evaluated=len(self.evaluations),
        )


def run_boxes(
    state: BoxState,
    expand: Expand,
    solve: Solve,
    *,
    design_at: Callable[[Position], int],
    better_than: BetterThan = lambda _answer: (),
    known: Iterable[Evaluation] = (),
    on_wave: Callable[[Sequence[Evaluation]], None] = lambda _solved: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Search until no open box may hold a better design; whether it came to that.

    Args:
        state: With the boxes that cover the space, and changed.
        expand: Cuts, closes or splits boxes.
        solve: Solves designs, or drops them when a bound falls below the goal.
        design_at: The number of the design at a position.
        better_than: Designs to be looked at before others when there is a new answer; they belong to no cover.
        known: Evaluations of an earlier, interrupted run; used instead of solving again.
        on_wave: Called after each piece of a wave, and with what was solved, for the store and what is shown.
        should_stop: Asked between waves; True ends the search with the answer and an honest bound. So does work
            that was cut.
    """
    remembered = {item.design: item for item in known}
    run = _Run(state, expand, solve, design_at, better_than, remembered, on_wave)
    try:
        run.solve_aside()
        while not should_stop():
            if run.solve_ready(batch_size(len(state.ready))):
                continue
            wave = state.take(state.heap, wave_size(len(state.heap), is_dear=state.has_margins))
            if wave:
                run.expand(wave)
            elif state.at_margin + 1 < len(state.margins):
                state.at_margin += 1
            else:
                return not state.ready
    except StoppedError:
        pass
    # Stopped just as the last box was closed, nothing is left to settle.
    return not (state.heap or state.ready)


class _Run:
    def __init__(
        self,
        state: BoxState,
        expand: Expand,
        solve: Solve,
        design_at: Callable[[Position], int],
        better_than: BetterThan,
        remembered: dict[int, Evaluation],
        on_wave: Callable[[Sequence[Evaluation]], None],
    ) -> None:
        self.state, self._expand, self._solve, self._better_than = state, expand, solve, better_than
        self._design_at, self._remembered, self._on_wave = design_at, remembered, on_wave

    def expand(self, wave: Sequence[OpenBox]) -> None:
        """Expand boxes, and take in what became of them piece by piece."""
        state, goal, is_cut = self.state, self.state.next_goal, False
        pieces = box_pieces(wave, is_dear=state.has_margins)
        state.in_hand = list(wave)
        try:
            answers = self._expand(pieces, goal)
            for number, (piece, answer) in enumerate(zip(pieces, answers, strict=True), start=1):
                state.in_hand = [box for later in pieces[number:] for box in later]
                is_cut |= answer is None
                for box, one in zip(piece, [None] * len(piece) if answer is None else answer, strict=True):
                    state.keep(() if one is None else one.closed, box.times)
                    for left in (box,) if one is None else one.open:
                        state.push(left)
                self._on_wave(())
        finally:
            state.put_back()
        if is_cut:
            raise StoppedError

    def solve_aside(self) -> None:
        """Solve what was put aside."""
        if self.state.aside:
            self._answer(self.state.aside, is_covered=False)
        self.state.aside = []
        self._climb()

    def solve_ready(self, most: int) -> bool:
        """Solve the best designs at hand; whether there were any."""
        batch = self.state.take(self.state.ready, most)
        if not batch:
            return False
        if self._answer(batch):
            self._climb()
        return True

    def _climb(self) -> None:
        """Look around a new answer for a better one, as long as there is one."""
        while self.state.incumbent is not None:
            near = self._better_than(self.state.incumbent)
            if not near or not self._answer(near, is_covered=False):
                return

    def _answer(self, batch: Sequence[OpenBox], *, is_covered: bool = True) -> bool:
        """Solve designs and take the answers; whether one is the best."""
        state = self.state
        # What is looked at beside the cover is to better the answer, by however little.
        goal = state.next_goal if is_covered else state.goal
        state.in_hand = list(batch) if is_covered else []
        try:
            answers = self._known_or_solved(batch, goal)
        except BaseException:
            # Workers nobody waits for: what they were asked stays open.
            state.put_back()
            raise
        state.in_hand = []
        solved = [item for item in answers if isinstance(item, Evaluation)]
        is_better = state.absorb(solved)
        for box, item in zip(batch, answers, strict=True):
            if is_covered and isinstance(item, Evaluation):
                by = (SOLVED if item.objective > 0 else NO_PLAN) if item.is_exact else item.dropped_by
                closed = ClosedBox(first=box.first, last=box.last, bound=max(item.bound, 0.0), closed_by=by)
                state.keep([closed], box.times, is_ready=True)
            elif is_covered:
                state.push(box)
        self._on_wave(solved)
        if len(solved) < len(batch):
            raise StoppedError
        return is_better

    def _known_or_solved(self, batch: Sequence[OpenBox], goal: Goal) -> list[Evaluation | Unsettled]:
        """Answers for the batch: remembered ones where they still decide, fresh ones for the rest."""
        known = self._remembered | self.state.evaluations

        def still_decides(box: OpenBox) -> bool:
            item = known.get(self._design_at(box.first))
            return item is not None and (item.is_exact or item.bound < goal.threshold)

        todo = [box for box in batch if not still_decides(box)]
        fresh = {item.design: item for item in self._solve(todo, goal)} if todo else {}
        numbers = [self._design_at(box.first) for box in batch]
        return [fresh[number] if number in fresh else known[number] for number in numbers]


def _by_own_bound(box: OpenBox) -> ClosedBox:
    return ClosedBox(first=box.first, last=box.last, bound=max(box.upper, 0.0), closed_by=box.bounded_by)
