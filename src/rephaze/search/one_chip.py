"""One model on one chip: its layers as schedule problems, its placement problem with scheduled times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rephaze.errors import SpecError
from rephaze.estimate.gemm_costs import GemmMemo
from rephaze.estimate.models import cost_model
from rephaze.hardware.energy import access_energy
from rephaze.schedule.solve import ScheduleMemo
from rephaze.search.exact import ChipSolver
from rephaze.search.layer_problem import layer_problem
from rephaze.search.work import Memory, ModelWork
from rephaze.types.chip import Chip, chip_table
from rephaze.types.placement import LayerGraph, PlacementProblem, RecomputePolicy
from rephaze.types.scenario import Scenario
from rephaze.types.schedule import Exclusion, ScheduleProblem

DIRECTIONS = ("forward", "backward")


def chip_solver(chip: Chip, scenario: Scenario) -> ChipSolver:
    """The exact solver of a chip under a scenario's models and rules."""
    return ChipSolver(
        chip,
        access_energy(chip_table([chip]), scenario.space.area_model),
        cost_model(scenario.estimate_model),
        Exclusion(scenario.all_cores_excludes),
        GemmMemo(),
        ScheduleMemo(),
    )


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
    work = ModelWork(model, replace(scenario, training=training))
    graph = work.graphs[tp]
    kinds = graph.layer_type_of
    if layer is not None and not 0 <= layer < len(kinds):
        raise SpecError("layer", layer, f"{model} has layers 0 to {len(kinds) - 1}")
    kind = max(set(kinds), key=kinds.count) if layer is None else kinds[layer]
    solver = chip_solver(chip, scenario)
    name = graph.layer_types[kind].name
    return [
        (
            f"{model} {name} {direction}, tp {tp}, microbatch {microbatch}, on {chip.name}",
            layer_problem(
                solver.pass_table(work, tp, microbatch, kind, number),
                chip,
                work.passes[tp][kind][number].graph.edges,
                solver.exclusion,
            ),
        )
        for number, direction in enumerate(DIRECTIONS)
    ]


def placement_on_chip(
    model: str, chip: Chip, scenario: Scenario, on_unit: Callable[[int, int], None] = lambda _done, _all: None
) -> PlacementProblem:
    """The placement problem of a model on a cluster of one chip, every layer scheduled.

    Args:
        model: Zoo name or graph file.
        chip: The chip; its memory is what plans must fit.
        scenario: Degrees and microbatch sizes to choose from, cluster, training.
        on_unit: Told how many of the (degree, microbatch) pairs are scheduled, and of how many.
    """
    work = ModelWork(model, scenario)
    solver = chip_solver(chip, scenario)
    pairs = list(dict.fromkeys((unit.tp, unit.microbatch) for unit in work.units))
    units = [next(u for u in work.units if (u.tp, u.microbatch) == pair) for pair in pairs]
    problem = work.placement_problem(tuple(units), Memory(chip.hbm_bytes, chip.hbm_bytes_per_s))
    graphs = []
    for done, (unit, graph) in enumerate(zip(units, problem.graphs, strict=True)):
        on_unit(done, len(units))
        graphs.append(_with_times(graph, solver, work, unit.tp, unit.microbatch))
    policies = {unit.policy for unit in work.units}
    policy = policies.pop() if len(policies) == 1 else RecomputePolicy.AUTO
    return replace(problem, graphs=tuple(graphs), recompute=policy)


def _with_times(graph: LayerGraph, solver: ChipSolver, work: ModelWork, tp: int, microbatch: int) -> LayerGraph:
    clock_hz = solver.chip.clock_hz
    layers = []
    for layer, kind in zip(graph.layers, work.layer_type_of, strict=True):
        forward, backward = (solver.pass_times(work, tp, microbatch, kind, d).cycles for d in (0, 1))
        layers.append(replace(layer, forward_s=forward / clock_hz, backward_s=backward / clock_hz))
    return replace(graph, layers=tuple(layers))
