"""Designs that baselines choose from: all of a space, or, where it is too large to list, some of it.

Baselines go through lists, as the tools they stand for do. Of a large space they get a sample, every design as
likely as any other; the paper's heuristic, which looks at the largest chips first, gets the largest of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.grid import DesignGrid
from rephaze.hardware.space import DesignCensus, census_of, within_limits
from rephaze.hardware.space_count import RuledGrid
from rephaze.hardware.template import build_chips
from rephaze.search.evaluator import Preparation, SpaceEvaluator
from rephaze.search.method import LIST_POINTS
from rephaze.types.space import DesignSpace

NUM_DRAWN = 100_000
"""Designs of a large space that baselines get."""
MOST_DRAWS = 50
"""Rounds of as many grid points, where few of them are designs."""
AREA_GROUP_UM2 = 10_000.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidates:
    """What a baseline may look at."""

    evaluator: SpaceEvaluator
    """Over these designs."""
    note: str = ""
    """What is to be said of them; empty if they are the whole space."""

    @property
    def num_designs(self) -> int:
        """How many there are."""
        return self.evaluator.census.num_designs

    def area_groups(self) -> Iterable[list[int]]:
        """Designs by falling area, those within the same 10,000 um² together."""
        return area_groups(self.evaluator.census.area_um2_c)


def is_listed(space: DesignSpace) -> bool:
    """Whether a space is small enough for baselines to have all of it."""
    return DesignGrid(space).num_points <= LIST_POINTS


def even_candidates(prepared: Preparation) -> Candidates:
    """All designs of a space, or a sample with the seed of the search, every design as likely as any other."""
    settings = prepared.settings
    if is_listed(settings.scenario.space):
        return Candidates(evaluator=SpaceEvaluator(settings, prepared=prepared))
    census = drawn_designs(settings.scenario.space, settings.seed)
    return Candidates(
        evaluator=SpaceEvaluator(settings, census=census, prepared=prepared),
        note=f"chose from a sample of {census.num_designs:,} designs",
    )


def largest_candidates(prepared: Preparation, num: int) -> Candidates:
    """All designs of a space, or its largest, at least so many and whole groups of area."""
    settings = prepared.settings
    if is_listed(settings.scenario.space):
        return Candidates(evaluator=SpaceEvaluator(settings, prepared=prepared))
    census = largest_designs(settings.scenario.space, num)
    return Candidates(evaluator=SpaceEvaluator(settings, census=census, prepared=prepared))


def drawn_designs(space: DesignSpace, seed: int) -> DesignCensus:
    """Designs drawn evenly from a grid, none twice; fewer than asked for where hardly any point is one."""
    grid, rng = DesignGrid(space), np.random.default_rng(seed)
    found = np.zeros(0, dtype=np.int64)
    for _ in range(MOST_DRAWS):
        drawn = rng.integers(0, grid.num_points, NUM_DRAWN)
        chips = grid.chips(grid.positions(drawn))
        found = np.concatenate([found, drawn[within_limits(space, chips)]])
        _, first = np.unique(found, return_index=True)
        found = found[np.sort(first)][:NUM_DRAWN]
        if len(found) == NUM_DRAWN:
            break
    return census_of(space, grid.chips(grid.positions(found)))


def largest_designs(space: DesignSpace, num: int) -> DesignCensus:
    """The largest designs, at least so many if there are, and all of the last group of area."""
    ruled = RuledGrid(space, space.constraints)
    options = space.hbm_bytes_options
    last_group, num_groups = math.floor(space.area_limit_um2 / AREA_GROUP_UM2), 1
    while True:
        low_um2 = max(0.0, (last_group - num_groups + 1) * AREA_GROUP_UM2)
        values = ruled.values_between(np.nextafter(low_um2, -1.0), space.area_limit_um2, space.power_limit_w)
        if space.vector_lanes is None:
            values = {**values, "vector_lanes": values["tensor_width"]}
        hbm_bytes = max(options) if options else None
        census = census_of(space, build_chips(**values, template=space.template, hbm_bytes=hbm_bytes))
        if census.num_designs >= num or not low_um2:
            return census
        num_groups *= 2


def area_groups(area_um2_c: NDArray[np.float64]) -> Iterable[list[int]]:
    """Positions by falling area, those within the same 10,000 um² together."""
    group_c = np.floor(area_um2_c / AREA_GROUP_UM2).astype(np.int64)
    order = np.argsort(-group_c, kind="stable")
    ends = np.flatnonzero(np.diff(group_c[order])) + 1
    return (part.tolist() for part in np.split(order, ends))
