"""Plans under cost models ``1f1b`` and ``paper``: one unit of one model on one chip with one memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.measure.model_work import ModelWork
from rephaze.measure.objective import idle_j_per_sample
from rephaze.measure.pass_times import BACKWARD, FORWARD, LayerSeconds, PassSource, Times
from rephaze.measure.unit_answer import UnitAnswer
from rephaze.measure.units import Memory, Unit
from rephaze.types.placement import Plan, PricedPlan, Recompute, SolveStatus
from rephaze.types.search import ModelPlan, StagePlan

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StagePlanner:
    """Finds and prices plans.

    Args:
        solver: Of the chip.
        work: The model.
        unit: Of the model.
        memory: What plans must fit.
    """

    solver: PassSource
    work: ModelWork
    unit: Unit
    memory: Memory

    def placed_bound_s(self, layer_s: LayerSeconds, cutoff_s: float) -> float:
        """A batch time no plan beats if no pass is faster than given; ``cutoff_s`` if it is no less."""
        forward_s_t, backward_s_t, _ = layer_s
        if not (np.isfinite(forward_s_t).all() and np.isfinite(backward_s_t).all()):
            return math.inf
        kinds = np.array(self.work.layer_type_of)
        placer = self.work.placer(self.unit, self.memory)
        return placer.solve([(forward_s_t[kinds], backward_s_t[kinds])], cutoff_s).bound_s

    def bound_s(self, times: Times, cutoff_s: float, _least_s: LayerSeconds | None = None) -> float:
        """A batch time no plan beats, from bounds on the passes."""
        forward_s_t, backward_s_t = self._columns(times)
        return self.placed_bound_s(LayerSeconds(forward_s_t, backward_s_t, np.zeros_like(forward_s_t)), cutoff_s)

    def solve(self, cutoff_s: float) -> UnitAnswer:
        """The best plan, if it is below ``cutoff_s``."""
        forward, backward = self._columns(Times.SCHEDULED)
        if not (np.isfinite(forward).all() and np.isfinite(backward).all()):
            return UnitAnswer(batch_s=math.inf, bound_s=math.inf, plan=None, energy_per_sample_j=math.inf)
        kinds = np.array(self.work.layer_type_of)
        placer = self.work.placer(self.unit, self.memory)
        found = placer.solve([(forward[kinds], backward[kinds])], cutoff_s)
        bound_s = found.bound_s
        least_f, least_b = self._columns(Times.LEAST)
        if (least_f < forward).any() or (least_b < backward).any():
            # Some schedule was not proven: with its bound the plan might be faster.
            bound_s = min(bound_s, placer.solve([(least_f[kinds], least_b[kinds])], cutoff_s).bound_s)
        if found.status not in (SolveStatus.OPTIMAL, SolveStatus.FEASIBLE):
            return UnitAnswer(batch_s=math.inf, bound_s=bound_s, plan=None, energy_per_sample_j=math.inf)
        plan = placer.plan(found)
        return UnitAnswer(
            batch_s=found.batch_s,
            bound_s=bound_s,
            plan=plan,
            energy_per_sample_j=self.energy_per_sample_j(plan, found.batch_s),
        )

    def model_plan(self, answer: UnitAnswer) -> ModelPlan:
        """The answer as it is reported, stages priced one by one."""
        plan = answer.plan
        assert isinstance(plan, Plan)
        priced = self.priced(plan)
        names = self.work.graph(self.unit.cut).layer_names
        stages = tuple(
            StagePlan(
                first_layer=names[stage.layers[0]],
                last_layer=names[stage.layers[-1]],
                num_layers=len(stage.layers),
                num_devices=cost.num_devices,
                load_s=cost.load_s,
                memory_bytes=cost.memory.total_bytes,
                recompute=str(cost.recompute),
            )
            for stage, cost in zip(plan.stages, priced.stages, strict=True)
        )
        modes = {stage.recompute for stage in stages}
        return ModelPlan(
            model=self.work.name,
            samples_per_s=self.work.scenario.training.global_batch / answer.batch_s,
            batch_s=answer.batch_s,
            tp=plan.tp,
            dp=plan.dp,
            pp=plan.pp,
            microbatch=plan.microbatch,
            recompute=modes.pop() if len(modes) == 1 else "mixed",
            hbm_bytes=self.memory.hbm_bytes,
            energy_per_sample_j=answer.energy_per_sample_j,
            stages=stages,
        )

    def least_batch_s(self, priced: PricedPlan) -> float:
        """The time of a priced plan were every schedule that is not proven as short as its bound."""
        unit, work = self.unit, self.work
        passes = [
            self.solver.pass_times(work, unit.cut, unit.microbatch, kind, direction)
            for kind in range(len(work.passes(unit.cut)))
            for direction in (FORWARD, BACKWARD)
        ]
        if all(one.is_proven for one in passes):
            return priced.batch_s
        return self.priced(priced.plan, use_bounds=True).batch_s

    def priced(self, plan: Plan, *, use_bounds: bool = False) -> PricedPlan:
        """A plan priced by the independent evaluator, with this chip's layer times (or their bounds)."""
        layer_s = self._columns(Times.LEAST if use_bounds else Times.SCHEDULED)
        return self.work.priced_plan(self.unit, self.memory, plan, layer_s)

    def energy_per_sample_j(self, plan: Plan, batch_s: float) -> float:
        """Dynamic energy of all chips of a group, replays included, plus idle power for the batch."""
        solver, work, unit = self.solver, self.work, self.unit
        total = 0.0
        for stage in plan.stages:
            for layer in stage.layers:
                kind = work.layer_type_of[layer]
                members = work.num_members(unit.cut, kind)
                runs = 2 if stage.recompute is not Recompute.NONE else 1
                forward = solver.pass_times(work, unit.cut, unit.microbatch, kind, FORWARD).energy_j
                backward = solver.pass_times(work, unit.cut, unit.microbatch, kind, BACKWARD).energy_j
                total += members * (runs * forward + backward)
        scenario = work.scenario
        cluster_idle_w = float(solver.energy.idle_w_c[0]) * scenario.cluster.num_devices
        return total / unit.microbatch + idle_j_per_sample(cluster_idle_w, batch_s, scenario.training.global_batch)

    def _columns(self, times: Times) -> tuple[Floats, Floats]:
        """Forward and backward seconds by layer type."""
        unit = self.unit
        forward, backward = (
            self.solver.pass_seconds(self.work, unit.cut, unit.microbatch, direction, times)
            for direction in (FORWARD, BACKWARD)
        )
        return forward, backward
