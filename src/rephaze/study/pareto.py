"""What a run tells beyond its winner: the non-dominated designs it solved, and the best chip per area budget.

A search for the best chip solves few designs exactly and drops the rest by bounds. The front is over the solved
ones; a point is *proven* in throughput against area when no design of its own area or less is faster, nor, if it
was not solved, has a bound above it. A budget is *proven* when the same holds of all designs within the budget;
``solve`` settles those that stand in the way.

Axis letters: p = point, d = design of the space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import RunError
from rephaze.hardware.area import chip_area
from rephaze.hardware.energy import full_power
from rephaze.hardware.grid import DesignGrid
from rephaze.measure.objective import chip_usd
from rephaze.search.cosearch import REFINE_SIZE
from rephaze.search.evaluator import Preparation, SpaceEvaluator
from rephaze.search.method import searches_boxes
from rephaze.search.workers.start import start_workers
from rephaze.store.reader import RunReader
from rephaze.study.box_front import BoxBudgets, CoverBounds, cover_bounds, lower
from rephaze.study.run_points import spent_by_plans
from rephaze.study.settle_budgets import OnBudget, settle_budgets
from rephaze.types.boxes import Goal
from rephaze.types.chip import Chip, ChipTable
from rephaze.types.pareto import ROUNDING, AreaBudget, ParetoFront, ParetoPoint
from rephaze.types.search import Evaluation, Objective, SearchSettings
from rephaze.types.stopping import UNSTOPPED

Floats = NDArray[np.float64]

NUM_BUDGETS = 10
MOST_BOXES, BOXES_AT_ONCE = 512, 64
"""Boxes of a budget that are bounded finer, and how many before the next look."""


def is_dominated(values_pv: Floats) -> NDArray[np.bool_]:
    """Which points another one beats: as good in every column, better in one. Larger is better."""
    dominated = np.zeros(len(values_pv), dtype=bool)
    for p, own in enumerate(values_pv):
        dominated[p] = bool(((values_pv >= own).all(axis=1) & (values_pv > own).any(axis=1)).any())
    return dominated


def front_of_run(
    run: RunReader,
    *,
    finer: bool = True,
    solve: bool = False,
    num_workers: int = 1,
    on_progress: OnBudget = lambda _progress: None,
) -> ParetoFront:
    """The front and the area budgets of a recorded run.

    Args:
        run: Open for reading.
        finer: Also compute the layer bounds of unsolved designs where the cheap bound leaves a row unproven.
        solve: Solve designs until every budget is proven (unless a schedule cannot be); nothing is recorded.
        num_workers: Processes that solve.
        on_progress: Told how far that is.
    """
    settings = run.info().settings
    if settings.has_systems:
        raise RunError(
            f"{run.folder}: a front is of chips with one system, and this run chooses its system; search with "
            "smaller budgets instead"
        )
    if searches_boxes(settings):
        return _front_of_boxes(run, settings, finer, solve, num_workers, on_progress)
    by_speed = replace(settings, objective=Objective.THROUGHPUT)
    evaluator = SpaceEvaluator(by_speed)
    stored = run.designs()
    if stored is None or len(stored[0]) != evaluator.census.num_designs:
        raise RunError(f"{run.folder}: holds no designs, or not those its settings describe")
    census = evaluator.census

    def point_of(item: Evaluation) -> ParetoPoint:
        own = np.array([item.design])
        return _point(settings, item, census.chips.chip(item.design), census.chips.take(own))

    evaluations = list(run.evaluations())
    points = [point_of(item) for item in evaluations if item.is_exact and item.plans]
    num_recorded = len({point.design for point in points})
    area_d = census.area_um2_c
    limit_um2 = settings.scenario.space.area_limit_um2
    upper_d = _upper_bounds(evaluator, settings, evaluations)
    if solve:
        workers = start_workers(by_speed, evaluator, num_workers, None, UNSTOPPED)
        try:
            speeds = {point.design: point.samples_per_s for point in points}
            found = settle_budgets(
                evaluator, workers, upper_d, speeds, budgets_um2(limit_um2), on_progress=on_progress
            )
        finally:
            workers.close()
        points += [point_of(item) for item in found]
    elif finer:
        _refine(evaluator, points, limit_um2, upper_d)
    return _front(points, census.num_designs, num_recorded, limit_um2, area_d, upper_d)


def _front_of_boxes(
    run: RunReader,
    settings: SearchSettings,
    finer: bool,
    solve: bool,
    num_workers: int,
    on_progress: OnBudget,
) -> ParetoFront:
    """The same of a search by boxes: its cover bounds what was not solved."""
    by_speed = replace(settings, objective=Objective.THROUGHPUT)
    grid, limit_um2 = DesignGrid(settings.scenario.space), settings.scenario.space.area_limit_um2
    result = run.result()

    def point_of(item: Evaluation) -> ParetoPoint:
        own = grid.chips(np.array([grid.position_of(item.design)], dtype=np.int64))
        return _point(settings, item, grid.chip(item.design), own)

    evaluations = [item for item in run.evaluations() if item.is_exact and item.plans]
    points = [point_of(item) for item in evaluations]
    num_recorded = len(points)
    prepared, budgets = Preparation(by_speed), budgets_um2(limit_um2)
    bounds = cover_bounds(run, prepared, budgets)
    is_by_speed = settings.objective is Objective.THROUGHPUT
    if is_by_speed and result is not None:
        np.minimum(bounds.upper_d, result.bound, out=bounds.upper_d)
    if solve:
        settled = BoxBudgets(by_speed, bounds, budgets, num_workers, on_progress)
        points += [point_of(item) for item in settled.run(evaluations if is_by_speed else ())]
    elif finer:
        _refine_boxes(prepared, points, budgets, bounds)
    return _front(points, grid.num_points, num_recorded, limit_um2, bounds.area_d, bounds.upper_d, by_boxes=True)


def _front(
    points: Sequence[ParetoPoint],
    num_designs: int,
    num_recorded: int,
    limit_um2: float,
    area_d: Floats,
    upper_d: Floats,
    *,
    by_boxes: bool = False,
) -> ParetoFront:
    proven = _proven(points, area_d, upper_d)
    points = [replace(point, is_proven=known) for point, known in zip(points, proven, strict=True)]
    return ParetoFront(
        num_designs=num_designs,
        num_solved_exactly=len({point.design for point in points}),
        num_recorded=num_recorded,
        points=non_dominated(points),
        budgets=best_by_budget(points, limit_um2, area_d, upper_d),
        counts_grid_points=by_boxes,
    )


def non_dominated(points: Sequence[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """The points no other beats in throughput, area, energy and cost together, fastest first."""
    if not points:
        return ()
    values_pv = np.array(
        [(one.samples_per_s, -one.area_um2, -one.energy_per_sample_j, -one.chip_usd) for one in points]
    )
    kept = [point for point, lost in zip(points, is_dominated(values_pv), strict=True) if not lost]
    return tuple(sorted(kept, key=lambda point: (-point.samples_per_s, point.area_um2, point.design)))


def budgets_um2(area_limit_um2: float) -> list[float]:
    """The tenths of the area limit."""
    return [area_limit_um2 * tenth / NUM_BUDGETS for tenth in range(1, NUM_BUDGETS + 1)]


def best_by_budget(
    points: Sequence[ParetoPoint], area_limit_um2: float, area_d: Floats, upper_d: Floats
) -> tuple[AreaBudget, ...]:
    """For each tenth of the area limit, the fastest solved chip within it and what the others could reach.

    Args:
        points: Solved designs.
        area_limit_um2: Of the space.
        area_d: Area of every design.
        upper_d: A throughput each design cannot exceed; minus infinity where a point says it exactly.
    """
    budgets = []
    for budget_um2 in budgets_um2(area_limit_um2):
        within = [point for point in points if point.area_um2 <= budget_um2]
        best = min(within, key=lambda point: (-point.samples_per_s, point.area_um2, point.design), default=None)
        known = best.samples_per_s if best else 0.0
        bound = max(known, float(upper_d[area_d <= budget_um2].max(initial=0.0)))
        is_proven = bound <= known * (1 + ROUNDING)
        budgets.append(
            AreaBudget(
                area_um2=budget_um2,
                best=best,
                bound_samples_per_s=known if is_proven else bound,
                is_proven=is_proven,
            )
        )
    return tuple(budgets)


def _point(settings: SearchSettings, item: Evaluation, chip: Chip, one: ChipTable) -> ParetoPoint:
    """A solved design as a point.

    Args:
        settings: Of the run.
        item: The design.
        chip: Its chip.
        one: The same as a table.
    """
    given = spent_by_plans(settings, item.plans)
    area_model = settings.scenario.space.area_model
    return ParetoPoint(
        design=item.design,
        chip=chip,
        samples_per_s=given.samples_per_s,
        area_um2=float(chip_area(one, area_model).total_um2_c[0]),
        full_power_w=float(full_power(one, area_model).total_w_c[0]),
        energy_per_sample_j=given.energy_per_sample_j,
        # With the memory the plans need.
        chip_usd=float(chip_usd(one, np.array([given.hbm_bytes], dtype=np.int64))[0]),
        is_proven=False,
    )


def _upper_bounds(
    evaluator: SpaceEvaluator, settings: SearchSettings, evaluations: Sequence[Evaluation]
) -> Floats:
    """For each design, a throughput it cannot exceed; minus infinity where it is known exactly."""
    upper_d = evaluator.coarse()
    # Plans of least energy or on the best-priced memory say nothing of the fastest ones: then only the bounds by
    # time hold.
    is_memory_priced = (
        settings.objective is Objective.PER_USD and len(settings.scenario.space.hbm_bytes_options) > 1
    )
    if settings.objective is not Objective.PER_WATT and not is_memory_priced:
        factor_d = SpaceEvaluator(settings).valuation.largest_factor_c
        for item in evaluations:
            # An exact value is a point itself; a bound above it is left by schedules not proven.
            is_settled = item.is_exact and item.bound <= item.objective * (1 + ROUNDING)
            known = -np.inf if is_settled else item.bound / float(factor_d[item.design])
            upper_d[item.design] = min(float(upper_d[item.design]), known)
    return upper_d


def _refine(
    evaluator: SpaceEvaluator, points: Sequence[ParetoPoint], area_limit_um2: float, upper_d: Floats
) -> None:
    """Lower the bounds that leave some point or budget unproven."""
    asked = [int(d) for d in _questionable(points, area_limit_um2, evaluator.census.area_um2_c, upper_d)]
    for start in range(0, len(asked), REFINE_SIZE):
        chunk = asked[start : start + REFINE_SIZE]
        refined = evaluator.refined(chunk, evaluator.unit_bounds(chunk))
        upper_d[chunk] = np.minimum(upper_d[chunk], refined)


def _refine_boxes(
    prepared: Preparation, points: Sequence[ParetoPoint], budgets: Sequence[float], bounds: CoverBounds
) -> None:
    """Bound the most promising boxes of each budget finer, as long as they are few."""
    for at, budget_um2 in enumerate(budgets):
        best = max((one.samples_per_s for one in points if one.area_um2 <= budget_um2), default=0.0)
        if not best:
            continue  # nothing to prove
        goal = Goal(threshold=best, objective=best, area_um2=budget_um2, cutoff=best)
        above = np.flatnonzero((bounds.budget_d == at) & (bounds.upper_d > best * (1 + ROUNDING)))
        above = above[np.argsort(-bounds.upper_d[above], kind="stable")][:MOST_BOXES]
        for start in range(0, len(above), BOXES_AT_ONCE):
            lower(prepared, bounds, above[start : start + BOXES_AT_ONCE], budget_um2, goal)
            done, left = above[: start + BOXES_AT_ONCE], above[start + BOXES_AT_ONCE :]
            if not len(left) or bounds.upper_d[done].max() >= bounds.upper_d[left[0]]:
                break


def _questionable(
    points: Sequence[ParetoPoint], area_limit_um2: float, area_d: Floats, upper_d: Floats
) -> NDArray[np.intp]:
    """Designs whose bound leaves a point of throughput against area, or a budget that has one, unproven."""
    front = non_dominated([replace(point, energy_per_sample_j=0.0, chip_usd=0.0) for point in points])
    is_asked = np.zeros(len(area_d), dtype=bool)
    for point in front:
        is_asked |= _threatens(point.samples_per_s, point.area_um2, area_d, upper_d)
    for budget in best_by_budget(points, area_limit_um2, area_d, upper_d):
        if budget.best is not None:
            is_asked |= _threatens(budget.best.samples_per_s, budget.area_um2, area_d, upper_d)
    return np.flatnonzero(is_asked)


def _proven(points: Sequence[ParetoPoint], area_d: Floats, upper_d: Floats) -> list[bool]:
    """For each point, whether no design of its area or less, solved or (by its bound) not, is faster."""
    area_p = np.array([point.area_um2 for point in points])
    fast_p = np.array([point.samples_per_s for point in points])
    return [
        not ((area_p <= point.area_um2) & (fast_p > point.samples_per_s)).any()
        and not _threatens(point.samples_per_s, point.area_um2, area_d, upper_d).any()
        for point in points
    ]


def _threatens(samples_per_s: float, area_um2: float, area_d: Floats, upper_d: Floats) -> NDArray[np.bool_]:
    """Designs of this area or less whose bound is above this throughput."""
    threatens: NDArray[np.bool_] = (area_d <= area_um2) & (upper_d > samples_per_s * (1 + ROUNDING))
    return threatens
