"""What holds back a winner whose system was part of the search: limits, budgets, ends of lists."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np

from rephaze.hardware.grid import AREA_LIMIT, BUDGETS, LIMITS, POWER_LIMIT, Boxes
from rephaze.hardware.space_terms import space_area, space_budget_use, space_power_w
from rephaze.hardware.system_grid import SystemGrid
from rephaze.types.boxes import Position
from rephaze.types.chip import chip_table
from rephaze.types.space import FIELDS
from rephaze.types.system import SystemSpace

AT_END, FREE = "at the end of the space", "would fit"


def system_binding(systems: SystemSpace, grid: SystemGrid, design: int, is_proven: bool) -> str:
    """How much of each limit a design takes, and for every field what keeps it from growing.

    Args:
        systems: Of the search.
        grid: Of its designs.
        design: The winner.
        is_proven: Nothing is better: only then is it known that more does not pay.
    """
    position, space = grid.position_of(design), grid.space_of(design)
    chips = chip_table([grid.chip(design)])
    used = {AREA_LIMIT: float(space_area(chips, space).total_um2_c[0]) / space.area_limit_um2}
    if math.isfinite(space.power_limit_w):
        used[POWER_LIMIT] = float(space_power_w(chips, space)[0]) / space.power_limit_w
    use = space_budget_use(chips, space)
    assert space.system is not None
    budget = space.system.budget
    limited = {"silicon": budget.silicon_mm2, "power": budget.power_w, "usd": budget.cost_usd}
    if use is not None:
        for resource, limit in limited.items():
            if math.isfinite(limit):
                used[BUDGETS[resource]] = float(getattr(use, f"{resource}_fraction_c")[0])
    held: dict[str, list[str]] = {}
    for name, larger in (_larger_chips(grid, position) | _larger_systems(systems, position)).items():
        held.setdefault(AT_END if larger is None else _held_by(grid, larger), []).append(name)
    parts = [", ".join(f"{part:.1%} of the {limit} used" for limit, part in used.items())]
    parts += [f"more of {', '.join(own)} breaks the {limit}" for limit, own in held.items() if limit in LIMITS]
    if AT_END in held:
        parts.append(f"{', '.join(held[AT_END])} {AT_END}")
    if FREE in held:
        whether = "does not pay" if is_proven else "was not ruled out"
        parts.append(f"more of {', '.join(held[FREE])} {FREE} and {whether}")
    return "; ".join(parts)


def _held_by(grid: SystemGrid, position: Position) -> str:
    """The limit that a design breaks, or that it breaks none."""
    at_cf = np.array([position], dtype=np.int64)
    closed_by = int(grid.corners(Boxes(at_cf, at_cf)).closed_by_b[0])
    return FREE if closed_by < 0 else LIMITS[closed_by]


def _larger_chips(grid: SystemGrid, position: Position) -> dict[str, Position | None]:
    """By field of a chip, the same design with the next larger value; None if there is none."""
    found: dict[str, Position | None] = {}
    for f, name in enumerate(FIELDS, start=1):
        values = grid.values[f]
        if name == "vector_lanes" and grid.grids[0].space.vector_lanes is None:
            continue
        # Array sides of another kind come last in the grid.
        larger = [(int(value), at) for at, value in enumerate(values) if value > values[position[f]]]
        found[name] = (*position[:f], min(larger)[1], *position[f + 1 :]) if larger else None
    return found


def _larger_systems(systems: SystemSpace, position: Position) -> dict[str, Position | None]:
    """By field of the system with several values, the same chip with the next of them."""
    choices = systems.choices()
    numbers = {choice: number for number, choice in enumerate(choices)}
    own = choices[position[0]]
    found: dict[str, Position | None] = {}
    for field in fields(systems):
        values = getattr(systems, field.name)
        if len(values) < 2:
            continue
        # Stacks are listed from the slowest and smallest; numbers may stand in any order.
        ordered = values if field.name == "hbm" else tuple(sorted(values))
        at = ordered.index(getattr(own, field.name)) + 1
        if at == len(ordered):
            found[field.name] = None
        else:
            found[field.name] = (numbers[replace(own, **{field.name: ordered[at]})], *position[1:])
    return found
