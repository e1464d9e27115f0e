"""From a model's graph and its layer types' times to the layers that placement takes."""

from __future__ import annotations

from collections.abc import Sequence

from rephaze.types.graph import ModelGraph
from rephaze.types.placement import LayerCost, LayerGraph, LayerLink, TiedWeights


def layer_graph(
    model: ModelGraph, microbatch: int, forward_s_t: Sequence[float], backward_s_t: Sequence[float]
) -> LayerGraph:
    """The model at its tensor-parallel degree, for microbatches of this many samples.

    Args:
        model: Its layers, in topological order.
        microbatch: Samples.
        forward_s_t: Time of each layer type's forward pass on the chip, tensor-parallel traffic included.
        backward_s_t: Likewise of the backward pass.
    """
    layers = []
    for name, kind in zip(model.layer_names, model.layer_type_of, strict=True):
        layer = model.layer_types[kind]
        input_bytes = layer.input_bytes.at(microbatch)
        layers.append(
            LayerCost(
                name=name,
                param_bytes=float(layer.param_bytes),
                activation_bytes=float(layer.saved_bytes.at(microbatch) + input_bytes),
                forward_s=float(forward_s_t[kind]),
                backward_s=float(backward_s_t[kind]),
                # At tp 1 one device holds all of it, whatever could be split.
                is_sharded=layer.is_sharded and model.tp > 1,
                input_bytes=float(input_bytes),
                working_bytes=float(layer.working_bytes.at(microbatch)),
            )
        )
    return LayerGraph(
        tp=model.tp,
        microbatch=microbatch,
        layers=tuple(layers),
        links=tuple(
            LayerLink(src=edge.src, dst=edge.dst, payload_bytes=float(edge.payload_bytes.at(microbatch)))
            for edge in model.edges
        ),
        tied=tuple(TiedWeights(layers=tie.layers, param_bytes=float(tie.param_bytes)) for tie in model.tied),
    )
