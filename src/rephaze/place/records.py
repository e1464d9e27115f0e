"""Answers as plain data, ready to be printed as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from rephaze.types.placement import Placement, PlacementProblem, PricedPlan, StageCost


def placement_record(problem: PlacementProblem, placement: Placement) -> dict[str, Any]:
    """An answer: status, time, bound, degrees and stages; or the reason for there being none."""
    if placement.best is None:
        return {"status": str(placement.status), "reason": placement.reason}
    return {
        "status": str(placement.status),
        "batch_s": placement.best.batch_s,
        "bound_s": placement.bound_s,
        "gap": placement.gap if math.isfinite(placement.gap) else None,
        **({"reason": placement.reason} if placement.reason else {}),
        **priced_record(problem, placement.best),
    }


def priced_record(problem: PlacementProblem, priced: PricedPlan) -> dict[str, Any]:
    """A plan with its time in parts and its stages."""
    plan = priced.plan
    return {
        "cost_model": str(problem.cost_model),
        "dp": plan.dp,
        "tp": plan.tp,
        "pp": plan.pp,
        "microbatch": plan.microbatch,
        "num_devices": priced.num_devices,
        "margin_bytes": priced.margin_bytes,
        "time": asdict(priced.time),
        "stages": [_stage_record(stage) for stage in priced.stages],
    }


def _stage_record(stage: StageCost) -> dict[str, Any]:
    return {
        "layers": list(stage.layers),
        "num_devices": stage.num_devices,
        "load_s": stage.load_s,
        "memory_bytes": stage.memory.total_bytes,
        "recompute": str(stage.recompute),
        "num_in_flight": stage.num_in_flight,
        "fits": stage.fits,
        "memory": asdict(stage.memory),
    }
