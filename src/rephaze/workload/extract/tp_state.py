"""The state of a tensor-parallel pass, and the decisions that change it: dealing out and completing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

from rephaze.types.graph import OpKind
from rephaze.workload.extract.affine import AffineTrace
from rephaze.workload.extract.aten import kind_of
from rephaze.workload.extract.tp_layout import Layout
from rephaze.workload.extract.tp_views import PARTIAL, Shard, SplitConflictError, State, through_view
from rephaze.workload.extract.trace import Origin


class Restart(Exception):  # noqa: N818 - a signal, not an error
    """A parameter read earlier must be dealt out: run again with that known."""

    def __init__(self, parameter: str, shard: Shard) -> None:
        self.parameter, self.shard = parameter, shard
        super().__init__(parameter)


class Dealer:
    """What is known of every tensor while a pass visits the operators in order."""

    def __init__(self, trace: AffineTrace, whole: frozenset[str], chosen: dict[str, Shard]) -> None:
        self.trace = trace
        self.whole = whole
        self.state: dict[int, State] = {}
        self.layout = Layout()
        self.now = 0
        """The operator being visited."""
        self.maker: dict[int, int] = {}
        self.readers: dict[int, list[int]] = defaultdict(list)
        self.base_of: dict[str, int] = {}
        self.dealt_tables: set[int] = set()
        """Index tensors that selected rows of a dealt-out vocabulary."""
        for number, op in enumerate(trace.ops):
            self.maker.update((t, number) for t in op.outputs)
            for tensor in op.inputs:
                self.readers[tensor].append(number)
        for number, traced in enumerate(trace.tensors):
            if traced.parameter and number not in self.maker:
                self.base_of.setdefault(traced.parameter, number)
                if traced.parameter in chosen:
                    self.state[number] = chosen[traced.parameter]

    def _shape(self, tensor: int) -> tuple[int, ...]:
        return self.trace.tensors[tensor].shape

    def _is_constant(self, tensor: int) -> bool:
        return self.trace.tensors[tensor].origin is Origin.CONSTANT

    def _conflict(self, *tensors: int) -> SplitConflictError:
        blame: frozenset[str] = frozenset()
        for tensor in tensors:
            state = self.state.get(tensor)
            if isinstance(state, Shard):
                blame |= state.blame
        return SplitConflictError(blame)

    def _may_deal(self, tensor: int) -> bool:
        name = self.trace.tensors[tensor].parameter
        return bool(name) and name not in self.whole and self.state.get(self.base_of[name]) is None

    def _chain(self, tensor: int) -> list[int] | None:
        """From a parameter to ``tensor`` through operators of one input; None if it is not made so."""
        chain = [tensor]
        while chain[-1] in self.maker:
            op = self.trace.ops[self.maker[chain[-1]]]
            sources = [t for t in op.inputs if not self._is_constant(t)]
            is_simple = kind_of(op.target) is OpKind.VIEW or op.target == "aten.embedding"
            if not is_simple or len(sources) != 1:
                return None
            chain.append(sources[0])
        return chain[::-1] if self.trace.tensors[chain[-1]].parameter else None

    def _carried(self, chain: list[int], shard: Shard) -> list[State] | None:
        """The states along a chain whose first tensor is dealt out as ``shard``; None if it cannot be."""
        states: list[State] = [shard]
        current = shard
        for source, made in pairwise(chain):
            op = self.trace.ops[self.maker[made]]
            if op.target == "aten.embedding":
                if current.dim == 0:
                    return None
                current = replace(current, dim=len(self._shape(made)) - 1)
            else:
                try:
                    current = through_view(
                        op.target.partition(".")[2],
                        op.args[1:],
                        current,
                        self._shape(source),
                        self._shape(made),
                    )
                except SplitConflictError:
                    return None
            states.append(current)
        return states

    def _deal(self, tensor: int, dim: int, *, is_padded: bool) -> Shard | None:
        """Deal out the parameter behind ``tensor`` so that ``tensor`` is dealt out along ``dim``."""
        chain = self._chain(tensor)
        if chain is None:
            return None
        name = self.trace.tensors[chain[0]].parameter
        for base_dim, length in enumerate(self._shape(chain[0])):
            shard = Shard(dim=base_dim, num_units=length, is_padded=is_padded, blame=frozenset({name}))
            states = self._carried(chain, shard)
            last = states[-1] if states else None
            if states and isinstance(last, Shard) and last.dim == dim:
                self.state.update(zip(chain, states, strict=True))
                return last
        return None

    def _match(self, tensor: int, dim: int, like: Shard) -> None:
        """Make a whole operand fit a dealt-out one: constants are cut freely, parameters dealt out too."""
        state = self.state.get(tensor)
        if (isinstance(state, Shard) and state.dim == dim) or self._is_constant(tensor):
            return
        chain = self._chain(tensor)
        if chain is None:
            raise SplitConflictError(like.blame)
        name = self.trace.tensors[chain[0]].parameter
        if name in self.whole:
            raise SplitConflictError(like.blame)
        for base_dim, length in enumerate(self._shape(chain[0])):
            shard = Shard(
                dim=base_dim, num_units=length, is_padded=like.is_padded, blame=frozenset({name}) | like.blame
            )
            states = self._carried(chain, shard)
            last = states[-1] if states else None
            if states and isinstance(last, Shard) and last.dim == dim:
                own = {self.maker[t] for t in chain if t in self.maker}
                if any(reader < self.now and reader not in own for t in chain for reader in self.readers[t]):
                    raise Restart(name, shard)
                self.state.update(zip(chain, states, strict=True))
                return
        raise SplitConflictError(like.blame)

    def _pad(self, shard: Shard) -> None:
        """Mark the weights behind a vocabulary's layout as padded, everywhere at once."""
        for tensor, state in self.state.items():
            if isinstance(state, Shard) and state.blame & shard.blame and state.num_units == shard.num_units:
                self.state[tensor] = replace(state, is_padded=True)

    def _complete(self, tensor: int) -> None:
        """If ``tensor`` is a partial sum, note that an all-reduce completes it where it was made."""
        if self.state.get(tensor) is not PARTIAL:
            return
        root = tensor
        passed = [tensor]
        while True:
            op = self.trace.ops[self.maker[root]]
            source = op.inputs[0] if op.inputs else root
            is_same_size = self.trace.tensors[source].num_elements == self.trace.tensors[root].num_elements
            if kind_of(op.target) is not OpKind.VIEW or not is_same_size or self.state.get(source) is not PARTIAL:
                break
            root = source
            passed.append(root)
        self.layout.reduced.add(root)
        for made in passed:
            self.state[made] = None
        for made, source_op in self.maker.items():
            op = self.trace.ops[source_op]
            if self.state.get(made) is PARTIAL and kind_of(op.target) is OpKind.VIEW and op.inputs[0] in passed:
                self.state[made] = None
