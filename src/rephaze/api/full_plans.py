"""Plans of cost model ``full`` (files of format 2) through the door: the best one, or the price of a given one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rephaze.api.expected_errors import NOTHING_NEAR, with_expected_error
from rephaze.api.full_views import MEMORY_PARTS, answer_blocks
from rephaze.api.placed_from import PlacedFrom
from rephaze.api.plan_rates import PlanRates, batch_rates, rates_record
from rephaze.api.present import Block, Shown
from rephaze.types.chip import Chip
from rephaze.types.full import DeviceMemory, FullGraph, FullLimits, FullPlan, FullPrice, FullProblem, TimeCauses
from rephaze.types.scenario import PhysicsName
from rephaze.types.truth import ExpectedError, Stability

if TYPE_CHECKING:
    from rephaze.place.full.replay import FullReplay
    from rephaze.place.full.timeline import PassEvent as PassEvent
    from rephaze.place.full.why_not import FullAlternative as FullAlternative


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class FullAnswer(Shown):
    """A plan of cost model ``full`` with its price and what is proven of it, or why there is none."""

    label: str
    status: str
    bound_s: float
    """No plan of the options and the family is faster; of a given plan its price."""
    problem: FullProblem
    graph: FullGraph | None = None
    price: FullPrice | None = None
    causes: TimeCauses | None = None
    """What its time is spent on."""
    replay: FullReplay | None = None
    """The batch as the devices would run it."""
    timeline: tuple[PassEvent, ...] | None = None
    """What every device does when, if asked for."""
    reason: str = ""
    """Which limit binds and by how much if nothing fits; else what is not proven."""
    needed_bytes: float | None = None
    """A memory with which there would be a plan, if that is what is lacking."""
    scope: str = ""
    """Over which cuts into stages it is the best, where not over all."""
    solve_s: float | None = None
    """None of a plan that was given."""
    remedies: tuple[str, ...] = ()
    """What would have to change for a given plan that does not fit."""
    alternative: FullAlternative | None = None
    """The best plan under the choices asked about, set beside the best of all."""
    is_judged: bool = False
    """It was set beside measured runs."""
    nothing_near: str = NOTHING_NEAR
    """What to say of a judged plan that no run is near to."""
    expected: ExpectedError | None = None
    """What measured runs near the plan say of its price; None of a judged plan: none is near."""
    stability: Stability | None = None
    """Whether the plan would still be chosen under the error that predictions have."""
    source: PlacedFrom | None = None
    """Which model on which chip, if the problem was made from them."""

    @property
    def rates(self) -> PlanRates | None:
        """Samples and tokens a second, and the use of the chips; None without a plan."""
        if self.price is None:
            return None
        return batch_rates(self.source, self.problem.global_batch, self.price.batch_s, self.price.plan.num_devices)

    @property
    def plan(self) -> FullPlan | None:
        """The plan, if there is one."""
        return None if self.price is None else self.price.plan

    @property
    def batch_s(self) -> float:
        """The time of a batch; infinite without a plan."""
        return math.inf if self.price is None else self.price.batch_s

    @property
    def gap(self) -> float:
        """How much longer the plan may take than the best, as part of the bound."""
        return self.batch_s / self.bound_s - 1.0 if self.price is not None and self.bound_s > 0 else math.inf

    @property
    def replay_note(self) -> str:
        """A sentence if the replay is well above the formula."""
        from rephaze.place.full.replay import replay_note

        if self.replay is None or self.price is None:
            return ""
        return replay_note(self.replay.batch_s, self.price.batch_s)

    def record(self) -> dict[str, Any]:
        """As plain data."""
        answer: dict[str, Any] = {"status": self.status}
        if self.reason:
            answer["reason"] = self.reason
        if self.scope:
            answer["scope"] = self.scope
        if self.solve_s is not None:
            answer["solve_s"] = self.solve_s
        if self.needed_bytes is not None:
            answer["needed_memory_bytes"] = self.needed_bytes
        if self.remedies:
            answer["remedies"] = list(self.remedies)
        if self.alternative is not None:
            answer["why"] = alternative_record(self.alternative)
        if self.price is None or self.graph is None:
            return answer
        answer |= {"batch_s": self.price.batch_s, "bound_s": self.bound_s, "gap": self.gap}
        answer["family"] = str(self.problem.options.family)
        answer |= rates_record(self.rates)
        answer |= price_record(self.graph, self.price)
        if self.causes is not None:
            answer["causes"] = asdict(self.causes)
        if self.replay is not None:
            answer["replay_s"] = self.replay.batch_s
            if self.replay.is_extrapolated:
                answer["replay_is_extrapolated"] = True
            if self.replay_note:
                answer["replay_note"] = self.replay_note
        if self.source is not None:
            from rephaze.api.full_views import margin_sentence

            answer["physics"] = str(self.source.scenario.physics)
            answer["margin"] = margin_sentence(self.price, self.source)
            if self.source.rates_sentence:
                answer["rates"] = self.source.rates_sentence
        if self.is_judged:
            answer["expected_error"] = self.nothing_near if self.expected is None else asdict(self.expected)
        if self.stability is not None:
            answer["stability"] = asdict(self.stability)
        if self.timeline is not None:
            answer["timeline"] = [asdict(event) for event in self.timeline]
        return answer

    def blocks(self) -> Sequence[Block]:
        """Headline, replay, stages, where the time goes, memory of the fullest device."""
        return answer_blocks(self)


def is_full(data: Mapping[str, Any]) -> bool:
    """Whether a problem or plan file is of format 2."""
    return str(data.get("format", "")) in ("rephaze.placement-problem/2", "rephaze.placement-plan/2")


def place_full_problem(label: str, data: dict[str, Any], why: str | None = None) -> FullAnswer:
    """The fastest plan of a problem file of format 2.

    Args:
        label: Of the file.
        data: Its content.
        why: Choices to compare with the best plan, such as ``tp=8,sharding=weights``; ``family`` alone for what
            it costs that plans can be launched.
    """
    from rephaze.place.full.limits import parse_full_limits
    from rephaze.place.full.problem_file import parse_full_problem

    problem = parse_full_problem(data)
    limits = parse_full_limits(why, problem.options.family) if why else None
    return placed_full(label, problem, limits)


def placed_full(label: str, problem: FullProblem, limits: FullLimits | None = None) -> FullAnswer:
    """The fastest plan of a problem, and the best under some choices beside it."""
    from time import perf_counter

    from rephaze.place.full.legality import graph_like
    from rephaze.place.full.obstacles import why_nothing_fits
    from rephaze.place.full.solver import FullPlacer
    from rephaze.place.full.why_not import explain_full_alternative
    from rephaze.types.placement import SolveStatus

    began = perf_counter()
    found = FullPlacer(problem).solve()
    solve_s = perf_counter() - began
    obstacle = why_nothing_fits(problem) if found.status is SolveStatus.INFEASIBLE else None
    answer = FullAnswer(
        label=label,
        status=str(found.status),
        bound_s=found.bound_s,
        problem=problem,
        reason=found.reason if obstacle is None else obstacle.text,
        needed_bytes=None if obstacle is None else obstacle.needed_bytes,
        scope=found.scope,
        solve_s=solve_s,
        alternative=None if limits is None else explain_full_alternative(problem, found, limits),
    )
    return answer if found.best is None else _with_price(answer, graph_like(problem, found.best.plan), found.best)


def evaluate_full_plan(
    label: str, data: dict[str, Any], *, timeline: bool, chip: Chip | None = None
) -> FullAnswer:
    """The price of a plan file of format 2.

    Args:
        label: Of the file.
        data: Its content.
        timeline: Also tell what every device does when.
        chip: What the problem was made for, at the rates of its figures.
    """
    from rephaze.place.full.problem_file import parse_full_plan

    problem, _, plan = parse_full_plan(data)
    found = evaluated_full(label, problem, plan, timeline=timeline)
    if chip is not None:
        return with_expected_error(found, chip, PhysicsName.IDEAL)
    return replace(found, is_judged=True, nothing_near=f"{NOTHING_NEAR}: a file names no chip; --chip does")


def evaluated_full(label: str, problem: FullProblem, plan: FullPlan, *, timeline: bool) -> FullAnswer:
    """The price of a plan of a problem.

    Args:
        label: Of the plan.
        problem: The problem.
        plan: The plan; one of the problem's graphs must be cut as it says.
        timeline: Also tell what every device does when.
    """
    from rephaze.place.full.legality import check_plan, graph_like
    from rephaze.place.full.price import price_full_plan
    from rephaze.place.full.remedies import suggest_full_remedies
    from rephaze.place.full.timeline import replay_events

    graph = graph_like(problem, plan)
    check_plan(problem, graph, plan)
    price = price_full_plan(problem, graph, plan)
    remedies = suggest_full_remedies(problem, graph, price)
    answer = FullAnswer(
        label=label,
        status="feasible" if price.fits else "infeasible",
        bound_s=price.batch_s,
        problem=problem,
        timeline=replay_events(problem, graph, price) if timeline else None,
        reason=remedies[0] if remedies else "",
        remedies=tuple(remedies),
    )
    return _with_price(answer, graph, price)


def _with_price(answer: FullAnswer, graph: FullGraph, price: FullPrice) -> FullAnswer:
    from rephaze.place.full.causes import causes_of
    from rephaze.place.full.replay import replay_full_plan

    return replace(
        answer,
        graph=graph,
        price=price,
        causes=causes_of(answer.problem, graph, price),
        replay=replay_full_plan(answer.problem, graph, price),
    )


def price_record(graph: FullGraph, price: FullPrice) -> dict[str, Any]:
    """A price as plain data."""
    return {
        "plan": _plan_record(graph, price),
        "time": {name: getattr(price.time, name) for name in price.time.__slots__},
        "stages": [{"load_s": load_s} for load_s in price.stage_load_s],
        "devices": [_device_record(device) for device in price.devices],
        "num_devices": price.plan.num_devices,
    }


def alternative_record(found: FullAlternative) -> dict[str, Any]:
    """An alternative as plain data."""
    from rephaze.place.full.limits import chosen_of

    placement, best = found.placement, found.placement.best
    answer: dict[str, Any] = {"choices": chosen_of(found.limits), "text": found.text}
    answer["status"] = str(placement.status)
    if placement.scope:
        answer["scope"] = placement.scope
    if found.needed_bytes is not None:
        answer["needed_memory_bytes"] = found.needed_bytes
    if best is None or found.graph is None:
        return answer
    answer |= {"batch_s": best.batch_s, "bound_s": placement.bound_s, **price_record(found.graph, best)}
    if found.loss_s:
        answer["loss_ratio"] = found.loss_ratio
        answer["loss_s"] = found.loss_s
        answer["margin_loss_bytes"] = found.margin_loss_bytes
    if found.launch_note:
        answer["launch_note"] = found.launch_note
    return answer


def _device_record(device: DeviceMemory) -> dict[str, float]:
    parts = {name: getattr(device, f"{name}_bytes") for name in MEMORY_PARTS}
    return {"memory_bytes": device.total_bytes, **parts}


def _plan_record(graph: FullGraph, price: FullPrice) -> dict[str, Any]:
    """As a plan file takes it."""
    plan = price.plan
    names = ("tp", "cp", "ep", "etp", "sp", "dp", "microbatch", "order", "sharding", "shard_group", "reshard")
    record = {name: getattr(plan, name) for name in names}
    return record | {
        "schedule": plan.schedule,
        "chunks": plan.chunks,
        "stages": [
            {"layers": [graph.layers[v].name for v in stage.layers], "keep": stage.keep} for stage in plan.stages
        ],
    }
