"""Plans of cost model ``full``, the slow way: one unit's layers, what each may keep, its problem, its best plan.

Written from docs/plans.md. Layer times come from schedules that were solved for it; the plan from the placement
program without a cutoff, priced by the independent evaluator. ``plan_attack`` looks for a better one.

Axis letters: k = position of what to keep, n = operator of a forward pass.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from rephaze.estimate.estimate_model import named_estimate_model
from rephaze.estimate.estimator import Estimator
from rephaze.estimate.gemm_costs import GemmMemo
from rephaze.measure.keep_budgets import keep_budgets
from rephaze.measure.keep_points import pareto_points
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.solver import FullPlacer
from rephaze.place.precision import named_precision
from rephaze.types.chip import Chip, chip_table
from rephaze.types.cut import GraphCut
from rephaze.types.full import DeviceOrder, FullGraph, FullLayer, FullPrice, FullProblem, KeepPoint
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.placement import LayerLink, Optimizer, Recompute, RecomputePolicy, SolveStatus, TiedWeights
from rephaze.types.scenario import Scenario
from rephaze.workload.passes.keep_sets import KeepSets, keep_sets
from tests.attack.cut_models import CutModel
from tests.attack.slow_types import AttackError, PassTime, UnitWorth
from tests.attack.system_terms import chip_energy

SAME_TIME = 1e-9
"""Relative: the solver's and the pricer's sums of the same terms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerOnChip:
    """A layer type on a chip, in the form of the cut it runs in."""

    form: int
    forward_s: float
    backward_s: float
    weight_backward_s: float | None
    keep: tuple[KeepPoint, ...]
    replay_j: tuple[float, ...]
    """By position of ``keep``."""
    energy_j: float
    """Of both passes."""
    is_possible: bool
    is_proven: bool


class FullUnits:
    """Units of one search.

    Args:
        scenario: Cluster, training, options of plans.
        memo: Of mapped products.
    """

    def __init__(self, scenario: Scenario, memo: GemmMemo) -> None:
        self.scenario, self._memo = scenario, memo
        self._keep_sets: dict[tuple[int, int, int], tuple[KeepSets, CutModel]] = {}
        self._answers: dict[tuple[int, int, Chip, int], tuple[FullProblem, FullPrice | None]] = {}

    def unit(self, graphs: CutModel, cut, microbatch, chip, passes, hbm_bytes, *, at_best=False) -> UnitWorth:
        """The fastest plan of a unit; ``at_best``: if every schedule were as short as it is proven to be."""
        layers = self.layers(graphs, microbatch, chip, passes, at_best=at_best)
        none = UnitWorth(
            cut=cut,
            microbatch=microbatch,
            policy=RecomputePolicy.AUTO,
            hbm_bytes=hbm_bytes,
            batch_s=math.inf,
            energy_per_sample_j=math.inf,
            is_proven=all(layer.is_proven for layer in layers),
        )
        if not all(layer.is_possible for layer in layers):
            return none
        problem = self.problem(graphs, microbatch, chip, layers, hbm_bytes)
        found = FullPlacer(problem).solve()
        is_proven = none.is_proven and found.status is not SolveStatus.FEASIBLE and not found.scope
        self._answers[id(graphs), microbatch, chip, hbm_bytes] = problem, found.best
        if found.best is None:
            return replace(none, is_proven=is_proven)
        priced = price_full_plan(problem, problem.graphs[0], found.best.plan)
        if not priced.fits or not math.isclose(priced.batch_s, found.best.batch_s, rel_tol=SAME_TIME):
            said = f"{found.best.batch_s!r} s by the solver, {priced.batch_s!r} s priced, fits: {priced.fits}"
            raise AttackError(f"{cut}, microbatch {microbatch} on {chip.in_words}: {said}")
        energy_j = self._energy_j(graphs, cut, microbatch, chip, layers, priced)
        return replace(none, batch_s=priced.batch_s, energy_per_sample_j=energy_j, is_proven=is_proven)

    def answer(
        self, graphs: CutModel, microbatch: int, chip: Chip, hbm_bytes: int
    ) -> tuple[FullProblem, FullPrice | None] | None:
        """The problem of a unit that was solved last, and its best plan; None if its layers cannot run."""
        return self._answers.get((id(graphs), microbatch, chip, hbm_bytes))

    def layers(self, graphs: CutModel, microbatch: int, chip: Chip, passes, *, at_best=False) -> list[LayerOnChip]:
        """By layer type, in the form in which both passes together are shortest; at best in none in particular."""
        return [
            self._at_best(graphs, microbatch, chip, kind, forms)
            if at_best
            else self._scheduled(graphs, microbatch, chip, kind, forms)
            for kind, forms in enumerate(passes)
        ]

    def _scheduled(self, graphs, microbatch, chip, kind, forms: list[tuple[PassTime, ...]]) -> LayerOnChip:
        totals = [forward.cycles + backward.cycles for forward, backward, *_ in forms]
        form = totals.index(min(totals))
        could_be = [forward.bound_cycles + backward.bound_cycles for forward, backward, *_ in forms]
        seconds = [one.cycles / chip.clock_hz for one in forms[form]]
        keep, replay_j = self.keep_list(graphs, microbatch, chip, kind, form, seconds[0])
        return LayerOnChip(
            form=form,
            forward_s=seconds[0],
            backward_s=seconds[1],
            weight_backward_s=_weight_part(seconds),
            keep=keep,
            replay_j=replay_j,
            energy_j=forms[form][0].energy_j + forms[form][1].energy_j,
            is_possible=all(one.cycles < IMPOSSIBLE_CYCLES for one in forms[form][:2]),
            is_proven=all(one.is_proven for one in forms[form])
            and all(bound >= totals[form] for at, bound in enumerate(could_be) if at != form),
        )

    def _at_best(self, graphs, microbatch, chip, kind, forms: list[tuple[PassTime, ...]]) -> LayerOnChip:
        least = [min(own) for own in zip(*([one.bound_cycles for one in both] for both in forms), strict=True)]
        seconds = [cycles / chip.clock_hz for cycles in least]
        lists = [self.keep_list(graphs, microbatch, chip, kind, form, seconds[0])[0] for form in range(len(forms))]
        keep = tuple(min(points, key=lambda point: point.replay_s) for points in zip(*lists, strict=True))
        return LayerOnChip(
            form=0,
            forward_s=seconds[0],
            backward_s=seconds[1],
            weight_backward_s=_weight_part(seconds),
            keep=keep,
            replay_j=(0.0,) * len(keep),
            energy_j=0.0,
            is_possible=all(cycles < IMPOSSIBLE_CYCLES for cycles in least[:2]),
            is_proven=True,
        )

    def keep_list(
        self, graphs: CutModel, microbatch: int, chip: Chip, kind: int, form: int, forward_s: float
    ) -> tuple[tuple[KeepPoint, ...], tuple[float, ...]]:
        """What a layer type may keep in one form of the cut: bytes, what is replayed then, and its energy."""
        budgets = keep_budgets(self._sets(graphs, kind, 0), microbatch).tolist()
        if Recompute.BLOCK not in self.scenario.training.recompute:
            return (KeepPoint(kept_bytes=budgets[0], replay_s=0.0),), (0.0,)
        sets, forward = self._sets(graphs, kind, form), graphs.fused[form].layer_types[kind].forward
        table = chip_table([chip])
        energy = chip_energy(chip, self.scenario.space)
        model = named_estimate_model(self.scenario.estimate_model)
        estimator = Estimator(table, energy, self.scenario.cluster, model, self._memo)
        parts = [estimator.modes(forward, microbatch)]
        if sets.tails.ops:
            parts.append(estimator.modes(sets.tails, microbatch))
        op_s_n = np.concatenate([part.cycles_om.min(axis=1) for part in parts]) / chip.clock_hz
        op_j_n = np.concatenate([part.energy_j_o for part in parts])
        front = pareto_points(sets, op_s_n, forward_s, microbatch, max_points=0)
        points = list(zip(*(column.tolist() for column in front), strict=True))
        keep, replay_j = [], []
        for budget in budgets:
            # Bytes fall along a front: the quickest within the budget, or what keeps least.
            _, replay_s, choice = next((point for point in points if point[0] <= budget), points[-1])
            keep.append(KeepPoint(kept_bytes=budget, replay_s=replay_s))
            replay_j.append(math.fsum(op_j_n[n] for n in sets.replayed_ops(choice)))
        return tuple(keep), tuple(replay_j)

    def _sets(self, graphs: CutModel, kind: int, form: int) -> KeepSets:
        key = (id(graphs), kind, form)
        if key not in self._keep_sets:
            fused, unfused = graphs.fused[form], graphs.unfused[form]
            # The graphs are kept too: another's must not get their id.
            self._keep_sets[key] = keep_sets(fused.layer_types[kind], unfused.layer_types[kind]), graphs
        return self._keep_sets[key][0]

    def untimed_problem(self, graphs: CutModel, microbatch: int) -> FullProblem:
        """The problem of one unit with layers that take no time, on chips with memory without end."""
        layers = []
        for kind in range(len(graphs.fused[0].layer_types)):
            budgets = keep_budgets(self._sets(graphs, kind, 0), microbatch).tolist()
            if Recompute.BLOCK not in self.scenario.training.recompute:
                budgets = budgets[:1]
            layers.append(
                LayerOnChip(
                    form=0,
                    forward_s=0.0,
                    backward_s=0.0,
                    weight_backward_s=0.0,
                    keep=tuple(KeepPoint(kept_bytes=size, replay_s=0.0) for size in budgets),
                    replay_j=(0.0,) * len(budgets),
                    energy_j=0.0,
                    is_possible=True,
                    is_proven=True,
                )
            )
        return self._problem(graphs, microbatch, layers, math.inf, None)

    def problem(self, graphs: CutModel, microbatch: int, chip: Chip, layers, hbm_bytes: int) -> FullProblem:
        """The placement problem of one unit."""
        return self._problem(graphs, microbatch, layers, float(hbm_bytes), chip.hbm_bytes_per_s)

    def _problem(
        self, graphs: CutModel, microbatch: int, layers, memory_bytes: float, hbm_bytes_per_s: float | None
    ) -> FullProblem:
        training, optimizer = self.scenario.training, Optimizer(self.scenario.training.optimizer)
        return FullProblem(
            cluster=self.scenario.cluster,
            device_memory_bytes=memory_bytes,
            hbm_bytes_per_s=hbm_bytes_per_s,
            global_batch=training.global_batch,
            optimizer=optimizer,
            precision=named_precision(training.precision, optimizer),
            options=self.scenario.plans,
            graphs=(self._graph(graphs, microbatch, layers),),
        )

    def _graph(self, graphs: CutModel, microbatch: int, layers: list[LayerOnChip]) -> FullGraph:
        graph = graphs.fused[0]
        counts = Counter(graph.layer_type_of)
        made = []
        for name, kind in zip(graph.layer_names, graph.layer_type_of, strict=True):
            source, here = graph.layer_types[kind], layers[kind]
            made.append(
                FullLayer(
                    name=name,
                    param_bytes=float(source.param_bytes - source.expert_param_bytes),
                    expert_param_bytes=float(source.expert_param_bytes),
                    forward_s=here.forward_s,
                    backward_s=here.backward_s,
                    weight_backward_s=here.weight_backward_s,
                    keep=here.keep,
                    working_bytes=float(source.working_bytes.at(microbatch)),
                    is_block=counts[kind] > 1 or max(counts.values()) == 1,
                )
            )
        # Experts beyond a stage's own chips: their messages are priced for neighbours.
        is_wide = graph.ep * graph.etp > graph.tp * graph.cp
        return FullGraph(
            tp=graph.tp,
            cp=graph.cp,
            ep=graph.ep,
            etp=graph.etp,
            sp=graph.sequence_parallel,
            microbatch=microbatch,
            layers=tuple(made),
            links=tuple(
                LayerLink(src=e.src, dst=e.dst, payload_bytes=float(e.payload_bytes.at(microbatch)))
                for e in graph.edges
            ),
            tied=tuple(TiedWeights(layers=t.layers, param_bytes=float(t.param_bytes)) for t in graph.tied),
            orders=(DeviceOrder.PP_OUTER,) if is_wide else tuple(DeviceOrder),
        )

    def _energy_j(self, graphs, cut: GraphCut, microbatch, chip: Chip, layers, priced: FullPrice) -> float:
        """Joules of one sample: every layer on every chip of its group, replays, and idle power while it lasts."""
        kinds = graphs.fused[0].layer_type_of
        parts = [
            layers[kinds[v]].energy_j + layers[kinds[v]].replay_j[stage.keep]
            for stage in priced.plan.stages
            for v in stage.layers
        ]
        idle_w = float(chip_energy(chip, self.scenario.space).idle_w_c[0])
        idle_j = idle_w * self.scenario.cluster.num_devices * priced.batch_s / self.scenario.training.global_batch
        return math.fsum(parts) * cut.tp * cut.cp / microbatch + idle_j


def _weight_part(seconds: list[float]) -> float | None:
    """What of a backward pass no earlier layer waits for; not known without the part that one waits for."""
    if len(seconds) < 3:
        return None
    return max(0.0, seconds[1] - seconds[2])
