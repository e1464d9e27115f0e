"""Experts of a mixture dealt out over chips: tokens travel to them and back, each expert has more of them.

A chip's tokens go to their experts by an all-to-all and come back by another, forward and backward. Chips that
share an expert (etp) gather each other's tokens after the first and sum their results before the second. With
forced balance a chip gets as many tokens as it gives, so that only the products change their shape.
"""

from __future__ import annotations

import math
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
from rephaze.workload.passes.copies import over, resized, with_inputs, with_work
from rephaze.workload.passes.expert_pass import ExpertPass, is_expert
from rephaze.workload.passes.made_once import MadeOnce

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


def spread_experts(
    graph: ModelGraph, base: ModelGraph, degrees: ExpertDegrees, made: MadeOnce[ExpertSpreader] | None = None
) -> ModelGraph:
    """What one chip runs and holds when it has some of the experts.

    Args:
        graph: With experts left whole by tensor parallelism, tokens divided, not yet fused.
        base: Before any cut: its layout says what of an expert is shared.
        degrees: ep divides the experts, etp what the layout splits of them.
        made: Layers looked at before.
    """
    made = made or MadeOnce()

    def spread(layer: LayerType, original: LayerType) -> LayerType:
        return made.get(layer, None, lambda: ExpertSpreader(layer, original)).layer(degrees)

    layers = zip(graph.layer_types, base.layer_types, strict=True)
    return replace(
        graph,
        ep=degrees.ep,
        etp=degrees.etp,
        imbalance_factor=degrees.imbalance,
        layer_types=tuple(spread(layer, original) for layer, original in layers),
    )


class ExpertSpreader:
    """A layer whose experts may be dealt out in many ways; one without experts stays as it is.

    Args:
        layer: With experts left whole by tensor parallelism, tokens divided, not yet fused.
        base: The same before any cut.
    """

    def __init__(self, layer: LayerType, base: LayerType) -> None:
        self._layer, self._base = layer, base
        self._passes: tuple[ExpertPass, ExpertPass] | None = None
        if expert_modules(layer.forward):
            self._passes = ExpertPass(layer.forward, base.forward), ExpertPass(layer.backward, base.backward)
        self._made: dict[ExpertDegrees, LayerType] = {}

    def layer(self, degrees: ExpertDegrees) -> LayerType:
        """What one chip runs and holds of it."""
        if self._passes is None:
            return self._layer
        if degrees not in self._made:
            self._made[degrees] = self._spread(self._passes, degrees)
        return self._made[degrees]

    def _spread(self, passes: tuple[ExpertPass, ExpertPass], degrees: ExpertDegrees) -> LayerType:
        layer = self._layer
        forward, backward = (_PassSpreader(experts=one, degrees=degrees) for one in passes)
        return layer_type(
            layer.name,
            forward.graph(),
            backward.graph(),
            parameters=_own_experts(layer, self._base, degrees),
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
    return resized(tensor, Affine(-(-tensor.num_elements.const // parts)))


def _scaled(size: Affine, factor: float) -> Affine:
    if factor == 1:
        return size
    return Affine(math.ceil(size.const * factor), math.ceil(size.per_sample * factor))


@dataclass(slots=True)
class _PassSpreader:
    """Rewrites one pass of a layer: experts' products on their own share, tokens to and from them."""

    experts: ExpertPass
    degrees: ExpertDegrees
    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    _now: dict[int, int] = field(default_factory=dict)
    """The tensor that operators outside read in place of an original one."""
    _sent: dict[str, int] = field(default_factory=dict)
    """Tokens at their experts, by the storage they come from: a tensor and its transpose travel once."""

    def graph(self) -> OpGraph:
        """The pass on one chip."""
        experts = self.experts
        self.tensors = self._sized_tensors()
        for number, op in enumerate(experts.source.ops):
            if number not in experts.inside:
                self.ops.append(with_inputs(op, tuple(self._now.get(t, t) for t in op.inputs)))
                continue
            arriving = experts.arriving_of.get(number, ())
            inputs = tuple(self._dispatched(t, op) if t in arriving else t for t in op.inputs)
            self.ops.append(self._at_experts(op, inputs))
            for t in op.outputs:
                if t in experts.leaving:
                    self._combine(t, op)
        return op_graph(self.ops, tuple(self.tensors), experts.source)

    def kept(self, tensor: Tensor) -> Tensor:
        """What a forward pass keeps: tokens at their experts as they are there, those back home as they came."""
        factor = 1.0
        if tensor.name in self.experts.arriving:
            factor = self.degrees.etp * self.degrees.imbalance
        elif tensor.name in self.experts.staying:
            factor = self.degrees.imbalance
        return resized(tensor, _scaled(tensor.num_elements, factor))

    # --- sizes ----------------------------------------------------------------------------------------------

    def _sized_tensors(self) -> list[Tensor]:
        experts, degrees = self.experts, self.degrees
        found = list(experts.source.tensors)
        for number in experts.weights:
            share = degrees.etp if number in experts.split else 1
            found[number] = _divided(found[number], degrees.ep * share)
        for number in experts.there:
            found[number] = resized(found[number], _scaled(found[number].num_elements, self._growth(number)))
        return found

    def _growth(self, number: int) -> float:
        """How many more tokens a tensor at the experts has than one at home.

        What is not split among the chips that share an expert, each has for the tokens of all of them.
        """
        return self.degrees.imbalance * (1 if number in self.experts.split else self.degrees.etp)

    def _at_experts(self, op: Op, inputs: tuple[int, ...]) -> Op:
        """An operator on the tokens that come to this chip's experts."""
        factor = self._growth(op.outputs[0])
        vector = tuple(over(work, _scaled(work.num_elements, factor)) for work in op.vector)
        return with_work(
            op,
            inputs=inputs,
            gemm=self._product(op) if is_expert(op) else op.gemm,
            vector=vector,
            collective=op.collective,
            num_flops=op.num_flops,
        )

    def _product(self, op: Op) -> GemmDims:
        gemm, degrees, tensors = op.gemm, self.degrees, self.experts.source.tensors
        assert gemm is not None
        if gemm.m.per_sample:
            axis, rows = "m", tensors[op.outputs[0]].num_elements.per_sample // gemm.n.const
        else:
            axis, rows = "k", tensors[op.inputs[0]].num_elements.per_sample // gemm.m.const
        share = degrees.ep * degrees.etp * degrees.imbalance / degrees.num_experts
        num_own = degrees.num_experts // degrees.ep
        dims: dict[str, Any] = {"batch": Affine(num_own), axis: Affine(0, math.ceil(rows * share - 1e-9))}
        if degrees.etp > 1:
            split = _SPLIT_AXES[self.experts.split_of[op.name]]
            dims[split] = Affine(getattr(gemm, split).const // degrees.etp)
        return replace(gemm, **dims, num_experts=num_own)

    # --- collectives ----------------------------------------------------------------------------------------

    def _dispatched(self, tensor: int, op: Op) -> int:
        """The tokens at their experts, sent on first use."""
        home = self.experts.homes[tensor]
        if home not in self._sent:
            own, degrees = self.tensors[tensor], self.degrees
            there = resized(own, _scaled(own.num_elements, degrees.imbalance))
            now = self._collective(
                CollectiveKind.ALL_TO_ALL, op, self._now.get(tensor, tensor), there, own.num_bytes
            )
            if degrees.etp > 1:
                all_ = resized(there, there.num_elements.times(degrees.etp))
                now = self._collective(CollectiveKind.ALL_GATHER, op, now, all_, all_.num_bytes)
            self._sent[home] = now
        return self._sent[home]

    def _combine(self, tensor: int, op: Op) -> None:
        """The tokens back where they came from."""
        own, degrees, now = self.experts.source.tensors[tensor], self.degrees, tensor
        made = self.tensors[tensor]
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
        homes = self.experts.homes
        name = f"{homes[source]}.{kind}" if source < len(homes) else f"{result.name}.{kind}"
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
