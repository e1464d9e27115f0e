"""What a design is worth, the slow way: every unit of every model solved, nothing cut off, no bound looked at.

Built from the rooms alone (workload, hardware, estimate, schedule, place). Of the search only the translation of a
latency table into a schedule problem is used, and the settings. Plans of cost model ``full`` are in ``slow_full``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from rephaze.estimate.estimate_model import named_estimate_model
from rephaze.estimate.estimator import Estimator
from rephaze.estimate.gemm_costs import GemmMemo
from rephaze.hardware.space import enumerate_designs
from rephaze.measure.layer_problem import layer_problem
from rephaze.place.precision import named_precision
from rephaze.place.price import price_plan
from rephaze.place.solver import Placer
from rephaze.schedule.parts import SEARCH_WORK
from rephaze.schedule.solve import solve_problem
from rephaze.types.chip import Chip, chip_table
from rephaze.types.cut import GraphCut
from rephaze.types.graph import LayerType, OpGraph
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.placement import (
    LayerCost,
    LayerGraph,
    LayerLink,
    Optimizer,
    PlacementModel,
    PlacementProblem,
    PricedPlan,
    RecomputePolicy,
    SolveStatus,
    TiedWeights,
)
from rephaze.types.scenario import Scenario
from rephaze.types.schedule import Exclusion, Schedule, ScheduleProblem
from rephaze.types.search import SearchSettings
from rephaze.workload.passes.split_backward import input_part
from rephaze.workload.zoo import load_model
from tests.attack.cut_models import CutModel, cut_models
from tests.attack.objectives import DesignWorth, combined
from tests.attack.slow_full import FullUnits
from tests.attack.slow_types import AttackError, PassTime, UnitWorth
from tests.attack.system_terms import chip_energy

SAME_TIME = 1e-9
"""Relative: the solver's and the pricer's sums of the same terms."""


def schedule_op_graph(
    graph: OpGraph,
    microbatch: int,
    chip: Chip,
    scenario: Scenario,
    memo: GemmMemo | None = None,
    work_limit: int = SEARCH_WORK,
) -> tuple[ScheduleProblem, Schedule]:
    """The operators of one pass on one chip, mapped and scheduled from nothing."""
    energy = chip_energy(chip, scenario.space)
    model = named_estimate_model(scenario.estimate_model)
    estimator = Estimator(chip_table([chip]), energy, scenario.cluster, model, memo or GemmMemo())
    table = estimator.modes(graph, microbatch)
    # Names repeat in some graphs; positions do not.
    table = replace(table, op_names=tuple(f"{at} {name}" for at, name in enumerate(table.op_names)))
    edges = tuple((int(src), int(dst)) for src, dst in graph.edges)
    problem = layer_problem(table, chip, edges, Exclusion(scenario.all_cores_excludes))
    return problem, solve_problem(problem, work_limit=work_limit)


class SlowEvaluator:
    """Designs of one search, one at a time.

    Args:
        settings: The search. Only what it asks for is read.
        work_limit: For one schedule.
    """

    def __init__(self, settings: SearchSettings, work_limit: int = SEARCH_WORK) -> None:
        self.settings, self.scenario, self.work_limit = settings, settings.scenario, work_limit
        self.census = enumerate_designs(self.scenario.space)
        training = self.scenario.training
        self.models: list[dict[GraphCut, CutModel]] = [
            cut_models(load_model(name, self.scenario.attention), self.scenario) for name in settings.models
        ]
        self.microbatches = [size for size in training.microbatches if size <= training.global_batch]
        self.is_full = self.scenario.placement_model is PlacementModel.FULL
        self.has_input_part = self.is_full and "zero-bubble" in self.scenario.plans.schedule
        self._memo = GemmMemo()
        self._units_of: dict[int, list[list[UnitWorth]]] = {}
        self._passes_of: dict[tuple[int, int, GraphCut, int], list[list[tuple[PassTime, ...]]]] = {}
        self.full = FullUnits(self.scenario, self._memo) if self.is_full else None

    def worth(self, design: int) -> DesignWorth:
        """The objective of a design: the best over all units, and whether every schedule behind it is proven."""
        chip, area_um2 = self.census.chips.chip(design), float(self.census.area_um2_c[design])
        return combined(self.settings, chip, area_um2, self.units(design))

    def units(self, design: int) -> list[list[UnitWorth]]:
        """For each model, every unit with every memory, solved."""
        if design not in self._units_of:
            self._units_of[design] = [list(self._model_units(design, m)) for m in range(len(self.models))]
        return self._units_of[design]

    def reachable(self, design: int) -> float:
        """The objective if every schedule were as short as it is proven to be: what unproven ones leave open."""
        chip, area_um2 = self.census.chips.chip(design), float(self.census.area_um2_c[design])
        return combined(self.settings, chip, area_um2, self.units_at_best(design)).value

    def units_at_best(self, design: int) -> list[list[UnitWorth]]:
        """As ``units``, if every schedule were as short as it is proven to be."""
        return [list(self._model_units(design, m, at_best=True)) for m in range(len(self.models))]

    def passes(self, design: int, model: int, cut: GraphCut, microbatch: int) -> list[list[tuple[PassTime, ...]]]:
        """By layer type and form of the cut: forward, backward, and where schedules ask for it the input part."""
        key = (design, model, cut, microbatch)
        if key not in self._passes_of:
            chip, forms = self.census.chips.chip(design), self.models[model][cut].fused
            self._passes_of[key] = [
                [self._all_passes(form.layer_types[kind], chip, microbatch) for form in forms]
                for kind in range(len(forms[0].layer_types))
            ]
        return self._passes_of[key]

    def _all_passes(self, layer: LayerType, chip: Chip, microbatch: int) -> tuple[PassTime, ...]:
        graphs = [layer.forward, layer.backward, *([input_part(layer)] if self.has_input_part else [])]
        return tuple(self._pass_time(graph, chip, microbatch) for graph in graphs)

    def memories(self, design: int) -> tuple[int, ...]:
        """Sizes a chip may have."""
        return self.scenario.space.hbm_bytes_options or (self.census.chips.chip(design).hbm_bytes,)

    def _model_units(self, design: int, model: int, *, at_best: bool = False) -> Iterator[UnitWorth]:
        chip = self.census.chips.chip(design)
        for cut, graphs in self.models[model].items():
            for microbatch in self.microbatches:
                passes = self.passes(design, model, cut, microbatch)
                if self.full is not None:
                    for hbm_bytes in self.memories(design):
                        yield self.full.unit(graphs, cut, microbatch, chip, passes, hbm_bytes, at_best=at_best)
                    continue
                own = [forms[0] for forms in passes]
                if at_best:
                    own = [tuple(replace(one, cycles=one.bound_cycles) for one in both) for both in own]
                for policy in policies(self.scenario.training.recompute):
                    for hbm_bytes in self.memories(design):
                        yield self._unit(graphs.fused[0], cut, microbatch, chip, own, policy, hbm_bytes)

    def _pass_time(self, graph: OpGraph, chip: Chip, microbatch: int) -> PassTime:
        problem, found = schedule_op_graph(graph, microbatch, chip, self.scenario, self._memo, self.work_limit)
        # Every operator as it runs fastest: what a pass is charged must not hang on which schedule is found.
        charged_j = (min((way.cycles, way.energy_j) for way in op.ways)[1] for op in problem.ops)
        return PassTime(
            cycles=found.makespan_cycles,
            bound_cycles=found.bound_cycles,
            energy_j=math.fsum(charged_j),
        )

    def _unit(self, graph, cut, microbatch, chip, passes, policy, hbm_bytes) -> UnitWorth:
        tp = cut.tp
        none = UnitWorth(
            cut=cut,
            microbatch=microbatch,
            policy=policy,
            hbm_bytes=hbm_bytes,
            batch_s=math.inf,
            energy_per_sample_j=math.inf,
            is_proven=True,
        )
        if any(one.cycles >= IMPOSSIBLE_CYCLES for both in passes for one in both):
            return none
        problem = placement_problem(self.scenario, graph, tp, microbatch, chip, passes, policy, hbm_bytes)
        placer = Placer(problem)
        solution = placer.solve()
        if solution.status is SolveStatus.INFEASIBLE:
            return none
        priced = price_plan(problem, placer.plan(solution))
        if not priced.fits or not math.isclose(priced.batch_s, solution.batch_s, rel_tol=SAME_TIME):
            said = f"{solution.batch_s!r} s by the solver, {priced.batch_s!r} s priced, fits: {priced.fits}"
            raise AttackError(f"tp {tp}, microbatch {microbatch}, {policy} on {chip.in_words}: {said}")
        return replace(
            none,
            batch_s=priced.batch_s,
            energy_per_sample_j=self._energy_j(graph, tp, microbatch, chip, passes, priced),
            is_proven=solution.status is SolveStatus.OPTIMAL
            and all(one.is_proven for both in passes for one in both),
        )

    def _energy_j(self, graph, tp, microbatch, chip, passes, priced: PricedPlan) -> float:
        """Joules of one sample: every layer on every chip of its group, replays, and idle power while it lasts."""
        kind_of = dict(zip(graph.layer_names, graph.layer_type_of, strict=True))
        parts = []
        for stage in priced.stages:
            for name in stage.layers:
                kind = kind_of[name]
                forward, backward = passes[kind]
                replays = 1 if stage.replay_s > 0 else 0
                members = tp if graph.layer_types[kind].is_sharded else 1
                parts.append(members * ((1 + replays) * forward.energy_j + backward.energy_j))
        idle_w = float(chip_energy(chip, self.scenario.space).idle_w_c[0])
        cluster_idle_j = idle_w * self.scenario.cluster.num_devices * priced.batch_s
        return math.fsum(parts) / microbatch + cluster_idle_j / self.scenario.training.global_batch


def policies(modes: tuple[str, ...]) -> tuple[RecomputePolicy, ...]:
    """All three modes: free choice stage by stage. Fewer: each for the whole model."""
    if {"none", "block", "stage"} == set(modes):
        return (RecomputePolicy.AUTO,)
    return tuple(RecomputePolicy(mode) for mode in modes)


def placement_problem(
    scenario: Scenario, graph, tp: int, microbatch: int, chip: Chip, passes, policy, hbm_bytes: int
) -> PlacementProblem:
    """One unit with its layers' times."""
    training, optimizer = scenario.training, Optimizer(scenario.training.optimizer)
    layers = []
    for name, kind in zip(graph.layer_names, graph.layer_type_of, strict=True):
        layer, (forward, backward) = graph.layer_types[kind], passes[kind]
        layers.append(
            LayerCost(
                name=name,
                param_bytes=float(layer.param_bytes),
                activation_bytes=float(layer.saved_bytes.at(microbatch) + layer.saved_input_bytes.at(microbatch)),
                forward_s=forward.cycles / chip.clock_hz,
                backward_s=backward.cycles / chip.clock_hz,
                is_sharded=layer.is_sharded,
                input_bytes=float(layer.input_bytes.at(microbatch)),
                working_bytes=float(layer.working_bytes.at(microbatch)),
            )
        )
    links = [
        LayerLink(src=e.src, dst=e.dst, payload_bytes=float(e.payload_bytes.at(microbatch))) for e in graph.edges
    ]
    tied = [TiedWeights(layers=t.layers, param_bytes=float(t.param_bytes)) for t in graph.tied]
    model = PlacementModel(scenario.placement_model)
    return PlacementProblem(
        cost_model=model,
        cluster=scenario.cluster,
        device_memory_bytes=float(hbm_bytes),
        graphs=(
            LayerGraph(tp=tp, microbatch=microbatch, layers=tuple(layers), links=tuple(links), tied=tuple(tied)),
        ),
        recompute=policy,
        optimizer=optimizer,
        precision=named_precision(training.precision, optimizer),
        global_batch=training.global_batch,
        # The paper's cost function has no optimizer step.
        hbm_bytes_per_s=None if model is PlacementModel.PAPER else chip.hbm_bytes_per_s,
    )
