"""Layers, operators and tensors as entries of a graph file, written and read.

Entries are plain dictionaries whose shape ``graph_schema`` gives. What is not there has its default; bytes, edges
and memory are not written but worked out again when a layer is read.
"""

from __future__ import annotations

from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Literal

from rephaze.errors import SpecError
from rephaze.types.checks import did_you_mean
from rephaze.types.graph import (
    Affine,
    AttentionDims,
    GemmDims,
    Gradient,
    LayerType,
    Op,
    OpGraph,
    OpKind,
    Split,
    Tensor,
    TensorRole,
    VectorWork,
)
from rephaze.workload.derived_sizes import layer_type, op_graph

if TYPE_CHECKING:
    # Only for types: pydantic is loaded when a file is read, not before.
    from rephaze.workload.graph_schema import (
        AttentionEntry,
        GemmEntry,
        LayerEntry,
        OpEntry,
        PassEntry,
        Size,
        TensorEntry,
    )

# Looking members up in a dictionary is several times faster than calling the enum.
_ROLES = {member.value: member for member in TensorRole}
_KINDS = {member.value: member for member in OpKind}
_GRADIENTS = {member.value: member for member in Gradient}
_SPLITS = {member.value: member for member in Split}

_ATTENTION_KEYS = (
    "num_heads",
    "num_kv_heads",
    "query_len",
    "key_len",
    "head_dim",
    "value_dim",
    "causal",
    "backward",
)

Plain = dict[str, object]
"""An entry as JSON writes it."""

# --- writing ------------------------------------------------------------------------------------------------


def size_to_plain(size: Affine) -> int | list[int]:
    """A whole number, or ``[const, per_sample]``."""
    return [size.const, size.per_sample] if size.per_sample else size.const


def layer_to_plain(layer: LayerType) -> Plain:
    """The entry of a layer type."""
    return {
        "name": layer.name,
        "forward": _graph_to_plain(layer.forward),
        "backward": _graph_to_plain(layer.backward),
        **{
            key: [_tensor_to_plain(t) for t in getattr(layer, key)]
            for key in ("parameters", "saved", "saved_inputs", "inputs")
        },
    }


def _graph_to_plain(graph: OpGraph) -> Plain:
    names = [tensor.name for tensor in graph.tensors]
    return {
        "tensors": [_tensor_to_plain(tensor) for tensor in graph.tensors],
        "ops": [_op_to_plain(op, names) for op in graph.ops],
    }


def _tensor_to_plain(tensor: Tensor) -> Plain:
    plain: Plain = {
        "name": tensor.name,
        "num_elements": size_to_plain(tensor.num_elements),
        "element_bytes": tensor.element_bytes,
    }
    if tensor.role is not TensorRole.LOCAL:
        plain["role"] = tensor.role.value
    for key in ("storage", "num_split_units", "is_reduced", "has_tokens"):
        if getattr(tensor, key):
            plain[key] = getattr(tensor, key)
    return plain


def _op_to_plain(op: Op, names: list[str]) -> Plain:
    plain: Plain = {
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
        plain["gemm"] = _gemm_to_plain(op.gemm)
    if op.attention is not None:
        plain["attention"] = _attention_to_plain(op.attention)
    if op.vector:
        plain["vector"] = [[w.function, size_to_plain(w.num_elements), w.row_length] for w in op.vector]
    if op.num_flops != Affine():
        plain["num_flops"] = size_to_plain(op.num_flops)
    if op.split is not Split.NONE:
        plain["split"] = op.split.value
        plain["num_split_units"] = op.num_split_units
    return plain


def _gemm_to_plain(dims: GemmDims) -> Plain:
    plain: Plain = {axis: size_to_plain(getattr(dims, axis)) for axis in ("batch", "m", "n", "k")}
    plain["shared_rhs"] = dims.shared_rhs
    if dims.num_experts:
        plain["num_experts"] = dims.num_experts
    return plain


def _attention_to_plain(dims: AttentionDims) -> Plain:
    plain: Plain = {key: getattr(dims, key) for key in _ATTENTION_KEYS}
    if dims.window_len:
        plain["window_len"] = dims.window_len
    return plain | {"batch": size_to_plain(dims.batch)}


# --- reading ------------------------------------------------------------------------------------------------


@cache
def size_from_plain(plain: Size) -> Affine:
    """The size a whole number or ``[const, per_sample]`` stands for."""
    # A model has thousands of sizes but few distinct ones.
    return Affine(plain) if isinstance(plain, int) else Affine(plain[0], plain[1])


def layer_from_plain(plain: LayerEntry, source: str) -> LayerType:
    """The layer type of an entry; ``source`` is shown before the field in messages."""
    where = f"{source}: {plain['name']}"
    return layer_type(
        plain["name"],
        _graph_from_plain(plain["forward"], f"{where}.forward"),
        _graph_from_plain(plain["backward"], f"{where}.backward"),
        parameters=_tensors_from_plain(plain["parameters"]),
        saved=_tensors_from_plain(plain["saved"]),
        saved_inputs=_tensors_from_plain(plain["saved_inputs"]),
        inputs=_tensors_from_plain(plain["inputs"]),
    )


def _tensors_from_plain(plain: list[TensorEntry]) -> tuple[Tensor, ...]:
    return tuple(_tensor_from_plain(tensor) for tensor in plain)


def _tensor_from_plain(plain: TensorEntry) -> Tensor:
    return Tensor(
        name=plain["name"],
        num_elements=size_from_plain(plain["num_elements"]),
        element_bytes=plain["element_bytes"],
        role=_ROLES[plain.get("role", "local")],
        storage=plain.get("storage", ""),
        num_split_units=plain.get("num_split_units", 0),
        is_reduced=plain.get("is_reduced", False),
        has_tokens=plain.get("has_tokens", False),
    )


def _graph_from_plain(plain: PassEntry, where: str) -> OpGraph:
    tensors = _tensors_from_plain(plain["tensors"])
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
    try:
        return [ops[number] for number in TopologicalSorter(dict(enumerate(needs))).static_order()]
    except CycleError as error:
        raise _cycle([ops[number].name for number in error.args[1][:-1]], where) from None


def _cycle(names: list[str], where: str) -> SpecError:
    shown = " -> ".join((*names, names[0])) if len(names) <= 6 else f"{names[0]} -> ... ({len(names)} operators)"
    return SpecError(f"{where}.ops", shown, "is a cycle: an operator would wait for its own result")


def _op_from_plain(plain: OpEntry, position: dict[str, int], where: str) -> Op:
    def numbers(key: Literal["inputs", "outputs"]) -> tuple[int, ...]:
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

    gemm, attention = plain.get("gemm"), plain.get("attention")
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
        gradient=_GRADIENTS[plain.get("gradient", "none")],
        gemm=_gemm_from_plain(gemm) if gemm is not None else None,
        attention=_attention_from_plain(attention) if attention is not None else None,
        vector=tuple(
            VectorWork(function=function, num_elements=size_from_plain(elements), row_length=row_length)
            for function, elements, row_length in plain.get("vector", ())
        ),
        num_flops=size_from_plain(plain.get("num_flops", 0)),
        inputs=numbers("inputs"),
        outputs=numbers("outputs"),
        split=_SPLITS[plain.get("split", "none")],
        num_split_units=plain.get("num_split_units", 0),
    )


def _gemm_from_plain(plain: GemmEntry) -> GemmDims:
    return GemmDims(
        batch=size_from_plain(plain["batch"]),
        m=size_from_plain(plain["m"]),
        n=size_from_plain(plain["n"]),
        k=size_from_plain(plain["k"]),
        shared_rhs=plain["shared_rhs"],
        num_experts=plain.get("num_experts", 0),
    )


def _attention_from_plain(plain: AttentionEntry) -> AttentionDims:
    return AttentionDims(
        batch=size_from_plain(plain["batch"]),
        num_heads=plain["num_heads"],
        num_kv_heads=plain["num_kv_heads"],
        query_len=plain["query_len"],
        key_len=plain["key_len"],
        head_dim=plain["head_dim"],
        value_dim=plain["value_dim"],
        causal=plain["causal"],
        backward=plain["backward"],
        window_len=plain.get("window_len", 0),
    )
