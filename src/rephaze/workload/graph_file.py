"""Graph files: ``rephaze.graph/1``, JSON with names for positions, gzipped if their name ends in ``.gz``.

A file holds tensors and what operators do with them; bytes, edges and memory are worked out when it is read.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from rephaze.errors import SpecError
from rephaze.types.checks import did_you_mean
from rephaze.types.files import check_format, read_mapping, validate
from rephaze.types.graph import (
    Affine,
    AttentionDims,
    GemmDims,
    Gradient,
    LayerEdge,
    LayerType,
    ModelGraph,
    Op,
    OpGraph,
    OpKind,
    Split,
    Tensor,
    TensorRole,
    TiedParameter,
    VectorWork,
)
from rephaze.workload.derived_sizes import layer_type, op_graph

FORMAT = "rephaze.graph/1"

# Looking members up in a dictionary is several times faster than calling the enum.
_ROLES = {member.value: member for member in TensorRole}
_KINDS = {member.value: member for member in OpKind}
_GRADIENTS = {member.value: member for member in Gradient}
_SPLITS = {member.value: member for member in Split}


# --- writing ------------------------------------------------------------------------------------------------


def write_graph(graph: ModelGraph, path: Path) -> None:
    """Write a graph at tp = 1; equal graphs give equal bytes."""
    text = graph_to_json(graph)
    data = (text + "\n").encode()
    path.write_bytes(gzip.compress(data, compresslevel=9, mtime=0) if path.suffix == ".gz" else data)


def graph_to_json(graph: ModelGraph) -> str:
    """The text of a graph file."""
    if graph.tp != 1 or graph.is_fused:
        raise SpecError("graph", graph.name, "must be at tp 1 and not fused to be written")
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
        "layer_types": [_layer_to_plain(layer) for layer in graph.layer_types],
        "layers": [
            [name, graph.layer_types[number].name]
            for name, number in zip(graph.layer_names, graph.layer_type_of, strict=True)
        ],
        "edges": [[e.src, e.dst, _affine_to_plain(e.payload_bytes)] for e in graph.edges],
        "tied": [{"name": t.name, "layers": list(t.layers), "param_bytes": t.param_bytes} for t in graph.tied],
    }
    return json.dumps(document, separators=(",", ":"))


def _affine_to_plain(size: Affine) -> int | list[int]:
    return [size.const, size.per_sample] if size.per_sample else size.const


def _layer_to_plain(layer: LayerType) -> dict[str, Any]:
    return {
        "name": layer.name,
        "forward": _graph_to_plain(layer.forward),
        "backward": _graph_to_plain(layer.backward),
        **{
            key: [_tensor_to_plain(t) for t in getattr(layer, key)]
            for key in ("parameters", "saved", "saved_inputs", "inputs")
        },
    }


def _graph_to_plain(graph: OpGraph) -> dict[str, Any]:
    names = [tensor.name for tensor in graph.tensors]
    return {
        "tensors": [_tensor_to_plain(tensor) for tensor in graph.tensors],
        "ops": [_op_to_plain(op, names) for op in graph.ops],
    }


def _tensor_to_plain(tensor: Tensor) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "name": tensor.name,
        "num_elements": _affine_to_plain(tensor.num_elements),
        "element_bytes": tensor.element_bytes,
    }
    if tensor.role is not TensorRole.LOCAL:
        plain["role"] = tensor.role.value
    for key in ("storage", "num_split_units", "is_reduced", "has_tokens"):
        if getattr(tensor, key):
            plain[key] = getattr(tensor, key)
    return plain


def _op_to_plain(op: Op, names: list[str]) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "name": op.name,
        "target": op.target,
        "kind": op.kind.value,
        "module": op.module,
        "inputs": [names[t] for t in op.inputs],
        "outputs": [names[t] for t in op.outputs],
    }
    if op.gradient is not Gradient.NONE:
        plain["gradient"] = op.gradient.value
    if op.gemm is not None:
        plain["gemm"] = {axis: _affine_to_plain(getattr(op.gemm, axis)) for axis in ("batch", "m", "n", "k")}
        plain["gemm"]["shared_rhs"] = op.gemm.shared_rhs
        if op.gemm.num_experts:
            plain["gemm"]["num_experts"] = op.gemm.num_experts
    if op.attention is not None:
        dims = op.attention
        plain["attention"] = {key: getattr(dims, key) for key in AttentionDims.__slots__ if key != "batch"} | {
            "batch": _affine_to_plain(dims.batch)
        }
    if op.vector:
        plain["vector"] = [[w.function, _affine_to_plain(w.num_elements), w.row_length] for w in op.vector]
    if op.num_flops != Affine():
        plain["num_flops"] = _affine_to_plain(op.num_flops)
    if op.split is not Split.NONE:
        plain["split"] = op.split.value
        plain["num_split_units"] = op.num_split_units
    return plain


# --- reading ------------------------------------------------------------------------------------------------


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
    return ModelGraph(
        name=file.name,
        seq_len=file.seq_len,
        dtype=file.dtype,
        attention=file.attention,
        tp=1,
        legal_tp=tuple(sorted(set(file.legal_tp) | {1})),
        layer_types=tuple(_layer_from_plain(layer, source) for layer in file.layer_types),
        layer_names=tuple(name for name, _ in file.layers),
        layer_type_of=tuple(types[type_name] for _, type_name in file.layers),
        edges=tuple(LayerEdge(src=e[0], dst=e[1], payload_bytes=_affine(e[2])) for e in file.edges),
        tied=tuple(
            TiedParameter(name=t["name"], layers=tuple(t["layers"]), param_bytes=t["param_bytes"])
            for t in file.tied
        ),
        num_parameters=file.num_parameters,
        is_training=file.is_training,
        made_by=tuple(file.made_by.items()),
    )


@cache
def _affine(plain: int | tuple[int, int]) -> Affine:
    # A model has thousands of sizes but few distinct ones.
    return Affine(plain) if isinstance(plain, int) else Affine(plain[0], plain[1])


def _layer_from_plain(plain: Any, source: str) -> LayerType:
    where = f"{source}: {plain['name']}"
    return layer_type(
        plain["name"],
        _graph_from_plain(plain["forward"], f"{where}.forward"),
        _graph_from_plain(plain["backward"], f"{where}.backward"),
        **{
            key: tuple(_tensor_from_plain(t) for t in plain[key])
            for key in ("parameters", "saved", "saved_inputs", "inputs")
        },
    )


def _tensor_from_plain(plain: Any) -> Tensor:
    get = plain.get
    return Tensor(
        name=plain["name"],
        num_elements=_affine(plain["num_elements"]),
        element_bytes=plain["element_bytes"],
        role=_ROLES[get("role", "local")],
        storage=get("storage", ""),
        num_split_units=get("num_split_units", 0),
        is_reduced=get("is_reduced", False),
        has_tokens=get("has_tokens", False),
    )


def _graph_from_plain(plain: Any, where: str) -> OpGraph:
    tensors = tuple(_tensor_from_plain(tensor) for tensor in plain["tensors"])
    position = {tensor.name: number for number, tensor in enumerate(tensors)}
    if len(position) != len(tensors):
        raise SpecError(f"{where}.tensors", len(tensors), "two tensors have one name")
    ops = [_op_from_plain(op, position, where) for op in plain["ops"]]
    return op_graph(_sorted(ops, tensors, where), tensors)


def _sorted(ops: list[Op], tensors: tuple[Tensor, ...], where: str) -> list[Op]:
    """Operators in topological order; they are left as they stand if they already are."""
    maker: dict[int, int] = {}
    for number, op in enumerate(ops):
        for tensor in op.outputs:
            if tensor in maker:
                raise SpecError(
                    f"{where}.{op.name}.outputs",
                    tensors[tensor].name,
                    f"is made by {ops[maker[tensor]].name} too",
                )
            maker[tensor] = number
    if len({op.name for op in ops}) != len(ops):
        raise SpecError(f"{where}.ops", len(ops), "two operators have one name")
    needs = [{maker[t] for t in op.inputs if t in maker and maker[t] != n} for n, op in enumerate(ops)]
    if all(before < number for number, found in enumerate(needs) for before in found):
        own = next((n for n, op in enumerate(ops) if set(op.inputs) & set(op.outputs)), None)
        if own is not None:
            raise _cycle([ops[own].name], where)
        return ops
    from graphlib import CycleError, TopologicalSorter

    try:
        return [ops[number] for number in TopologicalSorter(dict(enumerate(needs))).static_order()]
    except CycleError as error:
        raise _cycle([ops[number].name for number in error.args[1][:-1]], where) from None


def _cycle(names: list[str], where: str) -> SpecError:
    shown = " -> ".join((*names, names[0])) if len(names) <= 6 else f"{names[0]} -> ... ({len(names)} operators)"
    return SpecError(f"{where}.ops", shown, "is a cycle: an operator would wait for its own result")


def _op_from_plain(plain: Any, position: dict[str, int], where: str) -> Op:
    def numbers(key: str) -> tuple[int, ...]:
        try:
            return tuple(position[name] for name in plain[key])
        except KeyError as error:
            missing = error.args[0]
            raise SpecError(
                f"{where}.{plain['name']}.{key}",
                missing,
                "is not among the tensors of this pass",
                did_you_mean(missing, position),
            ) from None

    get = plain.get
    gemm, attention = get("gemm"), get("attention")
    kind = _KINDS[plain["kind"]]
    if (kind is OpKind.GEMM) != (gemm is not None) or (kind is OpKind.ATTENTION) != (attention is not None):
        raise SpecError(
            f"{where}.{plain['name']}", kind.value, "must have the dimensions of its kind, and no others"
        )
    return Op(
        name=plain["name"],
        target=plain["target"],
        kind=kind,
        module=plain["module"],
        gradient=_GRADIENTS[get("gradient", "none")],
        gemm=gemm
        and GemmDims(
            batch=_affine(gemm["batch"]),
            m=_affine(gemm["m"]),
            n=_affine(gemm["n"]),
            k=_affine(gemm["k"]),
            shared_rhs=gemm["shared_rhs"],
            num_experts=gemm.get("num_experts", 0),
        ),
        attention=attention and AttentionDims(**{**attention, "batch": _affine(attention["batch"])}),
        vector=tuple(
            VectorWork(function=function, num_elements=_affine(elements), row_length=row_length)
            for function, elements, row_length in get("vector", ())
        ),
        num_flops=_affine(get("num_flops", 0)),
        inputs=numbers("inputs"),
        outputs=numbers("outputs"),
        split=_SPLITS[get("split", "none")],
        num_split_units=get("num_split_units", 0),
    )
