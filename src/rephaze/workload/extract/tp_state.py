"""The sharding of every tensor while tensor parallelism is propagated, and the decisions that change it.

There are three: to shard a parameter, to shard an operand so that it matches another, and to put an all-reduce
after a partial sum.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

from rephaze.types.graph import OpKind, Split
from rephaze.workload.extract.affine import AffineTrace
from rephaze.workload.extract.aten import kind_of
from rephaze.workload.extract.tp_layout import Layout
from rephaze.workload.extract.tp_views import (
    PARTIAL,
    REPLICATE,
    Shape,
    Shard,
    Sharding,
    ShardingConflictError,
    through_view,
)
from rephaze.workload.extract.trace import Origin, Ref, TracedOp


class Restart(Exception):  # noqa: N818 - a signal, not an error
    """A parameter that was read earlier must be sharded: propagate again with that known."""

    def __init__(self, parameter: str, shard: Shard) -> None:
        self.parameter, self.shard = parameter, shard
        super().__init__(parameter)


class ShardingState:
    """What is known of every tensor while the operators are visited in order."""

    def __init__(self, trace: AffineTrace, replicated: frozenset[str], sharded: dict[str, Shard]) -> None:
        self.trace = trace
        self.replicated = replicated
        """Parameters that must not be sharded."""
        self.shardings: dict[int, Sharding] = {}
        """By tensor; one that is not there is replicated."""
        self.layout = Layout()
        self.now = 0
        """The operator being visited."""
        self.maker: dict[int, int] = {}
        """The operator that makes each tensor."""
        self.readers: dict[int, list[int]] = defaultdict(list)
        self.base_of: dict[str, int] = {}
        """The tensor of each parameter itself, which its views come from."""
        self.vocabulary_indices: set[int] = set()
        """Index tensors that select rows of a sharded vocabulary."""
        for number, op in enumerate(trace.ops):
            self.maker.update((t, number) for t in op.outputs)
            for tensor in op.inputs:
                self.readers[tensor].append(number)
        for number, traced in enumerate(trace.tensors):
            if traced.parameter and number not in self.maker:
                self.base_of.setdefault(traced.parameter, number)
                if traced.parameter in sharded:
                    self.shardings[number] = sharded[traced.parameter]

    def shape(self, tensor: int) -> Shape:
        """A tensor's shape in the trace."""
        return self.trace.tensors[tensor].shape

    def rank(self, tensor: int) -> int:
        """A tensor's number of axes."""
        return len(self.shape(tensor))

    def is_constant(self, tensor: int) -> bool:
        """Whether a tensor depends on neither batch nor parameters, so that a chip can make any part of it."""
        return self.trace.tensors[tensor].origin is Origin.CONSTANT

    def sharding_of(self, tensor: int) -> Sharding:
        """How a chip holds a tensor."""
        return self.shardings.get(tensor, REPLICATE)

    def shard_of(self, tensor: int) -> Shard | None:
        """The shard of a tensor; None if it is replicated or a partial sum."""
        sharding = self.sharding_of(tensor)
        return sharding if isinstance(sharding, Shard) else None

    def is_repeated(self, tensor: int, dim: int) -> bool:
        """Whether a tensor is a view that repeats one of something along ``dim``."""
        if tensor not in self.maker:
            return False
        op = self.trace.ops[self.maker[tensor]]
        if op.name != "expand":
            return False
        source = self.shape(op.inputs[0])
        before = dim - self.rank(tensor) + len(source)
        return before < 0 or (source[before] == 1 and self.shape(tensor)[dim] > 1)

    def split(self, split: Split, num_units: int) -> None:
        """Note what of the operator being visited is split."""
        self.layout.splits[self.now] = (split, num_units)

    def conflict(self, *tensors: int) -> ShardingConflictError:
        """The error that blames the weights behind the sharded ones of these tensors."""
        blame: frozenset[str] = frozenset()
        for tensor in tensors:
            shard = self.shard_of(tensor)
            if shard is not None:
                blame |= shard.blame
        return ShardingConflictError(blame)

    def weights_behind_sums(self, tensors: list[int]) -> frozenset[str]:
        """The weights whose sharding made the nearest products behind these tensors row parallel."""
        blame: frozenset[str] = frozenset()
        seen, waiting = set(tensors), list(tensors)
        while waiting:
            tensor = waiting.pop()
            if tensor not in self.maker:
                continue
            number = self.maker[tensor]
            inputs = self.trace.ops[number].inputs
            if kind_of(self.trace.ops[number].target) is OpKind.GEMM:
                if self.layout.split_of(number)[0] is Split.K:
                    blame |= self.conflict(*(t for t in inputs if not self.trace.tensors[t].parameter)).blame
                continue
            new = [t for t in inputs if t not in seen]
            seen.update(new)
            waiting.extend(new)
        return blame

    def may_shard(self, tensor: int) -> bool:
        """Whether a tensor is, or views, a parameter that is neither sharded yet nor kept replicated."""
        name = self.trace.tensors[tensor].parameter
        return bool(name) and name not in self.replicated and self.sharding_of(self.base_of[name]) is REPLICATE

    def shard_parameter(self, tensor: int, dim: int, *, is_padded: bool) -> Shard | None:
        """Shard the parameter behind ``tensor`` so that ``tensor`` is sharded along ``dim``; None if none can."""
        chain = self._chain(tensor)
        if chain is None:
            return None
        blame = frozenset({self.trace.tensors[chain[0]].parameter})
        shards = self._shards_ending_in(dim, chain, is_padded, blame)
        if shards is None:
            return None
        self.shardings.update(zip(chain, shards, strict=True))
        return shards[-1]

    def match(self, tensor: int, dim: int, like: Shard) -> None:
        """Make a replicated operand fit a sharded one: constants are sliced freely, parameters sharded too."""
        shard = self.shard_of(tensor)
        if (shard is not None and shard.dim == dim) or self.is_constant(tensor):
            return
        chain = self._chain(tensor)
        if chain is None:
            raise ShardingConflictError(like.blame)
        name = self.trace.tensors[chain[0]].parameter
        if name in self.replicated:
            raise ShardingConflictError(like.blame)
        shards = self._shards_ending_in(dim, chain, like.is_padded, frozenset({name}) | like.blame)
        if shards is None:
            raise ShardingConflictError(like.blame)
        own = {self.maker[t] for t in chain if t in self.maker}
        if any(reader < self.now and reader not in own for t in chain for reader in self.readers[t]):
            raise Restart(name, shards[0])
        self.shardings.update(zip(chain, shards, strict=True))

    def pad(self, shard: Shard) -> None:
        """Mark the weights behind a vocabulary's shard as padded, everywhere at once."""
        for tensor, other in self.shardings.items():
            if isinstance(other, Shard) and other.blame & shard.blame and other.num_units == shard.num_units:
                self.shardings[tensor] = replace(other, is_padded=True)

    def all_reduce(self, tensor: int) -> None:
        """If ``tensor`` is a partial sum, put an all-reduce where the sum was made: then it is replicated."""
        if self.sharding_of(tensor) is not PARTIAL:
            return
        root = tensor
        passed = [tensor]
        while True:
            op = self.trace.ops[self.maker[root]]
            source = op.inputs[0] if op.inputs else root
            is_same_size = self.trace.tensors[source].num_elements == self.trace.tensors[root].num_elements
            is_view = kind_of(op.target) is OpKind.VIEW
            if not is_view or not is_same_size or self.sharding_of(source) is not PARTIAL:
                break
            root = source
            passed.append(root)
        self.layout.reduced.add(root)
        for made in passed:
            self.shardings[made] = REPLICATE
        for made, source_op in self.maker.items():
            if self.sharding_of(made) is not PARTIAL:
                continue
            op = self.trace.ops[source_op]
            if kind_of(op.target) is OpKind.VIEW and op.inputs[0] in passed:
                self.shardings[made] = REPLICATE

    def _is_row_lookup(self, op: TracedOp) -> bool:
        """Whether an operator picks rows of a table, such as positions or experts' biases."""
        if op.target == "aten.embedding":
            return True
        indices = op.args[1] if op.target == "aten.index" else None
        is_first_axis = isinstance(indices, tuple) and len(indices) == 1 and isinstance(indices[0], Ref)
        return is_first_axis and self.rank(op.tensor_at(0)) == 2

    def _chain(self, tensor: int) -> list[int] | None:
        """From a parameter to ``tensor`` through operators of one input; None if it is not made so."""
        chain = [tensor]
        while chain[-1] in self.maker:
            op = self.trace.ops[self.maker[chain[-1]]]
            lookup = self._is_row_lookup(op)
            sources = [op.tensor_at(0)] if lookup else [t for t in op.inputs if not self.is_constant(t)]
            is_simple = kind_of(op.target) is OpKind.VIEW or lookup
            if not is_simple or len(sources) != 1:
                return None
            chain.append(sources[0])
        return chain[::-1] if self.trace.tensors[chain[-1]].parameter else None

    def _shards_ending_in(
        self, dim: int, chain: list[int], is_padded: bool, blame: frozenset[str]
    ) -> list[Shard] | None:
        """Shards of a chain's tensors, of the last one along ``dim``; None if no axis of the parameter does it."""
        for base_dim, length in enumerate(self.shape(chain[0])):
            shard = Shard(dim=base_dim, num_units=length, is_padded=is_padded, blame=blame)
            shards = self._carried(chain, shard)
            if shards is not None and shards[-1].dim == dim:
                return shards
        return None

    def _carried(self, chain: list[int], shard: Shard) -> list[Shard] | None:
        """The shards along a chain whose first tensor has ``shard``; None if it cannot be carried to the end."""
        shards = [shard]
        for source, made in pairwise(chain):
            op = self.trace.ops[self.maker[made]]
            if self._is_row_lookup(op):
                if shards[-1].dim == 0:
                    return None
                shards.append(replace(shards[-1], dim=self.rank(made) - 1))
                continue
            try:
                shards.append(through_view(op.name, op.args[1:], shards[-1], self.shape(source), self.shape(made)))
            except ShardingConflictError:
                return None
        return shards
