"""One model on one chip: its layers as schedule problems, its placement problem with scheduled times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rephaze.errors import SpecError
from rephaze.measure.best_plan import UnitSearch
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.layer_problem import layer_problem
from rephaze.measure.model_work import ModelWork
from rephaze.measure.objective import ChipWorth
from rephaze.measure.units import Memory
from rephaze.types.chip import Chip
from rephaze.types.cut import GraphCut
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.placement import LayerGraph, PlacementModel, PlacementProblem, PlanLimits, RecomputePolicy
from rephaze.types.scenario import Scenario
from rephaze.types.schedule import ScheduleProblem

DIRECTIONS = ("forward", "backward")


def layer_problems(
    model: str, chip: Chip, scenario: Scenario, *, tp: int, microbatch: int, layer: int | None = None
) -> list[tuple[str, ScheduleProblem]]:
    """The schedule problems of a layer on a chip, forward and backward, each with a title.

    Args:
        model: Zoo name or graph file.
        chip: The chip.
        scenario: Cost model, rules and network.
        tp: Tensor-parallel degree.
        microbatch: Samples at once.
        layer: Position of the layer in the model; by default one of the kind that repeats most.
    """
    training = replace(scenario.training, tp_degrees=(tp,), microbatches=(microbatch,))
    # A layer alone, whatever plans of the scenario may choose besides.
    work = ModelWork(model, replace(scenario, training=training, placement_model=PlacementModel.ONE_F_ONE_B))
    cut = work.cuts[0]
    graph = work.graph(cut)
    kinds = graph.layer_type_of
    if layer is not None and not 0 <= layer < len(kinds):
        raise SpecError("layer", layer, f"{model} has layers 0 to {len(kinds) - 1}")
    kind = max(set(kinds), key=kinds.count) if layer is None else kinds[layer]
    solver = ChipSolver(chip, scenario)
    name = graph.layer_types[kind].name
    return [
        (
            f"{model} {name} {direction}, tp {tp}, microbatch {microbatch}, on {chip.name}",
            layer_problem(
                solver.pass_table(work, cut, microbatch, kind, number),
                chip,
                work.passes(cut)[kind][number].graph.edges,
                solver.exclusion,
            ),
        )
        for number, direction in enumerate(DIRECTIONS)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class UnprovenPass:
    """A pass of a layer type whose schedule was not proven shortest."""

    layer: str
    direction: str
    tp: int
    microbatch: int
    makespan_cycles: int
    bound_cycles: int
    """No schedule is shorter than this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipProblem:
    """The placement problem of a model on a chip, and how far its layers' schedules are proven."""

    problem: PlacementProblem
    """Without the degrees and sizes that a bound shows to be slower than the best plan, or at which some layer
    cannot run on the chip; possibly without any."""
    num_passes: int
    """Scheduled: forward and backward of every layer type at every degree and microbatch size left."""
    unproven: tuple[UnprovenPass, ...]

    @property
    def said(self) -> str:
        """What is not proven, in words; empty if nothing is."""
        if not self.unproven:
            return ""
        return f"schedules of {len(self.unproven):,} of {self.num_passes:,} layer passes not proven"


def placement_on_chip(
    model: str,
    chip: Chip,
    scenario: Scenario,
    on_unit: Callable[[int, int], None] = lambda _done, _all: None,
    *,
    limits: PlanLimits | None = None,
) -> ChipProblem:
    """The placement problem of a model on a cluster of one chip, every layer that matters scheduled.

    Args:
        model: Zoo name or graph file.
        chip: The chip; its memory is what plans must fit.
        scenario: Degrees and microbatch sizes to choose from, cluster, training.
        on_unit: Told how many of the (degree, microbatch) pairs are scheduled, and of how many.
        limits: Choices to be compared with the best plan: pairs that agree with them stay too.
    """
    work = ModelWork(model, scenario)
    solver = ChipSolver(chip, scenario)
    memory = Memory(chip.hbm_bytes, chip.hbm_bytes_per_s)
    pairs = _pairs_that_matter(work, solver, memory, limits, on_unit)
    units = [next(u for u in work.units if (u.cut, u.microbatch) == pair) for pair in pairs]
    problem = work.placement_problem(tuple(units), memory)
    graphs = []
    unproven: list[UnprovenPass] = []
    for done, (unit, graph) in enumerate(zip(units, problem.graphs, strict=True)):
        on_unit(done, len(units))
        if any(impossible_passes(solver, work, unit.cut, unit.microbatch)):
            continue
        graphs.append(with_times(graph, unit.cut, solver, work))
        unproven.extend(unproven_passes(solver, work, unit.cut, unit.microbatch))
    policies = {unit.policy for unit in work.units}
    policy = policies.pop() if len(policies) == 1 else RecomputePolicy.AUTO
    return ChipProblem(
        problem=replace(problem, graphs=tuple(graphs), recompute=policy),
        num_passes=sum(len(DIRECTIONS) * len(work.passes(cut)) for cut, _ in pairs),
        unproven=tuple(unproven),
    )


def _pairs_that_matter(
    work: ModelWork,
    solver: ChipSolver,
    memory: Memory,
    limits: PlanLimits | None,
    on_unit: Callable[[int, int], None],
) -> tuple[tuple[GraphCut, int], ...]:
    """Degrees and microbatch sizes that may have the best plan, or that were asked about."""
    if len({unit.policy for unit in work.units}) > 1:
        return work.pairs  # bounds hold for a policy each; the problem mixes them
    by_throughput = ChipWorth(global_batch=work.scenario.training.global_batch)
    search = UnitSearch(solver, work, memory, solver.unit_bounds(work, memory), by_throughput)
    solved: list[tuple[GraphCut, int]] = []
    while search.promise > 1.0:
        on_unit(len(solved), len(work.pairs))
        if (unit := search.refine()) is not None:
            solved.append((unit.cut, unit.microbatch))
    if search.best is None:
        return work.pairs  # to say what is in the way

    def is_asked(cut: GraphCut, microbatch: int) -> bool:
        return limits is not None and limits.tp in (None, cut.tp) and limits.microbatch in (None, microbatch)

    return tuple(pair for pair in work.pairs if pair in solved or is_asked(*pair))


def impossible_passes(solver: ChipSolver, work: ModelWork, cut: GraphCut, microbatch: int) -> Iterator[str]:
    """The passes that have an operator no core of the chip can run."""
    for kind, layer_type in enumerate(work.graph(cut).layer_types):
        for number, direction in enumerate(DIRECTIONS):
            if solver.pass_times(work, cut, microbatch, kind, number).cycles >= IMPOSSIBLE_CYCLES:
                yield f"{layer_type.name} {direction}"


def with_times(graph: LayerGraph, cut: GraphCut, solver: ChipSolver, work: ModelWork) -> LayerGraph:
    """The layers with their scheduled times, and bounds where those are not proven."""
    clock_hz = solver.chip.clock_hz
    layers = []
    for layer, kind in zip(graph.layers, work.layer_type_of, strict=True):
        forward, backward = (solver.pass_times(work, cut, graph.microbatch, kind, d) for d in (0, 1))
        layers.append(
            replace(
                layer,
                forward_s=forward.cycles / clock_hz,
                backward_s=backward.cycles / clock_hz,
                forward_bound_s=None if forward.is_proven else forward.bound_cycles / clock_hz,
                backward_bound_s=None if backward.is_proven else backward.bound_cycles / clock_hz,
            )
        )
    return replace(graph, layers=tuple(layers))


def unproven_passes(solver: ChipSolver, work: ModelWork, cut: GraphCut, microbatch: int) -> Iterator[UnprovenPass]:
    """The passes whose schedules are not proven shortest."""
    for kind, layer_type in enumerate(work.graph(cut).layer_types):
        for number, direction in enumerate(DIRECTIONS):
            times = solver.pass_times(work, cut, microbatch, kind, number)
            if not times.is_proven:
                yield UnprovenPass(
                    layer=layer_type.name,
                    direction=direction,
                    tp=cut.tp,
                    microbatch=microbatch,
                    makespan_cycles=times.cycles,
                    bound_cycles=times.bound_cycles,
                )
