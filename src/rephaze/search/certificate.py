"""The proof in numbers: where every design of a space went, and what holds the winner back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.area import chip_area
from rephaze.hardware.grid import FIELDS
from rephaze.hardware.space import enumerate_designs, within_limits
from rephaze.hardware.template import build_chips
from rephaze.measure.best_plan import STAGE_NAMES
from rephaze.search.engine import RELATIVE_SLACK, EngineOutcome
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.method import searches_boxes
from rephaze.search.scope import designs_scope, plans_scope
from rephaze.search.systems import grid_of
from rephaze.types.chip import Chip, ChipTable
from rephaze.types.run_record import NOT_REMOVED, BoundTable
from rephaze.types.search import Certificate, Evaluation, SearchSettings
from rephaze.types.space import DesignSpace

Floats = NDArray[np.float64]

DEVICE_TIME = "device time"
LAYER_BOUNDS = STAGE_NAMES[0]
RETIRED = "plans on layer bounds"
"""What recorded runs of earlier versions may name."""
BOUNDS = (DEVICE_TIME, LAYER_BOUNDS, RETIRED, *STAGE_NAMES[1:])
"""Coarse to fine."""
WITHIN = {"0.1 %": 0.001, "1 %": 0.01, "5 %": 0.05}


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class Account:
    """Where every design went, each in one place. Axis letter: d = design."""

    is_solved_d: NDArray[np.bool_]
    is_infeasible_d: NDArray[np.bool_]
    removed_by_d: NDArray[np.int16]
    """Position in ``BOUNDS`` of the bound that dropped it, or ``NOT_REMOVED``."""

    @property
    def is_open_d(self) -> NDArray[np.bool_]:
        """Designs that may still be better than the answer."""
        open_d: NDArray[np.bool_] = ~self.is_solved_d & ~self.is_infeasible_d & (self.removed_by_d == NOT_REMOVED)
        return open_d

    def num_dropped(self) -> dict[str, int]:
        """Designs each bound dropped, coarse to fine; finer ones only where they dropped any."""
        counts = {name: int((self.removed_by_d == position).sum()) for position, name in enumerate(BOUNDS)}
        return {name: count for name, count in counts.items() if count or name in (DEVICE_TIME, LAYER_BOUNDS)}


def account(
    coarse_d: Floats, refined: Mapping[int, float], evaluations: Mapping[int, Evaluation], threshold: float
) -> Account:
    """Every design by what is recorded of it and the final answer alone, so that it can be derived again.

    A design that was taken up to be solved counts by what came out. Any other is dropped by the coarsest of its
    bounds that is below the answer, whichever bound it was that the search happened to look at first.

    Args:
        coarse_d: Bounds by device time.
        refined: Layer bounds of the designs that have one.
        evaluations: Designs that were solved, or dropped while being solved.
        threshold: Bounds below it cannot win or tie.
    """
    is_infeasible_d = coarse_d <= 0
    removed_by_d = np.where(~is_infeasible_d & (coarse_d < threshold), BOUNDS.index(DEVICE_TIME), NOT_REMOVED)
    by_layers = BOUNDS.index(LAYER_BOUNDS)
    for design, bound in refined.items():
        if removed_by_d[design] == NOT_REMOVED:
            is_infeasible_d[design] |= bound <= 0
            removed_by_d[design] = by_layers if 0 < bound < threshold else NOT_REMOVED
    is_solved_d = np.zeros(len(coarse_d), dtype=np.bool_)
    for design, item in evaluations.items():
        is_solved_d[design] = item.is_exact and item.objective > 0
        is_infeasible_d[design] = item.is_exact and item.objective <= 0
        removed_by_d[design] = NOT_REMOVED if item.is_exact else BOUNDS.index(item.dropped_by or LAYER_BOUNDS)
    return Account(
        is_solved_d=is_solved_d, is_infeasible_d=is_infeasible_d, removed_by_d=removed_by_d.astype(np.int16)
    )


def drop_threshold(objective: float, exhaustive: bool) -> float:
    """Bounds below it can neither win nor tie with the answer; of an exhaustive search nothing is dropped."""
    return -np.inf if exhaustive or objective <= 0 else objective * (1 - RELATIVE_SLACK)


def _account(evaluator: SpaceEvaluator, outcome: EngineOutcome, coarse_d: Floats) -> Account:
    objective = 0.0 if outcome.incumbent is None else outcome.incumbent.objective
    threshold = drop_threshold(objective, evaluator.settings.exhaustive)
    return account(coarse_d, outcome.refined, outcome.evaluations, threshold)


def certify(evaluator: SpaceEvaluator, outcome: EngineOutcome, coarse_d: Floats) -> Certificate:
    """Account for every design once: solved, infeasible, dropped by which bound, or open."""
    census, space = evaluator.census, evaluator.settings.scenario.space
    found, best = _account(evaluator, outcome, coarse_d), outcome.incumbent
    refined_only = [
        bound for design, bound in outcome.refined.items() if design not in outcome.evaluations and bound > 0
    ]
    is_unrefined = coarse_d > 0
    is_unrefined[[*outcome.refined, *outcome.evaluations]] = False
    return Certificate(
        num_designs=census.num_designs,
        num_solved_exactly=int(found.is_solved_d.sum()),
        num_dropped_by_bound=found.num_dropped(),
        num_infeasible=int(found.is_infeasible_d.sum()),
        num_within=_within(outcome, coarse_d[is_unrefined], np.array(refined_only)),
        binding="" if best is None else binding_of(space, census.chips.chip(best.design), is_proven(outcome)),
        designs_scope=designs_scope(space),
        plans_scope=plans_scope(evaluator.settings),
        num_unproven=_num_unproven(outcome),
        num_open=int(found.is_open_d.sum()),
    )


def _num_unproven(outcome: EngineOutcome) -> int:
    """Designs solved whose schedules, were they as short as their bounds, might beat the incumbent."""
    best = outcome.incumbent.objective if outcome.incumbent else 0.0
    return sum(item.is_exact and item.bound > best * (1 + 1e-12) for item in outcome.evaluations.values())


def nothing_certified(settings: SearchSettings) -> Certificate:
    """Of a search that stopped before it had a bound: every design is open."""
    by_boxes = searches_boxes(settings)
    num_designs = (
        grid_of(settings).num_points if by_boxes else enumerate_designs(settings.scenario.space).num_designs
    )
    return Certificate(
        num_designs=num_designs,
        num_solved_exactly=0,
        num_dropped_by_bound={},
        num_infeasible=0,
        num_within=dict.fromkeys(WITHIN, (0, num_designs)),
        binding="",
        num_open=num_designs,
        num_boxes={} if by_boxes else None,
    )


def bound_table(evaluator: SpaceEvaluator, outcome: EngineOutcome, coarse_d: Floats) -> BoundTable:
    """For the run store: which bound dropped each design and its value; of the others the last bound."""
    removed_by_d = _account(evaluator, outcome, coarse_d).removed_by_d
    bound_d = coarse_d.copy()
    for design, bound in outcome.refined.items():
        if removed_by_d[design] != BOUNDS.index(DEVICE_TIME):
            bound_d[design] = bound
    for design, bound in outcome.unsettled.items():
        if removed_by_d[design] == NOT_REMOVED:
            bound_d[design] = bound
    for design, item in outcome.evaluations.items():
        bound_d[design] = item.bound
    return BoundTable(
        model=None,
        names=BOUNDS,
        design_c=np.arange(len(coarse_d), dtype=np.int64),
        bound_c=bound_d,
        removed_by_c=removed_by_d,
    )


def _within(outcome: EngineOutcome, coarse_left: Floats, refined_left: Floats) -> dict[str, tuple[int, int]]:
    if outcome.incumbent is None:
        # Any design that may have a plan may be the best, or as near to it as one likes.
        maybe = int((coarse_left > 0).sum()) + int((refined_left > 0).sum())
        maybe += sum(item.bound > 0 for item in outcome.evaluations.values())
        return dict.fromkeys(WITHIN, (0, maybe))
    found = {}
    for name, part in WITHIN.items():
        floor = outcome.incumbent.objective * (1 - part)
        least = sum(item.is_exact and item.objective >= floor for item in outcome.evaluations.values())
        # Not solved, or solved with a schedule that was not proven.
        maybe = sum(item.objective < floor <= item.bound for item in outcome.evaluations.values())
        maybe += int((refined_left >= floor).sum()) + int((coarse_left >= floor).sum())
        found[name] = (least, least + maybe)
    return found


def is_proven(outcome: EngineOutcome) -> bool:
    """Whether nothing is better than the answer."""
    best = outcome.incumbent
    return best is not None and outcome.is_complete and outcome.bound <= best.objective * (1 + 1e-12)


def binding_of(space: DesignSpace, chip: Chip, is_proven: bool) -> str:
    """What keeps the winner from growing: a limit of the space, or the end of its lists.

    Args:
        space: Of the winner.
        chip: The winner.
        is_proven: Nothing is better: only then is it known that more does not pay.
    """
    here = _changed_chip(space, chip)
    at_end, too_large, not_allowed, free = [], [], [], []
    for name in FIELDS:
        if name == "vector_lanes" and space.vector_lanes is None:
            continue
        larger = [value for value in sorted(getattr(space, name)) if value > getattr(chip, name)]
        if not larger:
            at_end.append(name)
            continue
        changed = _changed_chip(space, chip, {name: larger[0]})
        if float(chip_area(changed, space.area_model).total_um2_c[0]) > space.area_limit_um2:
            too_large.append(name)
        elif within_limits(space, changed)[0]:
            free.append(name)
        else:
            not_allowed.append(name)
    area_um2 = float(chip_area(here, space.area_model).total_um2_c[0])
    parts = [f"{area_um2 / space.area_limit_um2:.1%} of the area limit used"]
    if too_large:
        parts.append(f"more of {', '.join(too_large)} does not fit in it")
    if not_allowed:
        parts.append(f"more of {', '.join(not_allowed)} breaks another limit")
    if at_end:
        parts.append(f"{', '.join(at_end)} at the end of the space")
    if free:
        whether = "does not pay" if is_proven else "was not ruled out"
        parts.append(f"more of {', '.join(free)} would fit and {whether}")
    return "; ".join(parts)


def _changed_chip(space: DesignSpace, chip: Chip, changes: Mapping[str, int] | None = None) -> ChipTable:
    """A chip of the space with some fields changed."""
    values = {name: getattr(chip, name) for name in FIELDS} | dict(changes or {})
    if space.vector_lanes is None:
        values["vector_lanes"] = values["tensor_width"]
    columns: dict[str, Any] = {name: np.array([value], dtype=np.int64) for name, value in values.items()}
    return build_chips(template=space.template, **columns)
