"""Designs on their way from a bound to an answer: unit bounds are kept from refining until solving needs them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rephaze.measure.model_bounds import ModelBounds, joined_bounds
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.workers.base import Workers
from rephaze.types.search import Evaluation, Unsettled
from rephaze.types.stopping import StoppedError

Floats = NDArray[np.float64]


class BoundedDesigns:
    """What whoever goes through designs best first asks for: finer bounds, then answers.

    Args:
        evaluator: Of the search.
        workers: Of the same search.
    """

    def __init__(self, evaluator: SpaceEvaluator, workers: Workers) -> None:
        self._evaluator, self._workers = evaluator, workers
        self._bounds: dict[int, tuple[list[ModelBounds], int]] = {}
        """Where each refined design's bounds are: of which chunk, and at which place."""

    def __contains__(self, design: int) -> bool:
        """Whether the design is refined and not yet solved."""
        return design in self._bounds

    def refine(self, designs: Sequence[int]) -> Floats:
        """An upper bound of each design's objective, from its layers; ``StoppedError`` when cut."""
        found = self._workers.unit_bounds(designs)
        self._bounds |= {design: (found, position) for position, design in enumerate(designs)}
        return self._evaluator.refined(designs, found)

    def sharpen(self, designs: Sequence[int], cutoff: float) -> Floats:
        """A finer upper bound of refined designs, from mapped products; ``StoppedError`` when cut."""
        places = [self._bounds[design] for design in designs]
        blunt = [
            joined_bounds([found[model].chip(position) for found, position in places])
            for model in range(len(self._evaluator.works))
        ]
        found = self._workers.sharpened(designs, blunt, cutoff)
        self._bounds |= {design: (found, position) for position, design in enumerate(designs)}
        return self._evaluator.refined(designs, found)

    def evaluate(self, designs: Sequence[int], cutoff: float) -> Iterator[Evaluation | Unsettled]:
        """One answer a design, in order: solved, or dropped below ``cutoff``, or unsettled when cut."""
        # A design taken up again has no bounds left.
        if missing := [design for design in designs if design not in self._bounds]:
            try:
                self.refine(missing)
            except StoppedError:
                return iter([Unsettled(design=design, bound=math.inf) for design in designs])
        places = [self._bounds.pop(design) for design in designs]
        bounds = [[own.chip(position) for own in found] for found, position in places]
        return self._workers.evaluate(designs, bounds, cutoff)
