"""The nearest alternatives to an answer: plans with one decision changed, what each loses, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rephaze.types.full import FullGraph, FullLimits, FullPlan, FullPrice, FullProblem, Sharding
from rephaze.units import GIB

if TYPE_CHECKING:
    from rephaze.api.full_plans import FullAnswer
    from rephaze.api.plan_results import PlacedModel
    from rephaze.place.full.solver import FullPlacement
    from rephaze.place.full.why_not import FullAlternative
    from rephaze.types.placement import PlanLimits

BUDGET_S = 2.0
"""After this no further alternative is begun."""
MOST_SOLVE_S = 3.0
"""Where the plan itself took longer to find, none is begun at all."""
MOST_TOLD = 5
_SAME = 1e-6
CAUSES = {
    "compute": "compute",
    "replay": "recompute",
    "messages": "messages between stages",
    "transfer": "messages between stages",
    "gathers": "exposed transfers of weights",
    "bubble": "pipeline bubble",
    "sync": "exposed sum of gradients",
    "tied": "tied weights",
    "step": "optimizer step",
    "regather": "exposed gathering of weights",
}
"""Parts of a batch's time, as an alternative tells where it loses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NearPlan:
    """The best plan with one decision changed."""

    change: str
    """In words: ``tp 8``."""
    why: str
    """As ``--why`` takes it: ``tp=8``."""
    loss_ratio: float | None
    """Its time over the optimum's, less one; None where no such plan fits."""
    cause: str
    """Where it loses most, or what it lacks."""

    @property
    def text(self) -> str:
        """All of it in a few words."""
        if self.loss_ratio is None:
            return f"{self.change}: {self.cause}"
        if abs(self.loss_ratio) < _SAME:
            return f"{self.change}: as fast"
        return f"{self.change}: {100 * self.loss_ratio:+.1f} %, {self.cause}"


@dataclass(frozen=True, kw_only=True, slots=True)
class NearPlans:
    """Alternatives, the nearest first, and what was not looked at."""

    plans: tuple[NearPlan, ...]
    skipped: str
    """In words, or empty."""


def nearest_plans(answer: FullAnswer | PlacedModel) -> NearPlans:
    """The nearest alternatives to the plan of an answer, as many as two seconds suffice for.

    Args:
        answer: Of ``place_model``, with a plan.
    """
    from rephaze.api.full_plans import FullAnswer

    if answer.plan is None or answer.solve_s is None:
        return NearPlans(plans=(), skipped="")
    if answer.solve_s > MOST_SOLVE_S:
        return NearPlans(plans=(), skipped="alternatives would take long here: ask for one with --why")
    if isinstance(answer, FullAnswer):
        assert answer.price is not None
        assert answer.graph is not None
        found = near_full_plans(answer.problem, answer.graph, answer.price, answer.bound_s)
        has_bounded = answer.source is not None
    else:
        found = _within_budget(_simple_plans(answer))
        has_bounded = False
    if has_bounded and not found.skipped:
        told = "other cuts (tp, cp, ep, microbatch) were shown to be slower by bounds: --why tp=8 prices one"
        found = NearPlans(plans=found.plans, skipped=told)
    return found


def near_full_plans(problem: FullProblem, graph: FullGraph, price: FullPrice, bound_s: float) -> NearPlans:
    """The same of a plan of cost model ``full``."""
    from rephaze.place.full.solver import FullPlacement
    from rephaze.types.placement import SolveStatus

    optimum = FullPlacement(status=SolveStatus.FEASIBLE, bound_s=bound_s, best=price)
    return _within_budget(_full_plans(problem, graph, price.plan, optimum))


def _within_budget(found: Iterator[NearPlan]) -> NearPlans:
    """What is found in time: those that fit by rising loss, then what lacks memory."""
    began, plans, is_cut = perf_counter(), [], False
    for one in found:
        plans.append(one)
        if perf_counter() - began > BUDGET_S:
            is_cut = True
            break
    # A second decision that leads to the same plan tells nothing new.
    fitting = sorted((one for one in plans if one.loss_ratio is not None), key=lambda one: one.loss_ratio or 0.0)
    lacking = [one for one in plans if one.loss_ratio is None and "GiB" in one.cause]
    num_lacking = min(2, len(lacking))
    told = [*fitting[: MOST_TOLD - num_lacking], *lacking[:num_lacking]]
    return NearPlans(
        plans=tuple(told),
        skipped="two seconds were not enough for all: ask for others with --why" if is_cut else "",
    )


def _full_plans(
    problem: FullProblem, graph: FullGraph, plan: FullPlan, optimum: FullPlacement
) -> Iterator[NearPlan]:
    from rephaze.place.full.limits import told_choice
    from rephaze.place.full.why_not import explain_full_alternative

    for change, limits in _changes(problem, graph, plan):
        found = explain_full_alternative(problem, optimum, FullLimits(**limits))
        why = ",".join(told_choice(name, value) for name, value in limits.items())
        yield _told(problem, change, why, found)


def _told(problem: FullProblem, change: str, why: str, found: FullAlternative) -> NearPlan:
    if found.placement.best is None:
        cause = "no such plan"
        if found.needed_bytes is not None:
            lacking = (found.needed_bytes - problem.device_memory_bytes) / GIB
            cause = f"does not fit by {lacking:.2g} GiB" if lacking < 10 else f"does not fit by {lacking:.0f} GiB"
        return NearPlan(change=change, why=why, loss_ratio=None, cause=cause)
    return NearPlan(change=change, why=why, loss_ratio=found.loss_ratio, cause=_most(found.loss_s))


def _most(loss_s: dict[str, float]) -> str:
    """The part of the time that grows most."""
    name = max(loss_s, key=lambda part: loss_s[part], default="compute")
    return CAUSES.get(name, name)


def _changes(problem: FullProblem, graph: FullGraph, plan: FullPlan) -> Iterator[tuple[str, dict[str, Any]]]:
    """One decision at a time, those first that people ask about."""
    for name in ("tp", "cp", "ep", "microbatch"):
        own = getattr(plan, name)
        for value in sorted({getattr(one, name) for one in problem.graphs} - {own}, key=lambda v: abs(v - own)):
            yield f"{name} {value}", {name: value}
    words = {
        Sharding.NONE: "nothing sharded",
        Sharding.OPTIMIZER: "only optimizer state sharded",
        Sharding.GRADIENTS: "optimizer state and gradients sharded",
        Sharding.WEIGHTS: "weights sharded (FSDP)",
    }
    if plan.num_replicas > 1:
        for sharding in {Sharding.NONE: None} | dict.fromkeys(problem.options.sharding):
            if sharding is not plan.sharding:
                is_off = sharding is Sharding.NONE and plan.sharding is Sharding.WEIGHTS
                yield "no FSDP" if is_off else words[sharding], {"sharding": sharding}
    for pp in (plan.pp // 2, 2 * plan.pp):
        if 1 <= pp <= len(graph.layers) and plan.tp * plan.cp * pp <= problem.cluster.num_devices:
            yield f"pp {pp}", {"pp": pp}
    for schedule in problem.options.schedule:
        if schedule is not plan.schedule and plan.pp > 1:
            yield str(schedule), {"schedule": schedule}
    if any(stage.keep for stage in plan.stages):
        yield "no recompute", {"keep": 0}


def _simple_plans(answer: PlacedModel) -> Iterator[NearPlan]:
    from rephaze.place.why_not import explain_alternative
    from rephaze.types.placement import PlanLimits, RecomputePolicy

    plan, problem = answer.plan, answer.problem
    assert plan is not None
    asked: list[tuple[str, PlanLimits]] = [
        (f"tp {tp}", PlanLimits(tp=tp)) for tp in sorted({graph.tp for graph in problem.graphs} - {plan.tp})
    ]
    asked += [(f"pp {pp}", PlanLimits(pp=pp)) for pp in (plan.pp // 2, 2 * plan.pp) if pp >= 1]
    sizes = sorted({graph.microbatch for graph in problem.graphs} - {plan.microbatch})
    asked += [(f"microbatch {size}", PlanLimits(microbatch=size)) for size in sizes]
    asked += [("no recompute", PlanLimits(recompute=RecomputePolicy.NONE))]
    for change, limits in asked:
        found = explain_alternative(problem, answer.placement, limits)
        name, _, value = change.rpartition(" ")
        why = f"{name}={value}" if value.isdecimal() else "recompute=none"
        if found.placement.best is None:
            yield NearPlan(change=change, why=why, loss_ratio=None, cause=found.placement.reason)
        elif change != "no recompute" or abs(found.loss_ratio) > _SAME:
            yield NearPlan(change=change, why=why, loss_ratio=found.loss_ratio, cause=_most(found.loss_s))
