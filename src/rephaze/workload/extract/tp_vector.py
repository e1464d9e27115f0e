"""Tensor parallelism of vector work: views, elementwise operators, reductions, norms, joins, gathers.

A sharded operand makes a sharded result where the operator works within a chip's part. A partial sum passes
through what is linear in it, so that its all-reduce comes as late, and on as few bytes, as it can.
"""

from __future__ import annotations

from dataclasses import replace

from rephaze.workload.extract.tp_state import ShardingState
from rephaze.workload.extract.tp_views import (
    PARTIAL,
    REPLICATE,
    Shard,
    ShardingConflictError,
    differs_elsewhere,
    joined,
    through_view,
)
from rephaze.workload.extract.trace import Ref, TracedOp, integers_of, tensor_of

REDUCTIONS = frozenset({"sum", "mean", "amax", "max", "var", "var_mean"})
_LINEAR_REDUCTIONS = ("sum", "mean")
_LINEAR_UNARY = frozenset({"neg", "clone", "sum", "mean"})
_ALONG_AXIS = frozenset({"_softmax", "_softmax_backward_data", "_safe_softmax", "cumsum", "sort", "topk"})


_ALLOCATIONS = frozenset({"new_empty", "new_empty_strided"})


def view(state: ShardingState, op: TracedOp) -> None:
    """Another shape of the same elements."""
    if not op.inputs:
        return
    source = op.inputs[0]
    sharding = state.sharding_of(source)
    if op.name in _ALLOCATIONS:
        # Memory for something like the source: it is sharded like it, or as what is written into it.
        is_alike = isinstance(sharding, Shard) and differs_elsewhere(
            sharding.dim, state.shape(source), state.shape(op.outputs[0])
        )
        state.shardings[op.outputs[0]] = sharding if is_alike else REPLICATE
        return
    for out in op.outputs:
        if isinstance(sharding, Shard):
            state.shardings[out] = through_view(
                op.name, op.args[1:], sharding, state.shape(source), state.shape(out)
            )
        else:
            state.shardings[out] = sharding


def gather(state: ShardingState, op: TracedOp) -> None:
    """Selects or scatters whole rows: the last axis, and partial sums, pass through."""
    out = op.outputs[0]
    values = [t for t in op.inputs if "int" not in state.trace.tensors[t].dtype]
    shardings = [state.sharding_of(t) for t in values]
    shards = [(t, s) for t, s in zip(values, shardings, strict=True) if isinstance(s, Shard)]
    if shards:
        tensor, shard = shards[0]
        dim = _gathered_dim(state, op, tensor, shard.dim)
        if dim is None or state.shape(tensor)[shard.dim] != state.shape(out)[dim]:
            raise state.conflict(*values)
        for other, sharding in zip(values, shardings, strict=True):
            if sharding is PARTIAL or (sharding is REPLICATE and not state.is_constant(other)):
                raise state.conflict(*values)
        state.shardings[out] = replace(shard, dim=dim)
        return
    if PARTIAL in shardings:
        if all(s is PARTIAL or state.is_constant(t) for t, s in zip(values, shardings, strict=True)):
            state.shardings[out] = PARTIAL
            return
        for tensor in values:
            state.all_reduce(tensor)


def _gathered_dim(state: ShardingState, op: TracedOp, tensor: int, dim: int) -> int | None:
    """Where an axis that is not indexed stands after a gather or scatter; None if it cannot be told."""
    if op.name in ("index", "index_put", "index_put_", "_unsafe_index_put"):
        indices = op.args[1]
        assert isinstance(indices, tuple)
        used = [axis for axis, index in enumerate(indices) if isinstance(index, Ref)]
        if len(used) == 1:
            shift = state.rank(tensor_of(indices[used[0]])) - 1
            # Among the values of an index_put the indexed axis is already replaced by those of the index.
            is_target = op.name == "index" or tensor == op.tensor_at(0)
            if is_target and dim != used[0]:
                moves = op.name == "index" and dim > used[0]
                return dim + shift if moves else dim
            if not is_target and not used[0] <= dim <= used[0] + shift:
                return dim - shift if dim > used[0] else dim
        return None
    is_last = dim == state.rank(tensor) - 1
    return state.rank(op.outputs[0]) - 1 if is_last else None


def norm(state: ShardingState, op: TracedOp) -> None:
    """A norm: sharded only along axes it does not normalize over."""
    for tensor in op.inputs:
        state.all_reduce(tensor)
    is_backward = op.name.endswith("_backward")
    subject = op.tensor_at(0)
    shard = state.shard_of(subject)
    if shard is None:
        if any(state.shard_of(t) is not None for t in op.inputs if t != subject):
            raise state.conflict(*op.inputs)
        return
    normalized = op.args[2] if is_backward else op.args[1]
    kept = state.rank(subject) - (len(normalized) if isinstance(normalized, tuple) else 10**6)
    if shard.dim >= kept:
        raise state.conflict(*op.inputs)
    for position, out in enumerate(op.outputs):
        # A weight's gradient sums over rows that other chips hold.
        state.shardings[out] = PARTIAL if is_backward and position > 0 else shard


def reduction(state: ShardingState, op: TracedOp) -> None:
    """A reduction over axes: over the sharded one a sum becomes a partial sum, any other is a conflict."""
    source, out = op.inputs[0], op.outputs[0]
    is_linear = op.name in _LINEAR_REDUCTIONS
    if not is_linear:
        state.all_reduce(source)
    sharding = state.sharding_of(source)
    if not isinstance(sharding, Shard):
        state.shardings[out] = sharding
        return
    rank = state.rank(source)
    # No axes, or none given, are all of them.
    given = op.args[1] if len(op.args) > 1 and op.args[1] is not None else ()
    axes = {axis % rank for axis in integers_of(given)} or set(range(rank))
    if sharding.dim in axes:
        if not is_linear:
            raise ShardingConflictError(sharding.blame)
        state.shardings[out] = PARTIAL
        return
    keeps = state.rank(out) == rank
    before = sum(axis < sharding.dim for axis in axes)
    state.shardings[out] = sharding if keeps else replace(sharding, dim=sharding.dim - before)


def join(state: ShardingState, op: TracedOp) -> None:
    """Tensors put together along an axis (``cat``) or along a new one (``stack``)."""
    assert isinstance(op.args[0], tuple)
    parts = [tensor_of(part) for part in op.args[0]]
    out = op.outputs[0]
    axis = (integers_of(op.args[1])[0] if len(op.args) > 1 else 0) % state.rank(out)
    shardings = [state.sharding_of(t) for t in parts]
    shards = [s for s in shardings if isinstance(s, Shard)]
    if shards:
        if len(shards) < len(shardings) or len({s.dim for s in shards}) > 1:
            raise state.conflict(*parts)
        result = shards[0]
        for shard in shards[1:]:
            result = joined(result, shard, result.dim)
        if op.name == "stack":
            state.shardings[out] = replace(result, dim=result.dim + (axis <= result.dim))
            return
        is_packed = result.dim == axis
        state.shardings[out] = replace(result, outer=len(parts)) if is_packed else result
    elif shardings and all(s is PARTIAL for s in shardings):
        state.shardings[out] = PARTIAL
    else:
        for tensor in parts:
            state.all_reduce(tensor)


def put_back(state: ShardingState, op: TracedOp) -> None:
    """A piece put back into zeros of the full shape: the gradient of a slice or a selection, or a padding."""
    source, out = op.inputs[0], op.outputs[0]
    sharding = state.sharding_of(source)
    if not isinstance(sharding, Shard):
        state.shardings[out] = sharding
    elif op.name == "constant_pad_nd":
        if state.shape(source)[sharding.dim] != state.shape(out)[sharding.dim]:
            raise ShardingConflictError(sharding.blame)
        state.shardings[out] = sharding
    elif op.name == "select_backward":
        axis = integers_of(op.args[2])[0] % state.rank(out)
        state.shardings[out] = replace(sharding, dim=sharding.dim + (axis <= sharding.dim))
    else:
        state.shardings[out] = sharding


def elementwise(state: ShardingState, op: TracedOp) -> None:
    """An operator on corresponding elements, smaller operands repeated: operands must be sharded alike."""
    if not op.outputs:
        return
    rank = state.rank(op.outputs[0])
    tensors = [t for t in op.inputs if not (op.name == "copy_" and t == op.tensor_at(0))]
    if any(state.sharding_of(t) is PARTIAL for t in tensors):
        if _stays_partial(state, op, tensors):
            for made in op.outputs:
                state.shardings[made] = PARTIAL
            return
        for tensor in tensors:
            state.all_reduce(tensor)
    result: Shard | None = None
    for tensor in tensors:
        shard = state.shard_of(tensor)
        if shard is not None:
            dim = shard.dim + rank - state.rank(tensor)
            if result is not None and result.dim != dim:
                raise state.conflict(*tensors)
            result = replace(shard, dim=dim) if result is None else joined(result, shard, dim)
    if result is None:
        if op.name == "copy_":
            _write_repeated(state, op, tensors)
        return
    if op.name in _ALONG_AXIS and _axis_of(op, rank) == result.dim:
        raise state.conflict(*tensors)
    for tensor in tensors:
        dim = result.dim - rank + state.rank(tensor)
        if state.sharding_of(tensor) is REPLICATE and dim >= 0 and state.shape(tensor)[dim] > 1:
            state.match(tensor, dim, result)
    for made in op.outputs:
        if state.rank(made) == rank:
            state.shardings[made] = result


def _write_repeated(state: ShardingState, op: TracedOp, tensors: list[int]) -> None:
    """One head's values written for all heads of a sharded tensor: each chip writes those it has."""
    shard = state.shard_of(op.tensor_at(0))
    if shard is not None and all(state.is_repeated(t, shard.dim) for t in tensors):
        for made in op.outputs:
            state.shardings[made] = shard


def _axis_of(op: TracedOp, rank: int) -> int:
    """The axis a softmax, a running sum or a sort looks along."""
    position = 2 if op.target.endswith(("backward_data", "topk")) else 1
    axis = op.args[position] if len(op.args) > position else -1
    return int(axis) % rank if isinstance(axis, int) else rank - 1


def _stays_partial(state: ShardingState, op: TracedOp, tensors: list[int]) -> bool:
    """Whether an operator on partial sums makes a partial sum, so that no all-reduce is needed before it."""
    shardings = [state.sharding_of(t) for t in tensors]
    if any(isinstance(s, Shard) for s in shardings):
        return False
    others = [t for t, s in zip(tensors, shardings, strict=True) if s is REPLICATE]
    if op.name in ("add", "add_", "sub"):
        # Where gradients meet, one chip adds the replicated one to its partial sum: one all-reduce for all.
        same = all(state.shape(t) == state.shape(op.outputs[0]) for t in others)
        return not others or (op.is_backward and same)
    if op.name in ("_to_copy", "copy_") and not others:
        # An all-reduce after a widening cast would send twice the bytes.
        sizes = [state.trace.tensors[t].element_bytes for t in (*tensors, *op.outputs)]
        return sizes[-1] <= sizes[0]
    if op.name in _LINEAR_UNARY:
        return True
    if op.name not in ("mul", "div", "mul_") or len(others) != len(tensors) - 1:
        return False
    if all(state.trace.tensors[t].num_elements == 1 for t in others):
        return True
    if not op.is_backward and all(state.shape(t)[-1] == 1 for t in others):
        return True  # rows scaled one by one, as an expert's result is by its router weight
    readers = state.readers[op.outputs[0]]
    # A product that a row sum follows, as in a router weight's gradient: all-reduce after the sum.
    return bool(readers) and all(state.trace.ops[r].target == "aten.sum" for r in readers)
