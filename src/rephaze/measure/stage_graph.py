"""A model's layers as placement under ``1f1b`` and ``paper`` sees them, without times."""

from __future__ import annotations

from rephaze.types.graph import LayerType, ModelGraph
from rephaze.types.placement import LayerCost, LayerGraph, LayerLink, TiedWeights


def stage_graph(graph: ModelGraph, tp: int, microbatch: int) -> LayerGraph:
    """Layers, what goes between them, and weights they share.

    Args:
        graph: As one device of a tensor-parallel group has it.
        tp: Devices of such a group.
        microbatch: In samples.
    """
    b = microbatch
    return LayerGraph(
        tp=tp,
        microbatch=b,
        layers=tuple(
            _layer_cost(name, graph.layer_types[kind], b)
            for name, kind in zip(graph.layer_names, graph.layer_type_of, strict=True)
        ),
        links=tuple(
            LayerLink(src=edge.src, dst=edge.dst, payload_bytes=float(edge.payload_bytes.at(b)))
            for edge in graph.edges
        ),
        tied=tuple(TiedWeights(layers=tied.layers, param_bytes=float(tied.param_bytes)) for tied in graph.tied),
    )


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
