"""A model in a few numbers: its size, its work and what it keeps, for one sample."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.graph import ModelGraph, OpGraph


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSummary:
    """What `rephaze extract` and `rephaze models` print of a graph."""

    name: str
    num_parameters: int
    num_layers: int
    """Embedding, blocks and head."""
    num_layer_types: int
    blocks: dict[str, int]
    """Blocks of each stack, by its path."""
    seq_len: int
    dtype: str
    attention: str
    forward_flops_per_sample: int
    backward_flops_per_sample: int
    saved_bytes_per_sample: int
    """Kept from forward to backward in all layers, each storage once."""
    legal_tp: tuple[int, ...]


def summarize(graph: ModelGraph) -> ModelSummary:
    """The summary of a graph; of a sharded one, work and memory are those of one chip."""
    forward = [_flops(layer.forward) for layer in graph.layer_types]
    backward = [_flops(layer.backward) for layer in graph.layer_types]
    saved = [(layer.saved_bytes + layer.saved_input_bytes).at(1) for layer in graph.layer_types]
    blocks: dict[str, int] = {}
    for name in graph.layer_names:
        path, _, last = name.rpartition(".")
        if path and last.isdigit():
            blocks[path] = blocks.get(path, 0) + 1
    return ModelSummary(
        name=graph.name,
        num_parameters=graph.num_parameters,
        num_layers=len(graph.layer_names),
        num_layer_types=len(graph.layer_types),
        blocks=blocks,
        seq_len=graph.seq_len,
        dtype=graph.dtype,
        attention=graph.attention,
        forward_flops_per_sample=sum(forward[t] for t in graph.layer_type_of),
        backward_flops_per_sample=sum(backward[t] for t in graph.layer_type_of),
        saved_bytes_per_sample=sum(saved[t] for t in graph.layer_type_of),
        legal_tp=graph.legal_tp,
    )


def _flops(graph: OpGraph) -> int:
    return sum(op.num_flops.at(1) for op in graph.ops)
