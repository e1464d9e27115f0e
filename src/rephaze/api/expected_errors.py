"""The error beside an answer: what measured runs near a plan say of its price, and of the choice of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rephaze.types.chip import Chip
from rephaze.types.full import FullGraph, FullLimits, FullPlan, FullProblem, Sharding
from rephaze.types.scenario import PhysicsName, Scenario

if TYPE_CHECKING:
    from rephaze.api.full_plans import FullAnswer
    from rephaze.truth.nearness import PlanFeatures
    from rephaze.types.search import ModelPlan, SearchResult
    from rephaze.types.truth import ExpectedError, Stability

NOTHING_NEAR = "no measured run is near this"


def with_expected_error(answer: FullAnswer, chip: Chip, physics: PhysicsName) -> FullAnswer:
    """The answer with what is to be expected of it on this chip, priced at these rates."""
    from rephaze.hardware.derating import family_of
    from rephaze.hardware.presets import load_presets
    from rephaze.truth.nearness import expected_error, stability

    if answer.plan is None or answer.graph is None:
        return answer
    features = _features(answer.problem, answer.graph, answer.plan)
    family = family_of(chip.name, is_known=chip.name.lower() in load_presets())
    times, plans = [answer.batch_s], [features]
    for time_s, rival in _rivals(answer.problem):
        if rival not in plans:
            times.append(time_s)
            plans.append(rival)
    return replace(
        answer,
        expected=expected_error(family, features, is_calibrated=physics is PhysicsName.CALIBRATED),
        is_judged=True,
        stability=stability(times, plans),
    )


MOST_RIVALS = 64
"""Solved chips that an answer is set beside, best first."""


def stability_of_search(result: SearchResult, folder: Path) -> Stability | None:
    """Whether the chip of a recorded search would stay the best of those solved under the error of predictions.

    None where the run holds no other chip that was solved exactly.
    """
    from rephaze.store.run_store import RunStore
    from rephaze.truth.nearness import chip_stability

    if result.chip is None:
        return None
    with RunStore.read(folder) as store:
        designs, evaluations = store.designs(), tuple(store.evaluations())
        place = {number: at for at, number in enumerate(store.design_numbers())}
    if designs is None:
        return None
    solved = [one for one in evaluations if one.is_exact and one.objective > 0 and one.design in place]
    rivals = sorted(
        (one for one in solved if one.design != result.design), key=lambda one: (-one.objective, one.design)
    )[:MOST_RIVALS]
    if not rivals:
        return None
    chips = [result.chip, *(designs[0].chip(place[one.design]) for one in rivals)]
    return chip_stability([1 / result.objective, *(1 / one.objective for one in rivals)], chips)


def expected_of_search(plans: Sequence[ModelPlan], scenario: Scenario) -> dict[str, ExpectedError | None]:
    """By model, what measured runs near its plan say; a searched chip has its template's family."""
    from rephaze.hardware.derating import TEMPLATE_FAMILY
    from rephaze.truth.nearness import PlanFeatures, expected_error

    found = {}
    for plan in plans:
        features = PlanFeatures(
            tp=plan.tp,
            pp=plan.pp,
            cp=plan.cp,
            ep=plan.ep,
            shards_weights=plan.sharding is Sharding.WEIGHTS,
            num_params=0.0,
            num_devices=plan.num_devices,
        )
        found[plan.model] = expected_error(
            TEMPLATE_FAMILY, features, is_calibrated=scenario.physics is PhysicsName.CALIBRATED
        )
    return found


def expected_sentence(near: ExpectedError | None) -> str:
    """For a reader."""
    return NOTHING_NEAR if near is None else near.sentence()


def _rivals(problem: FullProblem) -> list[tuple[float, PlanFeatures]]:
    """The best plans under other choices: each tp, a few pp, weights sharded or not."""
    from rephaze.place.full.legality import graph_like
    from rephaze.place.full.solver import FullPlacer
    from rephaze.types.placement import SolveStatus

    choices = [FullLimits(tp=tp) for tp in sorted({graph.tp for graph in problem.graphs})]
    choices += [FullLimits(pp=pp) for pp in (1, 2, 4, 8)]
    choices += [
        FullLimits(sharding=one)
        for one in (Sharding.OPTIMIZER, Sharding.WEIGHTS)
        if one in problem.options.sharding
    ]
    found = []
    for limits in choices:
        answer = FullPlacer(replace(problem, limits=limits)).solve()
        if answer.status is not SolveStatus.INFEASIBLE and answer.best is not None:
            plan = answer.best.plan
            found.append((answer.best.batch_s, _features(problem, graph_like(problem, plan), plan)))
    return found


def _features(problem: FullProblem, graph: FullGraph, plan: FullPlan) -> PlanFeatures:
    from rephaze.truth.nearness import PlanFeatures

    own = sum(layer.param_bytes for layer in graph.layers) * plan.tp
    experts = sum(layer.expert_param_bytes for layer in graph.layers) * plan.ep * plan.etp
    return PlanFeatures(
        tp=plan.tp,
        pp=plan.pp,
        cp=plan.cp,
        ep=plan.ep,
        shards_weights=plan.sharding is Sharding.WEIGHTS,
        num_params=max(1.0, (own + experts) / problem.precision.weight_bytes),
        num_devices=plan.num_devices,
    )
