"""The sequence divided over chips: every tensor of tokens is cut, weights are not, attention exchanges keys.

Tokens are dealt out so that the halves of a causal mask are balanced (the first and the last part of the
sequence to the first chip, and so on): every chip, and every step of a ring, has the same work. Gradients of
weights are partial sums over the group; they are summed with those of other replicas, once a batch, not here.
So are the loss and its counts of tokens, a few numbers a microbatch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rephaze.errors import SpecError
from rephaze.types.graph import (
    Affine,
    AttentionDims,
    CollectiveDims,
    CollectiveKind,
    CommGroup,
    ContextForm,
    GemmDims,
    LayerType,
    ModelGraph,
    Op,
    OpGraph,
    OpKind,
    Tensor,
    TensorRole,
)
from rephaze.workload.derived_sizes import layer_type, op_graph, total
from rephaze.workload.passes.copies import over, resized, with_inputs, with_work
from rephaze.workload.passes.made_once import MadeOnce

_TOKEN_AXES = ("m", "k", "n")


def divide_sequence(
    graph: ModelGraph, cp: int, form: ContextForm, made: MadeOnce[LayerType] | None = None
) -> ModelGraph:
    """What one of ``cp`` chips with a part of each sample's tokens runs and holds.

    Args:
        graph: Sharded if it will be, not yet fused.
        cp: Divides the tokens of every chip.
        form: How attention meets the keys of other chips.
        made: Layers divided before.
    """
    if cp == 1:
        return graph
    made = made or MadeOnce()

    def divided(layer: LayerType) -> LayerType:
        # Without attention no layer exchanges anything: it is the same in all forms.
        own_form = form if _has_attention(layer) else ContextForm.NONE
        return made.get(layer, (cp, own_form, graph.tp), lambda: _divided(layer, cp, form, graph.tp))

    return replace(
        graph,
        cp=cp,
        context_form=form,
        layer_types=tuple(divided(layer) for layer in graph.layer_types),
        edges=tuple(replace(edge, payload_bytes=_part(edge.payload_bytes, cp)) for edge in graph.edges),
    )


def attention_dims(graph: ModelGraph) -> tuple[AttentionDims, ...]:
    """The fused attention of a model, forward and backward."""
    passes = [one for layer in graph.layer_types for one in (layer.forward, layer.backward)]
    return tuple(op.attention for one in passes for op in one.ops if op.attention is not None)


def _has_attention(layer: LayerType) -> bool:
    return any(op.attention is not None for one in (layer.forward, layer.backward) for op in one.ops)


def _part(size: Affine, cp: int) -> Affine:
    """One chip's part of what grows with the samples; what does not is the same for all."""
    return Affine(size.const, -(-size.per_sample // cp))


def _divided(layer: LayerType, cp: int, form: ContextForm, stride: int) -> LayerType:
    forward, backward = (
        _PassDivider(source=one, cp=cp, form=form, stride=stride) for one in (layer.forward, layer.backward)
    )
    graphs = forward.graph(), backward.graph()
    # With fewer key heads than chips, some are kept more than once.
    kept = {name for op in layer.forward.ops if op.attention is not None for name in forward.key_values(op)}
    return layer_type(
        layer.name,
        *graphs,
        parameters=layer.parameters,
        saved=tuple(forward.tensor(t, is_repeated=t.name in kept) for t in layer.saved),
        saved_inputs=tuple(forward.tensor(t) for t in layer.saved_inputs),
        inputs=tuple(forward.tensor(t) for t in layer.inputs),
    )


@dataclass(slots=True)
class _PassDivider:
    """Rewrites one pass of a layer for a part of the tokens."""

    source: OpGraph
    cp: int
    form: ContextForm
    stride: int
    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    _now: dict[int, int] = field(default_factory=dict)
    """The tensor that later operators read in place of an original one."""

    def graph(self) -> OpGraph:
        """The pass on one chip."""
        self.tensors = [self.tensor(t) for t in self.source.tensors]
        for op in self.source.ops:
            here = with_inputs(op, tuple(self._now.get(t, t) for t in op.inputs))
            if op.attention is None:
                self.ops.append(self._over_tokens(here))
            elif not all(self.source.tensors[t].has_tokens for t in _key_value(op)):
                # Keys that no chip has a part of: only the queries are divided.
                self.ops.append(self._with_queries(here, op.attention))
            elif self.form is ContextForm.GATHER:
                self._gather(here, op.attention)
            elif self.form is ContextForm.RING:
                self._ring(here, op.attention)
            else:
                self._trade_heads(here, op.attention)
        return op_graph(self.ops, tuple(self.tensors), self.source)

    def tensor(self, tensor: Tensor, *, is_repeated: bool = False) -> Tensor:
        """One chip's part of a tensor, or all of it if it has no tokens."""
        if not tensor.has_tokens or tensor.role is TensorRole.PARAMETER:
            return tensor
        size = _part(tensor.num_elements, self.cp)
        return resized(tensor, _grown(size, self._repeats()) if is_repeated else size)

    def key_values(self, op: Op) -> tuple[str, ...]:
        """Storages of the keys and values that attention reads."""
        return tuple(self.source.tensors[t].storage or self.source.tensors[t].name for t in _key_value(op))

    # --- operators on tokens --------------------------------------------------------------------------------

    def _over_tokens(self, op: Op) -> Op:
        if op.kind is OpKind.VIEW or not self._touches_tokens(op):
            return op
        collective = op.collective
        if collective is not None:
            collective = replace(collective, payload_bytes=_part(collective.payload_bytes, self.cp))
        return with_work(
            op,
            inputs=op.inputs,
            gemm=_gemm_part(op.gemm, self.cp) if op.gemm is not None else None,
            collective=collective,
            vector=tuple([over(w, _part(w.num_elements, self.cp)) for w in op.vector]),
            num_flops=_part(op.num_flops, self.cp),
        )

    def _touches_tokens(self, op: Op) -> bool:
        return any(self.tensors[t].has_tokens for t in (*op.inputs, *op.outputs))

    def _with_queries(self, op: Op, dims: AttentionDims) -> Op:
        """Attention of a part of the queries with all keys it is given."""
        return replace(
            op,
            attention=replace(dims, query_len=-(-dims.query_len // self.cp)),
            vector=tuple(over(w, _part(w.num_elements, self.cp)) for w in op.vector),
            num_flops=_part(op.num_flops, self.cp),
        )

    # --- attention ------------------------------------------------------------------------------------------

    def _gather(self, op: Op, dims: AttentionDims) -> None:
        """All keys and values first; backward, their gradients are summed where the keys belong."""
        sources = _key_value(op)
        keys = self._exchange(CollectiveKind.ALL_GATHER, op, sources, "gathered", self.cp)
        local = self._with_queries(op, dims)
        self.ops.append(replace(local, inputs=_replaced(op.inputs, sources, keys)))
        if dims.backward:
            gradients = op.outputs[1:3]
            for t in gradients:
                self.tensors[t] = replace(
                    self.tensors[t], num_elements=self.tensors[t].num_elements.times(self.cp)
                )
            self._hand_over(CollectiveKind.REDUCE_SCATTER, op, gradients, "summed")

    def _ring(self, op: Op, dims: AttentionDims) -> None:
        """All steps but the last beside the messages, then the last, with the keys that came at the end."""
        cp, sources = self.cp, _key_value(op)
        num_messages = (cp - 1) * (2 if dims.backward else 1)
        keys = self._exchange(CollectiveKind.SEND, op, sources, "received", 1, num_messages)
        local = self._with_queries(op, dims)
        # Both operators have whole parts of a number that the squared size of the ring divides.
        last_flops = Affine(local.num_flops.const // cp, local.num_flops.per_sample // cp)
        steps = replace(_attention(local), num_ring_members=cp)
        sums = tuple(self._new_tensor(self.tensors[t], f"{self.tensors[t].name}.ring") for t in op.outputs)
        self.ops.append(
            replace(
                local,
                name=f"{op.name}.ring",
                attention=replace(steps, num_ring_steps=cp - 1),
                vector=(),
                num_flops=local.num_flops + last_flops.times(-1),
                outputs=sums,
            )
        )
        self.ops.append(
            replace(
                local,
                attention=steps,
                num_flops=last_flops,
                inputs=(*_replaced(op.inputs, sources, keys), *sums),
            )
        )

    def _trade_heads(self, op: Op, dims: AttentionDims) -> None:
        """Before attention all tokens of some heads for the chip's tokens of all heads, after it back."""
        cp = self.cp
        # What backward keeps is in heads already; only gradients travel.
        before = op.inputs[:1] if dims.backward else op.inputs[:3]
        after = op.outputs[:3] if dims.backward else op.outputs[:1]
        repeated = _key_value(op)
        if dims.backward:
            for t in {*repeated, *op.outputs[1:3]}:
                self._grow(t)
            traded = self._exchange(CollectiveKind.ALL_TO_ALL, op, before, "heads", 1)
        else:
            traded = self._exchange(CollectiveKind.ALL_TO_ALL, op, before, "heads", 1, grown=repeated)
        self.ops.append(
            replace(
                op,
                inputs=_replaced(op.inputs, before, traded),
                attention=replace(dims, num_heads=dims.num_heads // cp, num_kv_heads=-(-dims.num_kv_heads // cp)),
                vector=tuple(over(w, _part(w.num_elements, cp)) for w in op.vector),
                num_flops=_part(op.num_flops, cp),
            )
        )
        self._hand_over(CollectiveKind.ALL_TO_ALL, op, after, "tokens")

    def _repeats(self) -> tuple[int, int]:
        """How often key heads are held over the group, as a ratio; above one if there are fewer than chips."""
        kv = max((op.attention.num_kv_heads for op in self.source.ops if op.attention is not None), default=1)
        return (self.cp * -(-kv // self.cp), kv) if self.form is ContextForm.ULYSSES else (1, 1)

    # --- tensors and collectives ----------------------------------------------------------------------------

    def _grow(self, number: int) -> None:
        size = self.tensors[number].num_elements
        self.tensors[number] = replace(self.tensors[number], num_elements=_grown(size, self._repeats()))

    def _exchange(
        self,
        kind: CollectiveKind,
        op: Op,
        sources: Sequence[int],
        word: str,
        factor: int,
        num_messages: int = 1,
        grown: Sequence[int] = (),
    ) -> list[int]:
        """Tensors that others' parts come into, ``factor`` times as large as the chip's own."""
        results: list[int] = []
        for t in sources:
            size = self.tensors[t].num_elements.times(factor)
            size = _grown(size, self._repeats()) if t in grown else size
            made = self._new_tensor(self.tensors[t], f"{op.name}.{len(results)}.{word}")
            self.tensors[made] = replace(self.tensors[made], num_elements=size)
            results.append(made)
        self._add_collective(kind, op, sources, results, self._bytes(results), word, num_messages)
        return results

    def _hand_over(self, kind: CollectiveKind, op: Op, made: Sequence[int], word: str) -> None:
        """The collective that turns what attention made into the chip's own tokens, for all later readers."""
        results: list[int] = []
        for t in made:
            whole, part = self.tensors[t], self.tensor(self.source.tensors[t])
            self.tensors[t] = replace(whole, role=TensorRole.LOCAL)
            results.append(self._new_tensor(part, f"{part.name}.{word}", part.role))
        self._add_collective(kind, op, made, results, self._bytes(made), word)
        self._now.update(zip(made, results, strict=True))

    def _bytes(self, numbers: Sequence[int]) -> Affine:
        return total(self.tensors[t].num_bytes for t in numbers)

    def _new_tensor(self, like: Tensor, name: str, role: TensorRole = TensorRole.LOCAL) -> int:
        self.tensors.append(replace(like, name=name, storage="", role=role))
        return len(self.tensors) - 1

    def _add_collective(
        self,
        kind: CollectiveKind,
        op: Op,
        sources: Sequence[int],
        results: Sequence[int],
        payload_bytes: Affine,
        word: str,
        num_messages: int = 1,
    ) -> None:
        self.ops.append(
            Op(
                name=f"{op.name}.{word}",
                target=f"collective.{kind}",
                kind=OpKind.COLLECTIVE,
                module=op.module,
                gradient=op.gradient,
                collective=CollectiveDims(
                    kind=kind,
                    payload_bytes=payload_bytes,
                    num_members=self.cp,
                    group=CommGroup.CP,
                    stride=self.stride,
                    num_messages=num_messages,
                ),
                inputs=tuple(sources),
                outputs=tuple(results),
            )
        )


def _attention(op: Op) -> AttentionDims:
    assert op.attention is not None
    return op.attention


def _key_value(op: Op) -> tuple[int, ...]:
    """Keys and values among the inputs of attention: query, key, value, after the gradient if backward."""
    first = 2 if _attention(op).backward else 1
    return op.inputs[first : first + 2]


def _replaced(inputs: tuple[int, ...], old: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    by_old = dict(zip(old, new, strict=True))
    return tuple(by_old.get(t, t) for t in inputs)


def _grown(size: Affine, ratio: tuple[int, int]) -> Affine:
    num, den = ratio
    return Affine(size.const * num // den, size.per_sample * num // den)


def _gemm_part(gemm: GemmDims, cp: int) -> GemmDims:
    """A product over a part of the tokens, which are one of its dimensions."""
    if gemm.batch.per_sample:
        rule = "needs attention as one operator, and this model has products of scores"
        raise SpecError("cp", cp, rule, "use fused attention")
    axis = next((axis for axis in _TOKEN_AXES if getattr(gemm, axis).per_sample), None)
    if axis is None:
        return gemm
    part: dict[str, Any] = {axis: _part(getattr(gemm, axis), cp)}
    return replace(gemm, **part)
