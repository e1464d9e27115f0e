"""A model's graph at a tensor-parallel degree: tensors and operators sharded, collectives put in. Needs no torch.

The layout is in the graph: into how many units a tensor is sharded, what of an operator is split, which results
are partial sums. Sequence parallelism also shards along the sequence what that layout replicates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from rephaze.errors import SpecError
from rephaze.types.graph import (
    Affine,
    CollectiveDims,
    CollectiveKind,
    GemmDims,
    Gradient,
    LayerType,
    ModelGraph,
    Op,
    OpGraph,
    OpKind,
    Split,
    Tensor,
    TensorRole,
)
from rephaze.workload.derived_sizes import expert_modules, layer_type, op_graph
from rephaze.workload.passes.made_once import MadeOnce

_STATISTIC_BYTES = 4
"""Row maxima and sums of a loss travel as float32."""
_GEMM_AXES = {Split.BATCH: "batch", Split.M: "m", Split.N: "n", Split.K: "k"}


def shard_graph(
    graph: ModelGraph,
    tp: int,
    sequence_parallel: bool = False,
    *,
    experts_apart: bool = False,
    made: MadeOnce[LayerType] | None = None,
) -> ModelGraph:
    """What one chip of a group of ``tp`` runs and holds, with the collectives that join the group.

    Args:
        graph: At tp = 1 and not yet fused, as extracted or loaded.
        tp: One of ``graph.legal_tp``.
        sequence_parallel: Also shard along the sequence what tensor parallelism replicates; all-reduces
            become reduce-scatters, and products all-gather their inputs.
        experts_apart: Experts, which the layout then leaves whole, work on the chip's own part of the sequence,
            and their gradients are summed with those of other replicas, not here.
        made: Layers sharded before.
    """
    if graph.tp != 1 or graph.is_fused:
        raise SpecError("graph", graph.name, "must be at tp 1 and not fused", "shard first, then fuse")
    if graph.cp != 1 or graph.ep != 1:
        raise SpecError("graph", graph.name, "must be at cp 1 and ep 1", "cut it by all degrees at once")
    if tp not in graph.legal_tp:
        raise SpecError("tp", tp, f"{graph.name} allows {', '.join(map(str, graph.legal_tp))}")
    if sequence_parallel and graph.seq_len % tp:
        raise SpecError("tp", tp, f"must divide the sequence of {graph.seq_len} tokens for sequence parallelism")
    if tp == 1:
        return graph
    seq_len = graph.seq_len if sequence_parallel else 0
    made = made or MadeOnce()

    def sharded(layer: LayerType) -> LayerType:
        apart = experts_apart and any(map(expert_modules, (layer.forward, layer.backward)))
        sharder = _Sharder(tp=tp, seq_len=seq_len, experts_apart=apart)
        return made.get(layer, sharder, lambda: sharder.layer(layer))

    return replace(
        graph,
        tp=tp,
        etp=tp if has_split_experts(graph) else 1,
        sequence_parallel=sequence_parallel,
        layer_types=tuple(sharded(layer) for layer in graph.layer_types),
        edges=tuple(
            replace(edge, payload_bytes=_local(edge.payload_bytes, seq_len, tp))
            if sequence_parallel and edge.payload_bytes.per_sample
            else edge
            for edge in graph.edges
        ),
        tied=tuple(
            replace(tied, param_bytes=_tied_bytes(graph, tied.name, tied.param_bytes, tp)) for tied in graph.tied
        ),
    )


def has_split_experts(graph: ModelGraph) -> bool:
    """Whether tensor parallelism cuts each expert of a mixture."""
    return any(
        op.split is not Split.NONE
        for layer in graph.layer_types
        for op in layer.forward.ops
        if op.gemm is not None and op.gemm.num_experts
    )


def _local(size: Affine, num_units: int, tp: int) -> Affine:
    """One chip's shard of ``size`` when its ``num_units`` are sharded over ``tp`` chips, padded if need be."""
    num_local = -(-num_units // tp)
    return Affine(size.const * num_local // num_units, size.per_sample * num_local // num_units)


def _tied_bytes(graph: ModelGraph, name: str, param_bytes: int, tp: int) -> int:
    for layer in graph.layer_types:
        for tensor in layer.parameters:
            if tensor.name == name and tensor.num_split_units:
                return _local(Affine(param_bytes), tensor.num_split_units, tp).const
    return param_bytes


@dataclass(frozen=True, slots=True)
class _Sharder:
    """Tensors, operators and layers as one chip of the group has them."""

    tp: int
    seq_len: int
    """Tokens to shard, or 0 without sequence parallelism."""
    experts_apart: bool = False

    def layer(self, layer: LayerType) -> LayerType:
        """The layer as one chip holds it."""
        return layer_type(
            layer.name,
            self._graph(layer.forward),
            self._graph(layer.backward),
            parameters=self._tensors(layer.parameters),
            saved=self._tensors(layer.saved),
            saved_inputs=self._tensors(layer.saved_inputs),
            inputs=self._tensors(layer.inputs),
        )

    def by_sequence(self, tensor: Tensor) -> bool:
        """Whether sequence parallelism shards a tensor."""
        is_replicated = not tensor.num_split_units and tensor.role is not TensorRole.PARAMETER
        return bool(self.seq_len) and is_replicated and tensor.has_tokens

    def tensor(self, tensor: Tensor) -> Tensor:
        """One chip's shard of a tensor, or all of it if it is replicated."""
        units = tensor.num_split_units or (self.seq_len if self.by_sequence(tensor) else 0)
        if not units:
            return tensor
        return replace(tensor, num_elements=_local(tensor.num_elements, units, self.tp))

    def _tensors(self, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple(self.tensor(tensor) for tensor in tensors)

    def _graph(self, graph: OpGraph) -> OpGraph:
        builder = _GraphBuilder(
            sharder=self,
            source=graph,
            tensors=[self.tensor(t) for t in graph.tensors],
            expert_modules=expert_modules(graph) if self.experts_apart else frozenset(),
        )
        for op in graph.ops:
            builder.add(op)
        return op_graph(builder.ops, tuple(builder.tensors))

    def op(self, op: Op) -> Op:
        """An operator with one chip's part of its work, as its split says."""
        if op.split is Split.NONE:
            return op
        units, tp = op.num_split_units, self.tp
        gemm, attention, vector = op.gemm, op.attention, op.vector
        if gemm is not None and op.split in _GEMM_AXES:
            axis = _GEMM_AXES[op.split]
            shard: dict[str, Any] = {axis: _local(getattr(gemm, axis), units, tp)}
            gemm = replace(gemm, **shard)
        if attention is not None:
            attention = replace(
                attention,
                num_heads=attention.num_heads // tp,
                num_kv_heads=max(attention.num_kv_heads // tp, 1),
            )
        if op.split is not Split.K:
            vector = tuple(
                replace(
                    work,
                    num_elements=_local(work.num_elements, units, tp),
                    row_length=-(-work.row_length // tp) if op.split is Split.ROW else work.row_length,
                )
                for work in op.vector
            )
        return replace(
            op, num_flops=_local(op.num_flops, units, tp), gemm=gemm, attention=attention, vector=vector
        )


@dataclass(slots=True)
class _GraphBuilder:
    """Rewrites one pass of a layer, putting collectives after the operators that need them."""

    sharder: _Sharder
    source: OpGraph
    tensors: list[Tensor]
    expert_modules: frozenset[str]
    """Where weights' gradients are not summed over the group."""
    ops: list[Op] = field(default_factory=list)
    _now: dict[int, int] = field(default_factory=dict)
    """The tensor that later operators read in place of an original one."""
    _gathered: dict[tuple[str, Affine], int] = field(default_factory=dict)
    """All-gathered copies by the storage they show: a tensor and its transpose are gathered once."""

    def add(self, op: Op) -> None:
        """Put in an operator, the all-gathers before it and the reductions after it."""
        local = self.sharder.op(op)
        inputs = [self._now.get(t, t) for t in op.inputs]
        if self.sharder.seq_len:
            if self._needs_all_tokens(op):
                inputs = [self._all_gather(t, now, op) for t, now in zip(op.inputs, inputs, strict=True)]
            elif op.split is Split.NONE:
                local = self._over_tokens(op)
        self.ops.append(replace(local, inputs=tuple(inputs)))
        for number in op.outputs:
            tensor = self.source.tensors[number]
            if tensor.is_reduced:
                self._reduce(number, op)
        if op.split is Split.ROW and op.gradient is Gradient.NONE:
            self._exchange_statistics(op)
        if self.sharder.seq_len and op.gradient is not Gradient.NONE:
            self._sum_over_tokens(op)

    def _reduce(self, number: int, op: Op) -> None:
        """The all-reduce of a partial sum; with sequence parallelism a reduce-scatter where it has tokens."""
        full = self.source.tensors[number]
        is_scattered = self.sharder.by_sequence(full)
        # The operator itself still makes the full tensor; only the collective's result is sharded.
        made = self.tensors[number]
        self.tensors[number] = replace(made, num_elements=full.num_elements, role=TensorRole.LOCAL)
        kind = CollectiveKind.REDUCE_SCATTER if is_scattered else CollectiveKind.ALL_REDUCE
        result = replace(made, name=f"{made.name}.{kind}", storage="", role=full.role)
        self._now[number] = self._collective(kind, op, number, result, full.num_bytes)

    def _all_gather(self, original: int, now: int, op: Op) -> int:
        """The full copy of an input that is sharded along the sequence, made once a pass."""
        if not self.sharder.by_sequence(self.source.tensors[original]):
            return now
        full = self.source.tensors[original]
        key = (full.storage or full.name, full.num_elements)
        if key not in self._gathered:
            kind = CollectiveKind.ALL_GATHER
            result = replace(full, name=f"{full.name}.{kind}", storage="", role=TensorRole.LOCAL)
            self._gathered[key] = self._collective(kind, op, now, result, full.num_bytes)
        return self._gathered[key]

    def _exchange_statistics(self, op: Op) -> None:
        """The small all-reduce of a loss over a sharded vocabulary: row statistics, or picked values."""
        work = op.vector[0]
        number = op.outputs[0]
        out = self.tensors[number]
        if work.function.startswith("log_softmax"):
            rows = Affine(
                work.num_elements.const // work.row_length, work.num_elements.per_sample // work.row_length
            )
            payload = rows.times(2 * _STATISTIC_BYTES)
        else:
            payload = out.num_bytes
        kind = CollectiveKind.ALL_REDUCE
        result = replace(out, name=f"{out.name}.{kind}", storage="")
        self._now[number] = self._collective(kind, op, number, result, payload)

    def _sum_over_tokens(self, op: Op) -> None:
        """Each chip saw a part of the tokens: gradients of replicated weights are partial sums over the group."""
        if op.split is not Split.NONE or op.kind is OpKind.VIEW or op.module in self.expert_modules:
            return
        reads_tokens = any(self.sharder.by_sequence(self.source.tensors[t]) for t in op.inputs)
        for number in op.outputs if reads_tokens else ():
            tensor = self.source.tensors[number]
            is_total = not tensor.num_elements.per_sample and not tensor.is_reduced
            if is_total and not tensor.num_split_units and tensor.num_elements.const > 1:
                kind = CollectiveKind.ALL_REDUCE
                result = replace(tensor, name=f"{tensor.name}.{kind}", storage="")
                self._now[number] = self._collective(kind, op, number, result, tensor.num_bytes)

    def _collective(self, kind: CollectiveKind, op: Op, source: int, result: Tensor, payload_bytes: Affine) -> int:
        self.tensors.append(result)
        self.ops.append(
            Op(
                name=result.name,
                target=f"collective.{kind}",
                kind=OpKind.COLLECTIVE,
                module=op.module,
                gradient=op.gradient,
                collective=CollectiveDims(kind=kind, payload_bytes=payload_bytes, num_members=self.sharder.tp),
                inputs=(source,),
                outputs=(len(self.tensors) - 1,),
            )
        )
        return len(self.tensors) - 1

    def _needs_all_tokens(self, op: Op) -> bool:
        """Whether tensor parallelism shards an operator, which then works on every token."""
        return op.split is not Split.NONE or any(
            self.source.tensors[t].num_split_units and self.source.tensors[t].role is not TensorRole.PARAMETER
            for t in op.inputs
        )

    def _over_tokens(self, op: Op) -> Op:
        """An operator that tensor parallelism leaves alone, run on one chip's part of the sequence."""
        touched = [self.source.tensors[t] for t in (*op.outputs, *op.inputs)]
        if not any(self.sharder.by_sequence(tensor) for tensor in touched):
            return op
        if op.gemm is None:
            return self.sharder.op(replace(op, split=Split.ELEMENTS, num_split_units=self.sharder.seq_len))
        # An expert's tokens are not a multiple of the sequence.
        apart = self.sharder.experts_apart and op.gemm.num_experts
        axis = _token_axis(op.gemm, 1 if apart else self.sharder.seq_len)
        return self.sharder.op(replace(op, split=axis, num_split_units=self.sharder.seq_len)) if axis else op


def _token_axis(gemm: GemmDims, seq_len: int) -> Split | None:
    """The axis of a product that runs over tokens."""
    for split, name in _GEMM_AXES.items():
        size: Affine = getattr(gemm, name)
        if size.per_sample and size.per_sample % seq_len == 0:
            return split
    return None
