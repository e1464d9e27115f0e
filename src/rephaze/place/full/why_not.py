"""Why not another plan: the best one under given choices, and where it loses time or lacks memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rephaze.place.full.causes import causes_of
from rephaze.place.full.launching import broken_rules
from rephaze.place.full.legality import graph_like
from rephaze.place.full.limited_solve import limited_solve
from rephaze.place.full.limits import chosen_of
from rephaze.place.full.obstacles import why_choices_fail, why_nothing_fits
from rephaze.place.full.solver import FullPlacement
from rephaze.types.full import FullGraph, FullLimits, FullPrice, FullProblem, PlanFamily
from rephaze.types.placement import SolveStatus

SAME = 1e-9
"""Relative: faster or slower by less is as fast."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FullAlternative:
    """The best plan under some choices, set beside the best of all."""

    limits: FullLimits
    placement: FullPlacement
    graph: FullGraph | None
    """Of its plan."""
    loss_s: dict[str, float]
    """Time lost by cause; negative where it gains."""
    loss_ratio: float
    """Its time over the optimum's, less one; negative if its choices are outside the problem's options."""
    margin_loss_bytes: float
    """Memory left on the fullest device: the optimum's less the alternative's."""
    text: str
    """All of it in a sentence or two."""
    needed_bytes: float | None = None
    """A memory with which there would be a plan, where that is what it lacks."""
    launch_note: str = ""
    """What a family costs against any plan, and what of its rules that breaks, if that was asked about."""


def explain_full_alternative(problem: FullProblem, optimum: FullPlacement, limits: FullLimits) -> FullAlternative:
    """The best plan under ``limits`` and what it loses against ``optimum``."""
    found = limited_solve(problem, limits)
    if found.best is None or optimum.best is None:
        return _without_comparison(problem, found, limits)
    best, other = optimum.best, found.best
    graph = graph_like(problem, other.plan)
    here = asdict(causes_of(problem, graph_like(problem, best.plan), best))
    there = asdict(causes_of(problem, graph, other))
    loss_s = {name.removesuffix("_s"): there[name] - here[name] for name in here}
    loss_ratio = other.batch_s / best.batch_s - 1 if best.batch_s > 0 else 0.0
    return FullAlternative(
        limits=limits,
        placement=found,
        graph=graph,
        loss_s=loss_s,
        loss_ratio=loss_ratio,
        margin_loss_bytes=_margin_bytes(best) - _margin_bytes(other),
        text=_sentence(other, best, loss_s, loss_ratio),
        launch_note=_launch_note(problem, best, other, limits),
    )


def _without_comparison(problem: FullProblem, found: FullPlacement, limits: FullLimits) -> FullAlternative:
    graph, needed_bytes = None, None
    if found.best is not None:
        graph = graph_like(problem, found.best.plan)
        text = f"it runs in {found.best.batch_s:.6g} s; nothing to compare with: {why_nothing_fits(problem).text}"
    elif found.status is SolveStatus.INFEASIBLE:
        obstacle = why_choices_fail(problem, limits)
        text, needed_bytes = f"it cannot run. {obstacle.text}", obstacle.needed_bytes
    else:
        text = f"no plan was found, and none excluded: {found.reason or 'the search was cut short'}"
    return FullAlternative(
        limits=limits,
        placement=found,
        graph=graph,
        loss_s={},
        loss_ratio=0.0,
        margin_loss_bytes=0.0,
        text=text,
        needed_bytes=needed_bytes,
    )


def _sentence(other: FullPrice, best: FullPrice, loss_s: dict[str, float], loss_ratio: float) -> str:
    if abs(loss_ratio) <= SAME:
        return "it is as fast as the optimum"
    lost = other.batch_s - best.batch_s
    parts = sorted(loss_s.items(), key=lambda part: -part[1] / lost)
    along = [f"{name} {value / lost:+.0%}" for name, value in parts if value / lost >= 0.005]
    against = [f"{name} {value / lost:+.0%}" for name, value in parts if value / lost <= -0.005]
    where = f"Of the difference: {', '.join(along)}"
    if loss_ratio > 0:
        back = f", partly won back: {', '.join(against)}" if against else ""
        return f"it is {loss_ratio:.2%} slower. {where}{back}"
    back = f", partly lost again: {', '.join(against)}" if against else ""
    return f"it is {-loss_ratio:.2%} faster, and outside the problem's options or family. {where}{back}"


def _launch_note(problem: FullProblem, best: FullPrice, other: FullPrice, limits: FullLimits) -> str:
    """``--why family`` asks what it costs that a plan can be launched: any plan against those of a family."""
    own, asked = problem.options.family, limits.family
    if (
        asked is None
        or chosen_of(limits) != {"family": asked}
        or PlanFamily.ANY not in (own, asked)
        or own is asked
    ):
        return ""
    family, launched, free = (own, best, other) if asked is PlanFamily.ANY else (asked, other, best)
    cost = launched.batch_s / free.batch_s - 1 if free.batch_s > 0 else 0.0
    if cost <= SAME:
        return f"family {family} costs nothing: no plan of any family is faster than its best"
    broken = ", ".join(broken_rules(problem, family, graph_like(problem, free.plan), free.plan))
    return (
        f"family {family} costs {cost:.2%}: its best plan takes that much longer than the best of any family, "
        f"which {family} cannot launch: {broken}"
    )


def _margin_bytes(price: FullPrice) -> float:
    return price.device_memory_bytes - max(device.total_bytes for device in price.devices)
