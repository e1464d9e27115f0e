"""Graph files: ``rephaze.graph/1``, JSON with names for positions, gzipped if their name ends in ``.gz``.

A file holds what cannot be worked out: the tensors of each layer and what operators do with them
(``graph_entries``), how the layers are joined, and where the graph comes from.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from rephaze.errors import SpecError
from rephaze.types.checks import did_you_mean
from rephaze.types.files import check_format, read_mapping, validate
from rephaze.types.graph import LayerEdge, ModelGraph, TiedParameter
from rephaze.types.output_files import FileKind, write_whole
from rephaze.workload.graph_entries import layer_from_plain, layer_to_plain, size_from_plain, size_to_plain

FORMAT = "rephaze.graph/1"


GRAPH_FILE = FileKind(name="a graph file", starts=(b'{"format":"rephaze.graph/',), endings=(".json", ".json.gz"))


def write_graph(graph: ModelGraph, path: Path) -> None:
    """Write a graph that is not cut; equal graphs give equal bytes."""
    text = graph_to_json(graph)
    data = (text + "\n").encode()
    packed = gzip.compress(data, compresslevel=9, mtime=0) if path.suffix == ".gz" else data
    write_whole(path, packed, GRAPH_FILE)


def graph_to_json(graph: ModelGraph) -> str:
    """The text of a graph file."""
    if graph.tp != 1 or graph.is_fused:
        raise SpecError("graph", graph.name, "must be at tp 1 and not fused to be written")
    if graph.cp != 1 or graph.ep != 1:
        raise SpecError("graph", graph.name, "must be at cp 1 and ep 1 to be written")
    document = {
        "format": FORMAT,
        "name": graph.name,
        "seq_len": graph.seq_len,
        "dtype": graph.dtype,
        "attention": graph.attention,
        "is_training": graph.is_training,
        "num_parameters": graph.num_parameters,
        "legal_tp": list(graph.legal_tp),
        "made_by": dict(graph.made_by),
        "layer_types": [layer_to_plain(layer) for layer in graph.layer_types],
        "layers": [
            [name, graph.layer_types[number].name]
            for name, number in zip(graph.layer_names, graph.layer_type_of, strict=True)
        ],
        "edges": [[e.src, e.dst, size_to_plain(e.payload_bytes)] for e in graph.edges],
        "tied": [{"name": t.name, "layers": list(t.layers), "param_bytes": t.param_bytes} for t in graph.tied],
    }
    return json.dumps(document, separators=(",", ":"))


def read_graph(path: Path) -> ModelGraph:
    """The graph in a file; one clear line if it is not a sound one."""
    return graph_from_plain(read_mapping(path), path.name)


def graph_from_plain(data: dict[str, Any], source: str) -> ModelGraph:
    """The graph in a file's content.

    Args:
        data: What the file held.
        source: Shown before the field in messages.
    """
    check_format(data, FORMAT, source)
    from rephaze.workload.graph_schema import GraphFile

    file = validate(GraphFile, data, source)
    types = {layer["name"]: number for number, layer in enumerate(file.layer_types)}
    if len(types) != len(file.layer_types):
        raise SpecError(f"{source}: layer_types", len(types), "two layer types have one name")
    for name, type_name in file.layers:
        if type_name not in types:
            raise SpecError(
                f"{source}: layers.{name}",
                type_name,
                "is not a layer type of this file",
                did_you_mean(type_name, types),
            )
    names = [name for name, _ in file.layers]
    if len(set(names)) != len(names):
        raise SpecError(f"{source}: layers", len(names), "two layers have one name")
    for edge in file.edges:
        if not 0 <= edge[0] < edge[1] < len(file.layers):
            raise SpecError(
                f"{source}: edges",
                list(edge[:2]),
                f"must lead from an earlier to a later one of {len(file.layers)} layers",
                "layers stand in topological order",
            )
    for tied in file.tied:
        if not all(0 <= place < len(file.layers) for place in tied["layers"]):
            raise SpecError(f"{source}: tied.{tied['name']}", tied["layers"], "names a layer that is not there")
    layer_types = tuple(layer_from_plain(layer, source) for layer in file.layer_types)
    held = sum(layer_types[types[type_name]].num_parameters for _, type_name in file.layers)
    if file.num_parameters < held:
        raise SpecError(f"{source}: num_parameters", file.num_parameters, f"the layers have {held:,}")
    return ModelGraph(
        name=file.name,
        seq_len=file.seq_len,
        dtype=file.dtype,
        attention=file.attention,
        tp=1,
        legal_tp=tuple(sorted(set(file.legal_tp) | {1})),
        layer_types=layer_types,
        layer_names=tuple(names),
        layer_type_of=tuple(types[type_name] for _, type_name in file.layers),
        edges=tuple(LayerEdge(src=e[0], dst=e[1], payload_bytes=size_from_plain(e[2])) for e in file.edges),
        tied=tuple(
            TiedParameter(name=t["name"], layers=tuple(t["layers"]), param_bytes=t["param_bytes"])
            for t in file.tied
        ),
        num_parameters=file.num_parameters,
        is_training=file.is_training,
        made_by=tuple(file.made_by.items()),
    )
