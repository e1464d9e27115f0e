"""The proof in numbers: where every design of a space went, and what holds the winner back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.area import chip_area
from rephaze.hardware.template import build_chips
from rephaze.search.engine import EngineOutcome
from rephaze.search.evaluator import MAPPED, PLACED, SOLVED, SpaceEvaluator
from rephaze.types.placement import Recompute
from rephaze.types.run import NOT_REMOVED, BoundTable
from rephaze.types.search import Certificate, Objective, SearchSettings
from rephaze.types.space import DesignSpace
from rephaze.units import UM2_PER_MM2

Floats = NDArray[np.float64]

DEVICE_TIME = "device time"
LAYER_BOUNDS = "layer bounds"
BOUNDS = (DEVICE_TIME, LAYER_BOUNDS, PLACED, MAPPED, SOLVED)
"""Coarse to fine."""
WITHIN = {"0.1 %": 0.001, "1 %": 0.01, "5 %": 0.05}
_FIELDS = (
    "num_tensor_cores",
    "tensor_width",
    "tensor_depth",
    "num_vector_cores",
    "vector_lanes",
    "global_buffer_bytes",
    "num_hbm_stacks",
)


def certify(evaluator: SpaceEvaluator, outcome: EngineOutcome, coarse_d: Floats) -> Certificate:
    """Account for every design once: solved, infeasible, or dropped by which bound."""
    evaluations = outcome.evaluations.values()
    solved = [item for item in evaluations if item.is_exact and item.objective > 0]
    no_plan = sum(item.is_exact and item.objective <= 0 for item in evaluations)
    no_plan += int((coarse_d <= 0).sum())
    no_plan += sum(bound <= 0 for design, bound in outcome.refined.items() if design not in outcome.evaluations)
    dropped: dict[str, int] = {}
    refined_only = [
        bound for design, bound in outcome.refined.items() if design not in outcome.evaluations and bound > 0
    ]
    is_unrefined = coarse_d > 0
    is_unrefined[[*outcome.refined, *outcome.evaluations]] = False
    if outcome.is_complete:
        dropped[DEVICE_TIME] = int(is_unrefined.sum())
        dropped[LAYER_BOUNDS] = len(refined_only)
    for item in evaluations:
        if not item.is_exact:
            dropped[item.dropped_by] = dropped.get(item.dropped_by, 0) + 1
    dropped = {name: dropped[name] for name in BOUNDS if name in dropped}
    return Certificate(
        num_designs=evaluator.census.num_designs,
        num_solved_exactly=len(solved),
        num_dropped_by_bound=dropped,
        num_infeasible=no_plan,
        num_within=_within(outcome, coarse_d[is_unrefined], np.array(refined_only)),
        binding="" if outcome.incumbent is None else binding_of(evaluator, outcome.incumbent.design),
        designs_scope=designs_scope(evaluator.settings.scenario.space),
        plans_scope=plans_scope(evaluator.settings),
        num_unproven=_num_unproven(outcome),
    )


def designs_scope(space: DesignSpace) -> str:
    """The limits a design had to keep to, in words."""
    parts = [f"area up to {space.area_limit_um2 / UM2_PER_MM2:,.2f} mm² ({space.area_model} model)"]
    if space.area_floor_um2:
        floor_mm2 = space.area_floor_um2 / UM2_PER_MM2
        parts.append(f"none below a floor of {floor_mm2:,.2f} mm² but single-core chips")
    else:
        parts.append("no floor")
    if np.isfinite(space.power_limit_w):
        parts.append(f"power up to {space.power_limit_w:,.0f} W")
    parts.extend(rule.text for rule in space.constraints)
    return "; ".join(parts)


def plans_scope(settings: SearchSettings) -> str:
    """The plans a model could choose from, in words."""
    training = settings.scenario.training

    def listed(values: Sequence[object]) -> str:
        return ", ".join(str(value) for value in values)

    mixed = "stage by stage" if set(training.recompute) == set(Recompute) else "one for all stages"
    parts = [
        f"tp {listed(training.tp_degrees)} where legal",
        f"microbatch {listed(training.microbatches)}",
        f"recompute {listed(training.recompute)} ({mixed})",
        f"any dp, pp and stages under {settings.scenario.placement_model}",
    ]
    if settings.objective is Objective.PER_WATT:
        parts.append("of each tp, microbatch and policy the fastest")
    return "; ".join(parts)


def _num_unproven(outcome: EngineOutcome) -> int:
    """Designs solved whose schedules, were they as short as their bounds, might beat the incumbent."""
    best = outcome.incumbent.objective if outcome.incumbent else 0.0
    return sum(item.is_exact and item.bound > best * (1 + 1e-12) for item in outcome.evaluations.values())


def bound_table(outcome: EngineOutcome, coarse_d: Floats) -> BoundTable:
    """The last bound of every design, and which bound removed it, for the run store."""
    names = BOUNDS
    bound_d = coarse_d.copy()
    removed_by_d = np.zeros(len(coarse_d), dtype=np.int16)
    for design, bound in outcome.refined.items():
        bound_d[design], removed_by_d[design] = bound, 1
    for design, item in outcome.evaluations.items():
        bound_d[design] = item.bound
        removed_by_d[design] = NOT_REMOVED if item.is_exact else names.index(item.dropped_by)
    if not outcome.is_complete:
        # Stopped early: designs that no evaluation settled are still open.
        settled = np.zeros(len(coarse_d), dtype=np.bool_)
        settled[list(outcome.evaluations)] = True
        removed_by_d[~settled] = NOT_REMOVED
    return BoundTable(
        model=None,
        names=names,
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


def binding_of(evaluator: SpaceEvaluator, design: int) -> str:
    """What keeps the winner from growing: the area limit, or the end of the space's lists."""
    space, chips = evaluator.settings.scenario.space, evaluator.census.chips
    area_um2 = float(evaluator.census.area_um2_c[design])
    at_end, too_large, free = [], [], []
    for name in _FIELDS:
        if name == "vector_lanes" and space.vector_lanes is None:
            continue
        values = sorted(getattr(space, name))
        larger = [value for value in values if value > int(getattr(chips, name)[design])]
        if not larger:
            at_end.append(name)
        elif _area_with(space, evaluator, design, name, larger[0]) > space.area_limit_um2:
            too_large.append(name)
        else:
            free.append(name)
    parts = [f"{area_um2 / space.area_limit_um2:.1%} of the area limit used"]
    if too_large:
        parts.append(f"more of {', '.join(too_large)} does not fit in it")
    if at_end:
        parts.append(f"{', '.join(at_end)} at the end of the space")
    if free:
        parts.append(f"more of {', '.join(free)} would fit and does not pay")
    return "; ".join(parts)


def _area_with(space: DesignSpace, evaluator: SpaceEvaluator, design: int, name: str, value: int) -> float:
    chips = evaluator.census.chips
    columns = {field: getattr(chips, field)[design : design + 1].copy() for field in _FIELDS}
    columns[name] = np.array([value], dtype=np.int64)
    if space.vector_lanes is None:
        columns["vector_lanes"] = columns["tensor_width"]
    changed = build_chips(
        num_tensor_cores=columns["num_tensor_cores"],
        tensor_width=columns["tensor_width"],
        tensor_depth=columns["tensor_depth"],
        num_vector_cores=columns["num_vector_cores"],
        vector_lanes=columns["vector_lanes"],
        global_buffer_bytes=columns["global_buffer_bytes"],
        num_hbm_stacks=columns["num_hbm_stacks"],
        template=space.template,
    )
    return float(chip_area(changed, space.area_model).total_um2_c[0])
