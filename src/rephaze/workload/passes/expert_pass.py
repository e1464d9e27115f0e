"""What of a pass runs at the experts of a mixture, and which tokens travel to them and back.

None of it depends on how many chips the experts are dealt out to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rephaze.types.graph import Gradient, Op, OpGraph, OpKind, TensorRole
from rephaze.workload.derived_sizes import expert_modules


class ExpertPass:
    """One pass of a layer with experts.

    Args:
        source: The pass with experts left whole by tensor parallelism, tokens divided, not yet fused.
        base: The same before any cut: its layout says what of an expert is shared.
    """

    def __init__(self, source: OpGraph, base: OpGraph) -> None:
        self.source = source
        self.homes = [t.storage or t.name for t in source.tensors]
        """By tensor, its storage."""
        self.inside = self._find_inside()
        """Operators that run on tokens at their experts."""
        self.split = frozenset(number for number, t in enumerate(base.tensors) if t.num_split_units > 0)
        """Tensors that the layout splits, while experts are left whole in here."""
        self.split_of = {op.name: op.split for op in reversed(base.ops)}
        """By operator, what the layout splits in it."""
        made_inside = {self.homes[t] for n in self.inside for t in source.ops[n].outputs}
        kept = {t.name for t in source.tensors if t.role is TensorRole.KEPT}
        at_experts = made_inside | kept
        self.arriving_of = {
            n: frozenset(t for t in source.ops[n].inputs if self._arrives(n, t, at_experts)) for n in self.inside
        }
        """By operator, tokens it reads that are not there yet."""
        self.arriving = {self.homes[t] for arriving in self.arriving_of.values() for t in arriving}
        """Storages of tokens that travel to experts."""
        readers: dict[int, set[int]] = defaultdict(set)
        for number, op in enumerate(source.ops):
            for t in op.inputs:
                readers[t].add(number)
        outputs = {t for n in self.inside for t in source.ops[n].outputs}
        self.leaving = frozenset(t for t in outputs if self._leaves(t, readers[t]))
        """Results that travel back."""
        self.staying = made_inside - {self.homes[t] for t in self.leaving}
        """Storages of what is made at the experts and stays there."""
        homes_of_weights = self._homes_of_weights()
        self.weights = [
            number
            for number, t in enumerate(source.tensors)
            if self.homes[number] in homes_of_weights and not t.num_elements.per_sample
        ]
        """Experts' weights and their gradients."""
        read_inside = {self.homes[t] for n in self.inside for t in source.ops[n].inputs}
        there = made_inside | (kept & read_inside)
        weights = set(self.weights)
        self.there = [
            number
            for number, t in enumerate(source.tensors)
            if self.homes[number] in there and t.has_tokens and number not in weights
        ]
        """Tokens at the experts, but for those on the way."""

    def _find_inside(self) -> set[int]:
        """Experts' products, what stands between them, and what looks up an expert's parameters for a token."""
        graph = self.source
        products = {n for n, op in enumerate(graph.ops) if is_expert(op)}
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

    def _arrives(self, number: int, tensor: int, at_experts: set[str]) -> bool:
        """Whether a product of experts reads tokens that are not there yet."""
        record = self.source.tensors[tensor]
        if not is_expert(self.source.ops[number]) or not record.has_tokens:
            return False
        return self.homes[tensor] not in at_experts and record.role is not TensorRole.PARAMETER

    def _leaves(self, tensor: int, readers: Iterable[int]) -> bool:
        """Whether tokens at their experts are read elsewhere, other than for gradients of weights."""
        outside = [self.source.ops[n] for n in readers if n not in self.inside]
        is_read = any(op.gradient is not Gradient.WEIGHT for op in outside)
        return is_read and self.source.tensors[tensor].has_tokens

    def _homes_of_weights(self) -> set[str]:
        """Storages of experts' weights and of their gradients."""
        found: set[str] = set()
        modules = expert_modules(self.source)
        for op in self.source.ops:
            if op.module not in modules or op.kind is OpKind.VIEW:
                continue
            if op.gradient is Gradient.WEIGHT:
                found |= {self.homes[t] for t in op.outputs}
            if is_expert(op) or op.kind is OpKind.GATHER:
                read = [t for t in op.inputs if self.source.tensors[t].role is TensorRole.PARAMETER]
                found |= {self.homes[t] for t in read}
        return found


def is_expert(op: Op) -> bool:
    """Whether an operator is a product of experts."""
    return op.gemm is not None and op.gemm.num_experts > 0
