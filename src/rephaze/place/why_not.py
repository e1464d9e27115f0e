"""Why not another plan: the best one under given choices, and where it loses time or memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rephaze.errors import SpecError
from rephaze.place.answer import find_placement
from rephaze.place.records import placement_record
from rephaze.types.checks import check_choice, check_count, whole_number
from rephaze.types.placement import Placement, PlacementProblem, PlanLimits, PricedPlan, RecomputePolicy

_COUNTS = ("tp", "pp", "dp", "microbatch")


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """The best plan under some choices, set beside the best of all."""

    limits: PlanLimits
    placement: Placement
    loss_s: dict[str, float]
    """Time lost by part (compute, replay, transfer, bubble, sync, tied, step); negative where it gains."""
    loss_ratio: float
    """Its time over the optimum's, less one."""
    margin_loss_bytes: float
    """Memory left on the fullest device: the optimum's less the alternative's."""
    text: str
    """All of it in a sentence."""
    problem: PlacementProblem

    def record(self) -> dict[str, Any]:
        """As plain data."""
        chosen = {name: value for name, value in asdict(self.limits).items() if value is not None}
        answer = {"choices": chosen, "text": self.text, **placement_record(self.problem, self.placement)}
        if self.placement.best is not None:
            answer["loss_ratio"] = self.loss_ratio
            answer["loss_s"] = self.loss_s
            answer["margin_loss_bytes"] = self.margin_loss_bytes
        return answer


def parse_limits(text: str) -> PlanLimits:
    """The choices in text such as ``tp=8,pp=4,recompute=stage``."""
    chosen: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        check_choice("--why", name, (*_COUNTS, "recompute"))
        if name in chosen:
            raise SpecError(f"--why {name}", value, "is given twice", "one value for each choice")
        if name == "recompute":
            check_choice("--why recompute", value, [policy.value for policy in RecomputePolicy])
            chosen[name] = RecomputePolicy(value)
            continue
        found = whole_number(value)
        if found is None:
            raise SpecError(f"--why {name}", value, "must be a whole number", "for example tp=8,pp=4")
        check_count(f"--why {name}", found)
        chosen[name] = found
    return PlanLimits(**chosen)


def explain_alternative(problem: PlacementProblem, optimum: Placement, limits: PlanLimits) -> Alternative:
    """The best plan under ``limits`` and what it loses against ``optimum``."""
    placement = find_placement(problem, limits)
    if placement.best is None or optimum.best is None:
        text = placement.reason if placement.best is None else "nothing to compare with: no plan fits"
        return Alternative(
            limits=limits, placement=placement, loss_s={}, loss_ratio=0.0, margin_loss_bytes=0.0,
            text=f"it cannot run. {text}", problem=problem,
        )  # fmt: skip
    there, here = asdict(placement.best.time), asdict(optimum.best.time)
    loss_s = {part.removesuffix("_s"): there[part] - here[part] for part in here}
    loss_ratio = placement.best.batch_s / optimum.best.batch_s - 1 if optimum.best.batch_s > 0 else 0.0
    return Alternative(
        limits=limits,
        placement=placement,
        loss_s=loss_s,
        loss_ratio=loss_ratio,
        margin_loss_bytes=optimum.best.margin_bytes - placement.best.margin_bytes,
        text=_sentence(placement.best, optimum.best, loss_s, loss_ratio),
        problem=problem,
    )


def _sentence(other: PricedPlan, best: PricedPlan, loss_s: dict[str, float], loss_ratio: float) -> str:
    if loss_ratio <= 1e-12:
        return "it is as fast as the optimum"
    lost = other.batch_s - best.batch_s
    parts = sorted(loss_s.items(), key=lambda part: -part[1])
    worse = [f"{name} {value / lost:+.0%}" for name, value in parts if value >= 0.005 * lost]
    better = [f"{name} {value / lost:+.0%}" for name, value in parts if value <= -0.005 * lost]
    gained = f", partly won back: {', '.join(better)}" if better else ""
    return f"it is {loss_ratio:.2%} slower. Of the difference: {', '.join(worse)}{gained}"
