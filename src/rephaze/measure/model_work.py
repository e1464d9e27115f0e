"""One model made ready for a search: graphs by tensor-parallel degree, structures, placement problems.

Everything here is independent of the chip's cores and is prepared once a process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rephaze.errors import SpecError
from rephaze.estimate.estimator import engine_of
from rephaze.place.bounds import ChipBounds
from rephaze.place.precision import named_precision
from rephaze.place.solver import Placer
from rephaze.schedule.structure import ScheduleStructure, compile_structure
from rephaze.types.graph import LayerType, ModelGraph, OpGraph
from rephaze.types.placement import (
    LayerCost,
    LayerGraph,
    LayerLink,
    PlacementModel,
    PlacementProblem,
    Recompute,
    RecomputePolicy,
    TiedWeights,
)
from rephaze.types.scenario import Scenario
from rephaze.types.space import DesignSpace
from rephaze.types.stopping import UNSTOPPED, StopSignal
from rephaze.workload.passes.fuse import fuse_graph
from rephaze.workload.passes.tensor_parallel import shard_graph
from rephaze.workload.zoo import load_model


@dataclass(frozen=True, slots=True)
class Unit:
    """One choice of what changes a layer's times or replay: degree, microbatch size, recompute policy."""

    tp: int
    microbatch: int
    policy: RecomputePolicy


@dataclass(frozen=True, slots=True)
class Memory:
    """What a plan depends on of a chip besides its layers' times."""

    hbm_bytes: int
    hbm_bytes_per_s: float


def memory_options(space: DesignSpace, hbm_bytes: int, hbm_bytes_per_s: float) -> list[Memory]:
    """Memories a chip may have, smallest first: the space's options below the chip's own size, and that."""
    sizes = sorted({size for size in space.hbm_bytes_options if size < hbm_bytes} | {hbm_bytes})
    return [Memory(size, hbm_bytes_per_s) for size in sizes]


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class PassWork:
    """One direction of one layer type."""

    graph: OpGraph
    structure: ScheduleStructure


class ModelWork:
    """A model under a scenario.

    Args:
        name: Zoo name or graph file.
        scenario: Degrees, microbatch sizes, cluster, optimizer.
        stop: Ends the preparation with ``StoppedError``.
    """

    def __init__(self, name: str, scenario: Scenario, stop: StopSignal = UNSTOPPED) -> None:
        stop.check()
        self.name, self.scenario = name, scenario
        base = load_model(name, scenario.attention)
        training = scenario.training
        self.tp_degrees = tuple(tp for tp in training.tp_degrees if tp in base.legal_tp)
        if not self.tp_degrees:
            legal = ", ".join(str(tp) for tp in base.legal_tp)
            raise SpecError("tp_degrees", list(training.tp_degrees), f"{name} can be sharded {legal} ways only")
        self.graphs: dict[int, ModelGraph] = {}
        for tp in self.tp_degrees:
            stop.check()
            self.graphs[tp] = fuse_graph(shard_graph(base, tp))
        self.microbatches = tuple(b for b in training.microbatches if b <= training.global_batch)
        self.units = tuple(
            Unit(tp, microbatch, policy)
            for tp in self.tp_degrees
            for microbatch in self.microbatches
            for policy in _policies(training.recompute)
        )
        self.pairs = tuple(dict.fromkeys((unit.tp, unit.microbatch) for unit in self.units))
        """Degrees and microbatch sizes: what layer times depend on."""
        self.layer_type_of = self.graphs[self.tp_degrees[0]].layer_type_of
        self._placers: dict[tuple[Unit, Memory], Placer] = {}
        self._bounds: dict[tuple[Unit, Memory], ChipBounds] = {}

    @cached_property
    def passes(self) -> dict[int, tuple[tuple[PassWork, PassWork], ...]]:
        """By degree and layer type, the forward and the backward pass."""
        return {
            tp: tuple((_pass_work(kind.forward), _pass_work(kind.backward)) for kind in graph.layer_types)
            for tp, graph in self.graphs.items()
        }

    def placer(self, unit: Unit, memory: Memory) -> Placer:
        """The placement problem of one unit on chips with this memory."""
        key = (unit, memory)
        if key not in self._placers:
            self._placers[key] = Placer(self.placement_problem((unit,), memory))
        return self._placers[key]

    def chip_bounds(self, unit: Unit, memory: Memory) -> ChipBounds:
        """Lower bounds of one unit for many chips with this memory."""
        key = (unit, memory)
        if key not in self._bounds:
            self._bounds[key] = ChipBounds(self.placer(unit, memory), self.layer_type_of)
        return self._bounds[key]

    def placement_problem(self, units: tuple[Unit, ...], memory: Memory) -> PlacementProblem:
        """The problem with layer times left at zero, to be filled for each chip."""
        training = self.scenario.training
        is_paper = self.scenario.placement_model is PlacementModel.PAPER
        return PlacementProblem(
            cost_model=self.scenario.placement_model,
            cluster=self.scenario.cluster,
            device_memory_bytes=float(memory.hbm_bytes),
            graphs=tuple(self.layer_graph(unit) for unit in units),
            recompute=units[0].policy,
            optimizer=training.optimizer,
            precision=named_precision(training.precision, training.optimizer),
            global_batch=training.global_batch,
            # The paper's optimizer step costs no time.
            hbm_bytes_per_s=None if is_paper else memory.hbm_bytes_per_s,
        )

    def layer_graph(self, unit: Unit) -> LayerGraph:
        """The layers as placement sees them, without times."""
        graph, b = self.graphs[unit.tp], unit.microbatch
        return LayerGraph(
            tp=unit.tp,
            microbatch=b,
            layers=tuple(
                _layer_cost(name, graph.layer_types[kind], b)
                for name, kind in zip(graph.layer_names, graph.layer_type_of, strict=True)
            ),
            links=tuple(
                LayerLink(src=edge.src, dst=edge.dst, payload_bytes=float(edge.payload_bytes.at(b)))
                for edge in graph.edges
            ),
            tied=tuple(
                TiedWeights(layers=tied.layers, param_bytes=float(tied.param_bytes)) for tied in graph.tied
            ),
        )


def _policies(modes: tuple[Recompute, ...]) -> tuple[RecomputePolicy, ...]:
    """Every mode allowed: the solver picks stage by stage. Otherwise one mode for the whole model at a time."""
    if set(modes) == set(Recompute):
        return (RecomputePolicy.AUTO,)
    return tuple(RecomputePolicy(mode) for mode in modes)


def _pass_work(graph: OpGraph) -> PassWork:
    return PassWork(graph=graph, structure=compile_structure([engine_of(op) for op in graph.ops], graph.edges))


def _layer_cost(name: str, kind: LayerType, microbatch: int) -> LayerCost:
    kept = kind.saved_bytes + kind.saved_input_bytes
    return LayerCost(
        name=name,
        param_bytes=float(kind.param_bytes),
        activation_bytes=float(kept.at(microbatch)),
        forward_s=0.0,
        backward_s=0.0,
        is_sharded=kind.is_sharded,
        input_bytes=float(kind.input_bytes.at(microbatch)),
        working_bytes=float(kind.working_bytes.at(microbatch)),
    )
