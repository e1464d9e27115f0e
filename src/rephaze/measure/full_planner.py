"""Plans under cost model ``full``: one unit of one model on one chip with one memory."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rephaze.measure.full_times import TypeTimes, least_times, scheduled_times
from rephaze.measure.model_work import ModelWork
from rephaze.measure.objective import idle_j_per_sample
from rephaze.measure.pass_times import BACKWARD, FORWARD, INPUT_PART, LayerSeconds, PassSource, Times
from rephaze.measure.unit_answer import UnitAnswer
from rephaze.measure.units import Memory, Unit
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.solver import FullPlacement
from rephaze.place.full.times import LayerTimes, retimed_graph
from rephaze.types.full import FullPlan, FullPrice, FullProblem
from rephaze.types.placement import SolveStatus
from rephaze.types.search import ModelPlan, StagePlan

Floats = NDArray[np.float64]

NO_BOUND_S = 1e-300
"""Every plan takes longer."""


@dataclass(frozen=True, slots=True)
class FullPlanner:
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
        if math.isinf(cutoff_s) or not _can_run(layer_s):
            return self.told_bound_s(layer_s, cutoff_s)
        placer, times = self.work.full_placer(self.unit, self.memory), self._least(layer_s, self._repeated)
        return NO_BOUND_S if placer.is_there(cutoff_s, [times], self.solver.stop) else cutoff_s

    def told_bound_s(self, layer_s: LayerSeconds, cutoff_s: float) -> float:
        """The same, as good a bound below the cutoff too: takes longer."""
        if not _can_run(layer_s):
            return math.inf
        placer, times = self.work.full_placer(self.unit, self.memory), self._least(layer_s, self._repeated)
        return placer.bound_s(cutoff_s, [times], self.solver.stop)

    def scheduled_bound_s(self, least_s: LayerSeconds, cutoff_s: float) -> float:
        """A batch time no plan beats, from what little work proves of schedules, as good below the cutoff too.

        Of a cut sequence what its class has in common is scheduled, once for all units of the class.

        Args:
            least_s: What passes take at least, as known before.
            cutoff_s: Slower plans are of no use: how slow they are need not be told.
        """
        layer_s = self._repeated_s(Times.OF_CLASS if self.unit.cut.cp > 1 else Times.HURRIED, least_s)
        if not _can_run(layer_s):
            return math.inf
        # Most that are too slow are so even if all that memory forces is left out, which is found in no time.
        forward_s_ct, backward_s_ct, input_s_ct = (times_t[None] for times_t in layer_s)
        found_s_c = self.work.batch_bounds_s(self.unit, self.memory, forward_s_ct, backward_s_ct, input_s_ct)
        found_s = float(found_s_c[0])
        return found_s if found_s >= cutoff_s else max(found_s, self.told_bound_s(layer_s, cutoff_s))

    def bound_s(self, times: Times, cutoff_s: float, least_s: LayerSeconds | None = None) -> float:
        """A batch time no plan beats, from bounds on the passes.

        Args:
            times: Which bounds.
            cutoff_s: Slower plans are of no use.
            least_s: Bounds that will do for layers that occur once; by default theirs are looked for too.
        """
        if times is Times.HURRIED and least_s is not None and math.isfinite(cutoff_s) and self.unit.cut.cp > 1:
            # What the whole class has in common often says enough, once for all its units that cut the sequence.
            found_s = self.bound_s(Times.OF_CLASS, cutoff_s, least_s)
            if found_s >= cutoff_s:
                return found_s
        layer_s = self._layer_s(times) if least_s is None else self._repeated_s(times, least_s)
        if not _can_run(layer_s):
            return math.inf
        replayed = range(len(layer_s.forward_s_t)) if least_s is None else self._repeated
        placer, least = self.work.full_placer(self.unit, self.memory), self._least(layer_s, replayed)
        return placer.bound_s(cutoff_s, [least], self.solver.stop)

    @property
    def _repeated(self) -> list[int]:
        """Layer types that occur more than once."""
        repeated: list[int] = np.flatnonzero(np.bincount(np.array(self.work.layer_type_of)) > 1).tolist()
        return repeated

    def _least(self, layer_s: LayerSeconds, replayed: Collection[int]) -> LayerTimes:
        times = least_times(self.solver, self.work, self.unit, layer_s, replayed)
        return times.by_layer(self.work.layer_type_of)

    def _repeated_s(self, times: Times, least_s: LayerSeconds) -> LayerSeconds:
        """Bounds on both passes of layers that repeat; of all else those known before."""
        unit, repeated = self.unit, self._repeated
        found = LayerSeconds(*(known_t.copy() for known_t in least_s))
        for direction in (FORWARD, BACKWARD):
            own_t = found[direction]
            finer = self.solver.pass_seconds(self.work, unit.cut, unit.microbatch, direction, times, repeated)
            own_t[repeated] = np.maximum(own_t[repeated], finer)
        return found

    def solve(self, cutoff_s: float) -> UnitAnswer:
        """The best plan, if it is below ``cutoff_s``."""
        if self.work.has_many_classes and math.isfinite(cutoff_s):
            # Their passes are wide: a twentieth of the work says nearly as much of most units.
            bound_s = self.bound_s(Times.SKETCHED, cutoff_s)
            if bound_s >= cutoff_s:
                return UnitAnswer(batch_s=math.inf, bound_s=bound_s, plan=None, energy_per_sample_j=math.inf)
        times = self.times()
        if not times.is_possible:
            return UnitAnswer(batch_s=math.inf, bound_s=math.inf, plan=None, energy_per_sample_j=math.inf)
        placer = self.work.full_placer(self.unit, self.memory)
        found = placer.solve(cutoff_s, [times.by_layer(self.work.layer_type_of)], self.solver.stop)
        bound_s = _bound_s(found)
        if not self.is_proven:
            # Some schedule was not proven: with its bound the plan might be faster.
            bound_s = min(bound_s, self.bound_s(Times.LEAST, cutoff_s))
        if found.status not in (SolveStatus.OPTIMAL, SolveStatus.FEASIBLE) or found.best is None:
            return UnitAnswer(batch_s=math.inf, bound_s=bound_s, plan=None, energy_per_sample_j=math.inf)
        return UnitAnswer(
            batch_s=found.best.batch_s,
            bound_s=bound_s,
            plan=found.best,
            energy_per_sample_j=self.energy_per_sample_j(found.best.plan, found.best.batch_s),
        )

    def times(self) -> TypeTimes:
        """The layers as scheduled on the chip, with what is worth keeping of each."""
        return scheduled_times(self.solver, self.work, self.unit)

    @property
    def is_proven(self) -> bool:
        """Whether no pass of any layer type can be shorter, in whatever form of a cut sequence."""
        solver, cut, microbatch = self.solver, self.unit.cut, self.unit.microbatch
        return all(
            solver.fastest_form(self.work, cut, microbatch, kind).is_proven
            and solver.pass_times(self.work, cut, microbatch, kind, direction).is_proven
            for kind in range(len(self.work.passes(cut)))
            for direction in self._directions
        )

    def problem(self) -> FullProblem:
        """The placement problem with this chip's times."""
        problem = self.work.full_problem((self.unit,), self.memory)
        graph = retimed_graph(problem.graphs[0], self.times().by_layer(self.work.layer_type_of))
        return problem.with_graphs((graph,))

    def priced(self, plan: FullPlan, problem: FullProblem | None = None) -> FullPrice:
        """A plan priced by the independent evaluator, with this chip's layer times.

        Args:
            plan: Of the unit.
            problem: What ``problem`` gave before, to be spared its making.
        """
        problem = problem or self.problem()
        return price_full_plan(problem, problem.graphs[0], plan)

    def least_ratio(self) -> float:
        """The most any pass could shrink, as bound over time; 1 if all schedules are proven."""
        exact, least = (np.concatenate(self._layer_s(times)) for times in (Times.SCHEDULED, Times.LEAST))
        return float(np.min(least[exact > 0] / exact[exact > 0], initial=1.0))

    def model_plan(self, answer: UnitAnswer) -> ModelPlan:
        """The answer as it is reported, stage by stage."""
        price = answer.plan
        assert isinstance(price, FullPrice)
        return self.reported(price, answer.energy_per_sample_j)

    def reported(self, price: FullPrice, energy_per_sample_j: float) -> ModelPlan:
        """A priced plan as it is reported."""
        plan = price.plan
        names = self.work.graph(self.unit.cut).layer_names
        num_positions = self.times().num_positions
        stages = tuple(
            StagePlan(
                first_layer=names[stage.layers[0]],
                last_layer=names[stage.layers[-1]],
                num_layers=len(stage.layers),
                num_devices=plan.tp * plan.cp,
                load_s=load_s,
                memory_bytes=price.devices[at % plan.pp].total_bytes,
                recompute=_kept_said(stage.keep, num_positions),
                keep=stage.keep,
                layers=stage.layers,
            )
            for at, (stage, load_s) in enumerate(zip(plan.stages, price.stage_load_s, strict=True))
        )
        said = {stage.recompute for stage in stages}
        return ModelPlan(
            model=self.work.name,
            samples_per_s=self.work.scenario.training.global_batch / price.batch_s,
            batch_s=price.batch_s,
            tp=plan.tp,
            dp=plan.dp,
            pp=plan.pp,
            microbatch=plan.microbatch,
            recompute=said.pop() if len(said) == 1 else "mixed",
            hbm_bytes=self.memory.hbm_bytes,
            energy_per_sample_j=energy_per_sample_j,
            stages=stages,
            sp=plan.sp,
            cp=plan.cp,
            ep=plan.ep,
            etp=plan.etp,
            order=plan.order,
            sharding=plan.sharding,
            shard_group=plan.shard_group,
            reshard=plan.reshard,
            schedule=plan.schedule,
            chunks=plan.chunks,
        )

    def energy_per_sample_j(self, plan: FullPlan, batch_s: float) -> float:
        """Dynamic energy of all chips of a replica, replays included, plus idle power for the batch."""
        solver, work, unit = self.solver, self.work, self.unit
        times = self.times()

        @cache
        def layer_j(kind: int, keep: int) -> float:
            both = (
                solver.pass_times(work, unit.cut, unit.microbatch, kind, direction).energy_j
                for direction in (FORWARD, BACKWARD)
            )
            return sum(both) + float(times.lists[kind].replay_j_k[keep])

        total = sum(
            layer_j(work.layer_type_of[layer], stage.keep) for stage in plan.stages for layer in stage.layers
        )
        scenario = work.scenario
        cluster_idle_w = float(solver.energy.idle_w_c[0]) * scenario.cluster.num_devices
        devices = unit.cut.tp * unit.cut.cp
        idle_j = idle_j_per_sample(cluster_idle_w, batch_s, scenario.training.global_batch)
        return total * devices / unit.microbatch + idle_j

    @property
    def _directions(self) -> tuple[int, ...]:
        return (FORWARD, BACKWARD, INPUT_PART) if self.work.has_split_backward else (FORWARD, BACKWARD)

    def _layer_s(self, times: Times) -> LayerSeconds:
        """Of all passes; the input part is zero without zero-bubble schedules."""
        unit = self.unit
        found = [
            self.solver.pass_seconds(self.work, unit.cut, unit.microbatch, direction, times)
            for direction in self._directions
        ]
        forward, backward, *part = found
        return LayerSeconds(forward, backward, part[0] if part else np.zeros_like(forward))


def _bound_s(found: FullPlacement) -> float:
    """A time that no plan of the scope beats: none of it, if there is nothing in it that fits."""
    return math.inf if found.best is None and found.scope and found.reason else found.bound_s


def _kept_said(keep: int, num_positions: int) -> str:
    """What a stage recomputes, in a word."""
    if keep == 0:
        return "none"
    return "block" if keep >= num_positions - 1 else "part"


def _can_run(layer_s: LayerSeconds) -> bool:
    """Whether the chip can run every operator of both passes."""
    return bool(np.isfinite(layer_s.forward_s_t).all() and np.isfinite(layer_s.backward_s_t).all())
