"""Published expert plans made whole: stages dealt evenly, the best microbatch size and recompute that fit."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.even_stages import split_evenly
from rephaze.measure.full_planner import FullPlanner
from rephaze.measure.model_work import ModelWork
from rephaze.measure.rule_plans import PlanRule, RulePrice, best_form, published_layout, rule_layouts
from rephaze.measure.stage_planner import StagePlanner
from rephaze.measure.unit_answer import UnitAnswer
from rephaze.measure.units import Memory, Unit
from rephaze.types.comparison import ExpertDegrees
from rephaze.types.placement import Plan, PlannedStage, PricedPlan, Recompute, RecomputePolicy
from rephaze.types.scenario import Scenario
from rephaze.types.search import ModelPlan
from rephaze.units import GIB
from rephaze.workload.zoo import load_model

_FASTEST_FIRST = (Recompute.NONE, Recompute.STAGE, Recompute.BLOCK)
"""Block and stage replay the same work; stage hides more transfers."""


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(files("rephaze.measure").joinpath("data", "expert_plans.toml").read_text("utf-8"))


def expert_degrees(model: str, num_devices: int) -> ExpertDegrees | None:
    """The published degrees of a model, dp scaled to the cluster's size; None if nobody published any."""
    if model not in _data()["plans"]:
        return None
    published = ExpertDegrees(**_data()["plans"][model])
    return replace(published, dp=published.dp * num_devices // _data()["num_devices"])


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertPlan:
    """The expert's plan of a model on a chip."""

    plan: ModelPlan | None
    bound_s: float
    """No form of it is faster; below the plan's time if a schedule is not proven, infinite without a plan."""
    reason: str
    """Why there is none."""


def _none(reason: str) -> ExpertPlan:
    return ExpertPlan(plan=None, bound_s=math.inf, reason=reason)


def _reported_form(found: RulePrice, memories: Sequence[Memory]) -> ExpertPlan:
    assert found.planner is not None
    assert found.price is not None
    price, planner = found.price, found.planner
    needed = max(device.total_bytes for device in price.devices)
    memory = next((option for option in memories if option.hbm_bytes >= needed), memories[-1])
    planner = FullPlanner(planner.solver, planner.work, planner.unit, memory)
    plan = planner.reported(price, planner.energy_per_sample_j(price.plan, price.batch_s))
    # Were all schedules as short as their bounds, no part of the batch could shrink by more than they do.
    return ExpertPlan(plan=plan, bound_s=price.batch_s * planner.least_ratio(), reason="")


class ExpertPlanner:
    """Expert plans of models under one scenario.

    Args:
        scenario: Cluster, microbatch sizes and recompute modes.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._works: dict[tuple[str, int], ModelWork] = {}

    def best_plan(self, solver: ChipSolver, model: str, memories: Sequence[Memory]) -> ExpertPlan:
        """The fastest form of the expert plan that fits the chip, or why there is none.

        Args:
            solver: Of the chip.
            model: Zoo name or graph file.
            memories: Sizes the chip may have, smallest first.
        """
        num_devices = self.scenario.cluster.num_devices
        degrees = expert_degrees(model, num_devices)
        if degrees is None:
            return _none(f"no expert plan of {model} is published")
        told = f"the expert plan of {model} (pp {degrees.pp}, dp {degrees.dp}, tp {degrees.tp})"
        if degrees.dp < 1:
            return _none(f"the expert plan of {model} needs more than {num_devices} chips")
        legal = load_model(model, self.scenario.attention).legal_tp
        if degrees.tp not in legal:
            return _none(f"{told} is impossible: the model can be sharded {', '.join(map(str, legal))} ways only")
        work = self._work(model, degrees.tp)
        if work.is_full:
            found = best_form(solver, work, [published_layout(degrees)], memories[-1], may_be_ragged=True)
            if found.price is None:
                return _none(self._why_not(told, degrees, memories[-1], found.fullest_bytes))
            return _reported_form(found, memories)
        stages = split_evenly(work.layer_type_of, degrees.pp)
        if stages is None:
            return _none(f"{told} is impossible: the model has fewer blocks than stages")
        best, fullest, bound_s = None, math.inf, math.inf
        for unit, priced in self._candidates(solver, work, degrees, stages, memories[-1]):
            if priced.fits:
                bound_s = min(bound_s, StagePlanner(solver, work, unit, memories[-1]).least_batch_s(priced))
            fullest = min(fullest, max(stage.memory.total_bytes for stage in priced.stages))
            if (
                priced.fits
                and math.isfinite(priced.batch_s)
                and (best is None or priced.batch_s < best[1].batch_s)
            ):
                best = (unit, priced)
        if best is None:
            return _none(self._why_not(told, degrees, memories[-1], fullest))
        plan = self._reported(solver, work, *best, memories)
        return ExpertPlan(plan=plan, bound_s=min(bound_s, plan.batch_s), reason="")

    def rule_plan(
        self, solver: ChipSolver, work: ModelWork, rule: PlanRule, memories: Sequence[Memory]
    ) -> ExpertPlan:
        """The plan a practitioner's rule gives under cost model ``full``, or why there is none."""
        for layouts in rule_layouts(rule, work):
            found = best_form(solver, work, layouts, memories[-1], may_be_ragged=False)
            if found.price is not None:
                return _reported_form(found, memories)
        return _none(f"{rule}: no plan of {work.name} fits")

    def _candidates(
        self,
        solver: ChipSolver,
        work: ModelWork,
        degrees: ExpertDegrees,
        stages: tuple[tuple[int, ...], ...],
        memory: Memory,
    ) -> Iterator[tuple[Unit, PricedPlan]]:
        """Every microbatch size and recompute policy of the scenario, priced."""
        for unit in work.units:
            if degrees.dp > -(-self.scenario.training.global_batch // unit.microbatch):
                continue  # some pipelines would have nothing to do
            is_auto = unit.policy is RecomputePolicy.AUTO
            modes = _FASTEST_FIRST if is_auto else (Recompute(unit.policy),)
            planner = StagePlanner(solver, work, unit, memory)
            uniform = [
                planner.priced(
                    Plan(
                        tp=degrees.tp,
                        dp=degrees.dp,
                        microbatch=unit.microbatch,
                        stages=tuple(PlannedStage(layers=layers, recompute=mode) for layers in stages),
                    ),
                )
                for mode in modes
            ]
            # What a stage keeps does not change what another may: each takes its fastest mode that fits.
            chosen = tuple(
                next((one.plan.stages[at] for one in uniform if one.stages[at].fits), uniform[-1].plan.stages[at])
                for at in range(degrees.pp)
            )
            yield unit, planner.priced(replace(uniform[0].plan, stages=chosen))

    def _reported(
        self, solver: ChipSolver, work: ModelWork, unit: Unit, priced: PricedPlan, memories: Sequence[Memory]
    ) -> ModelPlan:
        needed = max(stage.memory.total_bytes for stage in priced.stages)
        memory = next((option for option in memories if option.hbm_bytes >= needed), memories[-1])
        planner = StagePlanner(solver, work, unit, memory)
        answer = UnitAnswer(
            batch_s=priced.batch_s,
            bound_s=priced.batch_s,
            plan=priced.plan,
            energy_per_sample_j=planner.energy_per_sample_j(priced.plan, priced.batch_s),
        )
        return planner.model_plan(answer)

    def _why_not(self, told: str, degrees: ExpertDegrees, memory: Memory, fullest_bytes: float) -> str:
        if math.isinf(fullest_bytes):
            return f"{told} is impossible: a batch has fewer microbatches than pipelines"
        num_needed = degrees.pp * degrees.dp * degrees.tp
        if num_needed > self.scenario.cluster.num_devices:
            return f"{told} needs {num_needed} chips, the cluster has {self.scenario.cluster.num_devices}"
        return (
            f"{told} does not fit: its fullest chip needs at least {fullest_bytes / GIB:.1f} GiB "
            f"of {memory.hbm_bytes / GIB:g} GiB"
        )

    def _work(self, model: str, tp: int) -> ModelWork:
        """The model at the expert's degree, whether or not the scenario would search it."""
        if (model, tp) not in self._works:
            training = replace(self.scenario.training, tp_degrees=(tp,))
            self._works[model, tp] = ModelWork(model, replace(self.scenario, training=training))
        return self._works[model, tp]
