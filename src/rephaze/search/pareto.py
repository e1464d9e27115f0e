"""What a run tells beyond its winner: the non-dominated designs it solved, and the best chip per area budget.

A search for the best chip solves few designs exactly and drops the rest by bounds. The front is over the solved
ones; a point is *proven* in throughput against area when no design of its area or less is faster, nor, if it was
not solved, has a bound above it.

Axis letters: p = point, d = design of the space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import RunError
from rephaze.hardware.area import chip_area
from rephaze.hardware.cost import chip_cost
from rephaze.hardware.energy import full_power
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.objective import combine
from rephaze.store.reader import RunReader
from rephaze.types.pareto import AreaBudget, ParetoFront, ParetoPoint
from rephaze.types.search import Aggregate, Evaluation, Objective, SearchSettings
from rephaze.types.space import AreaModel

Floats = NDArray[np.float64]

NUM_BUDGETS = 10
REFINE_SIZE = 4096
RELATIVE_SLACK = 1e-9
"""A bound above a value by less is rounding, not promise."""


def is_dominated(values_pv: Floats) -> NDArray[np.bool_]:
    """Which points another one beats: as good in every column, better in one. Larger is better."""
    dominated = np.zeros(len(values_pv), dtype=bool)
    for p, own in enumerate(values_pv):
        dominated[p] = bool(((values_pv >= own).all(axis=1) & (values_pv > own).any(axis=1)).any())
    return dominated


def front_of_run(run: RunReader, *, finer: bool = True) -> ParetoFront:
    """The front and the area budgets of a recorded run.

    Args:
        run: Open for reading.
        finer: Also compute the layer bounds of unsolved designs where the cheap bound leaves a point unproven.
    """
    settings = run.info().settings
    evaluator = SpaceEvaluator(replace(settings, objective=Objective.THROUGHPUT))
    stored = run.designs()
    if stored is None or len(stored[0]) != evaluator.census.num_designs:
        raise RunError(f"{run.folder}: holds no designs, or not those its settings describe")
    evaluations = list(run.evaluations())
    solved = [item for item in evaluations if item.is_exact and item.plans]
    points = [_point(evaluator, settings, item) for item in solved]
    upper_d = _upper_bounds(evaluator, settings, evaluations, points, finer=finer)
    area_d = evaluator.census.area_um2_c
    proven = _proven(points, area_d, upper_d)
    points = [replace(point, is_proven=known) for point, known in zip(points, proven, strict=True)]
    return ParetoFront(
        num_designs=evaluator.census.num_designs,
        num_solved_exactly=len(points),
        points=non_dominated(points),
        budgets=best_by_budget(points, settings.scenario.space.area_limit_um2),
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


def best_by_budget(points: Sequence[ParetoPoint], area_limit_um2: float) -> tuple[AreaBudget, ...]:
    """For each tenth of the area limit, the fastest solved chip within it."""
    budgets = []
    for tenth in range(1, NUM_BUDGETS + 1):
        budget_um2 = area_limit_um2 * tenth / NUM_BUDGETS
        within = [point for point in points if point.area_um2 <= budget_um2]
        best = min(within, key=lambda point: (-point.samples_per_s, point.area_um2, point.design), default=None)
        budgets.append(AreaBudget(area_um2=budget_um2, best=best))
    return tuple(budgets)


def _point(evaluator: SpaceEvaluator, settings: SearchSettings, item: Evaluation) -> ParetoPoint:
    census = evaluator.census
    one = census.chips.take(np.array([item.design]))
    hbm_bytes = max(plan.hbm_bytes for plan in item.plans)
    # Cost at the 7 nm of the corrected model, whatever model limits the area, with the memory the plans need.
    area_um2_c = chip_area(one, AreaModel.CORRECTED).total_um2_c
    cost = chip_cost(area_um2_c, np.array([hbm_bytes], dtype=np.int64))
    energies = np.array([plan.energy_per_sample_j for plan in item.plans])[:, None]
    throughputs = np.array([plan.samples_per_s for plan in item.plans])[:, None]
    if settings.aggregate is Aggregate.WORST:
        energy_j = float(energies.max())
    else:
        energy_j = float(combine(energies, settings.weights, settings.aggregate)[0])
    return ParetoPoint(
        design=item.design,
        chip=census.chips.chip(item.design),
        samples_per_s=float(combine(throughputs, settings.weights, settings.aggregate)[0]),
        area_um2=float(census.area_um2_c[item.design]),
        full_power_w=float(full_power(one, settings.scenario.space.area_model).total_w_c[0]),
        energy_per_sample_j=energy_j,
        chip_usd=float(cost.total_usd_c[0]),
        is_proven=False,
    )


def _upper_bounds(
    evaluator: SpaceEvaluator,
    settings: SearchSettings,
    evaluations: Sequence[Evaluation],
    points: Sequence[ParetoPoint],
    *,
    finer: bool,
) -> Floats:
    """For each design, a throughput it cannot exceed; minus infinity where it is known exactly."""
    upper_d = evaluator.coarse()
    # Plans of least energy or on the best-priced memory say nothing of the fastest ones: then only the bounds by
    # time hold.
    is_memory_priced = (
        settings.objective is Objective.PER_USD and len(settings.scenario.space.hbm_bytes_options) > 1
    )
    if settings.objective is not Objective.PER_WATT and not is_memory_priced:
        factor_d = SpaceEvaluator(settings).value_factor
        for item in evaluations:
            # An exact value is a point itself; a bound above it is left by schedules not proven.
            is_settled = item.is_exact and item.bound <= item.objective * (1 + RELATIVE_SLACK)
            known = -np.inf if is_settled else item.bound / float(factor_d[item.design])
            upper_d[item.design] = min(float(upper_d[item.design]), known)
    if finer and points:
        asked = [int(d) for d in _questionable(points, evaluator.census.area_um2_c, upper_d)]
        for start in range(0, len(asked), REFINE_SIZE):
            chunk = asked[start : start + REFINE_SIZE]
            refined = evaluator.refined(chunk, evaluator.unit_bounds(chunk))
            upper_d[chunk] = np.minimum(upper_d[chunk], refined)
    return upper_d


def _questionable(points: Sequence[ParetoPoint], area_d: Floats, upper_d: Floats) -> NDArray[np.intp]:
    """Designs whose bound leaves some point of throughput against area unproven."""
    front = non_dominated([replace(point, energy_per_sample_j=0.0, chip_usd=0.0) for point in points])
    is_asked = np.zeros(len(area_d), dtype=bool)
    for point in front:
        is_asked |= _threatens(point, area_d, upper_d)
    return np.flatnonzero(is_asked)


def _proven(points: Sequence[ParetoPoint], area_d: Floats, upper_d: Floats) -> list[bool]:
    """For each point, whether no design of its area or less, solved or (by its bound) not, is faster."""
    area_p = np.array([point.area_um2 for point in points])
    fast_p = np.array([point.samples_per_s for point in points])
    return [
        not ((area_p <= point.area_um2) & (fast_p > point.samples_per_s)).any()
        and not _threatens(point, area_d, upper_d).any()
        for point in points
    ]


def _threatens(point: ParetoPoint, area_d: Floats, upper_d: Floats) -> NDArray[np.bool_]:
    """Unsolved designs of the point's area or less whose bound is above it."""
    threatens: NDArray[np.bool_] = (area_d <= point.area_um2) & (
        upper_d > point.samples_per_s * (1 + RELATIVE_SLACK)
    )
    return threatens
