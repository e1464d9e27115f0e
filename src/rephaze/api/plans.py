"""Plans over a cluster, through the door: the best one of a model on a chip, or the price of a given one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rephaze.api.chips import as_chip
from rephaze.api.expected_errors import with_expected_error
from rephaze.api.full_choices import check_choices
from rephaze.api.full_plans import (
    FullAnswer,
    evaluate_full_plan,
    evaluated_full,
    is_full,
    place_full_problem,
    placed_full,
)
from rephaze.api.placed_from import PlacedFrom
from rephaze.api.plan_results import EvaluatedPlan, PlacedModel
from rephaze.api.problem_files import BadProblem, answer_all
from rephaze.api.schedules import OnStep, ignore_step
from rephaze.api.spaces import as_scenario, at_physics, resized
from rephaze.errors import SpecError
from rephaze.types.checks import check_choice
from rephaze.types.chip import Chip
from rephaze.types.files import read_mapping
from rephaze.types.full import FullPlan, FullProblem, PlanFamily
from rephaze.types.placement import Placement, PlacementModel, PlacementProblem, Plan, PlanLimits, SolveStatus
from rephaze.types.scenario import Scenario

if TYPE_CHECKING:
    from rephaze.measure.model_on_chip import ChipProblem


def place_model(
    model: str | Path,
    chip: str | Path | Chip,
    *,
    num_devices: int | None = None,
    global_batch: int | None = None,
    scenario: str | Path | Scenario = "default",
    why: str | PlanLimits | None = None,
    family: str | None = None,
    physics: str | None = None,
    time_limit_s: float = math.inf,
    on_step: OnStep = ignore_step,
) -> PlacedModel | FullAnswer:
    """The fastest way to spread a model over a cluster of a chip, proven, or with what is not proven.

    Example:
        >>> import rephaze
        >>> placed = rephaze.place_model("vit-large", "tpuv4", num_devices=8, global_batch=64, why="dp=2")
        >>> placed.status, placed.plan.dp, placed.alternative.placement.best.plan.dp
        ('optimal', 8, 2)

    Args:
        model: A name of ``list_models``, or a graph file.
        chip: A name of ``list_chips``, a chip file, or a chip; its memory is what plans must fit.
        num_devices: Chips in the cluster; None: as many as the scenario has.
        global_batch: Samples in a batch; None: the scenario's.
        scenario: Network, training and models of cost.
        why: Choices to compare with the best plan, such as ``tp=8,pp=4,recompute=stage``; of placement model
            ``full`` any decision, or ``family`` alone for what it costs that plans can be launched.
        family: Which plans can be launched: ``any``, ``exact``, ``megatron``, ``torchtitan`` or ``maxtext``; for
            scenarios of placement model ``full``, whose plans section says it otherwise.
        physics: ``ideal``, or ``calibrated``: at the rates that measured chips of its family reach; None: the
            scenario's.
        time_limit_s: Under placement model ``full``, after so long the best plan found so far is given, with how
            much faster a plan might be; until there is one, the search goes on.
        on_step: Told what is being done.
    """
    setting = resized(at_physics(as_scenario(scenario), physics), num_devices, global_batch)
    if not time_limit_s >= 0:
        raise SpecError("time_limit_s", time_limit_s, "must be zero or more", "leave it out for none")
    if setting.placement_model is PlacementModel.FULL:
        return _placed_in_full(model, chip, setting, family, why, time_limit_s, on_step)
    rule = f"is for placement model full; scenario {setting.name} has {setting.placement_model}"
    if family is not None:
        raise SpecError("family", family, rule, "leave it out, or choose scenario default")
    if math.isfinite(time_limit_s):
        raise SpecError("time_limit_s", time_limit_s, rule, "leave it out, or choose scenario default")
    limits = _ready(why, on_step)
    from rephaze.hardware.derating import chip_at
    from rephaze.measure.model_on_chip import placement_on_chip

    def show(done: int, total: int) -> None:
        on_step(f"mapping and scheduling layers: {done} of {total} degrees and microbatch sizes")

    on_step("mapping and scheduling layers")
    chosen = as_chip(chip)
    on_chip = placement_on_chip(str(model), chip_at(chosen, setting), setting, show, limits=limits)
    on_step("placing")
    label = f"{model} on {chip.name if isinstance(chip, Chip) else chip}"
    source = PlacedFrom(model=str(model), chip=chosen, scenario=setting)
    return replace(_on_chip(label, on_chip, limits), source=source)


def _placed_in_full(
    model: str | Path,
    chip: str | Path | Chip,
    scenario: Scenario,
    family: str | None,
    why: str | PlanLimits | None,
    time_limit_s: float,
    on_step: OnStep,
) -> FullAnswer:
    """The same under placement model ``full``."""
    from rephaze.hardware.derating import chip_at
    from rephaze.measure.full_on_chip import full_placement_on_chip
    from rephaze.place.full.limits import parse_full_limits

    if why is not None and not isinstance(why, str):
        raise SpecError("why", why, "must be text under placement model full", "for example tp=8,sharding=weights")
    if family is not None:
        check_choice("family", family, [str(one) for one in PlanFamily])
        scenario = replace(scenario, plans=replace(scenario.plans, family=PlanFamily(family)))
    limits = parse_full_limits(why, scenario.plans.family) if why else None
    if limits is not None:
        check_choices(model, scenario, limits)

    def show(done: int, total: int) -> None:
        on_step(f"mapping and scheduling layers: {done} of {total} cuts and microbatch sizes")

    on_step("mapping and scheduling layers")
    chosen = as_chip(chip)
    on_chip = full_placement_on_chip(
        str(model), chip_at(chosen, scenario), scenario, show, limits=limits, time_limit_s=time_limit_s
    )
    on_step("placing")
    label = f"{model} on {chip.name if isinstance(chip, Chip) else chip}"
    if not on_chip.problem.graphs:
        reason = "some operator can run on no core of this chip, at any cut and microbatch size"
        return FullAnswer(
            label=label, status="infeasible", bound_s=math.inf, problem=on_chip.problem, reason=reason
        )
    source = PlacedFrom(model=str(model), chip=chosen, scenario=scenario)
    found = replace(
        with_expected_error(placed_full(label, on_chip.problem, limits), chosen, scenario.physics), source=source
    )
    if found.price is None or not on_chip.is_unproven:
        return found
    reason = unproven_said(found.reason, len(on_chip.unproven), on_chip.num_passes)
    if on_chip.num_open:
        reason = f"time was up with {on_chip.num_open:,} cuts and microbatch sizes that may be faster"
    return replace(found, status="feasible", bound_s=min(found.bound_s, on_chip.bound_s), reason=reason)


def unproven_said(plan_search: str, num_unproven: int, num_passes: int) -> str:
    """What keeps a plan on a chip from being proven: schedules of its layers, the search for the plan, or both.

    Args:
        plan_search: What the search over the layers' times left open, if anything.
        num_unproven: Passes whose schedules are not proven shortest.
        num_passes: Of all.
    """
    said = [f"schedules of {num_unproven:,} of {num_passes:,} layer passes not proven"] if num_unproven else []
    said += [plan_search] if plan_search else []
    # A cut that was solved beside others may have been left open where all together are not.
    return "; ".join(said) or "not every plan of every cut and microbatch size was looked at"


def place_problems(
    paths: Sequence[str | Path], *, why: str | None = None, on_step: OnStep = ignore_step
) -> Iterator[tuple[str, PlacedModel | FullAnswer | BadProblem]]:
    """The fastest plan of every problem in problem files of format 1 or 2, with its label.

    Args:
        paths: ``.json`` files, or ``.jsonl`` with a problem a line.
        why: As in ``place_model``; files of format 2 have more choices.
        on_step: Told what is being done.
    """
    from rephaze.place.problem_file import parse_problem
    from rephaze.place.why_not import parse_limits

    on_step("placing")
    is_ready = False

    def placed(label: str, data: dict[str, Any]) -> PlacedModel | FullAnswer:
        nonlocal is_ready
        if is_full(data):
            return place_full_problem(label, data, why)
        if not is_ready:  # only where it is asked for: files of format 2 have a solver of their own
            _ready(None, on_step)
            on_step("placing")
            is_ready = True
        return _placed(label, parse_problem(data), parse_limits(why) if why else None)

    return answer_all(paths, placed)


def evaluate_plan(
    problem: str | Path | Mapping[str, Any] | PlacementProblem | FullProblem,
    plan: Plan | FullPlan | None = None,
    *,
    timeline: bool = False,
) -> EvaluatedPlan | FullAnswer:
    """The time of a batch and the memory of every stage under a given plan, and what to change if it does not fit.

    Example:
        >>> from dataclasses import replace
        >>> import rephaze
        >>> placed = rephaze.place_model("vit-large", "tpuv4", num_devices=8, global_batch=64)
        >>> stages = tuple(replace(stage, keep=15) for stage in placed.plan.stages)  # replay as much as can be
        >>> other = rephaze.evaluate_plan(placed.problem, replace(placed.plan, stages=stages))
        >>> other.status, other.batch_s > placed.batch_s
        ('feasible', True)

    Args:
        problem: A problem, as ``place_model`` gives it; or a plan file (``rephaze.placement-plan/1`` or ``/2``) by
            path or content, which holds problem and plan.
        plan: The plan, unless a plan file gives it.
        timeline: Also tell what every stage does when (not of cost model ``paper``).
    """
    if isinstance(problem, PlacementProblem | FullProblem):
        if plan is None:
            raise SpecError(
                "plan", None, "is missing", "give it beside the problem, or a plan file instead of both"
            )
        if isinstance(problem, FullProblem) and isinstance(plan, FullPlan):
            return evaluated_full("plan", problem, plan, timeline=timeline)
        if isinstance(problem, PlacementProblem) and isinstance(plan, Plan):
            return _evaluated(problem, plan, timeline)
        rule = "must be of the problem's cost model"
        raise SpecError("plan", type(plan).__name__, rule, "take it from an answer to the same problem")
    if plan is not None:
        raise SpecError(
            "plan", plan, "comes with the plan file", "give a problem as a record to price another plan"
        )
    from rephaze.place.problem_file import parse_plan

    data = dict(problem) if isinstance(problem, Mapping) else read_mapping(Path(problem))
    if is_full(data):
        label = "plan" if isinstance(problem, Mapping) else Path(problem).name
        return evaluate_full_plan(label, data, timeline=timeline)
    return _evaluated(*parse_plan(data), timeline)


def evaluate_plans(
    paths: Sequence[str | Path], *, timeline: bool = False, chip: str | Path | Chip | None = None
) -> Iterator[tuple[str, EvaluatedPlan | FullAnswer | BadProblem]]:
    """Every plan in plan files priced, each with its label.

    Args:
        paths: ``.json`` files, or ``.jsonl`` with a plan a line.
        timeline: Also tell what every stage does when (not of cost model ``paper``).
        chip: What the problems were made for: plans of cost model ``full`` are set beside measured runs then.
    """
    from rephaze.place.problem_file import parse_plan

    chosen = None if chip is None else as_chip(chip)

    def evaluated(label: str, data: dict[str, Any]) -> EvaluatedPlan | FullAnswer:
        if is_full(data):
            return evaluate_full_plan(label, data, timeline=timeline, chip=chosen)
        if chosen is not None:
            rule = "is for plans of cost model full (format 2)"
            raise SpecError("chip", chosen.name, rule, "leave it out")
        return _evaluated(*parse_plan(data), timeline)

    return answer_all(paths, evaluated)


def _ready(why: str | PlanLimits | None, on_step: Callable[[str], None]) -> PlanLimits | None:
    """The choices asked about, and the solver compiled."""
    on_step("preparing the solver (compiled once, then cached)")
    from rephaze.place.answer import warm_up
    from rephaze.place.why_not import parse_limits

    limits = parse_limits(why) if isinstance(why, str) and why else why
    warm_up()
    return limits or None


def _placed(label: str, problem: PlacementProblem, limits: PlanLimits | None) -> PlacedModel:
    from time import perf_counter

    from rephaze.place.answer import describe_solution
    from rephaze.place.simulate import replayed_batch_s
    from rephaze.place.solver import Placer
    from rephaze.place.why_not import explain_alternative

    start = perf_counter()
    placer = Placer(problem)
    solution = placer.solve()
    solve_s = perf_counter() - start
    placement = describe_solution(placer, solution)
    best = placement.best
    return PlacedModel(
        label=label,
        problem=problem,
        placement=placement,
        solve_s=solve_s,
        replay_s=None if best is None else replayed_batch_s(problem, best.plan),
        alternative=None if limits is None else explain_alternative(problem, placement, limits),
    )


def _on_chip(label: str, on_chip: ChipProblem, limits: PlanLimits | None) -> PlacedModel:
    if not on_chip.problem.graphs:
        reason = "some operator can run on no core of this chip, at any degree and microbatch size"
        nothing = Placement(status=SolveStatus.INFEASIBLE, bound_s=math.inf, reason=reason)
        return PlacedModel(label=label, problem=on_chip.problem, placement=nothing, solve_s=None)
    found = _placed(label, on_chip.problem, limits)
    placement = found.placement
    if placement.best is not None and placement.status is not SolveStatus.OPTIMAL and on_chip.said:
        placement = replace(placement, reason=f"{placement.reason}: {on_chip.said}")
    return replace(
        found, placement=placement, num_layer_passes=on_chip.num_passes, unproven_passes=on_chip.unproven
    )


def _evaluated(problem: PlacementProblem, plan: Plan, timeline: bool) -> EvaluatedPlan:
    from rephaze.place.price import price_plan
    from rephaze.place.remedies import suggest_remedies
    from rephaze.place.simulate import replay_plan, replayed_batch_s

    priced = price_plan(problem, plan)
    replay_s = replayed_batch_s(problem, plan)
    return EvaluatedPlan(
        problem=problem,
        priced=priced,
        replay_s=replay_s,
        remedies=() if priced.fits else tuple(suggest_remedies(problem, priced)),
        timeline=replay_plan(problem, plan).events if timeline and replay_s is not None else None,
    )
