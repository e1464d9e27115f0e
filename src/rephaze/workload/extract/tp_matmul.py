"""Tensor parallelism of matrix products and attention: column parallel, row parallel, by head.

A weight that a replicated input meets becomes column parallel: its result is sharded. A weight that an input
with a sharded reduction axis meets becomes row parallel: its result is a partial sum.
"""

from __future__ import annotations

from dataclasses import replace

from rephaze.types.graph import OpKind, Split
from rephaze.workload.extract.aten import kind_of
from rephaze.workload.extract.tp_state import ShardingState
from rephaze.workload.extract.tp_views import (
    PARTIAL,
    REPLICATE,
    Shard,
    Sharding,
    ShardingConflictError,
    joined,
)
from rephaze.workload.extract.trace import Ref, TracedOp


def product(state: ShardingState, op: TracedOp) -> None:
    """A product of two matrices, plain, batched or grouped by experts, with or without a bias."""
    left, right = _operands(op)
    state.all_reduce(left)
    state.all_reduce(right)
    if op.name == "_grouped_mm" and state.rank(right) == 2:
        _expert_gradient(state, op, left, right)
        return
    a, b = state.shard_of(left), state.shard_of(right)
    if not op.is_backward:
        a, b = _with_weight_sharded(state, left, right)
    _shard_result(state, op, a, b)
    if _has_bias(op):
        _shard_bias(state, op.tensor_at(0), op.outputs[0])


def _has_bias(op: TracedOp) -> bool:
    return op.name in ("addmm", "baddbmm")


def _operands(op: TracedOp) -> tuple[int, int]:
    first = 1 if _has_bias(op) else 0
    return op.tensor_at(first), op.tensor_at(first + 1)


def _with_weight_sharded(state: ShardingState, left: int, right: int) -> tuple[Shard | None, Shard | None]:
    """The operands' shards, the weight made column or row parallel if that can still be chosen."""
    row, reduced_a = state.rank(left) - 2, state.rank(left) - 1
    reduced_b, column = state.rank(right) - 2, state.rank(right) - 1
    a, b = state.shard_of(left), state.shard_of(right)
    if b is None and state.may_shard(right):
        is_row_parallel = a is not None and a.dim == reduced_a
        # Only replicated activations, or ones with a sharded reduction, decide a weight's sharding.
        if a is None or is_row_parallel:
            b = state.shard_parameter(right, reduced_b if is_row_parallel else column, is_padded=False)
    elif a is None and state.may_shard(left) and (b is None or b.dim == reduced_b):
        a = state.shard_parameter(left, row if b is None else reduced_a, is_padded=False)
    return a, b


def _shard_result(state: ShardingState, op: TracedOp, a: Shard | None, b: Shard | None) -> None:
    """Note what of a product is split, given the shards of its operands, and how its result is sharded."""
    left, right = _operands(op)
    a_rank, b_rank = state.rank(left), state.rank(right)
    row, reduced_a, reduced_b, column = a_rank - 2, a_rank - 1, b_rank - 2, b_rank - 1
    out = op.outputs[0]
    out_rank = state.rank(out)
    # A weight on the left is written as the right operand of the transposed product: m and n change places.
    is_swapped = bool(state.trace.tensors[left].parameter) and not state.trace.tensors[right].parameter
    if a is None and b is None:
        state.shardings[out] = REPLICATE
    elif a is not None and b is not None and a.dim == reduced_a and b.dim == reduced_b:
        state.shardings[out] = PARTIAL
        state.split(Split.K, joined(a, b, 0).num_units)
    elif a is not None and b is not None and a.dim == b.dim == 0 and a_rank == 3 and op.name != "_grouped_mm":
        both = joined(a, b, 0)
        state.shardings[out] = both
        state.split(Split.BATCH, both.num_units)
    elif a is not None and b is None and a.dim == 0 and a_rank == b_rank == 3 and _is_broadcast(state, right):
        state.shardings[out] = a
        state.split(Split.BATCH, a.num_units)
    elif a is not None and b is None and a.dim == row:
        state.shardings[out] = replace(a, dim=out_rank - 2)
        state.split(Split.N if is_swapped else Split.M, a.num_units)
    elif b is not None and a is None and b.dim == column:
        state.shardings[out] = replace(b, dim=out_rank - 1)
        state.split(Split.M if is_swapped else Split.N, b.num_units)
    else:
        raise state.conflict(left, right)


def _is_broadcast(state: ShardingState, tensor: int) -> bool:
    """Whether a tensor repeats one head for many, so that each chip can make the part it needs."""
    while tensor in state.maker:
        op = state.trace.ops[state.maker[tensor]]
        if op.name == "expand":
            source, out = state.shape(op.inputs[0]), state.shape(tensor)
            if any(a == 1 and b > 1 for a, b in zip(source[::-1], out[::-1], strict=False)):
                return True
        if kind_of(op.target) is not OpKind.VIEW and op.name not in ("clone", "_to_copy"):
            return False
        tensor = op.inputs[0]
    return False


def _expert_gradient(state: ShardingState, op: TracedOp, left: int, right: int) -> None:
    """The gradient of grouped weights: (k, tokens) by (tokens, n) to (experts, k, n)."""
    a, b = state.shard_of(left), state.shard_of(right)
    if a is None and b is None:
        return
    if a is not None and b is None and a.dim == 0:
        state.shardings[op.outputs[0]] = replace(a, dim=1)
        state.split(Split.M, a.num_units)
    elif b is not None and a is None and b.dim == 1:
        state.shardings[op.outputs[0]] = replace(b, dim=2)
        state.split(Split.N, b.num_units)
    else:
        raise state.conflict(left, right)


def _shard_bias(state: ShardingState, bias: int, out: int) -> None:
    shard = state.shard_of(out)
    if shard is not None and shard.dim == state.rank(out) - 1:
        state.match(bias, state.rank(bias) - 1, shard)


def attention(state: ShardingState, op: TracedOp) -> None:
    """Fused attention: sharded by head, forward and backward."""
    is_backward = op.target.endswith("_backward")
    for tensor in op.inputs:
        state.all_reduce(tensor)
    first = 1 if is_backward else 0
    query, key, value = (op.tensor_at(first + i) for i in range(3))
    q, k, v = (state.shard_of(t) for t in (query, key, value))
    if q is None and k is None and v is None:
        return
    astray = [t for t, s in zip((query, key, value), (q, k, v), strict=True) if s is not None and s.dim != 1]
    if astray:
        raise state.conflict(*astray)
    # A single key-value head is replicated: every chip's query heads read it.
    is_multi_query = state.shape(key)[1] == 1 and k is None and v is None
    if q is None or (not is_multi_query and (k is None or v is None)):
        # A low-rank pair of products, if its first is sharded, makes all heads on every chip: the first is to
        # blame. Without it, the heads that are sharded are.
        whole = [t for t, s in zip((query, key, value), (q, k, v), strict=True) if s is None]
        blame = state.weights_behind_sums(whole)
        raise ShardingConflictError(blame) if blame else state.conflict(query, key, value)
    bias = op.args[first + 3]
    if isinstance(bias, Ref) and state.shape(bias.tensor)[1] > 1:
        state.match(bias.tensor, 1, q)
    of_key: Sharding = PARTIAL if is_multi_query and is_backward else k or REPLICATE
    results: list[Sharding] = [q, of_key, of_key, q] if is_backward else [q, q]
    for out, sharding in zip(op.outputs, results, strict=False):
        state.shardings[out] = sharding
    state.split(Split.HEADS, q.num_units)


def require_replicated(state: ShardingState, op: TracedOp) -> None:
    """An operator that is never sharded, such as a convolution: refuse sharded operands."""
    for tensor in op.inputs:
        state.all_reduce(tensor)
    if any(isinstance(state.sharding_of(t), Shard) for t in op.inputs):
        raise state.conflict(*op.inputs)
