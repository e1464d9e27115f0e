"""The designs of a run and what is known of each, and chips from outside its space.

Axis letters: c = chip (design).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rephaze.types.chip import ChipTable, FloatColumn
from rephaze.types.run_record import BoundTable
from rephaze.types.search import Evaluation

MAX_DROPPED = 4000
"""Dropped designs drawn, best bounds first: more would be one grey cloud and a slow page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkedChip:
    """A chip from outside the space, priced as its designs are."""

    name: str
    area_um2: float
    objective: float
    """Zero if some model has no plan on it."""
    bound: float
    """What its own plans might reach, had every schedule been proven."""
    reason: str = ""
    """Why a model has no plan."""


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class ExploredDesigns:
    """The space and what is known of its designs."""

    chips: ChipTable
    area_um2_c: FloatColumn
    area_limit_um2: float
    evaluations: Sequence[Evaluation]
    bounds: BoundTable | None = None
    """Of the objective over all models, if they were recorded."""


def dropped_designs(explored: ExploredDesigns) -> list[tuple[int, float]]:
    """Designs not solved exactly that have a recorded bound, best bound first."""
    evaluated = {item.design for item in explored.evaluations}
    found = [(item.design, item.bound) for item in explored.evaluations if not item.is_exact]
    if explored.bounds is not None:
        pairs = zip(explored.bounds.design_c.tolist(), explored.bounds.bound_c.tolist(), strict=True)
        found += [(design, bound) for design, bound in pairs if design not in evaluated]
    shown = [(design, bound) for design, bound in found if 0.0 < bound < math.inf]
    return sorted(shown, key=lambda item: (-item[1], item[0]))
