"""Experts of a mixture dealt out over chips: tokens travel to them and back, each expert has more of them.

A chip's tokens go to their experts by an all-to-all and come back by another, forward and backward. Chips that
share an expert (etp) gather each other's tokens after the first and sum their results before the second. With
forced balance a chip gets as many tokens as it gives, so that only the products change their shape.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from rephaze.types.graph import (
    Affine,
    CollectiveDims,
    CollectiveKind,
    CommGroup,
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
from rephaze.workload.derived_sizes import expert_modules, expert_parameters, is_one_of, layer_type, op_graph

_SPLIT_AXES = {Split.M: "m", Split.N: "n", Split.K: "k"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertDegrees:
    """How the experts of a model are dealt out."""

    num_experts: int
    """Of a layer of the whole model."""
    ep: int
    etp: int
    imbalance: float
    """Tokens of the busiest chip over the average."""


def spread_experts(graph: ModelGraph, base: ModelGraph, degrees: ExpertDegrees) -> ModelGraph:
    """What one chip runs and holds when it has some of the experts.

    Args:
        graph: With experts left whole by tensor parallelism, tokens divided, not yet fused.
        base: Before any cut: its layout says what of an expert is shared.
        degrees: ep divides the experts, etp what the layout splits of them.
    """
    layers = zip(graph.layer_types, base.layer_types, strict=True)
    return replace(
        graph,
        ep=degrees.ep,
        etp=degrees.etp,
        imbalance_factor=degrees.imbalance,
        layer_types=tuple(_spread(layer, original, degrees) for layer, original in layers),
    )


def _spread(layer: LayerType, base: LayerType, degrees: ExpertDegrees) -> LayerType:
    if not expert_modules(layer.forward):
        return layer
    forward = _PassSpreader(source=layer.forward, base=base.forward, degrees=degrees)
    backward = _PassSpreader(source=layer.backward, base=base.backward, degrees=degrees)
    graphs = forward.graph(), backward.graph()
    return layer_type(
        layer.name,
        *graphs,
        parameters=_own_experts(layer, base, degrees),
        saved=tuple(forward.kept(t) for t in layer.saved),
        saved_inputs=layer.saved_inputs,
        inputs=layer.inputs,
    )


def _own_experts(layer: LayerType, base: LayerType, degrees: ExpertDegrees) -> tuple[Tensor, ...]:
    names = expert_parameters(base.forward)
    split = {t.name for t in base.parameters if t.num_split_units}
    return tuple(
        _divided(t, degrees.ep * (degrees.etp if t.name in split else 1)) if is_one_of(t.name, names) else t
        for t in layer.parameters
    )


def _divided(tensor: Tensor, parts: int) -> Tensor:
    return replace(tensor, num_elements=Affine(-(-tensor.num_elements.const // parts)))


def _scaled(size: Affine, factor: float) -> Affine:
    if factor == 1:
        return size
    return Affine(math.ceil(size.const * factor), math.ceil(size.per_sample * factor))


@dataclass(slots=True)
class _PassSpreader:
    """Rewrites one pass of a layer: experts' products on their own share, tokens to and from them."""

    source: OpGraph
    base: OpGraph
    degrees: ExpertDegrees
    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    _now: dict[int, int] = field(default_factory=dict)
    """The tensor that operators outside read in place of an original one."""
    _sent: dict[str, int] = field(default_factory=dict)
    """Tokens at their experts, by the storage they come from: a tensor and its transpose travel once."""
    _inside: set[int] = field(default_factory=set)
    """Operators that run on tokens at their experts."""
    _made_inside: set[str] = field(default_factory=set)
    """Storages of what they make."""
    _kept: set[str] = field(default_factory=set)
    """Storages of what a forward pass kept for this one, as it was at the experts."""
    _arriving: set[str] = field(default_factory=set)
    """Storages of tokens that travel to experts."""

    _returned: set[str] = field(default_factory=set)
    """Storages of results that travel back."""

    def graph(self) -> OpGraph:
        """The pass on one chip."""
        self._inside = self._find_inside()
        self._made_inside = {self._home(t) for n in self._inside for t in self.source.ops[n].outputs}
        self._kept = {t.name for t in self.source.tensors if t.role is TensorRole.KEPT}
        self._arriving = {
            self._home(t) for n in self._inside for t in self.source.ops[n].inputs if self._arrives(n, t)
        }
        readers: dict[int, set[int]] = defaultdict(set)
        for number, op in enumerate(self.source.ops):
            for t in op.inputs:
                readers[t].add(number)
        self.tensors = self._sized_tensors()
        for number, op in enumerate(self.source.ops):
            if number not in self._inside:
                self.ops.append(replace(op, inputs=tuple(self._now.get(t, t) for t in op.inputs)))
                continue
            inputs = tuple(self._dispatched(t, op) if self._arrives(number, t) else t for t in op.inputs)
            self.ops.append(replace(self._at_experts(op), inputs=inputs))
            for t in op.outputs:
                if self._leaves(t, readers[t]):
                    self._combine(t, op)
        return op_graph(self.ops, tuple(self.tensors))

    def kept(self, tensor: Tensor) -> Tensor:
        """What a forward pass keeps: tokens at their experts as they are there, those back home as they came."""
        factor = 1.0
        if tensor.name in self._arriving:
            factor = self.degrees.etp * self.degrees.imbalance
        elif tensor.name in self._made_inside - self._returned:
            factor = self.degrees.imbalance
        return replace(tensor, num_elements=_scaled(tensor.num_elements, factor))

    # --- what is where --------------------------------------------------------------------------------------

    def _find_inside(self) -> set[int]:
        """Experts' products, what stands between them, and what looks up an expert's parameters for a token."""
        graph = self.source
        products = {n for n, op in enumerate(graph.ops) if _is_expert(op)}
        after, before = set(products), set(products)
        for src, dst in graph.edges:
            if src in after:
                after.add(dst)
        for src, dst in sorted(graph.edges, key=lambda edge: -edge[1]):
            if dst in before:
                before.add(src)
        modules = expert_modules(graph)
        lookups = {
            n
            for n, op in enumerate(graph.ops)
            if op.kind is OpKind.GATHER
            and op.module in modules
            and any(graph.tensors[t].role is TensorRole.PARAMETER for t in op.inputs)
        }
        looked_up = {dst for src, dst in graph.edges if src in lookups}
        return products | (after & before) | lookups | (looked_up & after)

    def _arrives(self, number: int, tensor: int) -> bool:
        """Whether a product of experts reads tokens that are not there yet."""
        record = self.source.tensors[tensor]
        if not _is_expert(self.source.ops[number]) or not record.has_tokens:
            return False
        home = self._home(tensor)
        return home not in self._made_inside and home not in self._kept and record.role is not TensorRole.PARAMETER

    def _leaves(self, tensor: int, readers: Iterable[int]) -> bool:
        """Whether tokens at their experts are read elsewhere, other than for gradients of weights."""
        outside = [self.source.ops[n] for n in readers if n not in self._inside]
        is_read = any(op.gradient is not Gradient.WEIGHT for op in outside)
        return is_read and self.source.tensors[tensor].has_tokens

    def _home(self, tensor: int) -> str:
        record = self.source.tensors[tensor]
        return record.storage or record.name

    # --- sizes ----------------------------------------------------------------------------------------------

    def _sized_tensors(self) -> list[Tensor]:
        degrees, weights = self.degrees, self._homes_of_weights()
        read_inside = {self._home(t) for n in self._inside for t in self.source.ops[n].inputs}
        there = self._made_inside | (self._kept & read_inside)
        found = []
        for number, record in enumerate(self.source.tensors):
            home, share = self._home(number), degrees.etp if self._was_split(number) else 1
            if home in weights and not record.num_elements.per_sample:
                found.append(_divided(record, degrees.ep * share))
            elif home in there and record.has_tokens:
                factor = self._growth(number)
                found.append(replace(record, num_elements=_scaled(record.num_elements, factor)))
            else:
                found.append(record)
        return found

    def _growth(self, number: int) -> float:
        """How many more tokens a tensor at the experts has than one at home.

        What is not split among the chips that share an expert, each has for the tokens of all of them.
        """
        return self.degrees.imbalance * (1 if self._was_split(number) else self.degrees.etp)

    def _was_split(self, number: int) -> bool:
        """Whether the layout splits a tensor that experts are left whole in here."""
        return number < len(self.base.tensors) and self.base.tensors[number].num_split_units > 0

    def _homes_of_weights(self) -> set[str]:
        """Storages of experts' weights and of their gradients."""
        found: set[str] = set()
        modules = expert_modules(self.source)
        for op in self.source.ops:
            if op.module not in modules or op.kind is OpKind.VIEW:
                continue
            if op.gradient is Gradient.WEIGHT:
                found |= {self._home(t) for t in op.outputs}
            if _is_expert(op) or op.kind is OpKind.GATHER:
                read = [t for t in op.inputs if self.source.tensors[t].role is TensorRole.PARAMETER]
                found |= {self._home(t) for t in read}
        return found

    def _at_experts(self, op: Op) -> Op:
        """An operator on the tokens that come to this chip's experts."""
        factor = self._growth(op.outputs[0])
        vector = tuple(replace(w, num_elements=_scaled(w.num_elements, factor)) for w in op.vector)
        return replace(op, vector=vector, gemm=self._product(op) if _is_expert(op) else op.gemm)

    def _product(self, op: Op) -> GemmDims:
        gemm, degrees = op.gemm, self.degrees
        assert gemm is not None
        if gemm.m.per_sample:
            axis, rows = "m", self.source.tensors[op.outputs[0]].num_elements.per_sample // gemm.n.const
        else:
            axis, rows = "k", self.source.tensors[op.inputs[0]].num_elements.per_sample // gemm.m.const
        share = degrees.ep * degrees.etp * degrees.imbalance / degrees.num_experts
        num_own = degrees.num_experts // degrees.ep
        dims: dict[str, Any] = {"batch": Affine(num_own), axis: Affine(0, math.ceil(rows * share - 1e-9))}
        original = next(one for one in self.base.ops if one.name == op.name)
        if degrees.etp > 1:
            split = _SPLIT_AXES[original.split]
            dims[split] = Affine(getattr(gemm, split).const // degrees.etp)
        return replace(gemm, **dims, num_experts=num_own)

    # --- collectives ----------------------------------------------------------------------------------------

    def _dispatched(self, tensor: int, op: Op) -> int:
        """The tokens at their experts, sent on first use."""
        home = self._home(tensor)
        if home not in self._sent:
            own, degrees = self.tensors[tensor], self.degrees
            there = replace(own, num_elements=_scaled(own.num_elements, degrees.imbalance))
            now = self._collective(
                CollectiveKind.ALL_TO_ALL, op, self._now.get(tensor, tensor), there, own.num_bytes
            )
            if degrees.etp > 1:
                all_ = replace(there, num_elements=there.num_elements.times(degrees.etp))
                now = self._collective(CollectiveKind.ALL_GATHER, op, now, all_, all_.num_bytes)
            self._sent[home] = now
        return self._sent[home]

    def _combine(self, tensor: int, op: Op) -> None:
        """The tokens back where they came from."""
        own, degrees, now = self.source.tensors[tensor], self.degrees, tensor
        made = self.tensors[tensor]
        self._returned.add(self._home(tensor))
        if degrees.ep > 1 or degrees.etp > 1:
            self.tensors[tensor] = replace(made, role=TensorRole.LOCAL)
        if degrees.etp > 1:
            part = replace(own, num_elements=_scaled(own.num_elements, degrees.imbalance), role=TensorRole.LOCAL)
            now = self._collective(CollectiveKind.REDUCE_SCATTER, op, now, part, made.num_bytes)
        self._now[tensor] = self._collective(CollectiveKind.ALL_TO_ALL, op, now, own, own.num_bytes, role=own.role)

    def _collective(
        self,
        kind: CollectiveKind,
        op: Op,
        source: int,
        result: Tensor,
        payload_bytes: Affine,
        role: TensorRole = TensorRole.LOCAL,
    ) -> int:
        is_all_to_all = kind is CollectiveKind.ALL_TO_ALL
        num_members = self.degrees.ep if is_all_to_all else self.degrees.etp
        if num_members == 1:
            return source
        name = f"{self._home(source)}.{kind}" if source < len(self.source.tensors) else f"{result.name}.{kind}"
        self.tensors.append(replace(result, name=name, storage="", role=role))
        self.ops.append(
            Op(
                name=name,
                target=f"collective.{kind}",
                kind=OpKind.COLLECTIVE,
                module=op.module,
                # A weight's product may be the first to read what the input's needs as well.
                gradient=Gradient.INPUT if op.gradient is Gradient.WEIGHT else op.gradient,
                collective=CollectiveDims(
                    kind=kind,
                    payload_bytes=payload_bytes,
                    num_members=num_members,
                    group=CommGroup.EP if is_all_to_all else CommGroup.ETP,
                    stride=self.degrees.etp if is_all_to_all else 1,
                ),
                inputs=(source,),
                outputs=(len(self.tensors) - 1,),
            )
        )
        return len(self.tensors) - 1


def _is_expert(op: Op) -> bool:
    return op.gemm is not None and op.gemm.num_experts > 0
