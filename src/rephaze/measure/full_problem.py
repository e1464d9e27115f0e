"""The placement problem of a model under cost model ``full``, without the times that a chip fills in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rephaze.place.precision import named_precision
from rephaze.types.full import DeviceOrder, FullGraph, FullLayer, FullProblem, KeepPoint
from rephaze.types.graph import LayerType, ModelGraph
from rephaze.types.placement import LayerLink, TiedWeights
from rephaze.types.scenario import Scenario


def full_problem(
    scenario: Scenario, graphs: Sequence[FullGraph], hbm_bytes: int, hbm_bytes_per_s: float
) -> FullProblem:
    """The problem of these graphs on chips with such a memory."""
    training = scenario.training
    return FullProblem(
        cluster=scenario.cluster,
        device_memory_bytes=float(hbm_bytes),
        hbm_bytes_per_s=hbm_bytes_per_s,
        global_batch=training.global_batch,
        optimizer=training.optimizer,
        precision=named_precision(training.precision, training.optimizer),
        options=scenario.plans,
        graphs=tuple(graphs),
    )


def full_graph(graph: ModelGraph, microbatch: int, *, has_split_backward: bool) -> FullGraph:
    """The layers as placement sees them, with all or the least they may keep, and no times."""
    counts = Counter(graph.layer_type_of)
    has_blocks = max(counts.values()) > 1
    spans_replicas = graph.ep * graph.etp > graph.tp * graph.cp
    return FullGraph(
        tp=graph.tp,
        cp=graph.cp,
        ep=graph.ep,
        etp=graph.etp,
        sp=graph.sequence_parallel,
        microbatch=microbatch,
        layers=tuple(
            _layer(
                name,
                graph.layer_types[kind],
                microbatch,
                is_block=counts[kind] > 1 or not has_blocks,
                has_split_backward=has_split_backward,
            )
            for name, kind in zip(graph.layer_names, graph.layer_type_of, strict=True)
        ),
        links=tuple(
            LayerLink(src=edge.src, dst=edge.dst, payload_bytes=float(edge.payload_bytes.at(microbatch)))
            for edge in graph.edges
        ),
        tied=tuple(TiedWeights(layers=tied.layers, param_bytes=float(tied.param_bytes)) for tied in graph.tied),
        # All-to-alls of experts beyond a stage's own chips are priced for neighbours.
        orders=(DeviceOrder.PP_OUTER,) if spans_replicas else tuple(DeviceOrder),
    )


def _layer(name: str, kind: LayerType, microbatch: int, *, is_block: bool, has_split_backward: bool) -> FullLayer:
    full_bytes = float((kind.saved_bytes + kind.saved_input_bytes).at(microbatch))
    least_bytes = min(full_bytes, float(kind.input_bytes.at(microbatch)))
    return FullLayer(
        name=name,
        param_bytes=float(kind.param_bytes - kind.expert_param_bytes),
        expert_param_bytes=float(kind.expert_param_bytes),
        forward_s=0.0,
        backward_s=0.0,
        weight_backward_s=0.0 if has_split_backward else None,
        keep=(
            KeepPoint(kept_bytes=full_bytes, replay_s=0.0),
            KeepPoint(kept_bytes=least_bytes, replay_s=0.0),
        ),
        working_bytes=float(kind.working_bytes.at(microbatch)),
        is_block=is_block,
    )
