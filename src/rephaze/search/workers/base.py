"""What every kind of workers offers, and what they share: the work cut into pieces, patience with the slow.

The unit of work is a list of designs; answers are plain records in the order asked, so that a search gives the
same result with any number of workers. All are told when to stop; one that does not answer soon after is left.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Protocol

from rephaze.measure.model_bounds import ModelBounds
from rephaze.search.box_evaluator import BoxEvaluator
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.method import searches_boxes
from rephaze.search.system_evaluator import AnyBoxEvaluator, box_evaluator
from rephaze.types.boxes import Expansion, Goal, OpenBox, Trial
from rephaze.types.search import Evaluation, SearchSettings, Unsettled
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal

PIECES_PER_WORKER = 2
TRIAL_PIECES = 2
"""Of designs to be tried."""
STOP_GRACE_S = 2.0
"""What workers get to end their step once they must stop; then nobody waits for them any more."""


class Workers(Protocol):
    """Bounds and solves designs, or boxes of them."""

    def unit_bounds(self, designs: Sequence[int]) -> list[ModelBounds]:
        """As ``SpaceEvaluator.unit_bounds``."""
        ...

    def sharpened(self, designs: Sequence[int], bounds: list[ModelBounds], cutoff: float) -> list[ModelBounds]:
        """As ``SpaceEvaluator.sharpened``."""
        ...

    def evaluate(
        self, designs: Sequence[int], bounds: Sequence[list[ModelBounds]], cutoff: float
    ) -> Iterator[Evaluation | Unsettled]:
        """As ``SpaceEvaluator.evaluate``, one design after another."""
        ...

    def expand(self, pieces: Sequence[Sequence[OpenBox]], goal: Goal) -> Iterator[list[Expansion] | None]:
        """As ``BoxEvaluator.expand``, one piece after another; None for a piece that was cut."""
        ...

    def try_designs(self, boxes: Sequence[OpenBox], goal: Goal) -> list[Trial]:
        """As ``BoxEvaluator.try_designs``, a piece at a time."""
        ...

    def solve(self, boxes: Sequence[OpenBox], goal: Goal) -> Iterator[Evaluation | Unsettled]:
        """As ``BoxEvaluator.solve``, one box after another."""
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...


class InProcess:
    """Everything in this process: a list of designs, or boxes of them, as the search is."""

    def __init__(self, evaluator: SpaceEvaluator | AnyBoxEvaluator, stop: StopSignal) -> None:
        self._any, self._stop = evaluator, stop

    def make_ready(self) -> None:
        """What need not wait for a task."""
        if isinstance(self._any, BoxEvaluator):
            self._any.make_ready()

    @property
    def _evaluator(self) -> SpaceEvaluator:
        assert isinstance(self._any, SpaceEvaluator)
        return self._any

    @property
    def _boxes(self) -> AnyBoxEvaluator:
        assert not isinstance(self._any, SpaceEvaluator)
        return self._any

    def unit_bounds(self, designs: Sequence[int]) -> list[ModelBounds]:
        """As ``SpaceEvaluator.unit_bounds``."""
        return self._evaluator.unit_bounds(designs, self._stop)

    def sharpened(self, designs: Sequence[int], bounds: list[ModelBounds], cutoff: float) -> list[ModelBounds]:
        """As ``SpaceEvaluator.sharpened``."""
        return self._evaluator.sharpened(designs, bounds, cutoff, self._stop)

    def evaluate(
        self, designs: Sequence[int], bounds: Sequence[list[ModelBounds]], cutoff: float
    ) -> Iterator[Evaluation | Unsettled]:
        """One design after another."""
        for design, own in zip(designs, bounds, strict=True):
            yield self._evaluator.evaluate(design, own, cutoff, self._stop)

    def expand(self, pieces: Sequence[Sequence[OpenBox]], goal: Goal) -> Iterator[list[Expansion] | None]:
        """As ``BoxEvaluator.expand``, one piece after another; None for a piece that was cut."""
        for piece in pieces:
            try:
                yield self.expand_piece(piece, goal)
            except StoppedError:
                yield None

    def expand_piece(self, piece: Sequence[OpenBox], goal: Goal) -> list[Expansion]:
        """As ``BoxEvaluator.expand``."""
        return self._boxes.expand(piece, goal, self._stop)

    def try_designs(self, boxes: Sequence[OpenBox], goal: Goal) -> list[Trial]:
        """As ``BoxEvaluator.try_designs``, a piece at a time."""
        return [one for piece in trial_pieces(boxes) for one in self.try_piece(piece, goal)]

    def try_piece(self, piece: Sequence[OpenBox], goal: Goal) -> list[Trial]:
        """As ``BoxEvaluator.try_designs``, all together."""
        return self._boxes.try_designs(piece, goal, self._stop)

    def solve(self, boxes: Sequence[OpenBox], goal: Goal) -> Iterator[Evaluation | Unsettled]:
        """One box after another."""
        for box in boxes:
            yield self._boxes.solve(box, goal, self._stop)

    def close(self) -> None:
        """Nothing to let go."""


def make_evaluator(settings: SearchSettings, stop: StopSignal = UNSTOPPED) -> SpaceEvaluator | AnyBoxEvaluator:
    """The evaluator of a search, as it goes through its space."""
    return box_evaluator(settings, stop) if searches_boxes(settings) else SpaceEvaluator(settings, stop)


class Patience:
    """How long a driver still waits for its workers once all must stop."""

    def __init__(self, stop: StopSignal) -> None:
        self.stop = stop
        self._over_since: float | None = None

    def check(self) -> None:
        """Raise ``StoppedError`` when nobody should be waited for any more."""
        if not self.stop.is_over():
            return
        if self._over_since is None:
            self._over_since = time.monotonic()
        if time.monotonic() - self._over_since > STOP_GRACE_S:
            raise StoppedError


def trial_pieces(boxes: Sequence[OpenBox]) -> list[Sequence[OpenBox]]:
    """Designs to be tried, in pieces that do not depend on who works."""
    num_pieces = min(TRIAL_PIECES, len(boxes))
    return [boxes[start::num_pieces] for start in range(num_pieces)]


def split_designs(designs: Sequence[int], num_pieces: int) -> list[list[int]]:
    """The designs in order, in at most so many pieces of about the same size."""
    size = max(1, -(-len(designs) // num_pieces))
    return [list(designs[start : start + size]) for start in range(0, len(designs), size)]


def split_bounds(pieces: Sequence[Sequence[int]], bounds: Sequence[ModelBounds]) -> list[list[ModelBounds]]:
    """The bounds of all designs, by model, cut as the designs were: for each piece those of all models."""
    ends = list(accumulate(len(piece) for piece in pieces))
    return [
        [own.chips(slice(end - len(piece), end)) for own in bounds]
        for piece, end in zip(pieces, ends, strict=True)
    ]
