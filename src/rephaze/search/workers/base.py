"""What every kind of workers offers, and what they share: the work cut into pieces, patience with the slow.

The unit of work is a list of designs; answers are plain records in the order asked, so that a search gives the
same result with any number of workers. All are told when to stop; one that does not answer soon after is left.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Protocol

from rephaze.measure.layer_bounds import ModelBounds
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.types.search import Evaluation, Unsettled
from rephaze.types.stopping import StoppedError, StopSignal

PIECES_PER_WORKER = 2
STOP_GRACE_S = 2.0
"""What workers get to end their step once they must stop; then nobody waits for them any more."""


class Workers(Protocol):
    """Bounds and solves designs."""

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

    def close(self) -> None:
        """Let the workers go."""
        ...


class InProcess:
    """Everything in this process."""

    def __init__(self, evaluator: SpaceEvaluator, stop: StopSignal) -> None:
        self._evaluator, self._stop = evaluator, stop

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

    def close(self) -> None:
        """Nothing to let go."""


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
