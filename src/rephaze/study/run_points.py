"""Every chip that was measured for a run as a point: what it gives, and the area, energy and dollars it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rephaze.hardware.area import chip_area
from rephaze.hardware.space import within_limits
from rephaze.measure.objective import chip_usd, combine_on_chip
from rephaze.store.reader import RunReader
from rephaze.types.chip import Chip, chip_table
from rephaze.types.comparison import ChipAnswer
from rephaze.types.pareto import ChipPoint, ChipPoints, PointKind
from rephaze.types.search import Aggregate, ModelPlan, SearchSettings

MOST_SOLVED = 2000
"""Solved designs that become points, the best first: a space searched exhaustively has more than can be shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlansSpend:
    """The plans of all models on one chip together."""

    samples_per_s: float
    energy_per_sample_j: float
    hbm_bytes: int
    """The memory they need."""


def spent_by_plans(settings: SearchSettings, plans: Sequence[ModelPlan]) -> PlansSpend:
    """Speed and energy combined as the run's objective combines models."""
    energies_j = [plan.energy_per_sample_j for plan in plans]
    if settings.aggregate is Aggregate.WORST:
        energy_j = max(energies_j)
    else:
        energy_j = combine_on_chip(energies_j, settings.weights, settings.aggregate)
    speeds = [plan.samples_per_s for plan in plans]
    return PlansSpend(
        samples_per_s=combine_on_chip(speeds, settings.weights, settings.aggregate),
        energy_per_sample_j=energy_j,
        hbm_bytes=max(plan.hbm_bytes for plan in plans),
    )


def run_points(
    run: RunReader, settings: SearchSettings, known: Sequence[ChipAnswer], changed: Sequence[ChipAnswer]
) -> ChipPoints:
    """The points of a run.

    Args:
        run: The run.
        settings: Its settings, with the system of its answer.
        known: Chips that exist, with their plans.
        changed: The winner with one field changed, with its plans.
    """
    result = run.result()
    found = list(_solved(run, settings, None if result is None else result.design))
    for kind, answers in ((PointKind.CHANGED, changed), (PointKind.KNOWN, known)):
        for one in answers:
            plans = [plan for plan in one.plans if plan is not None]
            if one.objective > 0 and len(plans) == len(settings.models):
                name = one.chip.name if kind is PointKind.KNOWN else one.chip.in_words
                found.append(_point(settings, kind, name, one.chip, one.objective, plans))
    return ChipPoints(
        points=tuple(found),
        known_names=tuple(sorted(one.chip.name for one in known)),
        area_limit_um2=settings.scenario.space.area_limit_um2,
    )


def _solved(run: RunReader, settings: SearchSettings, winner: int | None) -> Iterator[ChipPoint]:
    designs = run.designs()
    if designs is None:
        return
    place = {number: at for at, number in enumerate(run.design_numbers())}
    exact = [one for one in run.evaluations() if one.is_exact and one.objective > 0 and one.plans]
    for one in sorted(exact, key=lambda item: (-item.objective, item.design))[:MOST_SOLVED]:
        chip = designs[0].chip(place[one.design])
        kind = PointKind.WINNER if one.design == winner else PointKind.SOLVED
        yield _point(settings, kind, chip.in_words, chip, one.objective, one.plans)


def _point(
    settings: SearchSettings, kind: PointKind, name: str, chip: Chip, objective: float, plans: Sequence[ModelPlan]
) -> ChipPoint:
    table, space, spent = chip_table([chip]), settings.scenario.space, spent_by_plans(settings, plans)
    return ChipPoint(
        kind=kind,
        name=name,
        objective=objective,
        samples_per_s=spent.samples_per_s,
        area_um2=float(chip_area(table, space.area_model).total_um2_c[0]),
        energy_per_sample_j=spent.energy_per_sample_j,
        chip_usd=float(chip_usd(table, np.array([spent.hbm_bytes], dtype=np.int64))[0]),
        fits_limits=bool(within_limits(space, table)[0]),
    )
