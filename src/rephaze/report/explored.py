"""The designs of a run and what is known of each, and chips from outside its space.

Axis letters: c = chip (design).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rephaze.types.chip import ChipTable, FloatColumn
from rephaze.types.run_record import NOT_REMOVED, BoundTable
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
    """Designs that a bound dropped, at that bound, best bound first."""
    found = [(item.design, item.bound) for item in explored.evaluations if not item.is_exact]
    return _by_bound(found + _unsolved(explored, is_open=False))


def open_designs(explored: ExploredDesigns) -> list[tuple[int, float]]:
    """Designs that a search which was stopped left open, at their bound, best bound first."""
    return _by_bound(_unsolved(explored, is_open=True))


def _unsolved(explored: ExploredDesigns, *, is_open: bool) -> list[tuple[int, float]]:
    """Designs with a recorded bound that were never taken up: those no bound removed, or the others."""
    evaluated = {item.design for item in explored.evaluations}
    if explored.bounds is None:
        return []
    table = explored.bounds
    rows = zip(table.design_c.tolist(), table.bound_c.tolist(), table.removed_by_c.tolist(), strict=True)
    return [
        (design, bound)
        for design, bound, removed_by in rows
        if design not in evaluated and (removed_by == NOT_REMOVED) is is_open
    ]


def _by_bound(found: list[tuple[int, float]]) -> list[tuple[int, float]]:
    shown = [(design, bound) for design, bound in found if 0.0 < bound < math.inf]
    return sorted(shown, key=lambda item: (-item[1], item[0]))
