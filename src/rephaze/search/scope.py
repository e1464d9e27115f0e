"""Over what a proof ranges, in words: the designs that keep to the limits, the plans a model chooses from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

import numpy as np

from rephaze.types.placement import PlacementModel, Recompute
from rephaze.types.search import Objective, SearchSettings
from rephaze.types.space import DesignSpace
from rephaze.types.system import HbmChoice
from rephaze.units import UM2_PER_MM2


def search_scope(settings: SearchSettings) -> str:
    """The limits a design had to keep to, and the systems it could have, in words."""
    parts = [designs_scope(settings.scenario.space)]
    if settings.has_systems:
        if np.isfinite(settings.scenario.space.power_limit_w):
            parts.append("power of a chip the most it can draw")
        budget, systems = settings.budget, settings.systems
        limits = (
            (budget.silicon_mm2, f"dies of the cluster up to {budget.silicon_mm2:,.0f} mm²"),
            (budget.power_w, f"power of the building up to {budget.power_w:,.0f} W, every chip at its most"),
            (budget.cost_usd, f"cluster up to {budget.cost_usd:,.0f} dollars"),
        )
        parts.extend(text for limit, text in limits if np.isfinite(limit))
        for one in fields(systems):
            values = getattr(systems, one.name)
            if values:
                parts.append(f"{one.name} {', '.join(_shown(value) for value in values)}")
    return "; ".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, HbmChoice):
        return f"{value.generation} ({value.num_layers} high)"
    return f"{value:g}" if isinstance(value, float) else str(value)


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


def _full_scope(settings: SearchSettings, listed: Callable[[Sequence[object]], str]) -> list[str]:
    """The same under cost model ``full``."""
    training, options = settings.scenario.training, settings.scenario.plans
    asked = set(training.sequence_parallel)
    sequence = " with and without sp" if len(asked) > 1 else (" with sp" if True in asked else "")
    parts = [
        f"family {options.family} of cost model full",
        f"tp {listed(training.tp_degrees)}{sequence}, cp {listed(training.cp_degrees)}, "
        f"ep {listed(training.ep_degrees)} where legal",
        f"microbatch {listed(training.microbatches)}",
        f"sharding {listed(options.sharding)} over {listed(options.shard_group)}",
        f"{listed(options.schedule)} (interleaved over chunks of equal blocks where there are too many cuts)",
        "what is kept stage by stage" if Recompute.BLOCK in training.recompute else "everything kept",
    ]
    if settings.objective is Objective.PER_WATT:
        parts.append("of each cut and microbatch the fastest, every operator charged in its fastest mode")
    return parts


def plans_scope(settings: SearchSettings) -> str:
    """The plans a model could choose from, in words."""
    training = settings.scenario.training

    def listed(values: Sequence[object]) -> str:
        return ", ".join(str(value) for value in values)

    if settings.scenario.placement_model is PlacementModel.FULL:
        return "; ".join(_full_scope(settings, listed))
    mixed = "stage by stage" if set(training.recompute) == set(Recompute) else "one for all stages"
    parts = [
        f"tp {listed(training.tp_degrees)} where legal",
        f"microbatch {listed(training.microbatches)}",
        f"recompute {listed(training.recompute)} ({mixed})",
        f"any dp, pp and stages under {settings.scenario.placement_model}",
    ]
    if settings.objective is Objective.PER_WATT:
        parts.append("of each tp, microbatch and policy the fastest, every operator charged in its fastest mode")
    return "; ".join(parts)
