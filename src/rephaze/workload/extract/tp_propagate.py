"""Tensor parallelism for any traced model: states propagated over the step, conflicts resolved by restarting.

A weight product with a whole input deals out its columns, one with a dealt-out reduction its rows; partial
sums are carried through sums and views and completed where something else reads them. Where a layout cannot
be carried on (a norm over a dealt-out axis, a residual sum), the weights to blame stay whole and the pass
starts again.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from rephaze.types.graph import OpKind, Split
from rephaze.workload.extract.affine import AffineTrace
from rephaze.workload.extract.aten import kind_of
from rephaze.workload.extract.tp_layout import Layout
from rephaze.workload.extract.tp_state import Dealer, Restart
from rephaze.workload.extract.tp_views import (
    PARTIAL,
    Partial,
    Shard,
    SplitConflictError,
    State,
    joined,
    through_view,
)
from rephaze.workload.extract.trace import Ref, TracedOp

MIN_VOCABULARY = 1024
"""A loss over fewer classes, or a table of fewer rows, is not worth dealing out."""

_LINEAR_UNARY = frozenset({"neg", "clone", "sum", "mean"})
_ROW_WISE = frozenset({"_log_softmax", "_log_softmax_backward_data", "nll_loss_forward", "nll_loss_backward"})
_ALONG_AXIS = frozenset({"_softmax", "_softmax_backward_data", "_safe_softmax", "cumsum", "sort", "topk"})


def lay_out(trace: AffineTrace) -> Layout:
    """The degree-independent layout of a traced step under tensor parallelism."""
    whole: set[str] = set()
    chosen: dict[str, Shard] = {}
    while True:
        attempt = _Pass(trace, frozenset(whole), chosen)
        try:
            return attempt.run()
        except SplitConflictError as conflict:
            blamed = set(conflict.blame) - whole
            # Nothing left to blame means a layout that no weight caused: keep every weight whole.
            whole |= blamed or {t.parameter for t in trace.tensors if t.parameter}
            chosen = {name: shard for name, shard in chosen.items() if name not in whole}
        except Restart as restart:
            if restart.parameter in chosen:  # two uses want it dealt out differently
                whole.add(restart.parameter)
                chosen = {name: shard for name, shard in chosen.items() if name not in whole}
            else:
                chosen = {**chosen, restart.parameter: restart.shard}


class _Pass(Dealer):
    """One attempt over all operators, forward then backward."""

    def run(self) -> Layout:
        """The layout, or a conflict."""
        for number, op in enumerate(self.trace.ops):
            self._visit(number, op)
        for tensor, state in list(self.state.items()):
            # Gradients of whole weights inside a dealt-out region end as partial sums.
            if state is PARTIAL and not self.readers[tensor] and tensor in self.maker:
                self._complete(tensor)
        divisor = 0
        for tensor, state in self.state.items():
            if isinstance(state, Shard):
                self.layout.units[tensor] = state.num_units
                if not state.is_padded:
                    divisor = gcd(divisor, state.num_units)
        self.layout.divisor = divisor
        return self.layout

    def _visit(self, number: int, op: TracedOp) -> None:
        self.now = number
        name = op.target.partition(".")[2]
        kind = kind_of(op.target)
        if kind is OpKind.VIEW:
            self._view(op, name)
        elif kind is OpKind.ATTENTION:
            self._attention(number, op)
        elif name in ("convolution", "convolution_backward"):
            self._demand_whole(op)
        elif kind is OpKind.GEMM:
            self._gemm(number, op, name)
        elif name == "embedding":
            self._embedding(op)
        elif name == "embedding_dense_backward":
            self._embedding_backward(op)
        elif kind is OpKind.GATHER:
            self._gather(op)
        elif name in _ROW_WISE:
            self._row_wise(op, name)
        elif "norm" in name:
            self._norm(op, name)
        elif name in ("sum", "mean", "amax", "max", "var", "var_mean") and op.args[1:2]:
            self._reduce(op, name)
        elif name in ("cat", "stack"):
            self._cat(op, is_new_axis=name == "stack")
        elif name in ("slice_backward", "select_backward", "constant_pad_nd"):
            self._padded_back(op, name)
        else:
            self._elementwise(op, name)
        if kind in (OpKind.VECTOR, OpKind.GATHER) and number not in self.layout.splits:
            self._note_elements(number, op, name)

    def _note_elements(self, number: int, op: TracedOp, name: str) -> None:
        shards = [self.state.get(t) for t in (*op.outputs, *op.inputs)]
        found = [s for s in shards if isinstance(s, Shard)]
        if not found or (name in ("embedding", "embedding_dense_backward") and found[0].is_padded):
            return
        split = Split.ROW if name in _ROW_WISE else Split.ELEMENTS
        self.layout.splits[number] = (split, found[0].num_units)

    def _view(self, op: TracedOp, name: str) -> None:
        if not op.inputs:
            return
        state = self.state.get(op.inputs[0])
        for out in op.outputs:
            if isinstance(state, Shard):
                self.state[out] = through_view(
                    name, op.args[1:], state, self._shape(op.inputs[0]), self._shape(out)
                )
            else:
                self.state[out] = state

    def _gemm(self, number: int, op: TracedOp, name: str) -> None:
        has_bias = name in ("addmm", "baddbmm")
        left, right = (arg.tensor for arg in (op.args[1:3] if has_bias else op.args[:2]))
        self._complete(left)
        self._complete(right)
        a_rank, b_rank = len(self._shape(left)), len(self._shape(right))
        if name == "_grouped_mm" and b_rank == 2:
            self._expert_gradient(number, op, left, right)
            return
        row, reduced_a, reduced_b, column = a_rank - 2, a_rank - 1, b_rank - 2, b_rank - 1
        a, b = self.state.get(left), self.state.get(right)
        if not op.is_backward:
            if b is None and self._may_deal(right):
                wanted = reduced_b if isinstance(a, Shard) and a.dim == reduced_a else column
                # Only whole activations, or ones with a dealt-out reduction, decide a weight's layout.
                if a is None or wanted == reduced_b:
                    b = self._deal(right, wanted, is_padded=False)
            elif a is None and self._may_deal(left):
                wanted = row if b is None else reduced_a
                if b is None or (isinstance(b, Shard) and b.dim == reduced_b):
                    a = self._deal(left, wanted, is_padded=False)
        out = op.outputs[0]
        out_rank = len(self._shape(out))
        assert not isinstance(a, Partial)
        assert not isinstance(b, Partial)
        swapped = bool(self.trace.tensors[left].parameter) and not self.trace.tensors[right].parameter
        if a is None and b is None:
            self.state[out] = None
        elif a is not None and b is not None and a.dim == reduced_a and b.dim == reduced_b:
            self.state[out] = PARTIAL
            self.layout.splits[number] = (Split.K, joined(a, b, 0).num_units)
        elif a is not None and b is not None and a.dim == b.dim == 0 and a_rank == 3 and name != "_grouped_mm":
            both = joined(a, b, 0)
            self.state[out] = both
            self.layout.splits[number] = (Split.BATCH, both.num_units)
        elif a is not None and b is None and a.dim == 0 and a_rank == b_rank == 3 and self._is_broadcast(right):
            self.state[out] = a
            self.layout.splits[number] = (Split.BATCH, a.num_units)
        elif a is not None and b is None and a.dim == row:
            self.state[out] = replace(a, dim=out_rank - 2)
            self.layout.splits[number] = (Split.N if swapped else Split.M, a.num_units)
        elif b is not None and a is None and b.dim == column:
            self.state[out] = replace(b, dim=out_rank - 1)
            self.layout.splits[number] = (Split.M if swapped else Split.N, b.num_units)
        else:
            raise self._conflict(left, right)
        if has_bias:
            self._bias(op.args[0].tensor, out)

    def _is_broadcast(self, tensor: int) -> bool:
        """Whether a tensor repeats one head for many, so that each chip can make the part it needs."""
        while tensor in self.maker:
            op = self.trace.ops[self.maker[tensor]]
            name = op.target.partition(".")[2]
            if name == "expand":
                source, out = self._shape(op.inputs[0]), self._shape(tensor)
                if any(a == 1 and b > 1 for a, b in zip(source[::-1], out[::-1], strict=False)):
                    return True
            if kind_of(op.target) is not OpKind.VIEW and name not in ("clone", "_to_copy"):
                return False
            tensor = op.inputs[0]
        return False

    def _expert_gradient(self, number: int, op: TracedOp, left: int, right: int) -> None:
        """The gradient of grouped weights: (k, tokens) by (tokens, n) to (experts, k, n)."""
        a, b = self.state.get(left), self.state.get(right)
        if a is None and b is None:
            return
        if isinstance(a, Shard) and b is None and a.dim == 0:
            self.state[op.outputs[0]] = replace(a, dim=1)
            self.layout.splits[number] = (Split.M, a.num_units)
        elif isinstance(b, Shard) and a is None and b.dim == 1:
            self.state[op.outputs[0]] = replace(b, dim=2)
            self.layout.splits[number] = (Split.N, b.num_units)
        else:
            raise self._conflict(left, right)

    def _bias(self, bias: int, out: int) -> None:
        state = self.state.get(out)
        if isinstance(state, Shard) and state.dim == len(self._shape(out)) - 1:
            self._match(bias, len(self._shape(bias)) - 1, state)

    def _attention(self, number: int, op: TracedOp) -> None:
        is_backward = op.target.endswith("_backward")
        for tensor in op.inputs:
            self._complete(tensor)
        first = 1 if is_backward else 0
        query, key, value = (op.args[first + i].tensor for i in range(3))
        q, k, v = (self.state.get(t) for t in (query, key, value))
        if q is None and k is None and v is None:
            return
        astray = [t for t in (query, key, value) if isinstance(s := self.state.get(t), Shard) and s.dim != 1]
        if astray:
            raise self._conflict(*astray)
        # A single key-value head stays whole: every chip's query heads read it.
        is_multi_query = self._shape(key)[1] == 1 and k is None and v is None
        if q is None or (not is_multi_query and (k is None or v is None)):
            raise self._conflict(query, key, value)
        assert isinstance(q, Shard)
        bias = op.args[first + 3]
        if isinstance(bias, Ref) and self._shape(bias.tensor)[1] > 1:
            self._match(bias.tensor, 1, q)
        key_state: State = PARTIAL if is_multi_query and is_backward else k
        outs: list[State] = [q, key_state, key_state, q] if is_backward else [q, q]
        for out, state in zip(op.outputs, outs, strict=False):
            self.state[out] = state
        self.layout.splits[number] = (Split.HEADS, q.num_units)

    def _embedding(self, op: TracedOp) -> None:
        table, index = op.args[0].tensor, op.args[1].tensor
        traced = self.trace.tensors[table]
        rows = self._shape(table)[0]
        state = self.state.get(table)
        is_vocabulary = self.trace.tensors[index].is_index and rows >= MIN_VOCABULARY
        if state is None and is_vocabulary and traced.parameter and self._may_deal(table):
            state = self._deal(table, 0, is_padded=True)
        out = op.outputs[0]
        if isinstance(state, Shard) and state.dim == 0:
            self.dealt_tables.add(index)
            self.state[out] = PARTIAL
        elif isinstance(state, Shard):
            self.state[out] = replace(state, dim=len(self._shape(out)) - 1)

    def _embedding_backward(self, op: TracedOp) -> None:
        grad, index = op.args[0].tensor, op.args[1].tensor
        self._complete(grad)
        state = self.state.get(grad)
        out = op.outputs[0]
        if isinstance(state, Shard):
            if state.dim != len(self._shape(grad)) - 1:
                raise SplitConflictError(state.blame)
            self.state[out] = replace(state, dim=1)
        elif index in self.dealt_tables:
            self.state[out] = Shard(dim=0, num_units=self._shape(out)[0], is_padded=True)

    def _gather(self, op: TracedOp) -> None:
        """Selects or scatters whole rows: the last axis, and partial sums, pass through."""
        out = op.outputs[0]
        values = [t for t in op.inputs if "int" not in self.trace.tensors[t].dtype]
        states = [self.state.get(t) for t in values]
        shards = [(t, s) for t, s in zip(values, states, strict=True) if isinstance(s, Shard)]
        if shards:
            tensor, shard = shards[0]
            dim = self._gathered_dim(op, tensor, shard.dim)
            if dim is None or self._shape(tensor)[shard.dim] != self._shape(out)[dim]:
                raise self._conflict(*values)
            for other, state in zip(values, states, strict=True):
                if state is PARTIAL or (state is None and not self._is_constant(other)):
                    raise self._conflict(*values)
            self.state[out] = replace(shard, dim=dim)
            return
        if any(state is PARTIAL for state in states):
            if all(state is PARTIAL or self._is_constant(t) for t, state in zip(values, states, strict=True)):
                self.state[out] = PARTIAL
                return
            for tensor in values:
                self._complete(tensor)

    def _gathered_dim(self, op: TracedOp, tensor: int, dim: int) -> int | None:
        """Where an axis that is not indexed stands after a gather or scatter; None if it cannot be told."""
        out_rank = len(self._shape(op.outputs[0]))
        name = op.target.partition(".")[2]
        if name in ("index", "index_put", "index_put_", "_unsafe_index_put"):
            indices = op.args[1]
            used = [axis for axis, index in enumerate(indices) if isinstance(index, Ref)]
            if len(used) == 1:
                shift = len(self._shape(indices[used[0]].tensor)) - 1
                # Among the values of an index_put the indexed axis is already replaced by those of the index.
                is_target = name == "index" or tensor == op.args[0].tensor
                if is_target and dim != used[0]:
                    moves = name == "index" and dim > used[0]
                    return dim + shift if moves else dim
                if not is_target and not used[0] <= dim <= used[0] + shift:
                    return dim - shift if dim > used[0] else dim
            return None
        is_last = dim == len(self._shape(tensor)) - 1
        return out_rank - 1 if is_last else None

    def _row_wise(self, op: TracedOp, name: str) -> None:
        """A loss over the vocabulary: runs dealt out, with small collectives for its row sums."""
        for tensor in op.inputs:
            self._complete(tensor)
        shards = [(t, s) for t in op.inputs if isinstance(s := self.state.get(t), Shard)]
        if not shards:
            return
        tensor, shard = shards[0]
        is_vocabulary = shard.dim == len(self._shape(tensor)) - 1 and shard.num_units >= MIN_VOCABULARY
        if not is_vocabulary:
            raise self._conflict(*op.inputs)
        if not shard.is_padded:
            self._pad(shard)
        if name != "nll_loss_forward":
            self.state[op.outputs[0]] = shard

    def _norm(self, op: TracedOp, name: str) -> None:
        for tensor in op.inputs:
            self._complete(tensor)
        is_backward = name.endswith("_backward")
        subject = op.args[0].tensor
        state = self.state.get(subject)
        others = [t for t in op.inputs if isinstance(self.state.get(t), Shard) and t != subject]
        if not isinstance(state, Shard):
            if others:
                raise self._conflict(*op.inputs)
            return
        normalized = op.args[2] if is_backward else op.args[1]
        kept = len(self._shape(subject)) - (len(normalized) if isinstance(normalized, tuple) else 10**6)
        if state.dim >= kept:
            raise self._conflict(*op.inputs)
        for position, out in enumerate(op.outputs):
            # A weight's gradient sums over rows that other chips hold.
            self.state[out] = PARTIAL if is_backward and position > 0 else state

    def _reduce(self, op: TracedOp, name: str) -> None:
        source, out = op.inputs[0], op.outputs[0]
        is_linear = name in ("sum", "mean")
        if not is_linear:
            self._complete(source)
        state = self.state.get(source)
        if state is None or state is PARTIAL:
            self.state[out] = state
            return
        assert isinstance(state, Shard)
        rank = len(self._shape(source))
        given = op.args[1]
        axes = {int(a) % rank for a in (given if isinstance(given, tuple) else (given,))} if given != () else set()
        axes = axes or set(range(rank))
        if state.dim in axes:
            if not is_linear:
                raise SplitConflictError(state.blame)
            self.state[out] = PARTIAL
            return
        keeps = len(self._shape(out)) == rank
        self.state[out] = state if keeps else replace(state, dim=state.dim - sum(a < state.dim for a in axes))

    def _cat(self, op: TracedOp, is_new_axis: bool) -> None:
        parts = [ref.tensor for ref in op.args[0]]
        axis = (int(op.args[1]) if len(op.args) > 1 else 0) % len(self._shape(op.outputs[0]))
        states = [self.state.get(t) for t in parts]
        out = op.outputs[0]
        if any(isinstance(s, Shard) for s in states):
            shards = [s for s in states if isinstance(s, Shard)]
            if len(shards) < len(states) or len({s.dim for s in shards}) > 1:
                raise self._conflict(*parts)
            result = shards[0]
            for shard in shards[1:]:
                result = joined(result, shard, result.dim)
            if is_new_axis:
                self.state[out] = replace(result, dim=result.dim + (axis <= result.dim))
                return
            is_packed = result.dim == axis
            self.state[out] = replace(result, outer=len(parts)) if is_packed else result
        elif states and all(s is PARTIAL for s in states):
            self.state[out] = PARTIAL
        else:
            for tensor in parts:
                self._complete(tensor)

    def _padded_back(self, op: TracedOp, name: str) -> None:
        """A piece put back into zeros of the whole's shape."""
        source, out = op.inputs[0], op.outputs[0]
        state = self.state.get(source)
        if not isinstance(state, Shard):
            self.state[out] = state
            return
        if name == "constant_pad_nd":
            if self._shape(source)[state.dim] != self._shape(out)[state.dim]:
                raise SplitConflictError(state.blame)
            self.state[out] = state
            return
        axis = int(op.args[2]) % len(self._shape(out))
        if name == "select_backward":
            self.state[out] = replace(state, dim=state.dim + (axis <= state.dim))
        else:
            self.state[out] = state

    def _elementwise(self, op: TracedOp, name: str) -> None:
        if not op.outputs:
            return
        out = op.outputs[0]
        rank = len(self._shape(out))
        tensors = [t for t in op.inputs if not (name == "copy_" and t == op.args[0].tensor)]
        if any(self.state.get(t) is PARTIAL for t in tensors):
            if self._stays_partial(op, name, tensors):
                for made in op.outputs:
                    self.state[made] = PARTIAL
                return
            for tensor in tensors:
                self._complete(tensor)
        result: Shard | None = None
        for tensor in tensors:
            state = self.state.get(tensor)
            if isinstance(state, Shard):
                dim = state.dim + rank - len(self._shape(tensor))
                if result is not None and result.dim != dim:
                    raise self._conflict(*tensors)
                result = replace(state, dim=dim) if result is None else joined(result, state, dim)
        if result is None:
            return
        if name in _ALONG_AXIS and self._axis_of(op, rank) == result.dim:
            raise self._conflict(*tensors)
        for tensor in tensors:
            dim = result.dim - rank + len(self._shape(tensor))
            if self.state.get(tensor) is None and dim >= 0 and self._shape(tensor)[dim] > 1:
                self._match(tensor, dim, result)
        for made in op.outputs:
            if len(self._shape(made)) == rank:
                self.state[made] = result

    @staticmethod
    def _axis_of(op: TracedOp, rank: int) -> int:
        position = 2 if op.target.endswith("backward_data") else 2 if op.target.endswith("topk") else 1
        axis = op.args[position] if len(op.args) > position else -1
        return int(axis) % rank if isinstance(axis, int) else rank - 1

    def _stays_partial(self, op: TracedOp, name: str, tensors: list[int]) -> bool:
        states = [self.state.get(t) for t in tensors]
        if any(isinstance(s, Shard) for s in states):
            return False
        others = [t for t, s in zip(tensors, states, strict=True) if s is None]
        if name in ("add", "add_", "sub"):
            # Where gradients meet, one chip adds the whole one to its summand: one all-reduce for all.
            same = all(self._shape(t) == self._shape(op.outputs[0]) for t in others)
            return not others or (op.is_backward and same)
        if name in ("_to_copy", "copy_") and not others:
            # Completing after a widening cast would send twice the bytes.
            sizes = [self.trace.tensors[t].element_bytes for t in (*tensors, *op.outputs)]
            return sizes[-1] <= sizes[0]
        if name in _LINEAR_UNARY:
            return True
        if name not in ("mul", "div", "mul_") or len(others) != len(tensors) - 1:
            return False
        if all(self.trace.tensors[t].num_elements == 1 for t in others):
            return True
        out = op.outputs[0]
        if not op.is_backward and all(self._shape(t)[-1] == 1 for t in others):
            return True  # rows scaled one by one, as an expert's result is by its router weight
        readers = self.readers[out]
        # A product that a row sum follows, as in a router weight's gradient: complete it after the sum.
        return bool(readers) and all(self.trace.ops[r].target == "aten.sum" for r in readers)

    def _demand_whole(self, op: TracedOp) -> None:
        for tensor in op.inputs:
            self._complete(tensor)
        if any(isinstance(self.state.get(t), Shard) for t in op.inputs):
            raise self._conflict(*op.inputs)
